package runner_test

import (
	"errors"
	"strings"
	"testing"

	"andrea/dataset/arrowfile"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/pipeline/wire"
	"andrea/vfs/crashfs"
)

// The coordinator answers what fits the job, refuses the rest with the reason, and
// goes on whatever it receives.
func TestTheCoordinatorRefusesWrongRequests(t *testing.T) {
	r := newRig(t)
	f, err := open(crashfs.New())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	stop := make(chan string, 1)
	asked := make(chan struct{})
	r.coordinator.control.set(func(b *bus) {
		b.subscribed = func(subject string) {
			if subject == wire.Hello("tiny", wire.AnyWorker) {
				go func() {
					defer close(asked)
					r.askWrongly(t)
					stop <- "asked"
				}()
			}
		}
	})
	outcome, err := runner.Coordinate(r.coordinatorOptions(f, stop, func(pipeline.Notice) {}))
	<-asked
	if err != nil || outcome.Stopped != "asked" || outcome.Err != nil {
		t.Errorf("outcome %+v, %v", outcome, err)
	}
}

func (r *rig) askWrongly(t *testing.T) {
	tokens, state := wire.Tokens("tiny", r.generation, "w"), wire.State("tiny", r.generation, "w")
	for _, c := range []struct{ subject, request, want string }{
		{tokens, ``, "it is no JSON object"},
		{tokens, `{"step":1,"lane":0,"microbatch":0,"extra":1}`, "unknown field"},
		{tokens, `{"step":0,"lane":0,"microbatch":0}`, "there is no step 0: steps count from 1"},
		{tokens, `{"step":-5,"lane":0,"microbatch":0}`, "there is no step -5"},
		{tokens, `{"step":1,"lane":2,"microbatch":0}`, "lane"},
		{tokens, `{"step":1,"lane":-1,"microbatch":0}`, "lane"},
		{tokens, `{"step":1,"lane":0,"microbatch":2}`, "microbatch"},
		{tokens, `{"validation":true,"microbatch":2}`, "there is no validation window 2: there are 2"},
		{tokens, `{"validation":true,"microbatch":-1}`, "there is no validation window -1"},
		{state, `null`, "it is no JSON object"},
		{state, `{"step":0,"bucket":0,"part":0,"offset":0}`, "state 0 is not on disk here"},
		{state, `{"step":0,"bucket":1,"part":0,"offset":0}`, "there is no part 0 of bucket 1"},
		{state, `{"step":0,"bucket":-1,"part":0,"offset":0}`, "there is no part 0 of bucket -1"},
		{state, `{"step":0,"bucket":0,"part":3,"offset":0}`, "there is no part 3 of bucket 0"},
	} {
		reply, err := r.worker.bulk.Request(t.Context(), c.subject, []byte(c.request))
		if err != nil {
			t.Errorf("%s: %v", c.request, err)
			continue
		}
		var refusal wire.Refusal
		if _, err := wire.DecodeReply(reply); !errors.As(err, &refusal) || !strings.Contains(refusal.Reason, c.want) {
			t.Errorf("%s: %v, want %q", c.request, err, c.want)
		}
	}
	for request, want := range map[string]uint64{
		`{"step":1,"lane":1,"microbatch":1}`:                                   r.window(t, 1, 1, 1),
		`{"step":1099511627776,"lane":0,"microbatch":0}`:                       r.window(t, 1<<40, 0, 0),
		`{"validation":true,"step":0,"lane":0,"microbatch":1}`:                 r.plan.ValidationWindows[1],
		string(wire.EncodeRequest(wire.TokensRequest{Step: 2, Microbatch: 1})): r.window(t, 2, 0, 1),
	} {
		r.checkWindow(t, tokens, request, want)
	}
	beat, err := wire.EncodeControl(wire.Control{Generation: r.generation, Worker: "w", Incarnation: "1", Message: pipeline.Heartbeat{}})
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := r.worker.control.Request(t.Context(), wire.ToCoordinator("tiny", r.generation, "w"), beat); err != nil || len(answer) != 0 {
		t.Errorf("a sign of life was answered with %q, %v", answer, err)
	}
	for _, garbage := range []string{"", "{", `{"kind":"failed"}`, strings.Repeat("x", 1<<20)} {
		for _, subject := range []string{wire.Hello("tiny", "w"), wire.ToCoordinator("tiny", r.generation, "w")} {
			if err := r.worker.control.Publish(subject, []byte(garbage)); err != nil {
				t.Error(err)
			}
		}
	}
}

func (r *rig) window(t *testing.T, step uint64, lane, microbatch int) uint64 {
	numbers, err := r.plan.Sampler.Append(nil, step, lane, microbatch)
	if err != nil || len(numbers) != 1 {
		t.Fatalf("%v, %v", numbers, err)
	}
	return numbers[0]
}

func (r *rig) checkWindow(t *testing.T, subject, request string, window uint64) {
	t.Helper()
	reply, err := r.worker.bulk.Request(t.Context(), subject, []byte(request))
	if err != nil {
		t.Errorf("%s: %v", request, err)
		return
	}
	payload, err := wire.DecodeReply(reply)
	if err != nil {
		t.Errorf("%s: %v", request, err)
		return
	}
	rows, err := arrowfile.DecodeWindows(payload, 1, 5, 11)
	if err != nil {
		t.Errorf("%s: %v", request, err)
		return
	}
	start, n := r.plan.Index.Span(window)
	want := make([]uint32, n)
	if err := (stream{}).Read(want, start); err != nil {
		t.Error(err)
	}
	for i := range want {
		if rows[0][i] != want[i] {
			t.Errorf("%s: window %v, want %v", request, rows[0], want)
			return
		}
	}
}
