package ledger_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"andrea/checkpoints"
	"andrea/pipeline"
	"andrea/pipeline/ledger"
)

func TestAnHonestRunIsTrue(t *testing.T) {
	p := planOf(t, 1, 12)
	all := honest(t, p, 12)
	data, j := written(t, all)
	report := verified(t, p, data, manifestOf(p, j, 4), manifestOf(p, j, 12))
	want := ledger.Report{
		Steps: 12, Committed: 12, Windows: 96, Tokens: 768, Epochs: 4, Running: 96 - 4*trainingOfIt, PerEpoch: trainingOfIt,
		Checkpoints: 2, Faults: report.Faults,
	}
	if !report.True() || !same(report, want) {
		t.Errorf("%+v\nwant %+v", report, want)
	}
}

func same(a, b ledger.Report) bool {
	a.Faults, b.Faults = nil, nil
	return slices.Equal([]any{a.Steps, a.Committed, a.Skipped, a.Windows, a.Tokens, a.Epochs, a.Running, a.PerEpoch, a.Checkpoints, a.More},
		[]any{b.Steps, b.Committed, b.Skipped, b.Windows, b.Tokens, b.Epochs, b.Running, b.PerEpoch, b.Checkpoints, b.More})
}

// A run that was killed between intent and record, with half a line behind it, is true as far as it goes.
func TestARunThatWasKilledIsTrue(t *testing.T) {
	p := planOf(t, 1, 12)
	all := honest(t, p, 3)
	all[2].Commit = nil
	data, _ := written(t, all)
	report := verified(t, p, append(data, `{"kind":"com`...))
	if !report.True() || report.Steps != 3 || report.Committed != 2 || report.Epochs != 1 || report.Running != 2 {
		t.Errorf("%+v", report)
	}
	if report := verified(t, p, nil); !report.True() || report.Steps != 0 {
		t.Errorf("a run that has not begun: %+v", report)
	}
}

// skip makes a step one that was skipped.
func skip(all []pipeline.Recorded, step int64) {
	i, c := &all[step-1].Intent, all[step-1].Commit
	i.Action, i.Scale, i.LossSum, i.Leases[0].LossSums[0] = pipeline.ActionSkip, 0, nan(), nan()
	c.Loss, c.StateDigest = nan(), all[step-2].Commit.StateDigest
}

func TestASkippedStep(t *testing.T) {
	p := planOf(t, 1, 12)
	all := honest(t, p, 4)
	skip(all, 3)
	data, _ := written(t, all)
	if report := verified(t, p, data); !report.True() || report.Skipped != 1 || report.Windows != 32 {
		t.Errorf("%+v", report)
	}
	all[2].Commit.StateDigest[0]++
	data, _ = written(t, all)
	wantFault(t, verified(t, p, data), 3, "skipped")
	p.Spec.OnNonfinite = pipeline.OnNonfiniteStop
	wantFault(t, verified(t, p, data), 3, "on_nonfinite is stop")
}

// wantFault fails unless the first faults are of the step and one of them says that.
func wantFault(t *testing.T, report ledger.Report, step int64, says string) {
	t.Helper()
	said := slices.ContainsFunc(report.Faults, func(f ledger.Fault) bool { return f.Step == step && strings.Contains(f.Error(), says) })
	if !said || report.Faults[0].Step != step {
		t.Errorf("found %v, want step %d: … %s", report.Faults, step, says)
	}
}

