// Package pool runs numbered pieces of work on a fixed set of goroutines that spin
// between jobs and park when idle. The jobs of a training step follow each other within
// microseconds, where waking a parked goroutine would cost more than the job itself.
package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Spinning is bounded: a waiter gives its core to other goroutines every yieldEvery
// rounds and parks after spinRounds (about a millisecond), so that an idle pool costs nothing.
const (
	spinRounds = 1 << 14
	yieldEvery = 64
)

// open is the bit of Pool.gate that admits workers; the bits below count those inside.
const open = 1 << 32

// cacheLine separates words that different cores write all the time.
type cacheLine [64]byte

// Pool hands out work to a fixed number of workers, the caller of Each among them.
type Pool struct {
	workers int
	busy    atomic.Bool // one Each at a time

	n      int                 // the job; written while the gate is closed and nobody inside
	f      func(worker, i int) // read only by those whom the open gate let in
	failed atomic.Pointer[failure]

	_    cacheLine
	next atomic.Int64 // the next piece to hand out
	_    cacheLine
	gate atomic.Int64 // open bit + workers inside; the caller is not counted
	_    cacheLine
	job  atomic.Uint64 // rises with every job; what idle workers watch
	_    cacheLine

	closed atomic.Bool
	parked atomic.Int32 // goroutines in or about to enter wake.Wait
	mu     sync.Mutex
	wake   sync.Cond
}

// failure carries the first panic of a job to the caller of Each.
type failure struct{ value any }

// New starts a pool of the given number of workers (at least 1), of which the caller of
// Each is one. Close ends the others.
func New(workers int) *Pool {
	p := &Pool{workers: max(workers, 1)}
	p.wake.L = &p.mu
	for w := 1; w < p.workers; w++ {
		go p.serve(w)
	}
	return p
}

// Workers returns the number of workers, the caller included. Worker numbers are below it.
func (p *Pool) Workers() int { return p.workers }

// Close ends the pool's goroutines. No Each may run or follow.
func (p *Pool) Close() {
	p.closed.Store(true)
	p.rouse()
}

// Each calls f(worker, i) once for every i in [0, n), spread over all workers, and returns
// when all calls have returned. No two calls with the same worker number overlap, so f may
// use scratch memory of its worker; which worker gets which i is not defined. A panic in f
// stops the handing out and is raised again in the caller. Only one Each runs at a time and
// f must not call Each: both are programming errors and panic.
func (p *Pool) Each(n int, f func(worker, i int)) {
	if !p.busy.CompareAndSwap(false, true) {
		panic("pool: Each called while another Each runs")
	}
	defer p.busy.Store(false)
	if p.workers == 1 || n <= 1 {
		for i := range n {
			f(0, i)
		}
		return
	}
	p.n, p.f = n, f
	p.failed.Store(nil)
	p.next.Store(0)
	p.gate.Add(open)
	p.job.Add(1)
	p.rouse()
	p.work(0)
	p.gate.Add(-open)
	// Workers that did not come in time need not be waited for, only those inside.
	p.await(func() bool { return p.gate.Load() == 0 })
	p.f = nil
	if bad := p.failed.Load(); bad != nil {
		panic(bad.value)
	}
}

// work takes pieces until none is left. A panic is kept for the caller of Each.
func (p *Pool) work(worker int) {
	defer func() {
		if v := recover(); v != nil {
			p.failed.CompareAndSwap(nil, &failure{v})
			p.next.Store(int64(p.n))
		}
	}()
	for {
		i := int(p.next.Add(1)) - 1
		if i >= p.n {
			return
		}
		p.f(worker, i)
	}
}

// serve is the life of one worker goroutine.
func (p *Pool) serve(worker int) {
	seen := uint64(0)
	for {
		p.await(func() bool { return p.job.Load() != seen || p.closed.Load() })
		if p.closed.Load() {
			return
		}
		seen = p.job.Load()
		if p.gate.Add(1)&open != 0 {
			p.work(worker)
		}
		if p.gate.Add(-1) == 0 {
			p.rouse() // the caller may have parked while it waited for the last one
		}
	}
}

// await returns once ready reports true: it spins, then parks until rouse.
func (p *Pool) await(ready func() bool) {
	for round := 1; round <= spinRounds; round++ {
		if ready() {
			return
		}
		if round%yieldEvery == 0 {
			runtime.Gosched()
		} else {
			pause()
		}
	}
	p.mu.Lock()
	p.parked.Add(1) // before ready looks: whoever changes its answer then sees us parked
	for !ready() {
		p.wake.Wait()
	}
	p.parked.Add(-1)
	p.mu.Unlock()
}

// rouse wakes what is parked.
func (p *Pool) rouse() {
	if p.parked.Load() == 0 {
		return
	}
	p.mu.Lock()
	p.wake.Broadcast()
	p.mu.Unlock()
}
