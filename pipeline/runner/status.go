package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/pipeline/wire"
)

// recentSteps is how many steps the remaining time is judged by.
const recentSteps = 15

// Report is how a live run goes, as its coordinator tells it.
type Report struct {
	Run        string         `json:"run"`
	Generation uint64         `json:"generation"`
	Phase      string         `json:"phase"`
	Step       int64          `json:"step"` // last confirmed
	Steps      int64          `json:"steps"`
	Class      string         `json:"engine_class"` // empty until a worker has joined
	Precision  string         `json:"precision"`    // the job's
	Workers    []WorkerReport `json:"workers"`
	// Last is the record of the last confirmed step, before the first one of this generation that of its
	// start; nil when there is none.
	Last *pipeline.CommitRecord `json:"last"`
	// Validation is the newest record that carries a validation loss; nil when there is none.
	Validation *pipeline.CommitRecord `json:"validation"`
	ETASeconds pipeline.Float         `json:"eta_seconds"` // NaN before the first step that this generation records
	Checkpoint int64                  `json:"checkpoint"`  // newest step with one on disk; -1: none
	// AuditsLeftOut counts the leases of this generation that the job wanted a second worker for, and had none.
	AuditsLeftOut int `json:"audits_left_out"`
}

// WorkerReport is one worker of a live run.
type WorkerReport struct {
	ID     string `json:"id"`
	Device string `json:"device"`
	Joined bool   `json:"joined"` // it holds the group's state
}

// AskStatus asks the coordinator of a run how it goes. The error is the bus's, such as
// transport.ErrNoResponders, or tells of an answer that cannot be read.
func AskStatus(ctx context.Context, bus transport.Bus, run string) (Report, error) {
	var r Report
	data, err := bus.Request(ctx, wire.Status(run), nil)
	if err != nil {
		return r, fmt.Errorf("asking the coordinator of run %s for its status: %w", run, err)
	}
	if len(data) > wire.MaxControlBytes {
		return r, fmt.Errorf("the status of run %s has %d bytes: at most %d are read", run, len(data), wire.MaxControlBytes)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, fmt.Errorf("reading the status of run %s: %w: are both programs of one version?", run, err)
	}
	return r, nil
}

// board holds the newest report. The loop keeps it; requests read a copy at any
// moment, also while the loop waits for the disk.
type board struct {
	report Report
	recent []float64 // seconds of the newest steps that this generation recorded
	shown  atomic.Pointer[Report]
}

// openBoard serves the status from now on.
func (c *coordinator) openBoard(run string) (transport.Subscription, error) {
	c.board.begin(run, c.Generation, c.Start)
	c.board.report.Precision = c.Plan.Spec.Precision
	c.board.show(c.machine.Status())
	return c.Control.Subscribe(wire.Status(run), func(m transport.Message) {
		data, err := json.Marshal(c.board.shown.Load())
		if err == nil {
			_ = m.Respond(data) // who asked asks again, or has gone
		}
	})
}

// begin fills in what is known before the first event: what the journal holds up to
// the state that the run starts from.
func (b *board) begin(run string, generation uint64, start pipeline.Start) {
	b.report = Report{Run: run, Generation: generation, Workers: []WorkerReport{}, Checkpoint: -1, ETASeconds: pipeline.Float(math.NaN())}
	if start.Checkpoint {
		b.report.Checkpoint = start.Step
	}
	if start.Journal == nil {
		return
	}
	b.report.Last, b.report.Validation = LastRecords(start.Journal, start.Step)
}

// LastRecords are the newest commit record up to a step and the newest with a
// validation loss; nil where there is none.
func LastRecords(j *pipeline.Journal, step int64) (last, validation *pipeline.CommitRecord) {
	for ; step > 0; step-- {
		r := j.Step(step)
		if r == nil || r.Commit == nil {
			continue
		}
		if last == nil {
			last = r.Commit
		}
		if r.Commit.ValLoss != nil {
			return last, r.Commit
		}
	}
	return last, nil
}

// note takes in what happened, before anybody else is told.
func (b *board) note(n pipeline.Notice, s pipeline.Status) {
	switch n := n.(type) {
	case pipeline.StepDone:
		b.report.Last = &n.Record
		if n.Record.ValLoss != nil {
			b.report.Validation = &n.Record
		}
		if !n.Again { // its seconds are those of an earlier run
			b.took(n.Record.Seconds)
		}
	case pipeline.CheckpointSaved:
		b.report.Checkpoint = n.Step
	}
	b.show(s)
}

// took remembers the time of a step, in seconds.
func (b *board) took(seconds float64) {
	if len(b.recent) == recentSteps {
		b.recent = slices.Delete(b.recent, 0, 1)
	}
	b.recent = append(b.recent, seconds)
}

// show puts the report where requests find it.
func (b *board) show(s pipeline.Status) {
	r := b.report
	r.Phase, r.Step, r.Steps, r.Class, r.AuditsLeftOut = s.Phase, s.Step, s.Steps, s.Class, s.LeftOut
	r.Workers = make([]WorkerReport, len(s.Workers))
	for i, w := range s.Workers {
		r.Workers[i] = WorkerReport{ID: string(w.Worker), Device: w.Device, Joined: w.Joined}
	}
	if len(b.recent) > 0 {
		r.ETASeconds = pipeline.Float(median(b.recent) * float64(max(0, s.Steps-s.Step)))
	}
	b.shown.Store(&r)
}

// median is not moved by a step that took longer for a validation loss. There is at
// least one value.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	return (sorted[middle] + sorted[len(sorted)-1-middle]) / 2
}
