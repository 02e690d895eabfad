// Package sim trains whole jobs in one goroutine, from one seed: a coordinator and its
// workers as the state machines of package pipeline, and around them a network that loses
// messages, disks that forget, processes that die, stand still or compute nonsense, and
// supervisors that start them again.
//
// The seed draws the job, the workers and the faults. A strike is one fault that befalls one
// process; it waits for the state of the coordinator, or of the worker, that it was drawn
// for, so that every kind of fault meets every state. Beside the strikes messages are lost,
// doubled, delayed and reordered all the time. After the last strike the faults end, and
// the job must finish soon.
//
// What happens is judged by a trainer of its own that computes the same job in a straight
// line (reference), never by what the machines claim: every decision, state, loss and
// checkpoint has to have its bits. A run may end with an error only where a strike
// justifies it.
//
// That the judge sees what it should is tested, too: testdata/planted has bugs, each of which leaves
// one rule of the protocol out, and a seed of those that CI runs has to fail with it.
//
// Time is virtual: a heap of events, tick units to a tick.
package sim
