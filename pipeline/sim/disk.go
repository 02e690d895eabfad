package sim

import (
	"errors"
	"slices"

	"andrea/model"
	"andrea/pipeline"
)

// disk is the folder of a run: what survives its processes.
type disk struct {
	claims      uint64           // newest generation
	journal     *journalFile     // a coordinator that starts puts a new one in its place
	checkpoints map[int64]stored // by step
}

// journalFile is an open file; one that was replaced can still be appended to.
type journalFile struct {
	data    []byte
	durable int // bytes that were synced
}

// stored is a checkpoint on disk.
type stored struct {
	state  saved
	digest model.Digest
	record string // digest of the commit record's line
	torn   bool   // it is damaged and is passed over
}

// crash loses what was not synced, but for torn bytes of it.
func (f *journalFile) crash(c *chance) {
	kept := f.durable
	if lost := len(f.data) - f.durable; lost > 0 {
		kept += c.below(lost + 1)
	}
	f.data, f.durable = f.data[:kept], kept
}

// reopen reads the journal, cuts a torn line off and puts a copy in its place.
func (d *disk) reopen() (*pipeline.Journal, error) {
	journal, err := pipeline.ParseJournal(d.journal.data)
	if err != nil {
		return nil, err
	}
	data := slices.Clone(d.journal.data[:len(d.journal.data)-journal.Torn])
	d.journal = &journalFile{data: data, durable: len(data)}
	return journal, nil
}

// newest is the newest intact checkpoint whose record is in the journal; step -1: none.
func (d *disk) newest(journal *pipeline.Journal) (step int64, s stored) {
	step = -1
	for at, c := range d.checkpoints {
		if at > step && !c.torn && c.record == journal.CommitDigest(at) {
			step, s = at, c
		}
	}
	return step, s
}

var (
	errDisk = errors.New("there is no space left")
	errCopy = errors.New("the copy cannot be reached")
)

// retain deletes what keep no longer covers after the checkpoint of step.
func (d *disk) retain(step int64, keep int) (deleted []int) {
	var steps []int64
	for at := range d.checkpoints {
		if at <= step {
			steps = append(steps, at)
		}
	}
	slices.Sort(steps)
	for ; len(steps) > keep; steps = steps[1:] {
		delete(d.checkpoints, steps[0])
		deleted = append(deleted, int(steps[0]))
	}
	return deleted
}
