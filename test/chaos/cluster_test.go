package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds a run that should have ended long before.
const patience = 1 * time.Minute

// cluster is a run's processes, the proxies between them and what strikes at them. Who ends by
// a strike is started again, as a supervisor does it.
type cluster struct {
	t       testing.TB
	dir     string // the run is in dir/run
	plan    schedule
	foreign *foreignServer // nil: the coordinator has a server of its own
	table   *table
	look    func(c *cluster, worker int, point string, payload []byte) // sees every message that is about to pass; nil: nobody does
	began   time.Time
	exits   chan *process
	paths   []*proxy // of the workers to the server
	path    *proxy   // of the coordinator; nil: the server is in its process

	mu          sync.Mutex // holds back all messages while it is held
	coordinator *process
	workers     []*process
	next        int       // strike
	seen        int       // messages of its point so far
	struck      time.Time // when the newest strike was
	over        bool
	story       strings.Builder
}

// newCluster starts a run and its workers.
func newCluster(t testing.TB, plan schedule, table *table) *cluster {
	t.Helper()
	return newClusterWith(t, plan, table, nil)
}

// newClusterWith is newCluster with somebody who looks.
func newClusterWith(t testing.TB, plan schedule, table *table, look func(c *cluster, worker int, point string, payload []byte)) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), plan: plan, table: table, look: look, began: time.Now(), exits: make(chan *process, 1000)}
	server := c.ownServer
	if plan.foreign {
		c.foreign = newForeignServer(t)
		server = c.foreign.address
		c.path = newProxy(t, server, nil)
	}
	c.workers = make([]*process, plan.workers)
	for i := range plan.workers {
		c.paths = append(c.paths, newProxy(t, server, func(point string, payload []byte, after bool) { c.watch(i, point, payload, after) }))
	}
	c.startCoordinator(append([]string{"--job", jobFile}, plan.args()...)...)
	for i := range c.workers {
		c.startWorker(i)
	}
	return c
}

func (c *cluster) run() string { return filepath.Join(c.dir, "run") }

// ownServer is where the server in the coordinator listens.
func (c *cluster) ownServer() (string, error) {
	data, err := os.ReadFile(filepath.Join(c.run(), "worker.json"))
	if err != nil {
		return "", err
	}
	var file struct{ Address string }
	err = json.Unmarshal(data, &file)
	return strings.TrimPrefix(file.Address, "nats://"), err
}

// startCoordinator starts the run's coordinator; it returns when workers can come.
func (c *cluster) startCoordinator(more ...string) {
	c.t.Helper()
	args := append([]string{"--run", c.run(), "--workers", strconv.Itoa(c.plan.workers), "--json"}, more...)
	if c.foreign != nil {
		args = append(args, "--nats", c.path.url(), "--creds", c.foreign.creds("coordinator"))
	}
	p := start(c.t, c.dir, "coordinator", "coordinator", args...)
	c.set(&c.coordinator, p)
	if len(more) > 0 && c.foreign == nil { // afterwards the workers' key is there
		p.waitFor(c.t, "serving at")
	}
}

func (c *cluster) startWorker(i int) {
	c.t.Helper()
	args := []string{"--nats", c.paths[i].url(), "--id", fmt.Sprintf("w%d", i)}
	if c.foreign == nil {
		args = append(args, "--creds", filepath.Join(c.run(), "worker.json"))
	} else {
		args = append(args, "--creds", c.foreign.creds("workers"), "--run", "demo")
	}
	c.set(&c.workers[i], start(c.t, c.dir, fmt.Sprintf("w%d", i), "worker", args...))
}

// set puts a process into its place.
func (c *cluster) set(place **process, p *process) {
	c.mu.Lock()
	*place = p
	c.mu.Unlock()
	go func() {
		<-p.done
		c.exits <- p
	}()
}

// tell adds to what is shown when the test fails. The caller holds mu.
func (c *cluster) tell(format string, args ...any) {
	fmt.Fprintf(&c.story, "%6.2fs  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// supervise returns when the coordinator says that the run is complete. Who ended by a strike is
// started again.
func (c *cluster) supervise() {
	c.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case p := <-c.exits:
			if c.note(p); p == c.coordinator && p.code == 0 {
				return
			}
			c.restart(p)
		case <-deadline.C:
			c.fail("the run does not end")
		}
	}
}

func (c *cluster) note(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tell("%s ended with code %d", p.name, p.code)
}

// restart starts again what a strike has ended. A worker that ended with code 0 knows that the run is complete.
func (c *cluster) restart(p *process) {
	c.t.Helper()
	switch i, _ := strconv.Atoi(strings.TrimPrefix(p.name, "w")); {
	case p.isWorker() && p.code == 0:
	case !p.explained():
		c.fail(fmt.Sprintf("%s ended with code %d", p.name, p.code))
	case p.isWorker():
		c.startWorker(i)
	default:
		c.startCoordinator()
	}
}

// finish ends the workers that have not heard that the run is complete.
func (c *cluster) finish() {
	c.t.Helper()
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	for _, w := range c.workers {
		w.signal(syscall.SIGCONT)
		w.signal(syscall.SIGTERM)
	}
	for _, w := range c.workers {
		if w.wait(); w.code != 0 && !w.explained() {
			c.fail(fmt.Sprintf("%s ended with code %d", w.name, w.code))
		}
	}
}

// fail shows all that is known.
func (c *cluster) fail(why string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, p := range append([]*process{c.coordinator}, c.workers...) {
		c.tell("log of %s:\n%s", p.name, lastLines(p.log.String()))
	}
	if data, err := os.ReadFile(filepath.Join(c.run(), "logs", "coordinator.jsonl")); !errors.Is(err, os.ErrNotExist) {
		c.tell("coordinator's log file:\n%s", lastLines(string(data)))
	}
	c.t.Fatalf("%s\n%s\n%s", why, c.plan, c.story.String())
}

// lastLines are as many as one wants to read.
func lastLines(text string) string {
	const most = 60
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
