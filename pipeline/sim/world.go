package sim

import (
	"fmt"
	"strings"
	"sync"

	"andrea/model"
	"andrea/pipeline"
)

// world is one run of one job, and all that befalls it.
type world struct {
	chance  *chance
	clock   clock
	network network
	disk    disk
	job     *job

	workers      []*worker
	coordinators []*coordinator // the newest last
	together     int            // workers that the first step waits for
	tells        bool           // the coordinator is told when a worker's process ends

	strikes   []strike // to come, in order
	struck    [faults]int
	calm      bool  // the faults are over
	patience  int64 // when the job must be done, once the faults are over
	confirmed int64 // newest confirmed step
	complete  bool

	evidence evidence
	coverage *Coverage
	trace    func(string) // nil: nobody is interested
}

// Options choose what runs.
type Options struct {
	// Open allocates the engines, of the job's own model; nil: toys.
	Open func(c model.Config, microbatch, slots int) model.Engine
	// Quiet leaves all faults out.
	Quiet bool
	// Trace gets a line for everything that happens; it may be nil.
	Trace func(string)
}

// Result is how a run came out.
type Result struct {
	Seed     uint64
	Failure  string // what was violated; empty: nothing
	Excused  string // why the run was given up: a fault that no protocol can find
	Workers  int    // places for workers
	Steps    int64
	Joined   int   // workers that came after the first step
	Restarts int   // coordinators after the first
	Events   int   // that happened
	Ticks    int64 // of virtual time
	Rest     int64 // ticks from the end of the faults to the end of the job; 0: it came first
	Errors   int   // runs that ended with a justified error, and were started again
	Coverage Coverage
}

// failure is a violated promise, excuse a run that cannot be judged any further.
type (
	failure string
	excuse  string
)

const (
	maxEvents = 5_000_000
	// maxTicks is when the faults end at the latest, and boundTicks how long the job may
	// take after that: a coordinator waits up to 60 ticks for its first workers, and up to
	// 120 for one that gets nothing done.
	maxTicks   = 4000
	boundTicks = 200
)

// Run simulates one job from a seed.
func Run(seed uint64, o Options) (r Result) {
	w := newWorld(seed, o)
	r = Result{Seed: seed, Workers: len(w.workers), Steps: w.job.plan.Spec.Steps}
	w.coverage = &r.Coverage
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			r.Failure = string(p)
		case excuse:
			r.Excused = string(p)
		default:
			r.Failure = fmt.Sprintf("panic: %v", p)
			if o.Trace != nil {
				panic(p)
			}
		}
		if w.calm {
			r.Rest = (w.clock.now-w.patience)/tick + boundTicks
		}
		r.Ticks, r.Restarts, r.Joined, r.Errors = w.clock.now/tick, len(w.coordinators)-1, w.evidence.joined, w.evidence.errors
	}()
	w.startCoordinator()
	for _, k := range w.workers[:w.together] {
		w.clock.after(w.chance.between(1, 2*tick), k.begin)
	}
	for ; !w.complete; r.Events++ {
		if r.Events > maxEvents {
			w.failf("no end in sight after %d events: %s", r.Events, w.state())
		}
		w.clock.advance()
		w.befall()
	}
	w.judgeEnd()
	return r
}

func newWorld(seed uint64, o Options) *world {
	c := newChance(seed, 1)
	w := &world{chance: newChance(seed, 2), trace: o.Trace}
	w.job = jobFor(drawVariant(c), o)
	w.network = network{w: w, chance: newChance(seed, 3), heavy: 1}
	w.disk = disk{journal: &journalFile{}, checkpoints: map[int64]stored{}}
	w.evidence = newEvidence()
	n := int(c.between(1, 9))
	for i := range n {
		w.workers = append(w.workers, &worker{w: w, id: pipeline.WorkerID(fmt.Sprintf("w%d", i)), state: -1, snapped: -1})
	}
	w.together = 1 + c.below(n)
	w.tells = c.below(2) == 0
	if !o.Quiet {
		w.drawFaults(c)
	}
	return w
}

// jobs are those that were planned before: they are read only.
var jobs struct {
	sync.Mutex
	of map[variant]*job
}

func jobFor(v variant, o Options) *job {
	if o.Open != nil {
		return newJob(v, o.Open)
	}
	jobs.Lock()
	defer jobs.Unlock()
	if jobs.of == nil {
		jobs.of = map[variant]*job{}
	}
	if jobs.of[v] == nil {
		jobs.of[v] = newJob(v, nil)
	}
	return jobs.of[v]
}

func (w *world) worker(id pipeline.WorkerID) *worker {
	for _, k := range w.workers {
		if k.id == id {
			return k
		}
	}
	panic(failure(fmt.Sprintf("there is no worker %q", id)))
}

// coordinator is the one of a generation, or nil.
func (w *world) coordinator(generation uint64) *coordinator {
	for _, c := range w.coordinators {
		if c.generation == generation {
			return c
		}
	}
	return nil
}

func (w *world) newest() *coordinator { return w.coordinators[len(w.coordinators)-1] }

// current is the newest coordinator if it lives, else nil.
func (w *world) current() *coordinator {
	if c := w.newest(); c.alive {
		return c
	}
	return nil
}

// supervise starts a coordinator when the newest has gone before its time.
func (w *world) supervise() {
	if !w.complete && !w.newest().alive {
		w.startCoordinator()
	}
}

func (w *world) failf(format string, arguments ...any) {
	panic(failure(fmt.Sprintf(format, arguments...)))
}

func (w *world) tracef(format string, arguments ...any) {
	if w.trace == nil {
		return
	}
	line := fmt.Sprintf("%8.3f ", float64(w.clock.now)/tick) + fmt.Sprintf(format, arguments...)
	if before, job, long := strings.Cut(line, "{Job:"); long {
		_, after, _ := strings.Cut(job, "\n Step:")
		line = before + "{Step:" + after
	}
	w.trace(line)
}

// state is where everybody is, for a failure's text.
func (w *world) state() string {
	s := fmt.Sprintf("step %d is confirmed", w.confirmed)
	if c := w.current(); c != nil {
		s += fmt.Sprintf(", coordinator %d: %+v", c.generation, c.machine.Status())
	}
	for _, k := range w.workers {
		if k.alive {
			s += fmt.Sprintf("; %s %s state %d membership %+v hailing %v busy %v", k.id, activityNames[k.doing], k.state, k.machine.Membership(), k.machine.Hailing(), k.busy)
		}
	}
	return s
}
