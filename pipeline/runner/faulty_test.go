package runner_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/pipeline/wire"
	"andrea/vfs/crashfs"
)

// faulty is an engine on a machine whose memory is not to be trusted: from its second update on
// it does what the test says instead of, or after, what it should.
type faulty struct {
	model.Engine
	updates     int
	accumulated func(e model.Engine, slot int, loss *model.Loss) error
	read        func(dst []float32)
	updated     func(e model.Engine, digest *model.Digest) error
}

func (f *faulty) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	loss, err := f.Engine.Accumulate(slot, b)
	if err == nil && f.updates > 0 && f.accumulated != nil {
		err = f.accumulated(f.Engine, slot, &loss)
	}
	return loss, err
}

func (f *faulty) ReadGrad(slot, bucket int, dst []float32) error {
	err := f.Engine.ReadGrad(slot, bucket, dst)
	if err == nil && f.updates > 0 && f.read != nil {
		f.read(dst)
	}
	return err
}

func (f *faulty) Update(slot int, scale float32, h model.Hyper) (model.Digest, error) {
	digest, err := f.Engine.Update(slot, scale, h)
	if f.updates++; err == nil && f.updates > 1 && f.updated != nil {
		err = f.updated(f.Engine, &digest)
	}
	return digest, err
}

// flipBit changes the lowest bit of a number.
func flipBit(x *float32) { *x = math.Float32frombits(math.Float32bits(*x) ^ 1) }

// spoilGradient changes one number of what was accumulated, by so much that no rounding hides it.
func spoilGradient(e model.Engine, slot int, size int) error {
	grad := make([]float32, size)
	if err := e.ReadGrad(slot, 0, grad); err != nil {
		return err
	}
	grad[size/2] += 0.5
	return e.WriteGrad(slot, 0, grad)
}

// flipState changes one bit of the weights.
func flipState(e model.Engine, size int) error {
	w, m, v := make([]float32, size), make([]float32, size), make([]float32, size)
	if err := e.Save(0, w, m, v); err != nil {
		return err
	}
	flipBit(&w[size/3])
	return e.Load(0, w, m, v)
}

// eightLanes is work for three: they compute 3, 3 and 2.
var eightLanes = []string{"batch={tokens_per_step: 32, lanes: 8}", "steps=5", "eval.every=3", "checkpoint.every=100"}

// withOneFaulty trains with three workers of which x has the faulty engine.
func (r *rig) withOneFaulty(t *testing.T, fsys *crashfs.FS, engine faulty) told {
	t.Helper()
	f, err := open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	f.start.Workers = 3
	return r.conduct(t, f, nil, func() {
		for _, id := range []string{"w", "x", "y"} {
			r.start(t, id, r.connect(t, "worker"), func(o *runner.WorkerOptions) {
				plain := o.OpenEngine
				o.OpenEngine = func(c model.Config, microbatch, slots int) (e model.Engine, err error) {
					if e, err = plain(c, microbatch, slots); err == nil && id == "x" {
						engine.Engine = e
						e = &engine
					}
					return e, err
				}
			})
		}
	})
}

// mustExpel checks that x, and nobody else, was expelled with the reason, in its own words and in
// those of the run, and that the run's bits are unharmed.
func (r *rig) mustExpel(t *testing.T, fsys *crashfs.FS, said told, reason, want string) {
	t.Helper()
	gone := said.gone()
	if len(gone) != 1 || gone[0].Worker != "x" || !gone[0].Expelled || !strings.Contains(gone[0].Reason, reason) {
		t.Errorf("gone: %+v, want %q", gone, reason)
	}
	if said.left == nil || !strings.Contains(said.left.Error(), "the coordinator expelled this worker: worker x ") || strings.Contains(said.left.Error(), "\n") {
		t.Errorf("the workers left with %v", said.left)
	}
	said.left = nil
	r.mustComplete(t, fsys, said, want)
}

// A machine that flips a bit is found and expelled before it can harm the others.
func TestAFaultyWorkerIsExpelled(t *testing.T) {
	size := planOf(t, eightLanes...).Layout.Size
	for name, c := range map[string]struct {
		engine faulty
		audit  string
		reason string
	}{
		"in the weights": {
			engine: faulty{updated: func(e model.Engine, _ *model.Digest) error { return flipState(e, size) }},
			reason: "from a state with digest",
		},
		"in the weights before their digest is taken": {
			engine: faulty{updated: func(e model.Engine, digest *model.Digest) error {
				*digest = model.Digest{}
				err := flipState(e, size)
				for i := range planOf(t, eightLanes...).Layout.Buckets() {
					bucket, digestErr := e.StateDigest(i)
					if *digest = digest.Add(bucket); digestErr != nil {
						return digestErr
					}
				}
				return err
			}},
			reason: "reports a state with digest",
		},
		"in a gradient after its digest was taken": {
			engine: faulty{read: func(dst []float32) { flipBit(&dst[7]) }},
			reason: "sent another gradient of step 2 than it answered for",
		},
		"in a loss, which is no number": {
			engine: faulty{accumulated: func(_ model.Engine, _ int, loss *model.Loss) error { loss.Sum = math.NaN(); return nil }},
			reason: "computed a wrong gradient of lanes",
		},
		"in a gradient that is audited": {
			engine: faulty{accumulated: func(e model.Engine, slot int, _ *model.Loss) error { return spoilGradient(e, slot, size) }},
			audit:  "audit=1",
			reason: "computed a wrong gradient of lanes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				settings := eightLanes
				if c.audit != "" { // with two lanes everybody has room to compute everything
					settings = append(settings[:len(settings):len(settings)], c.audit, "batch={tokens_per_step: 32, lanes: 2}")
				}
				r := newQuietRig(t, settings...)
				want := r.reference(t)
				fsys := crashfs.New()
				r.mustExpel(t, fsys, r.withOneFaulty(t, fsys, c.engine), c.reason, want)
			})
		})
	}
}

