package chaos

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// watch counts the messages that pass and strikes when it is time. Nothing passes meanwhile.
func (c *cluster) watch(worker int, point string, payload []byte, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.look != nil && !after {
		c.look(c, worker, point, payload)
	}
	if c.over || c.next == len(c.plan.strikes) {
		return
	}
	s := c.plan.strikes[c.next]
	if s.point != point || s.after != after {
		return
	}
	if c.seen++; c.seen < s.nth {
		return
	}
	if s.other {
		worker = (worker + 1) % len(c.workers)
	}
	if !c.strike(s, worker) {
		return // there is nothing to hit: at the next one
	}
	c.tell("%s, of worker %d", s, worker)
	c.table.count(s)
	c.next, c.seen, c.struck = c.next+1, 0, time.Now()
}

// strike makes a fault; false: who is to be hit has ended already.
func (c *cluster) strike(s strike, worker int) (hit bool) {
	w, path := c.workers[worker], c.paths[worker]
	switch s.fault {
	case killWorker:
		return send(syscall.SIGKILL, w)
	case killWorkers:
		return send(syscall.SIGKILL, c.workers...)
	case killCoordinator:
		return send(syscall.SIGKILL, c.coordinator)
	case killAll:
		return send(syscall.SIGKILL, append(c.workers[:len(c.workers):len(c.workers)], c.coordinator)...)
	case stopWorker:
		return pause(w, s.lasts)
	case stopCoordinator:
		return pause(c.coordinator, s.lasts)
	case termWorker:
		return send(syscall.SIGTERM, w)
	case termCoordinator:
		return send(syscall.SIGTERM, c.coordinator)
	case resetLink:
		path.reset()
	case stallLink:
		path.stall(s.lasts)
	case slowLink:
		path.throttle(s.lasts, s.pace)
	case openLink:
		path.halfOpen(s.lasts, s.client)
	case cutAll:
		c.cutAll(s.lasts)
	case restartServer:
		c.foreign.restart()
	}
	return true
}

// cutAll takes the network away for a while: that of the workers, and of the coordinator where it
// reaches its server over one.
func (c *cluster) cutAll(d time.Duration) {
	for _, p := range c.paths {
		p.stall(d)
	}
	if c.path != nil {
		c.path.halfOpen(d, true)
		c.path.stall(d)
	}
}

// send sends a signal to processes; false: all have ended.
func send(s syscall.Signal, to ...*process) (any bool) {
	for _, p := range to {
		select {
		case <-p.done:
		default:
			p.signal(s)
			any = true
		}
	}
	return any
}

// pause stops a process for a while.
func pause(p *process, d time.Duration) bool {
	time.AfterFunc(d, func() { p.signal(syscall.SIGCONT) })
	return send(syscall.SIGSTOP, p)
}

// table counts which faults have struck at which points.
type table struct {
	mu     sync.Mutex
	counts map[string]map[string]int // by point and fault
}

func newTable() *table {
	t := &table{counts: map[string]map[string]int{}}
	for _, p := range points {
		t.counts[p] = map[string]int{}
	}
	return t
}

func (t *table) count(s strike) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[s.point][s.fault]++
}

// String draws it: a row for every point, a column for every fault.
func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for i, f := range faults {
		fmt.Fprintf(&b, "%-10s%s %s\n", "", strings.Repeat("   |", i), f)
	}
	for _, p := range points {
		fmt.Fprintf(&b, "%-10s", p)
		for _, f := range faults {
			count := "."
			if n := t.counts[p][f]; n > 0 {
				count = fmt.Sprint(n)
			}
			fmt.Fprintf(&b, "%4s", count)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// covered fails unless every point was struck at, and every fault struck.
func (t *table) covered(test *testing.T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	struck := map[string]int{}
	for p, row := range t.counts {
		for f, n := range row {
			struck[p] += n
			struck[f] += n
		}
	}
	for _, name := range append(points[:len(points):len(points)], faults...) {
		if struck[name] == 0 {
			test.Errorf("%s: no schedule has struck there", name)
		}
	}
}
