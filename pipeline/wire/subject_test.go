package wire

import (
	"slices"
	"strings"
	"testing"

	"andrea/pipeline"
)

// The subjects are part of the protocol, and of the permissions that clusters give.
func TestSubjectsGolden(t *testing.T) {
	for got, want := range map[string]string{
		prefix("demo"):                      "andrea.demo",
		Hello("demo", "w-1"):                "andrea.demo.c.hello.w-1",
		Hello("demo", AnyWorker):            "andrea.demo.c.hello.*",
		ToCoordinator("demo", 7, "w-1"):     "andrea.demo.c.7.w-1.control",
		ToCoordinator("demo", 7, AnyWorker): "andrea.demo.c.7.*.control",
		Tokens("demo", 7, "w-1"):            "andrea.demo.c.7.w-1.tokens",
		State("demo", 7, "w-1"):             "andrea.demo.c.7.w-1.state",
		Root("demo", 7, "w-1"):              "andrea.demo.c.7.w-1.root",
		ToWorker("demo", "w-1"):             "andrea.demo.w.w-1.control",
		WorkerState("demo", "w-1"):          "andrea.demo.w.w-1.state",
		WorkerGrad("demo", "w-1"):           "andrea.demo.w.w-1.grad",
		PeerState("demo", "w-1", "w-2"):     "andrea.demo.p.w-1.w-2.state",
		PeerState("demo", AnyWorker, "w-2"): "andrea.demo.p.*.w-2.state",
		Status("demo"):                      "andrea.demo.c.status",
		Logs("demo"):                        "andrea.demo.log.>",
		Runs:                                "andrea.runs",
		History("demo"):                     "andrea.demo.c.history",
		ToCoordinator("demo", 1<<63, "w"):   "andrea.demo.c.9223372036854775808.w.control",
	} {
		if got != want {
			t.Errorf("subject %s, want %s", got, want)
		}
	}
}

func TestSender(t *testing.T) {
	for subject, want := range map[string]pipeline.WorkerID{
		Hello("demo", "w-1"):              "w-1",
		ToCoordinator("demo", 7, "w-1"):   "w-1",
		Tokens("demo", 7, "w-1"):          "w-1",
		State("demo", 7, "w-1"):           "w-1",
		Root("demo", 7, "w-1"):            "w-1",
		PeerState("demo", "w-1", "w-2"):   "w-1",
		ToCoordinator("demo", 7, "hello"): "hello",
		Hello("demo", AnyWorker):          "", // a pattern is nobody's
		Status("demo"):                    "",
		ToWorker("demo", "w-1"):           "", // the coordinator sends there
		"andrea.demo.w.w-1.x.control":     "",
		"andrea.demo.c.hello":             "",
		"andrea.demo.c.7.control":         "",
		"andrea.demo.c.7.w-1.control.x":   "",
		"andrea.demo.c.7..control":        "",
		"andrea.demo.c.7.W.control":       "",
		"other.demo.c.7.w-1.control":      "",
		"":                                "",
		"andrea.demo.log.w-1.info":        "",
		Hello("demo", longID(65)):         "",
	} {
		got, ok := Sender(subject)
		if got != want || ok != (want != "") {
			t.Errorf("the sender on %q is %q, %v: want %q", subject, got, ok, want)
		}
	}
}

func TestLoggedBy(t *testing.T) {
	for subject, want := range map[string]string{
		"andrea.demo.log.w-1.info": "w-1", "andrea.demo.log.w-1": "", "andrea.demo.log.w-1.info.x": "", "andrea.demo.c.w-1.info": "", "x.demo.log.w.info": "", "": "",
	} {
		if got, ok := LoggedBy(subject); got != want || ok != (want != "") {
			t.Errorf("%q is logged by %q, %v: want %q", subject, got, ok, want)
		}
	}
}

// longID is an identity of n characters.
func longID(n int) pipeline.WorkerID { return pipeline.WorkerID(strings.Repeat("a", n)) }

