// Package pipeline decides how a training job runs: the job spec, the schedule, the
// records of the journal, and the two state machines that train together, the
// Coordinator and the Worker.
//
// The package is pure. A state machine takes an event and returns effects: what is
// to be sent, written or computed. Package runner executes effects in slice order;
// whatever has a result comes back as an event. Time is a number of ticks. So the
// same code trains on a laptop, on a cluster and inside a test.
//
// One step, as the messages between coordinator (C) and workers (W):
//
//	C -> W  Lease     compute these lanes of step s
//	W -> C  Answer    losses and digests of the contribution
//	C       has the contributions summed along the tree (effect Reduce)
//	C       intent s  is decided and made durable in the journal
//	C -> W  Commit    apply the update that the intent describes
//	W -> C  Applied   the digest of state s; all members have the same
//	C -> W  Eval      validation windows, when they are due
//	W -> C  Evaluated
//	C       record s  is appended to the journal
//	C -> W  Snapshot  copy state s for a checkpoint, when one is due
//	W -> C  SnapshotTaken; the checkpoint is written while step s+1 runs
//
// Workers come and go at any time. A worker says Hello and is welcomed under a ticket;
// it loads the group's state from members, from the checkpoint or from the seed, and
// reports Joined. A member that gives no sign of life, gets nothing done or fails is
// dismissed, and others compute what it owed. When no member is left the coordinator
// gathers the workers that come back and goes on from the highest state that one of them
// holds; a coordinator that was started again begins in the same way.
//
// The coordinator repeats an unanswered message; a worker answers a repeated message
// again. All messages carry the membership that they were sent under, so one that comes
// late is known. So a lost message costs time, never correctness.
package pipeline