func TestWhatIsNotTrueIsFoundInItsStep(t *testing.T) {
	type records = []pipeline.Recorded
	leases := func(all records, step int) *[]pipeline.LeaseRecord { return &all[step-1].Intent.Leases }
	for _, c := range []struct {
		name  string
		forge func(all records)
		step  int64
		says  string
	}{
		{"a lease dropped", func(all records) { l := leases(all, 3); *l = (*l)[1:] }, 3, "every lane must be in one"},
		{"the last lease dropped", func(all records) { l := leases(all, 3); *l = (*l)[:3] }, 3, "the leases end at lane 3: there are 4"},
		{"all leases dropped", func(all records) { *leases(all, 3) = nil }, 3, "the leases end at lane 0"},
		{"a lease doubled", func(all records) { l := leases(all, 3); *l = append(*l, (*l)[3]) }, 3, "lease 4 begins at lane 3: the leases before it end at lane 4"},
		{"two leases in the wrong order", func(all records) { l := *leases(all, 3); l[0], l[1] = l[1], l[0] }, 3, "lease 0 begins at lane 1"},
		{"two leases swapped", func(all records) {
			l := *leases(all, 3)
			l[0], l[1] = l[1], l[0]
			l[0].Lo, l[0].Hi, l[1].Lo, l[1].Hi = 0, 1, 1, 2
		}, 3, "the token digest of lane 0"},
		{"leases of two steps swapped", func(all records) { a, b := *leases(all, 3), *leases(all, 8); a[1], b[1] = b[1], a[1] }, 3, "the token digest of lane 1"},
		{"two lanes of a lease swapped", func(all records) { d := (*leases(all, 5))[0].TokenDigests; d[1], d[2] = d[2], d[1] }, 5, "the token digest of lane 1"},
		{"a lane trained twice", func(all records) { d := (*leases(all, 5))[0].TokenDigests; d[1] = d[0] }, 5, "the token digest of lane 1"},
		{"no subtree", func(all records) {
			l := leases(all, 3)
			(*l)[0].Hi = 3
			*l = append((*l)[:1], (*l)[3])
		}, 3, "that is no subtree of the 4 lanes"},
		{"an unaligned lease", func(all records) { l := leases(all, 4); (*l)[0].Lo, (*l)[0].Hi = 1, 3 }, 4, "that is no subtree"},
		{"a lease without end", func(all records) { (*leases(all, 4))[0].Hi = 1 << 40 }, 4, "that is no subtree"},
		{"a loss too few", func(all records) { l := &(*leases(all, 4))[0]; l.LossSums = l.LossSums[1:] }, 4, "the number of losses"},
		{"a digest too many", func(all records) {
			l := &(*leases(all, 4))[0]
			l.TokenDigests = append(l.TokenDigests, l.TokenDigests[0])
		}, 4, "the number of token digests"},
		{"another sum", func(all records) { all[5].Intent.LossSum += 1e-12 + all[5].Intent.LossSum*1e-15 }, 6, "loss_sum is"},
		{"a record of another loss", func(all records) { all[5].Commit.Loss++ }, 6, "loss is"},
		{"no validation loss", func(all records) { all[3].Commit.ValLoss = nil }, 4, "having a val_loss is false"},
		{"the wrong root", func(all records) { all[4].Intent.RootDigest[1]++ }, 5, "root_digest is"},
		{"a scale that was not clipped", func(all records) { all[4].Intent.Scale = 1. / 64 }, 5, "scale is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planOf(t, 1, 12)
			all := honest(t, p, 12)
			c.forge(all)
			data, _ := written(t, all)
			wantFault(t, verified(t, p, data), c.step, c.says)
		})
	}
}

// Lines that were taken out, exchanged or changed without rewriting those behind break the chain.
func TestABrokenChainIsFoundInItsStep(t *testing.T) {
	p := planOf(t, 1, 12)
	data, _ := written(t, honest(t, p, 6))
	lines := bytes.SplitAfter(data, []byte("\n"))
	join := func(l ...[][]byte) []byte { return bytes.Join(slices.Concat(l...), nil) }
	for _, c := range []struct {
		name string
		data []byte
		step int64
	}{
		{"an intent removed", join(lines[:4], lines[5:]), 3},
		{"a record removed", join(lines[:5], lines[6:]), 3},
		{"a step removed", join(lines[:4], lines[6:]), 3},
		{"the first step removed", join(lines[2:]), 1},
		{"a step twice", join(lines[:6], lines[4:]), 4},
		{"two steps exchanged", join(lines[:4], lines[6:8], lines[4:6], lines[8:]), 3},
		{"a field changed", bytes.Replace(data, []byte(`"step":3,"action":"apply"`), []byte(`"step":3,"action":"skip"`), 1), 3},
		{"no JSON", join(lines[:9], [][]byte{[]byte("?\n")}, lines[10:]), 5},
	} {
		report := verified(t, p, c.data)
		if report.True() || report.Faults[len(report.Faults)-1].Step != c.step || report.Steps < c.step-1 {
			t.Errorf("%s: %+v, want step %d", c.name, report, c.step)
		}
	}
}

