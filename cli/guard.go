package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// doubleTime is how long after the first signal another one is taken for its double.
// GNU timeout signals its child and then the child's group, so one order comes twice.
const doubleTime = 500 * time.Millisecond

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
	since    time.Time // when first came
}

// newGuard listens to the outside's signals until it is closed.
func newGuard(ctx context.Context, o outside) *guard {
	g := &guard{stop: make(chan string, 1), done: make(chan struct{})}
	g.preparing, g.cancel = context.WithCancel(ctx)
	go func() {
		for {
			select {
			case s := <-o.signals:
				if g.signal(s, time.Now()) {
					fmt.Fprintln(o.stderr, "andrea: ended at once by a second signal")
					os.Exit(exitCode(s))
				}
			case <-g.done:
				return
			}
		}
	}()
	return g
}

// signal takes a signal in and reports whether it is a second one, which ends the program.
func (g *guard) signal(s os.Signal, now time.Time) (second bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first != nil {
		return now.Sub(g.since) >= doubleTime
	}
	g.first, g.since = s, now
	g.cancel()
	if g.training {
		g.stop <- reason(s)
	}
	return false
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
	switch s {
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	}
	return "SIGINT"
}

func exitCode(s os.Signal) int {
	switch s {
	case syscall.SIGTERM:
		return exitTerminated
	case syscall.SIGHUP:
		return exitHangup
	}
	return exitInterrupt
}

// listen has the signals sent that end a command in order. SIGHUP, of a terminal that was closed, stays
// ignored where it was when the program started: by nohup.
func listen(signals chan<- os.Signal) {
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
}

// outlivePipes makes a write to a pipe that nobody reads any more an error. It would end the
// program, as it should where output is all that a command is for.
func outlivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
