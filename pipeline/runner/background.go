package runner

import (
	"context"
	"sync"

	"andrea/pipeline"
)

// background is what a coordinator's loop has done beside it: at most one reduction
// and one checkpoint at a time.
type background struct {
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup
}

func newBackground() *background {
	b := &background{}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Go starts f.
func (b *background) Go(f func()) { b.group.Go(f) }

// end cancels what is under way and waits for it.
func (b *background) end() {
	b.cancel()
	b.group.Wait()
}

// deliver puts the result of something in the background into the inbox. When the
// run has ended meanwhile nobody wants it.
func (c *coordinator) deliver(event pipeline.CoordinatorEvent) {
	select {
	case c.inbox <- event:
	case <-c.background.ctx.Done():
	}
}
