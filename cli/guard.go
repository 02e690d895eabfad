package cli

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// guard turns signals into an orderly end: the first one cancels what is being
// prepared, or asks the run for a checkpoint; the second ends the program at once.
type guard struct {
	preparing context.Context
	cancel    context.CancelFunc
	stop      chan string // reason for the run to stop
	done      chan struct{}

	mu       sync.Mutex
	training bool
	first    os.Signal // nil: none has come
}

// newGuard listens to the outside's signals until it is closed.
func newGuard(ctx context.Context, o outside) *guard {
	g := &guard{stop: make(chan string, 1), done: make(chan struct{})}
	g.preparing, g.cancel = context.WithCancel(ctx)
	go func() {
		for {
			select {
			case s := <-o.signals:
				g.signal(o, s)
			case <-g.done:
				return
			}
		}
	}()
	return g
}

func (g *guard) signal(o outside, s os.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first != nil {
		fmt.Fprintln(o.stderr, "andrea: ended at once by a second signal")
		os.Exit(exitCode(s))
	}
	g.first = s
	g.cancel()
	if g.training {
		g.stop <- reason(s)
	}
}

// train says that from now on a signal stops the run; one that came before does too.
func (g *guard) train() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.training = true
	if g.first != nil {
		g.stop <- reason(g.first)
	}
}

func (g *guard) close() {
	close(g.done)
	g.cancel()
}

// code is the exit code of a run that was stopped.
func (g *guard) code() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		return exitFailed // the run stopped by itself
	}
	return exitCode(g.first)
}

// signalled reports that a signal has come.
func (g *guard) signalled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.first != nil
}

// explain replaces the error of an interrupted preparation.
func (g *guard) explain(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		return err
	}
	return exitError{exitCode(g.first), fmt.Errorf("%s while preparing: nothing was trained: type the same command again", reason(g.first))}
}

func reason(s os.Signal) string {
	if s == syscall.SIGTERM {
		return "SIGTERM"
	}
	return "SIGINT"
}

func exitCode(s os.Signal) int {
	if s == syscall.SIGTERM {
		return exitTerminated
	}
	return exitInterrupt
}