// The dataset and the order of the windows are what the job says, or nearly every step tells.
func TestAnotherDatasetOrOrderIsFound(t *testing.T) {
	p := planOf(t, 1, 12)
	data, j := written(t, honest(t, p, 12))
	wantFault(t, verified(t, planOf(t, 2, 12), data), 1, "the token digest of lane")
	if report := verified(t, planOf(t, 2, 12), data); len(report.Faults) != 20 || report.More < 12 {
		t.Errorf("%d faults are told, %d more", len(report.Faults), report.More)
	}
	// One token of the fourth window of the second step.
	numbers, err := p.Sampler.Append(nil, 2, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	report, err := ledger.Verify(ledger.Claims{Plan: p, Journal: j, Tokens: altered{tokens, numbers[0]*8 + 3}})
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, report, 2, "the token digest of lane 1")
	if report.Faults[1].Step < 3 {
		t.Errorf("one window was altered: %v", report.Faults)
	}
}

func TestCheckpointsThatDoNotBelong(t *testing.T) {
	p := planOf(t, 1, 12)
	data, j := written(t, honest(t, p, 8))
	for _, c := range []struct {
		name  string
		forge func(*checkpoints.Manifest)
		says  string
	}{
		{"another record", func(m *checkpoints.Manifest) { m.RecordDigest = strings.Repeat("0", 64) }, "record_digest"},
		{"a step that is not recorded", func(m *checkpoints.Manifest) { m.Step = 9 }, "record_digest"},
		{"another state", func(m *checkpoints.Manifest) { m.StateDigest[0]++ }, "state_digest"},
		{"another position", func(m *checkpoints.Manifest) { m.Data.Position++ }, "position"},
		{"another epoch", func(m *checkpoints.Manifest) { m.Data.Epoch++ }, "epoch"},
		{"another dataset", func(m *checkpoints.Manifest) { m.Data.Fingerprint = "g" }, "dataset"},
		{"another job", func(m *checkpoints.Manifest) { m.Job = strings.Replace(m.Job, "seed: 1", "seed: 2", 1) }, "another job spec"},
		{"no job", func(m *checkpoints.Manifest) { m.Job = "steps: x" }, "cannot be read"},
	} {
		m := manifestOf(p, j, 8)
		if report := verified(t, p, data, m); !report.True() {
			t.Fatal(report.Faults)
		}
		c.forge(&m)
		t.Run(c.name, func(t *testing.T) { wantFault(t, verified(t, p, data, m), int64(m.Step), c.says) })
	}
	moved := manifestOf(p, j, 8)
	moved.Job = strings.Replace(moved.Job, "path: tokens", "path: elsewhere", 1)
	if report := verified(t, p, data, moved); !report.True() {
		t.Errorf("a dataset that has moved: %v", report.Faults)
	}
}

// A shorter job has other learning rates and no such step.
func TestMoreStepsThanTheJobHas(t *testing.T) {
	data, _ := written(t, honest(t, planOf(t, 1, 12), 12))
	report := verified(t, planOf(t, 1, 11), data)
	wantFault(t, report, 4, "lr is")
	if last := report.Faults[len(report.Faults)-1]; last.Step != 12 || !strings.Contains(last.What, "one of the job's steps") {
		t.Errorf("%v", report.Faults)
	}
}

// unreadable fails in its n-th read.
type unreadable struct {
	n    int
	fail error
}

func (u *unreadable) Read(dst []uint32, start uint64) error {
	if u.n--; u.n < 0 {
		return u.fail
	}
	return tokens.Read(dst, start)
}

func TestWhatCannotBeReadIsNoFault(t *testing.T) {
	p := planOf(t, 1, 12)
	_, j := written(t, honest(t, p, 3))
	fail := errors.New("no disk")
	told := []int64{}
	report, err := ledger.Verify(ledger.Claims{Plan: p, Journal: j, Tokens: &unreadable{10, fail}, Progress: func(step int64) { told = append(told, step) }})
	if !errors.Is(err, fail) || !strings.Contains(err.Error(), "verifying step 2") || !report.True() || report.Steps != 1 || !slices.Equal(told, []int64{1}) {
		t.Errorf("%v, %+v, %v", err, report, told)
	}
}
