package pipeline

import "andrea/model"

// WorkerEvent is what happens to a worker: a message of a coordinator, or the result of
// an effect.
type WorkerEvent interface{ isWorkerEvent() }

// Received is a message of a coordinator, sent under a membership. The ticket of what
// answers a hello without a welcome is 0.
type Received struct {
	Membership Membership
	Message    Message
}

// Unheard reports that the coordinator of a membership answers no signs of life.
type Unheard struct{ Membership Membership }

// LeaveRequested asks the worker to go as soon as it owes nothing.
type LeaveRequested struct{ Reason string }

// EngineOpened is the result of OpenEngine.
type EngineOpened struct{ Buckets int }

// BucketLoaded is the result of LoadBucket.
type BucketLoaded struct{ Digest model.Digest }

// Accumulated is the result of Accumulate.
type Accumulated struct {
	Loss        model.Loss
	TokenDigest model.Digest // of the microbatch, at its place in the lane
	Seconds     float64      // that fetching and computing took
}

// Concluded is the result of Conclude.
type Concluded struct {
	Accumulated
	StateDigest model.Digest
	GradDigest  model.Digest // of the contribution
	SumSquares  []Float      // of the contribution, by bucket; none unless they were asked for
}

// RootPulled is the result of PullRoot.
type RootPulled struct{ Digest model.Digest }

// Updated is the result of Update and of Keep.
type Updated struct{ Digest model.Digest }

// WindowEvaluated is the result of EvalWindow.
type WindowEvaluated struct {
	Loss        model.Loss
	StateDigest model.Digest // measured after the window, when it is the last one
}

// SnapshotCopied is the result of TakeSnapshot.
type SnapshotCopied struct{ Digest model.Digest } // of the copy, measured

// TransferFailed is the result of an effect that could not get what it needs from
// another process, which may have gone or moved on.
type TransferFailed struct{ Err error }

// WorkFailed is the result of any effect that failed for a reason of its own.
type WorkFailed struct{ Err error }

func (Received) isWorkerEvent()        {}
func (Unheard) isWorkerEvent()         {}
func (LeaveRequested) isWorkerEvent()  {}
func (EngineOpened) isWorkerEvent()    {}
func (BucketLoaded) isWorkerEvent()    {}
func (Accumulated) isWorkerEvent()     {}
func (Concluded) isWorkerEvent()       {}
func (RootPulled) isWorkerEvent()      {}
func (Updated) isWorkerEvent()         {}
func (WindowEvaluated) isWorkerEvent() {}
func (SnapshotCopied) isWorkerEvent()  {}
func (TransferFailed) isWorkerEvent()  {}
func (WorkFailed) isWorkerEvent()      {}

// WorkerEffect is what a worker wants done. Handle and Tick return Reply and Leave;
// Work returns the others, of which all but Zero and Fold come back as an event, or
// as TransferFailed or WorkFailed.
type WorkerEffect interface{ isWorkerEffect() }

// Reply sends a message to the coordinator of a membership; a Hello to any.
type Reply struct {
	Membership Membership
	Message    Message
}

// OpenEngine allocates an engine for the job. It comes back as EngineOpened.
type OpenEngine struct{ Job JobSpec }

// LoadBucket loads one bucket of state Step into the engine: pulled from one of the
// members that hold it, or from the coordinator's checkpoint, or computed from the seed.
// It comes back as BucketLoaded.
type LoadBucket struct {
	Step    int64
	Bucket  int
	Holders []WorkerID // none: see Stored
	Stored  bool       // the coordinator has it; else it is state 0, computed from Seed
	Seed    uint64
}

// Zero sets a gradient slot to +0.
type Zero struct{ Slot int }

// Accumulate fetches the tokens of one microbatch and adds its gradient to a slot.
type Accumulate struct {
	Slot       int
	Step       int64
	Lane       int
	Microbatch int
}

// Fold adds slot Src to slot Dst.
type Fold struct{ Dst, Src int }

// Conclude is the last Accumulate of a lease. Its slot is then folded Folds times into the
// one below, which ends in the contribution of lanes [Lo, Hi); the digests of that and of
// the state are taken and, with SumSquares, the sums of squares. The coordinator may pull
// the contribution from the moment on at which its parts are final, until the next Zero of its slot
// or PullRoot. It comes back as Concluded.
type Conclude struct {
	Accumulate
	Folds      int
	Lo, Hi     int
	SumSquares bool
}

// PullRoot gets the root of Step, which the coordinator has summed. Digest is that of the committed one: whatever was
// pulled ahead and has another does not count.
type PullRoot struct {
	Step   int64
	Digest model.Digest
}

// Update applies the root in slot 0.
type Update struct {
	Step  int64 // of the state that it gives
	Scale float32
	Hyper model.Hyper
}

// Keep makes the state state Step, too: a step that is skipped leaves it as it is. It comes
// back as Updated.
type Keep struct{ Step int64 }

// EvalWindow fetches validation window Window, a number in the evaluation's order,
// and computes its loss. After the last one of a worker's it takes the digest of the state.
type EvalWindow struct {
	Window int
	Last   bool
}

// TakeSnapshot copies the state for a checkpoint.
type TakeSnapshot struct{ Step int64 }

// Leave ends the worker: Err is nil when the run ended as it should.
type Leave struct{ Err error }

func (Reply) isWorkerEffect()        {}
func (OpenEngine) isWorkerEffect()   {}
func (LoadBucket) isWorkerEffect()   {}
func (Zero) isWorkerEffect()         {}
func (Accumulate) isWorkerEffect()   {}
func (Fold) isWorkerEffect()         {}
func (Conclude) isWorkerEffect()     {}
func (PullRoot) isWorkerEffect()     {}
func (Update) isWorkerEffect()       {}
func (Keep) isWorkerEffect()         {}
func (EvalWindow) isWorkerEffect()   {}
func (TakeSnapshot) isWorkerEffect() {}
func (Leave) isWorkerEffect()        {}
