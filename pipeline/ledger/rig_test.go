package ledger_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"andrea/checkpoints"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/ledger"
)

// stream is a token stream without end, in which windows differ.
type stream struct{ vocab uint64 }

func (s stream) Read(dst []uint32, start uint64) error {
	for i := range dst {
		dst[i] = uint32((start + uint64(i)) * 2654435761 >> 7 % s.vocab)
	}
	return nil
}

// altered is a stream in which one token is another.
type altered struct {
	stream
	at uint64
}

func (a altered) Read(dst []uint32, start uint64) error {
	if err := a.stream.Read(dst, start); err != nil {
		return err
	}
	if a.at-start < uint64(len(dst)) {
		dst[a.at-start] ^= 1
	}
	return nil
}

const (
	lanesOfRig   = 4
	trainingOfIt = 22 // windows: an epoch ends inside the third step of 8 windows
)

var tokens = stream{vocab: 32}

// planOf is a job of 4 lanes of 2 microbatches of one window.
func planOf(t testing.TB, seed uint64, steps int64) *pipeline.Plan {
	t.Helper()
	spec, err := pipeline.ParseJobSpec(fmt.Appendf(nil, `
name: ledger
model: {d_model: 16, n_head: 2, n_layer: 1, context: 8}
data: {path: tokens, validation: 0.1}
batch: {tokens_per_step: 64, microbatch: 1, lanes: %d}
optimizer: {lr: 3e-3, min_lr: 3e-4, warmup_steps: 3, grad_clip: 0.5}
steps: %d
seed: %d
eval: {every: 4, windows: 2}
on_nonfinite: skip
`, lanesOfRig, steps, seed))
	if err != nil {
		t.Fatal(err)
	}
	p, err := pipeline.NewPlan(spec, pipeline.DatasetInfo{Fingerprint: "f", Tokenizer: "test", Vocab: 32, Tokens: 25*8 + 1})
	if err != nil {
		t.Fatal(err)
	}
	if p.Index.Training != trainingOfIt || len(p.ValidationWindows) != 2 {
		t.Fatalf("the rig has %+v", p.Index)
	}
	return p
}

// covers are ways in which workers can share the lanes.
var covers = [][]int{{0, 4}, {0, 2, 4}, {0, 1, 2, 4}, {0, 1, 2, 3, 4}, {0, 2, 3, 4}}

// honest is what an honest run of so many steps has recorded; its losses and gradients are made up.
func honest(t testing.TB, p *pipeline.Plan, steps int64) []pipeline.Recorded {
	t.Helper()
	var all []pipeline.Recorded
	for step := int64(1); step <= steps; step++ {
		norm := 0.3 + 0.1*float64(step) // clipped from the third step on
		i := pipeline.Intent{
			Step: step, Action: pipeline.ActionApply, Tokens: 64, GradNorm: pipeline.Float(norm),
			Scale: float32(min(1, 0.5/norm) / 64), LR: p.Hyper(step).LR, Epoch: uint64((step - 1) * 8 / trainingOfIt),
			RootDigest: model.Digest{9, uint64(step)},
		}
		cover := covers[int(step)%len(covers)]
		for n := range len(cover) - 1 {
			i.Leases = append(i.Leases, honestLease(t, p, step, cover[n], cover[n+1]))
		}
		for _, l := range i.Leases {
			for _, loss := range l.LossSums {
				i.LossSum += loss
			}
		}
		if len(i.Leases) == 1 {
			i.Leases[0].GradDigest = i.RootDigest
		}
		c := pipeline.CommitRecord{
			Step: step, Loss: i.LossSum / 64, GradNorm: i.GradNorm, LR: i.LR, Tokens: 64, Epoch: i.Epoch,
			StateDigest: model.Digest{7, uint64(step)}, Seconds: 0.3 * float64(step), TokensPerSecond: 64 / (0.3 * float64(step)),
		}
		if step%4 == 0 || step == p.Spec.Steps {
			loss := pipeline.Float(3.25)
			c.ValLoss = &loss
		}
		all = append(all, pipeline.Recorded{Intent: i, Commit: &c})
	}
	return all
}

func honestLease(t testing.TB, p *pipeline.Plan, step int64, lo, hi int) pipeline.LeaseRecord {
	t.Helper()
	l := pipeline.LeaseRecord{Lo: lo, Hi: hi, Worker: fmt.Sprintf("worker-%d", lo), GradDigest: model.Digest{uint64(step), uint64(lo)}}
	for lane := lo; lane < hi; lane++ {
		var digest model.Digest
		for microbatch := range 2 {
			digest = digest.Add(model.TokenDigestOf(9*microbatch, windowOf(t, p, step, lane, microbatch)))
		}
		l.TokenDigests = append(l.TokenDigests, digest)
		l.LossSums = append(l.LossSums, pipeline.Float(40+float64(step)/3+float64(lane)/7))
	}
	return l
}

// windowOf is the tokens of a microbatch's only window.
func windowOf(t testing.TB, p *pipeline.Plan, step int64, lane, microbatch int) []uint32 {
	t.Helper()
	numbers, err := p.Sampler.Append(nil, uint64(step), lane, microbatch)
	if err != nil || len(numbers) != 1 {
		t.Fatal(numbers, err)
	}
	ids := make([]uint32, 9)
	if err := tokens.Read(ids, numbers[0]*8); err != nil {
		t.Fatal(err)
	}
	return ids
}

// written is the journal of records, with its chain as it must be.
func written(t testing.TB, all []pipeline.Recorded) (data []byte, j *pipeline.Journal) {
	t.Helper()
	j = &pipeline.Journal{}
	for _, r := range all {
		line, err := j.AppendIntent(r.Intent)
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, line...)
		if r.Commit == nil {
			continue
		}
		if line, err = j.AppendCommit(*r.Commit); err != nil {
			t.Fatal(err)
		}
		data = append(data, line...)
	}
	return data, j
}

// verified is the report on a journal and the manifests of checkpoints.
func verified(t testing.TB, p *pipeline.Plan, data []byte, manifests ...checkpoints.Manifest) ledger.Report {
	t.Helper()
	j, broken, err := ledger.ReadJournal(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	report, err := ledger.Verify(ledger.Claims{Plan: p, Journal: j, Broken: broken, Manifests: manifests, Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// manifestOf is the manifest of an honest checkpoint.
func manifestOf(p *pipeline.Plan, j *pipeline.Journal, step int64) checkpoints.Manifest {
	return checkpoints.Manifest{
		Step: int(step), StateDigest: j.Step(step).Commit.StateDigest, RecordDigest: j.CommitDigest(step), Job: string(p.Spec.Marshal()),
		Data: checkpoints.DataPosition{Position: 8 * step, Epoch: 8 * step / trainingOfIt, Fingerprint: "f"},
	}
}

func nan() pipeline.Float { return pipeline.Float(math.NaN()) }
