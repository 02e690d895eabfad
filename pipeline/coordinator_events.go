package pipeline

import "andrea/model"

// CoordinatorEvent is what happens to a coordinator.
type CoordinatorEvent interface{ isCoordinatorEvent() }

// FromWorker is a message that one life of a worker sent under a ticket; a hello has
// none.
type FromWorker struct {
	Worker      WorkerID
	Incarnation string
	Ticket      int64
	Message     Message
}

// IntentDurable is the result of WriteIntent.
type IntentDurable struct{ Step int64 }

// CheckpointWritten is the result of WriteCheckpoint.
type CheckpointWritten struct {
	Step     int64
	Path     string // of its folder
	Deleted  []int  // steps whose checkpoints went
	Worker   WorkerID
	Err      error
	CopyLost bool // Err is about reading the worker's copy, not about the disk
}

// DiskFailed reports that the journal could not be written.
type DiskFailed struct{ Err error }

// Reduced is the result of Reduce. When Err is not nil, Worker is whose contribution
// is the reason: it did not arrive, or, with Wrong, is not what the worker answered.
type Reduced struct {
	Step       int64
	Attempt    int
	RootDigest model.Digest
	SumSquares []Float // of the root, by bucket
	Seconds    float64 // that it took
	Err        error
	Worker     WorkerID
	Wrong      bool
}

// Superseded reports that a later coordinator of the run has been started.
type Superseded struct{ Err error }

// WorkerLost reports that a worker's process has ended.
type WorkerLost struct {
	Worker  WorkerID
	Reason  string
	GivenUp bool // it is not started again
}

// NobodyComes reports that all workers have ended and no other will come.
type NobodyComes struct{ Reason string }

// Paused reports that this process stood still for a while: silence of the workers in
// that time means nothing.
type Paused struct{}

// StopRequested asks for a checkpoint of the last confirmed state and an end.
type StopRequested struct{ Reason string }

func (FromWorker) isCoordinatorEvent()        {}
func (IntentDurable) isCoordinatorEvent()     {}
func (CheckpointWritten) isCoordinatorEvent() {}
func (DiskFailed) isCoordinatorEvent()        {}
func (Superseded) isCoordinatorEvent()        {}
func (Reduced) isCoordinatorEvent()           {}
func (WorkerLost) isCoordinatorEvent()        {}
func (NobodyComes) isCoordinatorEvent()       {}
func (Paused) isCoordinatorEvent()            {}
func (StopRequested) isCoordinatorEvent()     {}

// CoordinatorEffect is what a coordinator wants done.
type CoordinatorEffect interface{ isCoordinatorEffect() }

// Send sends a message to one life of a worker, under its ticket; 0: it has none.
type Send struct {
	Worker      WorkerID
	Incarnation string
	Ticket      int64
	Message     Message
}

// Contribution is where the gradient of a lease lies.
type Contribution struct {
	Worker      WorkerID
	Incarnation string
	Lo, Hi      int
	Digest      model.Digest
}

// Reduce pulls the contributions of a step, which cover the tree, sums them along it
// in the background and keeps the root for the members to pull. It comes back as
// Reduced. A later Reduce or CancelReduce takes it back.
type Reduce struct {
	Step          int64
	Attempt       int            // counts the reductions of all steps
	Contributions []Contribution // by lane
}

// Anticipate names the contributions that the next Reduce will probably have, while they are
// still computed; their digests are not known. The executor may begin to pull what is
// final, or leave it.
type Anticipate struct {
	Step          int64
	Contributions []Contribution // by lane
}

// CancelReduce takes the reduction back that is under way; nobody wants its result.
type CancelReduce struct{}

// WriteIntent appends an intent to the journal and makes it durable. It comes back
// as IntentDurable or DiskFailed.
type WriteIntent struct{ Intent Intent }

