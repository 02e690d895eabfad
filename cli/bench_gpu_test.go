package cli

import (
	"strings"
	"testing"
)

// What is wrong with the flags is said before a GPU is looked for, which the plain build has not.
func TestBenchGPUFlags(t *testing.T) {
	p := newPlace(t)
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--windows", "0"}, exitBadInput, "--windows is 0"},
		{[]string{"--measurements", "-1"}, exitBadInput, "--measurements is -1"},
		{[]string{"--seconds", "NaN"}, exitBadInput, "--seconds is NaN"},
		{[]string{"--variant", "7b"}, exitBadInput, "7b"},
		{[]string{"--shape", "64,2"}, exitBadInput, "d_model,n_head,n_layer,context,vocab"},
		{[]string{"--shape", "64,2,1,x,61"}, exitBadInput, `"x" is no number`},
		{[]string{"--shape", "64,3,1,8,61"}, exitBadInput, "remainder 1"},
		{[]string{"--shape", "64,2,1,8,61"}, exitFailed, "built without CUDA"},
	} {
		r := p.run("", append([]string{"bench", "gpu"}, test.args...)...)
		if r.code != test.code || !strings.Contains(r.stderr, test.says) {
			t.Errorf("%v: exit %d, want %d with %q\n%s", test.args, r.code, test.code, test.says, r.stderr)
		}
	}
}
