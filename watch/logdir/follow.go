package logdir

import (
	"context"
	"fmt"
	"time"

	"andrea/watch"
)

// Follower shows the logs of a run while they grow.
type Follower struct {
	Dir  *Dir
	Live <-chan watch.Line // what arrives on the bus; a channel that nobody closes
	// Look is when to look again, whether the bus has rung or not.
	Look <-chan time.Time
	// Link tells whether there is a coordinator. It may take a moment.
	Link func() watch.Link
	Emit func(watch.Line) error

	ending watch.Ending
	gaps   watch.Gaps // of the processes whose lines are taken from the bus
}

// Run shows what there is and what comes until the run has ended and everything is shown. ended tells
// whether the run said so, or its processes just went away. The error is ctx's or Emit's.
func (f *Follower) Run(ctx context.Context) (ended bool, err error) {
	f.gaps = watch.Gaps{}
	for {
		link := f.Link() // before reading: what the processes of a run that is gone wrote is all there
		if err := f.read(); err != nil {
			return false, err
		}
		if f.ending.Look(link) {
			return f.ending.Ended(), f.Dir.Torn(f.Emit)
		}
		if err := f.wait(ctx); err != nil {
			return false, err
		}
	}
}

// wait shows what arrives until it is time to look again.
func (f *Follower) wait(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.Look:
			return nil
		case line := <-f.Live:
			if err := f.read(line); err != nil {
				return err
			}
		}
	}
}

// read shows what the files have and what has arrived from processes without a file.
func (f *Follower) read(arrived ...watch.Line) error {
	for more := true; more; {
		select {
		case line := <-f.Live:
			arrived = append(arrived, line)
		default:
			more = false
		}
	}
	if err := f.Dir.Drain(f.emit); err != nil {
		return err
	}
	for _, line := range arrived {
		if err := f.arrived(line); err != nil {
			return err
		}
	}
	return nil
}

// arrived shows a line of the bus, unless a file has it.
func (f *Follower) arrived(line watch.Line) error {
	if f.Dir.Has(line.Process) {
		return nil
	}
	f.Dir.Skip(line.Process)
	if missing := f.gaps.Missing(line); missing > 0 {
		why := fmt.Sprintf("lines lost on the bus before the next one: %d", missing)
		if err := f.emit(watch.Damaged(line.Process, nil, 0, why)); err != nil {
			return err
		}
	}
	return f.emit(line)
}

func (f *Follower) emit(line watch.Line) error {
	f.ending.Saw(line)
	return f.Emit(line)
}