// Without an audit nobody can tell a wrong gradient from a right one: what the documents say.
func TestAWrongGradientThatNobodyAudits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t, eightLanes...)
		want := r.reference(t)
		fsys := crashfs.New()
		said := r.withOneFaulty(t, fsys, faulty{accumulated: func(e model.Engine, slot int, _ *model.Loss) error {
			return spoilGradient(e, slot, r.plan.Layout.Size)
		}})
		if got := bits(t, fsys); got == want || len(said.gone()) > 0 || !said.outcome.Complete {
			t.Errorf("%+v, gone %+v, the same bits: %v", said.outcome, said.gone(), got == want)
		}
	})
}

// altered changes one number in a reply and frames it anew, so that its checksum is right.
func altered(t *testing.T, reply []byte, change func(*float32)) []byte {
	t.Helper()
	payload, err := wire.DecodeReply(reply)
	if err != nil {
		t.Error(err)
		return reply
	}
	numbers := make([]float32, len(payload)/4)
	if err := wire.Floats(numbers, payload); err != nil {
		t.Error(err)
	}
	change(&numbers[len(numbers)/2])
	return wire.EncodeFloats(nil, numbers)
}

// What arrives is compared with what was announced, by its bits, wherever it was changed: a
// contribution costs its worker the membership; a worker that gets a wrong state or root three times goes.
func TestNumbersThatWereChangedOnTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		of     func(r *rig) side
		what   func(r *rig) []string // subjects
		reason string
	}{
		"a contribution": {func(r *rig) side { return r.coordinator }, func(*rig) []string { return []string{wire.WorkerGrad("tiny", "x")} }, "sent another gradient of step 1 than it answered for: the contribution of worker x for lanes"},
		"a root":         {func(r *rig) side { return r.worker }, func(r *rig) []string { return []string{wire.Root("tiny", r.generation, "x")} }, ": the root that was pulled has digest"},
		"a state": {func(r *rig) side { return r.worker }, func(r *rig) []string {
			return []string{wire.State("tiny", r.generation, "x"), wire.PeerState("tiny", "x", "w")}
		}, "failed: loading state 1: its digest is"},
	} {
		for what, change := range map[string]func(*float32){"a bit": flipBit, "no number": func(x *float32) { *x = float32(math.NaN()) }} {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newQuietRig(t, "steps=4", "checkpoint.every=100")
					want := r.reference(t)
					fsys := crashfs.New()
					if name == "a state" {
						r.stopAfter(t, fsys, 1)
					}
					r.workers = 2
					c.of(r).bulk.set(func(b *bus) {
						b.reply = func(subject string, data []byte) []byte {
							if slices.Contains(c.what(r), subject) {
								return altered(t, data, change)
							}
							return data
						}
					})
					said, err := r.train(t, fsys, nil)
					if err != nil {
						t.Fatal(err)
					}
					gone := said.gone()
					if n := len(gone); n == 0 || n > 3 || !strings.Contains(gone[n-1].Reason, c.reason) {
						t.Errorf("gone: %+v, want %q", gone, c.reason)
					}
					for _, g := range gone {
						if g.Worker != "x" {
							t.Errorf("%s has gone, too: %s", g.Worker, g.Reason)
						}
					}
					if said.left == nil {
						t.Error("x has left in peace")
					}
					said.left = nil
					r.mustComplete(t, fsys, said, want)
				})
			})
		}
	}
}

// A step whose loss is no number, whoever computes it, is skipped by any number of workers
// alike: the state stays as it is.
func TestASkippedStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newQuietRig(t, append(eightLanes[:len(eightLanes):len(eightLanes)], "on_nonfinite=skip")...)
		window := make([]uint32, r.plan.Model.Context+1)
		start, _ := r.plan.Index.Span(r.window(t, 3, 1, 0))
		if err := (stream{}).Read(window, start); err != nil {
			t.Fatal(err)
		}
		var want string
		for _, workers := range []int{1, 2, 3} {
			fsys := crashfs.New()
			f, err := open(fsys)
			if err != nil {
				t.Fatal(err)
			}
			f.start.Workers = workers
			said := r.conduct(t, f, nil, func() {
				for i := range workers {
					r.start(t, "wxy"[i:i+1], r.connect(t, "worker"), func(o *runner.WorkerOptions) {
						plain := o.OpenEngine
						o.OpenEngine = func(c model.Config, microbatch, slots int) (model.Engine, error) {
							e, err := plain(c, microbatch, slots)
							return cursed{e, fmt.Sprint(window)}, err
						}
					})
				}
			})
			if want == "" {
				want = bits(t, fsys)
			}
			r.mustComplete(t, fsys, said, want)
		}
		j := strings.Split(want, "\n")
		if !strings.Contains(j[2], "3 "+pipeline.ActionSkip) || strings.Count(want, pipeline.ActionSkip) != 1 {
			t.Errorf("step 3 was not skipped:\n%s", want)
		}
	})
}

// cursed gives no number for one microbatch.
type cursed struct {
	model.Engine
	window string
}

func (c cursed) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	loss, err := c.Engine.Accumulate(slot, b)
	if fmt.Sprint(b.Tokens) == c.window {
		loss.Sum = math.NaN()
	}
	return loss, err
}