// WriteCommit appends a commit record to the journal; the next WriteIntent or
// WriteCheckpoint makes it durable. The executor has the clock: it fills in Seconds
// and TokensPerSecond and announces the step. Only a failure comes back, as
// DiskFailed.
type WriteCommit struct{ Record CommitRecord }

// WriteCheckpoint makes the journal durable, then reads the worker's snapshot of
// state Step and writes the checkpoint in the background. It comes back as
// CheckpointWritten.
type WriteCheckpoint struct {
	Worker      WorkerID
	Incarnation string
	Step        int64
	Digest      model.Digest
}

// Announce tells people and logs what happened.
type Announce struct{ Notice Notice }

// End ends the run.
type End struct{ Outcome Outcome }

func (Send) isCoordinatorEffect()            {}
func (Reduce) isCoordinatorEffect()          {}
func (CancelReduce) isCoordinatorEffect()    {}
func (Anticipate) isCoordinatorEffect()      {}
func (WriteIntent) isCoordinatorEffect()     {}
func (WriteCommit) isCoordinatorEffect()     {}
func (WriteCheckpoint) isCoordinatorEffect() {}
func (Announce) isCoordinatorEffect()        {}
func (End) isCoordinatorEffect()             {}

// Notice is something worth telling.
type Notice interface{ isNotice() }

// WorkerJoined says that a worker holds the group's state.
type WorkerJoined struct {
	Worker WorkerID
	Device string
	Step   int64
}

// StepDone is a confirmed step. Again marks one that an earlier run had recorded
// and that was recomputed to the same bits.
type StepDone struct {
	Record CommitRecord
	Again  bool
}

// WorkerRefused says why a worker was not admitted.
type WorkerRefused struct {
	Worker WorkerID
	Reason string
}

// CheckpointSaved says that a checkpoint lies on disk.
type CheckpointSaved struct {
	Step    int64
	Path    string // of its folder
	Deleted []int  // steps whose checkpoints went
}

// WorkerLeft says that a member has gone, and why. Expelled marks one that computed
// something wrong.
type WorkerLeft struct {
	Worker   WorkerID
	Reason   string
	Expelled bool
}

// StateChosen says which state the run goes on from after its members were gone.
// Holders is how many workers hold it; 0: it comes from the newest checkpoint, or from the
// seed.
type StateChosen struct {
	Step    int64
	Holders int
}

// AuditLeftOut says that the job wants a lease computed by a second worker, and that there was none, or none
// with gradient slots to spare. Only the first such lease of a coordinator is told; Status counts all.
type AuditLeftOut struct {
	Step   int64
	Lo, Hi int // lanes
}

func (AuditLeftOut) isNotice()    {}
func (WorkerLeft) isNotice()      {}
func (StateChosen) isNotice()     {}
func (WorkerJoined) isNotice()    {}
func (StepDone) isNotice()        {}
func (WorkerRefused) isNotice()   {}
func (CheckpointSaved) isNotice() {}

// Outcome is how a run ended.
type Outcome struct {
	Step       int64  // the last confirmed step
	Complete   bool   // all steps of the job are committed
	Checkpoint int64  // step of the newest checkpoint; -1 if there is none
	Stopped    string // why it ended early on request; empty if it did not
	Err        error  // why it failed; nil if it did not
}

// Start is the state that a coordinator begins from.
type Start struct {
	Step       int64        // of the checkpoint; 0: before training
	Digest     model.Digest // of the checkpoint's state; zero when there is no checkpoint
	Checkpoint bool         // state Step is a checkpoint on disk
	Class      string       // engine class that the run began with; empty: the first worker's
	Workers    int          // how many shall begin together, at least 1; more may come, and any may go
	Generation uint64       // of this coordinator, at least 1
	Alone      bool         // its workers end with its process: none can hold a newer state from before
	Silence    int          // ticks without a sign of life after which a worker is lost; 0: LostTicks
	Journal    *Journal     // what earlier runs recorded, at least all steps up to Step; only read
}
