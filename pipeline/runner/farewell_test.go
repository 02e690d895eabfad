package runner_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/pipeline/wire"
	"andrea/vfs/crashfs"
)

// ended trains to the end with a coordinator that lingers, and returns how long after the last step's
// checkpoint it has ended, and what its workers have returned by then; nil where one has not.
func ended(t *testing.T, r *rig, linger time.Duration, begin func()) (took time.Duration, left []error) {
	t.Helper()
	f, err := open(crashfs.New())
	if err != nil {
		t.Fatal(err)
	}
	f.start.Workers = 2
	var saved time.Time
	stop := make(chan string, 1)
	o := r.coordinatorOptions(f, stop, func(n pipeline.Notice) {
		if s, ok := n.(pipeline.CheckpointSaved); ok && s.Step == r.plan.Spec.Steps {
			saved = time.Now()
		}
	})
	o.Linger = linger
	go begin()
	outcome, err := runner.Coordinate(o)
	if err != nil || !outcome.Complete {
		t.Fatalf("%+v, %v", outcome, err)
	}
	took = time.Since(saved)
	time.Sleep(time.Second) // of the bubble: who knows of the end goes
	for _, h := range r.hands {
		select {
		case err := <-h.left:
			h.left <- err // for sendOff
			left = append(left, err)
		default:
			left = append(left, pipeline.ErrStopped{Reason: "it waits"})
		}
	}
	if err := r.sendOff(t, outcome); err != nil {
		t.Error(err)
	}
	return took, left
}

// A coordinator that lingers does so for workers that have not heard of the end, and no longer.
func TestWorkersHearOfTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		lost        int // farewells to x
		linger      time.Duration
		least, most time.Duration
		hears       bool
	}{
		"at once":                 {0, 3 * time.Second, 0, 0, true},
		"the third time":          {2, 3 * time.Second, 900 * time.Millisecond, 1100 * time.Millisecond, true},
		"too late":                {100, 3 * time.Second, 3 * time.Second, 3 * time.Second, false},
		"where nobody lingers":    {0, 0, 0, 0, true},
		"or not, and nobody does": {1, 0, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newQuietRig(t, "steps=2", "eval.every=0")
				lost := 0
				took, left := ended(t, r, c.linger, func() {
					r.start(t, "w", r.worker, nil)
					x := r.connect(t, "worker")
					x.control.set(func(b *bus) {
						b.incoming = func(subject string, data []byte) bool {
							m, err := wire.DecodeControl(data)
							_, last := m.Message.(pipeline.Finish)
							if err != nil || !last || subject != wire.ToWorker("tiny", "x") {
								return false
							}
							lost++
							return lost <= c.lost
						}
					})
					r.start(t, "x", x, nil)
				})
				if took < c.least || took > c.most {
					t.Errorf("it ended %v after the last checkpoint", took)
				}
				if len(left) != 2 || left[0] != nil || (left[1] == nil) != c.hears {
					t.Errorf("the workers left with %v", left)
				}
			})
		})
	}
}

// A worker that says hello while the coordinator lingers is told, whoever it is.
func TestAHelloAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t, "steps=2", "eval.every=0")
		_, left := ended(t, r, 3*time.Second, func() {
			r.start(t, "w", r.worker, nil)
			x, lost := r.connect(t, "worker"), 0
			x.control.set(func(b *bus) {
				b.incoming = func(_ string, data []byte) bool {
					m, err := wire.DecodeControl(data)
					if _, last := m.Message.(pipeline.Finish); err != nil || !last {
						return false
					}
					if lost++; lost == 1 {
						r.start(t, "y", r.connect(t, "worker"), nil)
					}
					return lost < 20
				}
			})
			r.start(t, "x", x, nil)
		})
		if len(left) != 3 || left[2] != nil {
			t.Errorf("the workers left with %v", left)
		}
	})
}

// A worker that nobody answers says so once, and goes when it is asked to.
func TestAWorkerWithoutACoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t)
		log, said := observer.New(zap.InfoLevel)
		h := r.start(t, "w", r.worker, func(o *runner.WorkerOptions) { o.Log = zap.New(log) })
		time.Sleep(time.Hour) // of the bubble
		if n := said.FilterMessageSnippet("no coordinator answers").Len(); n != 1 || said.Len() != 1 {
			t.Errorf("it said so %d times, among %d lines", n, said.Len())
		}
		h.leave()
		if left := <-h.left; left == nil {
			t.Error("it left in peace")
		}
	})
}
