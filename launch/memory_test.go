package launch_test

import (
	"strings"
	"testing"

	"andrea/launch"
	"andrea/model"
)

// An engine that cannot fit is refused before anything is allocated, with both
// numbers.
func TestAnEngineBeyondTheMemoryIsRefused(t *testing.T) {
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := model.Variant("480m")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = engine.Open(c, 512, 5); err == nil || !strings.Contains(err.Error(), "GiB") || !strings.Contains(err.Error(), "microbatch") {
		t.Errorf("opening an engine of half a terabyte: %v", err)
	}
}
