package wire

import (
	"slices"
	"strings"
	"testing"
)

// The subjects are part of the protocol, and of the permissions that clusters give.
func TestSubjectsGolden(t *testing.T) {
	for got, want := range map[string]string{
		prefix("demo"):               "andrea.demo",
		Hello("demo"):                "andrea.demo.c.hello",
		ToCoordinator("demo", 7):     "andrea.demo.c.7.control",
		Tokens("demo", 7):            "andrea.demo.c.7.tokens",
		State("demo", 7):             "andrea.demo.c.7.state",
		ToWorker("demo", "w-1"):      "andrea.demo.w.w-1.control",
		WorkerState("demo", "w-1"):   "andrea.demo.w.w-1.state",
		ToCoordinator("demo", 1<<63): "andrea.demo.c.9223372036854775808.control",
	} {
		if got != want {
			t.Errorf("subject %s, want %s", got, want)
		}
	}
}

// matches says whether a subject is one of the patterns', as the transport defines
// them: a final ">" stands for one or more tokens.
func matches(patterns []string, subject string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, open := strings.CutSuffix(p, ">")
		return p == subject || open && strings.HasPrefix(subject, prefix) && len(subject) > len(prefix)
	})
}

// A role may use the subjects that its side of the protocol uses, and those of no
// other run; a worker may not speak as the coordinator.
func TestPermissions(t *testing.T) {
	toCoordinator := []string{Hello("demo"), ToCoordinator("demo", 7), Tokens("demo", 7), State("demo", 7)}
	toWorker := []string{ToWorker("demo", "w"), WorkerState("demo", "w")}
	foreign := []string{Hello("demo2"), ToWorker("demon", "w"), "andrea.demo", "andrea.>", ">"}
	coordinator, worker := CoordinatorPermissions("demo"), WorkerPermissions("demo")
	for _, c := range []struct {
		name     string
		patterns []string
		subjects []string
		want     bool
	}{
		{"a coordinator listens", coordinator.Subscribe, toCoordinator, true},
		{"a coordinator sends to workers", coordinator.Publish, toWorker, true},
		{"a worker listens", worker.Subscribe, toWorker, true},
		{"a worker sends to the coordinator", worker.Publish, toCoordinator, true},
		{"a worker sends logs", worker.Publish, []string{"andrea.demo.log.w"}, true},
		{"a worker sends to workers", worker.Publish, toWorker, false},
		{"a worker listens as the coordinator", worker.Subscribe, toCoordinator, false},
		{"a coordinator listens elsewhere", coordinator.Subscribe, foreign, false},
		{"a coordinator sends elsewhere", coordinator.Publish, foreign, false},
		{"a worker listens elsewhere", worker.Subscribe, foreign, false},
		{"a worker sends elsewhere", worker.Publish, foreign, false},
	} {
		for _, s := range c.subjects {
			if matches(c.patterns, s) != c.want {
				t.Errorf("%s: %s: allowed %v, want %v", c.name, s, !c.want, c.want)
			}
		}
	}
}
