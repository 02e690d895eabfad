package pipeline

import (
	"fmt"

	"andrea/model"
)

// maxDamaged is how many states and roots may arrive with a wrong digest, and no update between
// them, before the worker takes the fault for its own.
const maxDamaged = 3

// loadTask fills the engine with a state, bucket by bucket.
type loadTask struct {
	welcome Welcome
	bucket  int
	digest  model.Digest // of the buckets so far
}

// welcomed begins a membership: the worker loads the state that it names, unless it
// holds it.
func (w *Worker) welcomed(membership Membership, m Welcome) []WorkerEffect {
	if membership == w.membership && w.holds && w.task == nil && m.Step == w.step {
		return w.reply(Joined{w.step, w.digest}) // the answer was lost
	}
	if !membership.Follows(w.membership) {
		return nil
	}
	w.drop()
	w.snapshot = nil // whoever could not read it asks for another one
	w.membership, w.over, w.hailing = membership, false, false
	if err := w.adopt(m.Job); err != nil {
		return w.fail(fmt.Errorf("joining the run: %w", err))
	}
	if w.holds && w.step == m.Step && (m.Digest == model.Digest{} || m.Digest == w.digest) {
		return w.reply(Joined{w.step, w.digest})
	}
	if m.Step > 0 && len(m.Holders) == 0 && !m.Stored {
		return w.hailAgain() // it was the one to hold that state, and has gone on since its hello
	}
	t := &loadTask{welcome: m}
	w.task, w.holds, w.applied, w.eval = t, false, Applied{}, nil
	if w.buckets == 0 {
		return w.do(OpenEngine{Job: w.job})
	}
	return w.do(t.next(w.job.Seed))
}

// adopt takes the job that the coordinator trains, once.
func (w *Worker) adopt(text string) error {
	if w.jobText == text {
		return nil
	}
	if w.jobText != "" {
		return fmt.Errorf("the coordinator trains another job than the one before: start this worker again")
	}
	job, err := ParseJobSpec([]byte(text))
	if err != nil {
		return fmt.Errorf("its job spec cannot be read: %w", err)
	}
	if w.microbatches, err = job.microbatchesPerLane(); err != nil {
		return err
	}
	w.job, w.jobText = job, text
	return nil
}

func (w *Worker) engineOpened(e EngineOpened) []WorkerEffect {
	w.buckets = e.Buckets
	if t, ok := w.task.(*loadTask); ok {
		return w.do(t.next(w.job.Seed))
	}
	return nil
}

func (t *loadTask) next(seed uint64) WorkerEffect {
	m := t.welcome
	return LoadBucket{Step: m.Step, Bucket: t.bucket, Holders: m.Holders, Stored: m.Stored, Seed: seed}
}

func (w *Worker) bucketLoaded(e BucketLoaded) []WorkerEffect {
	t, ok := w.task.(*loadTask)
	if !ok {
		return nil
	}
	t.digest = t.digest.Add(e.Digest)
	if t.bucket++; t.bucket < w.buckets {
		return w.do(t.next(w.job.Seed))
	}
	if known := t.welcome.Digest; known != (model.Digest{}) && known != t.digest {
		err := fmt.Errorf("loading state %d: its digest is %s: the coordinator said %s: the transfer, the checkpoint or the memory is damaged", t.welcome.Step, t.digest, known)
		if len(t.welcome.Holders) == 0 && !t.welcome.Stored {
			return w.fail(err) // it was computed here
		}
		return w.arrivedDamaged(err)
	}
	w.task, w.holds, w.step, w.digest = nil, true, t.welcome.Step, t.digest
	return w.reply(Joined{w.step, w.digest})
}

// arrivedDamaged looks for the coordinator again after a transfer that brought other bits than it
// should: whoever sent them may be at fault, or may have gone on meanwhile.
func (w *Worker) arrivedDamaged(err error) []WorkerEffect {
	if w.damaged++; w.damaged < maxDamaged {
		return w.hailAgain()
	}
	return w.fail(err)
}
