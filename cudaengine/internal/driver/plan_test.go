//go:build cuda && cgo && linux

package driver

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestPlanPlacesRegions(t *testing.T) {
	var p Plan
	a, b, c := p.Add("a", 1), p.Add("b", Alignment+1), p.Add("c", 0)
	if a.Offset != 0 || b.Offset != 2*Alignment || c.Offset != 5*Alignment || p.Bytes() != 7*Alignment {
		t.Errorf("regions at %d, %d, %d of %d bytes", a.Offset, b.Offset, c.Offset, p.Bytes())
	}
	if c.Bytes != 1 {
		t.Errorf("an empty region has %d bytes, want 1: its address must be its own", c.Bytes)
	}
}

func TestRefusalNamesTheLargestParts(t *testing.T) {
	var p Plan
	for i, name := range []string{"small", "large", "middle", "tiny"} {
		p.Add(name, []int64{2 << 20, 40 << 20, 8 << 20, 1 << 20}[i])
	}
	text := p.refusal("the device", 5<<20).Error()
	want := "51.0 MiB needed, 5.0 MiB free: the largest parts are large 40.0 MiB, middle 8.0 MiB, small 2.0 MiB:"
	if !strings.Contains(text, want) {
		t.Errorf("%q does not say %q", text, want)
	}
}

func TestErrors(t *testing.T) {
	for _, test := range []struct {
		code   int
		sticky bool
		says   string
	}{
		{2, false, "out of memory"}, {222, false, "newer driver"}, {700, true, "not its own"}, {719, true, "kernel failed"},
		{100, false, "nvidia-smi"}, {12345, false, "cuX: CUDA error 12345"},
	} {
		err := fmt.Errorf("doing it: %w", &Error{"cuX", test.code})
		if Sticky(err) != test.sticky || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v: sticky %v", err, Sticky(err))
		}
	}
	if Sticky(errors.New("another")) {
		t.Error("an error that is not the driver's is sticky")
	}
}
