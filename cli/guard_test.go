package cli

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"
)

// The second signal ends the program, unless it is the first one's double.
func TestSecondSignal(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	g := newGuard(context.Background(), outside{})
	defer g.close()
	g.train()
	for _, c := range []struct {
		signal os.Signal
		after  time.Duration
		second bool
	}{
		{syscall.SIGTERM, 0, false},
		{syscall.SIGTERM, 0, false},
		{os.Interrupt, doubleTime - 1, false},
		{os.Interrupt, doubleTime, true},
		{syscall.SIGTERM, time.Hour, true},
	} {
		if second := g.signal(c.signal, start.Add(c.after)); second != c.second {
			t.Errorf("%v after %v: ends the program: %v, want %v", c.signal, c.after, second, c.second)
		}
	}
	if reason, code := <-g.stop, g.code(); reason != "SIGTERM" || code != exitTerminated || len(g.stop) > 0 {
		t.Errorf("the run stops because of %s with code %d, and %d times more", reason, code, len(g.stop))
	}
}
