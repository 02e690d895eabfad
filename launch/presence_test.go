package launch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"

	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/pipeline/transport"
)

// answering is a bus on which one answer is given to every question.
type answering struct {
	transport.Bus
	answer func() ([]byte, error)
}

func (a answering) Request(context.Context, string, []byte) ([]byte, error) { return a.answer() }

func says(generation uint64) func() ([]byte, error) {
	return func() ([]byte, error) { return json.Marshal(runner.Report{Run: "demo", Generation: generation}) }
}

func fails(err error) func() ([]byte, error) { return func() ([]byte, error) { return nil, err } }

// A coordinator goes on alone or after an older one that has not noticed, and beside no other.
func TestOneCoordinatorOfARunOnAServer(t *testing.T) {
	for name, c := range map[string]struct {
		answer func() ([]byte, error)
		want   string
	}{
		"nobody":        {fails(transport.ErrNoResponders), ""},
		"an older one":  {says(6), ""},
		"another run's": {says(5), "of generation 5, which is none of this folder"},
		"one as new":    {says(7), "another coordinator answers"},
		"a newer one":   {says(8), "another coordinator answers"},
		"a silent one":  {fails(transport.ErrTimeout), "making sure"},
		"another thing": {func() ([]byte, error) { return []byte("hello"), nil }, "one version"},
	} {
		err := checkAlone(answering{answer: c.answer}, "demo", 7, []uint64{4, 6, 7}, zap.NewNop())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A worker waits for a start that is newer than the one it took part in.
func TestAwaitingTheNextStart(t *testing.T) {
	answers := []func() ([]byte, error){fails(transport.ErrNoResponders), says(3), fails(transport.ErrDisconnected), says(4), says(9)}
	p := process{log: discarded(t), control: answering{answer: func() ([]byte, error) {
		next := answers[0]
		answers = answers[1:]
		return next()
	}}}
	if got, err := p.await(t.Context(), start{"demo", 3}, false); got.Generation != 4 || err != nil || len(answers) != 1 {
		t.Errorf("generation %d, %v", got.Generation, err)
	}
	p.control = answering{answer: fails(transport.ErrNoResponders)}
	if _, err := p.await(t.Context(), start{"demo", 3}, true); !errors.Is(err, errLeft) {
		t.Errorf("a run that has gone: %v", err)
	}
	p.control = answering{answer: func() ([]byte, error) { return []byte("hello"), nil }}
	if _, err := p.await(t.Context(), start{"demo", 3}, false); err == nil || !strings.Contains(err.Error(), "one version") {
		t.Errorf("another version: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.control = answering{answer: func() ([]byte, error) { cancel(); return nil, transport.ErrTimeout }}
	if _, err := p.await(ctx, start{"demo", 3}, false); !errors.Is(err, context.Canceled) {
		t.Errorf("told to leave: %v", err)
	}
}

func TestMetrics(t *testing.T) {
	val := pipeline.Float(3.5)
	got := metricsOf(runner.Report{
		Run: "demo", Generation: 2, Step: 7, Steps: 20, Checkpoint: 5, Workers: []runner.WorkerReport{{ID: "a", Joined: true}, {ID: "b"}},
		Last: &pipeline.CommitRecord{Loss: 4.25, GradNorm: 0.5, TokensPerSecond: 1e6}, Validation: &pipeline.CommitRecord{ValLoss: &val},
	})
	for _, want := range []string{
		"# HELP andrea_step Last confirmed step.\n# TYPE andrea_step gauge\nandrea_step{run=\"demo\"} 7\n", "andrea_steps{run=\"demo\"} 20\n",
		"andrea_checkpoint_step{run=\"demo\"} 5\n", "andrea_members{run=\"demo\"} 1\n", "andrea_generation{run=\"demo\"} 2\n",
		"andrea_loss{run=\"demo\"} 4.25\n", "andrea_grad_norm{run=\"demo\"} 0.5\n", "andrea_tokens_per_second{run=\"demo\"} 1e+06\n", "andrea_val_loss{run=\"demo\"} 3.5\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if none := metricsOf(runner.Report{Run: "demo", Checkpoint: -1}); strings.Contains(none, "loss") || !strings.Contains(none, "andrea_checkpoint_step{run=\"demo\"} -1\n") {
		t.Errorf("before the first step:\n%s", none)
	}
}

func TestProbes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if _, err := listenProbes(address, probes{}); err == nil || !strings.Contains(err.Error(), "--http") {
		t.Errorf("an address that is taken: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ready := errors.New("not yet")
	stop, err := listenProbes(address, probes{
		started: func(context.Context) error { return nil },
		ready:   func(context.Context) error { return ready },
		metrics: func(context.Context) (string, error) { return "andrea_up 1\n", ready },
	})
	if err != nil {
		t.Skipf("another process took %s meanwhile: %v", address, err)
	}
	expect := func(method, path string, code int, text string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != code || !strings.Contains(string(body), text) {
			t.Errorf("%s %s: %d %q, %v", method, path, response.StatusCode, body, err)
		}
	}
	expect("GET", "/healthz", 200, "ok")
	expect("GET", "/startupz", 200, "ok")
	expect("GET", "/readyz", 503, "not yet")
	expect("GET", "/metrics", 503, "not yet")
	expect("POST", "/healthz", 405, "")
	expect("GET", "/debug", 404, "")
	ready = nil
	expect("GET", "/readyz", 200, "ok")
	expect("GET", "/metrics", 200, "andrea_up 1\n")
	if err := stop(); err != nil {
		t.Error(err)
	}
}
