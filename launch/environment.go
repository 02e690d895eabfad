package launch

import (
	"context"

	"andrea/pipeline"
	"andrea/pipeline/transport"
	"andrea/vfs"
)

// Environment is the outside world of a run.
type Environment struct {
	FS     vfs.FS
	Engine Engine
	// Bus, unless nil, wraps every connection that is opened in this process, so that
	// tests can count, lose and cut messages.
	Bus func(transport.Bus) transport.Bus
	// Version is the program and its version, written into checkpoints.
	Version string
	// Notify is told what happens in a run, in order, from one goroutine at a time.
	Notify func(pipeline.Notice)
	// Warn is told what does not end the run, such as a log that cannot be written; nil:
	// nobody is told.
	Warn func(error)
	// Preparing, when it is done, ends Create and Open, which read the whole dataset; nil:
	// nothing does.
	Preparing context.Context
	// Stop carries a reason to end the run at the last confirmed state.
	Stop <-chan string
	// OtherEngine lets Open go on with another engine class than before, and so with other bits.
	OtherEngine bool
	// Crew says who computes.
	Crew Crew
	// Serving, unless nil, is told once where the server listens and which file lets a
	// worker in; none where the server is somebody else's.
	Serving func(address, keyFile string)
	// Listen is where the embedded server listens: host and port, of this machine alone unless
	// TLSCert and TLSKey are given; empty: a port of loopback that is free.
	Listen string
	// TLSCert and TLSKey are PEM files of the embedded server's certificate and its key; empty: it
	// speaks no TLS.
	TLSCert, TLSKey string
	// Keys is a file as MakeKeys writes it, with the keys of those who connect to the embedded
	// server; empty: they are made at the first start.
	Keys string
	// NATS is a server that somebody else runs; without URL the run has an embedded one.
	NATS Remote
	// HTTP is where the coordinator answers probes; empty: nowhere.
	HTTP string
}

// Crew is the workers of a run. The zero value is one worker in this process.
type Crew struct {
	Workers int      // how many train together; 0 counts as 1
	Command []string // starts 'andrea worker'; the run starts Workers child processes with it
	// Each gives the further arguments of a child process, which are counted from 0; nil: there are none.
	Each      func(child int) []string
	Elsewhere bool // they are started by somebody else, with the key in the run's folder
}

// preparing is Preparing, or a context that is never done.
func (e Environment) preparing() context.Context {
	if e.Preparing == nil {
		return context.Background()
	}
	return e.Preparing
}
