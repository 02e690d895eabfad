package enginetest

import (
	"fmt"
	"strings"
	"testing"
)

// recorder is a tester that keeps failures.
type recorder struct{ failures []string }

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// stopped ends a check at Fatalf.
type stopped struct{}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(stopped{})
}

// failuresOf runs f as the suite runs a check.
func failuresOf(f func(t tester)) (failures []string) {
	r := &recorder{}
	defer func() {
		failures = r.failures
		p := recover()
		if _, ok := p.(stopped); p != nil && !ok {
			panic(p)
		}
	}()
	f(r)
	return nil
}

// expectFailure runs the first check whose name has the prefix.
func expectFailure(t *testing.T, prefix string, open opener) {
	t.Helper()
	for _, c := range checks(smallShapes()) {
		if !strings.HasPrefix(c.name, prefix) {
			continue
		}
		failures := failuresOf(func(t tester) { c.run(t, open) })
		if len(failures) == 0 {
			t.Fatalf("the check %s passes", c.name)
		}
		t.Log(failures[0])
		return
	}
	t.Fatalf("no check is called %s", prefix)
}

// Every check of the suite must be able to fail: one mutant for each at least.
func TestEveryCheckHasAMutant(t *testing.T) {
	var prefixes []string
	for _, m := range wrongOps {
		prefixes = append(prefixes, m.check)
	}
	for _, w := range wrongEngines {
		prefixes = append(prefixes, w.check)
	}
	prefixes = append(prefixes, "reveal") // TestSuiteFindsWrongRevealers
	for _, c := range checks(nil) {
		found := false
		for _, p := range prefixes {
			found = found || strings.HasPrefix(c.name, p)
		}
		if !found {
			t.Errorf("no mutant shows that the check %s can fail", c.name)
		}
	}
}
