package cli

import (
	"strings"
	"testing"
)

// What a coordinator is told of a run that exists is taken or refused, never passed over,
// and of a complete one it says so.
func TestACoordinatorOfARunThatExists(t *testing.T) {
	p := trained(t, 1)
	before := contents(t, p.dir)
	for _, more := range [][]string{{"--set", "steps=30"}, {"--job", "runs/demo/job.yaml"}} {
		r := p.run("", append([]string{"coordinator", "--run", "runs/demo"}, more...)...)
		if r.code != 2 || !strings.Contains(r.stderr, "--job and --set") {
			t.Errorf("%v: exit %d\n%s", more, r.code, r.stderr)
		}
	}
	if contents(t, p.dir) != before {
		t.Error("a refused coordinator has changed something")
	}
	if r := p.run("", "coordinator", "--run", "runs/demo"); r.code != 0 || !strings.Contains(r.stderr, "is complete") {
		t.Errorf("a complete run: exit %d\n%s", r.code, r.stderr)
	}
}
