package pipeline

import "andrea/model"

// Protocol is the number of the wire protocol; a worker with another is refused.
const Protocol = 3

// WorkerID names a worker, the same in all its lives.
type WorkerID string

// Message is what coordinator and worker send each other. The concrete types below
// are the whole protocol.
type Message interface{ isMessage() }

// Hello asks to take part. A worker repeats it until it is admitted, and again when it
// hears nothing of its coordinator any more.
type Hello struct {
	Protocol int    `json:"protocol"`
	Class    string `json:"class"`  // engine class
	Device   string `json:"device"` // for people
	// Holds says that the worker's engine holds state Step with that digest.
	Holds  bool         `json:"holds"`
	Step   int64        `json:"step"`
	Digest model.Digest `json:"digest"`
	// Generation and Ticket name the membership that the worker had last; 0: none.
	Generation uint64 `json:"generation"`
	Ticket     int64  `json:"ticket"`
}

// Welcome admits a worker under a new ticket and says which state it shall hold. A worker
// that holds it already keeps it.
type Welcome struct {
	Job    string       `json:"job"` // the resolved job spec in YAML
	Step   int64        `json:"step"`
	Digest model.Digest `json:"digest"` // of the state; zero: not known yet
	// Holders are members to pull the state from; none: it is the coordinator's checkpoint
	// when Stored, else state 0, computed from the seed.
	Holders []WorkerID `json:"holders,omitempty"`
	Stored  bool       `json:"stored"`
}

// Wait answers a hello that cannot be welcomed now: the worker asks again.
type Wait struct {
	Reason string `json:"reason"`
}

// Rejoin ends a membership, not the worker: it keeps its state and says hello again.
type Rejoin struct {
	Reason string `json:"reason"`
}

// Refuse tells a worker why it cannot take part.
type Refuse struct {
	Reason string `json:"reason"`
}

// Joined reports that the worker holds state Step.
type Joined struct {
	Step   int64        `json:"step"`
	Digest model.Digest `json:"digest"`
}

// Lease asks for the contribution of lanes [Lo, Hi) to Step, a subtree of the reduction
// tree. A lease of another round than the one before makes the worker forget what it has
// of the step.
type Lease struct {
	Step  int64 `json:"step"`
	Round int   `json:"round"` // counts the beginnings of Step
	Lo    int   `json:"lo"`
	Hi    int   `json:"hi"`
}

// Cancel takes back all leases of Step: the worker may forget them.
type Cancel struct {
	Step int64 `json:"step"`
}

// LaneResult is the loss of one lane.
type LaneResult struct {
	LossSum     Float        `json:"loss_sum"` // nats
	Tokens      int64        `json:"tokens"`
	TokenDigest model.Digest `json:"token_digest"` // of the ids as the worker received them
}

// Answer is a finished lease.
type Answer struct {
	Step        int64        `json:"step"`
	Round       int          `json:"round"`
	Lo          int          `json:"lo"`
	Hi          int          `json:"hi"`
	StateDigest model.Digest `json:"state_digest"` // of the state it started from, taken after the last lane
	Lanes       []LaneResult `json:"lanes"`
	GradDigest  model.Digest `json:"grad_digest"` // of the contribution
	SumSquares  []Float      `json:"sum_squares"` // of the contribution, by bucket; none unless it is the root
	Seconds     float64      `json:"seconds"`     // that it took
}

// Commit orders the update of Step.
type Commit struct {
	Step       int64        `json:"step"`
	Action     string       `json:"action"`
	RootDigest model.Digest `json:"root_digest"`
	Scale      float32      `json:"scale"`
	Hyper      model.Hyper  `json:"hyper"`
}

// Applied reports the digest of state Step.
type Applied struct {
	Step   int64        `json:"step"`
	Digest model.Digest `json:"digest"`
}

// Eval asks for the losses of the validation windows [Lo, Hi) in state Step.
type Eval struct {
	Step int64 `json:"step"`
	Lo   int   `json:"lo"`
	Hi   int   `json:"hi"`
}

// Evaluated carries one loss sum for every window of an Eval, in window order.
type Evaluated struct {
	Step        int64        `json:"step"`
	Lo          int          `json:"lo"`
	Hi          int          `json:"hi"`
	Sums        []Float      `json:"sums"`
	Tokens      int64        `json:"tokens"`       // of all windows
	StateDigest model.Digest `json:"state_digest"` // of the state, taken after the last window
}

// Snapshot asks the worker to keep a copy of state Step for the checkpoint.
type Snapshot struct {
	Step int64 `json:"step"`
}

// SnapshotTaken reports that the copy can be read.
type SnapshotTaken struct {
	Step   int64        `json:"step"`
	Digest model.Digest `json:"digest"` // of the copy
}

// Heartbeat is a sign of life. A worker sends one every tick, whatever it does, as a
// request: the coordinator answers with nothing, which is its own sign of life.
type Heartbeat struct {
	Progress uint64 `json:"progress"` // counts what the worker has got done
}

// Leaving says that the worker will go. It is released when it owes nothing any more. It is also the
// answer to Finish.
type Leaving struct {
	Reason string `json:"reason"`
}

// Finish ends the worker's part in the run.
type Finish struct {
	Complete bool   `json:"complete"` // all steps are committed
	Reason   string `json:"reason"`
}

// Failed reports that the worker cannot go on.
type Failed struct {
	Reason string `json:"reason"`
}

func (Hello) isMessage()         {}
func (Welcome) isMessage()       {}
func (Wait) isMessage()          {}
func (Rejoin) isMessage()        {}
func (Refuse) isMessage()        {}
func (Leaving) isMessage()       {}
func (Joined) isMessage()        {}
func (Lease) isMessage()         {}
func (Cancel) isMessage()        {}
func (Answer) isMessage()        {}
func (Commit) isMessage()        {}
func (Applied) isMessage()       {}
func (Eval) isMessage()          {}
func (Evaluated) isMessage()     {}
func (Snapshot) isMessage()      {}
func (SnapshotTaken) isMessage() {}
func (Heartbeat) isMessage()     {}
func (Finish) isMessage()        {}
func (Failed) isMessage()        {}
