package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"andrea/bench"
)

func TestBenchRefusesBadFlags(t *testing.T) {
	p := newPlace(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--variant", "7b"}, `"7b"`},
		{[]string{"--variant", "12m,7b"}, `"7b"`},
		{[]string{"--path", "mmx"}, `"mmx"`},
		{[]string{"12m"}, "12m"},
	} {
		if r := p.run("", append([]string{"bench", "--json"}, c.args...)...); r.code != 2 || r.stdout != "" || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, "measuring") {
			t.Errorf("%v: exit %d, want 2 and %q\n%s%s", c.args, r.code, c.want, r.stdout, r.stderr)
		}
	}
}

// impatient interrupts the program that writes to it, once.
type impatient struct{ signals chan<- os.Signal }

func (i *impatient) Write(b []byte) (int, error) {
	if i.signals != nil {
		i.signals <- os.Interrupt // returns when the program has it
		i.signals = nil
	}
	return len(b), nil
}

func TestBenchEndsWithASignal(t *testing.T) {
	var stdout bytes.Buffer
	signals := make(chan os.Signal)
	o := outside{stdout: &stdout, stderr: &impatient{signals}, signals: signals}
	if code := execute(t.Context(), o, []string{"bench", "--variant", "12m"}); code != 130 || stdout.Len() > 0 {
		t.Errorf("exit %d, want 130\n%s", code, stdout.String())
	}
}

func TestBenchLine(t *testing.T) {
	for want, o := range map[string]bench.Options{
		"andrea bench": {},
		"andrea bench --variant 12m --variant 120m --path avx2": {Variants: []string{"12m", "120m"}, Path: "avx2"},
	} {
		if got := benchLine(o); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