// FuzzSender: whatever the subject is, a sender that is found is a token of it that a
// worker may be called.
func FuzzSender(f *testing.F) {
	for _, subject := range []string{Hello("demo", "w"), Tokens("demo", 1, "w"), PeerState("demo", "v", "w"), Status("demo"), "....", ""} {
		f.Add(subject)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		worker, ok := Sender(subject)
		if ok != idRule.MatchString(string(worker)) {
			t.Errorf("%q, %v", worker, ok)
		}
		if ok && !slices.Contains(strings.Split(subject, "."), string(worker)) {
			t.Errorf("%q is not in the subject %q", worker, subject)
		}
	})
}

// matches says whether a subject is one of the patterns', as the transport defines
// them: "*" stands for one token and a final ">" for one or more.
func matches(patterns []string, subject string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		tokens := strings.Split(subject, ".")
		pattern := strings.Split(p, ".")
		for i, want := range pattern {
			if want == ">" {
				return len(tokens) > i
			}
			if i >= len(tokens) || want != "*" && want != tokens[i] {
				return false
			}
		}
		return len(tokens) == len(pattern)
	})
}

// A role may use the subjects that its side of the protocol uses, and those of no
// other run; a worker may not speak as the coordinator or as another worker, nor listen
// to what those are told.
func TestPermissions(t *testing.T) {
	fromWorker := func(w pipeline.WorkerID) []string {
		return []string{
			Hello("demo", w), ToCoordinator("demo", 7, w), Tokens("demo", 7, w), State("demo", 7, w), Root("demo", 7, w),
			PeerState("demo", w, "x"), "andrea.demo.log." + string(w) + ".info",
		}
	}
	toWorker := func(w pipeline.WorkerID) []string {
		return []string{ToWorker("demo", w), WorkerState("demo", w), WorkerGrad("demo", w), PeerState("demo", "x", w), PeerState("demo", AnyWorker, w)}
	}
	foreign := []string{Hello("demo2", "w"), ToWorker("demon", "w"), "andrea.demo", "andrea.>", ">", "$JS.API.INFO"}
	observer := ObserverPermissions("demo")
	coordinator, worker, all := CoordinatorPermissions("demo"), WorkerPermissions("demo", "w"), WorkerPermissions("demo", AnyWorker)
	for _, c := range []struct {
		name     string
		patterns []string
		subjects []string
		want     bool
	}{
		{"a coordinator listens", coordinator.Subscribe, fromWorker(AnyWorker), true},
		{"a coordinator sends to workers", coordinator.Publish, toWorker("w"), true},
		{"a worker listens", worker.Subscribe, toWorker("w"), true},
		{"a worker sends", worker.Publish, fromWorker("w"), true},
		{"workers listen", all.Subscribe, toWorker("v"), true},
		{"workers send", all.Publish, fromWorker("v"), true},
		{"a worker sends as another", worker.Publish, fromWorker("v"), false},
		{"a worker overhears another", worker.Subscribe, toWorker("v"), false},
		{"a worker overhears all", worker.Subscribe, toWorker(AnyWorker), false},
		{"a worker sends as the coordinator", worker.Publish, []string{ToWorker("demo", "v"), WorkerState("demo", "v"), WorkerGrad("demo", "v")}, false},
		{"a worker listens as the coordinator", worker.Subscribe, fromWorker(AnyWorker), false},
		{"an observer asks", observer.Publish, []string{Runs, Status("demo"), History("demo")}, true},
		{"a worker asks", worker.Publish, []string{Runs, Status("demo")}, true},
		{"a coordinator is asked", coordinator.Subscribe, []string{Runs, Status("demo"), History("demo")}, true},
		{"an observer sends as a worker", observer.Publish, append(fromWorker("w"), toWorker("w")...), false},
		{"a worker reads the logs", worker.Subscribe, []string{Logs("demo"), "andrea.demo.log.w.info"}, false},
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
