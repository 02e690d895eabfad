package ledger

import (
	"fmt"

	"andrea/checkpoints"
	"andrea/model"
	"andrea/pipeline"
)

// Claims is a run as its files tell it.
type Claims struct {
	Plan      *pipeline.Plan
	Journal   *pipeline.Journal
	Broken    *Fault                 // what ParseJournal found behind the last line of Journal; nil: nothing
	Manifests []checkpoints.Manifest // of the checkpoints that there are
	Damaged   []Fault                // what is wrong with the files of checkpoints
	Tokens    Tokens                 // of the plan's dataset
	Progress  func(step int64)       // is told what was verified; nil: nobody is
}

// Report is what was verified, and what is not true.
type Report struct {
	Steps       int64   `json:"steps"`       // whose intents were verified
	Committed   int64   `json:"committed"`   // that have a commit record: all, or all but the last
	Skipped     int64   `json:"skipped"`     // whose update was not applied, as the job wants it where a number is not finite
	Windows     uint64  `json:"windows"`     // trained in these steps
	Tokens      uint64  `json:"tokens"`      // inputs of these windows
	Epochs      uint64  `json:"epochs"`      // finished: every training window exactly once
	Running     uint64  `json:"running"`     // windows of the epoch that is not finished, each once
	PerEpoch    uint64  `json:"per_epoch"`   // training windows of the dataset
	Checkpoints int     `json:"checkpoints"` // whose manifests were compared
	Faults      []Fault `json:"faults"`      // the first ones, by step; those of checkpoints come last
	More        int64   `json:"more_faults"` // that are not told
}

// True reports that nothing was found that is not true.
func (r Report) True() bool { return len(r.Faults) == 0 }

// verifier walks the steps in order.
type verifier struct {
	Claims
	report  Report
	windows *windows
	numbers []uint64     // windows of one microbatch
	window  []uint32     // tokens of one window
	state   model.Digest // after the step before
	known   bool         // state is known: it is not before the first step
}

// Verify checks every claim. The error says that the tokens could not be read: how far it has come is in the report.
func Verify(c Claims) (Report, error) {
	v := &verifier{
		Claims: c, windows: newWindows(c.Plan.Index), window: make([]uint32, c.Plan.Index.Context+1),
		report: Report{PerEpoch: c.Plan.Index.Training, Faults: []Fault{}},
	}
	for i := range c.Journal.Steps {
		if err := v.step(&c.Journal.Steps[i]); err != nil {
			return v.report, fmt.Errorf("verifying step %d: %w", i+1, err)
		}
		if c.Progress != nil {
			c.Progress(int64(i + 1))
		}
	}
	if c.Broken != nil {
		v.tell([]Fault{*c.Broken})
	}
	for _, m := range c.Manifests {
		v.tell(CheckManifest(c.Plan, c.Journal, m))
		v.report.Checkpoints++
	}
	v.tell(c.Damaged)
	v.report.Epochs, v.report.Running = v.windows.epochs, v.windows.marked
	return v.report, nil
}

// tell adds faults to the report.
func (v *verifier) tell(all []Fault) {
	room := min(len(all), maxFaults-len(v.report.Faults))
	v.report.Faults = append(v.report.Faults, all[:room]...)
	v.report.More += int64(len(all) - room)
}

// step verifies the intent and the record of the next step.
func (v *verifier) step(r *pipeline.Recorded) error {
	f := &faults{step: r.Intent.Step}
	lanes, ok := lanesOf(r.Intent, v.Plan.Spec.Batch.Lanes, f)
	if ok {
		checkLosses(r.Intent, lanes, f)
	}
	checkIntent(v.Plan, r.Intent, f)
	if err := v.checkTokens(lanes, ok, f); err != nil {
		return err
	}
	v.report.Steps++
	if r.Intent.Action == pipeline.ActionSkip {
		v.report.Skipped++
	}
	if r.Commit != nil {
		checkCommit(v.Plan, r.Intent, *r.Commit, f)
		if r.Intent.Action == pipeline.ActionSkip && v.known {
			f.want(r.Commit.StateDigest == v.state, "state_digest", r.Commit.StateDigest, fmt.Sprintf("%v as before the step, which was skipped", v.state))
		}
		v.state, v.known = r.Commit.StateDigest, true
		v.report.Committed++
	}
	v.tell(f.all)
	return nil
}

// checkTokens reads the windows that every lane of the step must have held, counts them, and compares their digests
// with what the workers reported, unless the leases are no list of lanes.
func (v *verifier) checkTokens(lanes []lane, listed bool, f *faults) error {
	for l := range v.Plan.Spec.Batch.Lanes {
		digest, err := v.digestLane(uint64(f.step), l, f)
		if err != nil {
			return err
		}
		if listed {
			f.want(lanes[l].tokens == digest, fmt.Sprintf("the token digest of lane %d", l), lanes[l].tokens, fmt.Sprintf("%v: the worker did not train on the lane's windows", digest))
		}
	}
	return nil
}

// digestLane is the digest of the tokens of a lane of a step.
func (v *verifier) digestLane(step uint64, lane int, f *faults) (digest model.Digest, err error) {
	start := 0
	for microbatch := range v.Plan.Sampler.MicrobatchesPerLane() {
		if v.numbers, err = v.Plan.Sampler.Append(v.numbers[:0], step, lane, microbatch); err != nil {
			return digest, err
		}
		for _, w := range v.numbers {
			if !v.windows.mark(w) {
				f.add("lane %d has window %d, which epoch %d has had before", lane, w, v.windows.epochs)
			}
			first, _ := v.Plan.Index.Span(w)
			if err := v.Tokens.Read(v.window, first); err != nil {
				return digest, err
			}
			digest = digest.Add(model.TokenDigestOf(start, v.window))
			start += len(v.window)
			v.report.Windows++
			v.report.Tokens += v.Plan.Index.Context
		}
	}
	return digest, nil
}
