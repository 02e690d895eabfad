// Package runner executes what the state machines of package pipeline decide. It
// owns the clock, the journal file, the connections and the engine; it decides
// nothing about training.
//
// Coordinate and Work are the two loops. Each has one goroutine that hands events to
// its state machine and executes the effects in order; subscriptions only put
// messages into its inbox.
package runner

import "time"

// tickInterval is the length of a tick of the state machines.
const tickInterval = 500 * time.Millisecond

// A worker's ticks until it is welcomed: a hello is small, and a coordinator that has just
// started, perhaps in the same process, should not wait for the next.
const (
	firstHello    = 2 * time.Millisecond // doubled with every one
	helloInterval = 50 * time.Millisecond
)

// inboxSize bounds the messages that wait for a loop. What comes on top is dropped:
// the protocol repeats what was not answered.
const inboxSize = 256
