package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"andrea/checkpoints"
	"andrea/checkpoints/dirstore"
	"andrea/enginetest"
	"andrea/model"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/pipeline/transport"
	"andrea/pipeline/transport/natsbus"
	"andrea/pipeline/wire"
	"andrea/vfs"
	"andrea/vfs/crashfs"
)

// A rig has the connections of a coordinator and a worker, as a run in one process has them,
// to a real NATS server or to a hub. The run's folder lies in a file system of its own, so
// that power cuts concern only that.
type rig struct {
	plan        *pipeline.Plan
	dial        func(t *testing.T, role string, bulk bool) transport.Bus
	coordinator side
	worker      side
	generation  uint64
	workers     int                                                               // 0: one
	engine      func(c model.Config, microbatch, slots int) (model.Engine, error) // nil: a plain one
	hands       []*hand
}

// side is what one role talks through.
type side struct{ control, bulk *bus }

// set changes both connections.
func (s side) set(change func(*bus)) {
	s.control.set(change)
	s.bulk.set(change)
}

// bus is a connection whose messages a test can watch, change and lose. Each hook is
// called with what passes; it may be nil.
type bus struct {
	transport.Bus
	mu         sync.Mutex
	cut        bool // nothing passes in either direction
	publish    func(subject string, data []byte) (lost bool)
	incoming   func(subject string, data []byte) (lost bool)
	asked      func(subject string, data []byte) // before it is sent; may block
	reply      func(subject string, data []byte) []byte
	refuse     func(subject string) error // before it is subscribed to
	subscribed func(subject string)
}

func (b *bus) set(change func(*bus)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

func (b *bus) Publish(subject string, data []byte) error {
	b.mu.Lock()
	lost, cut := b.publish != nil && b.publish(subject, data), b.cut
	b.mu.Unlock()
	switch {
	case cut:
		return transport.ErrDisconnected
	case lost:
		return nil
	}
	return b.Bus.Publish(subject, data)
}

func (b *bus) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	b.mu.Lock()
	asked, cut := b.asked, b.cut
	b.mu.Unlock()
	if cut {
		return nil, transport.ErrDisconnected
	}
	if asked != nil {
		asked(subject, data)
	}
	reply, err := b.Bus.Request(ctx, subject, data)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && b.cut {
		return nil, transport.ErrDisconnected
	}
	if err == nil && b.reply != nil {
		reply = b.reply(subject, reply)
	}
	return reply, err
}

func (b *bus) Subscribe(subject string, handler func(transport.Message)) (transport.Subscription, error) {
	b.mu.Lock()
	var err error
	if b.refuse != nil {
		err = b.refuse(subject)
	}
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s, err := b.Bus.Subscribe(subject, func(m transport.Message) {
		b.mu.Lock()
		lost := b.cut || b.incoming != nil && b.incoming(m.Subject, m.Data)
		b.mu.Unlock()
		if !lost {
			handler(m)
		}
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && b.subscribed != nil {
		b.subscribed(subject)
	}
	return s, err
}

// job is a small job; settings change it.
const job = `
name: tiny
model: {d_model: 8, n_head: 2, n_layer: 1, context: 4}
data: {path: nowhere, validation: 0.1}
batch: {tokens_per_step: 16, microbatch: 1, lanes: 2}
optimizer: {warmup_steps: 2, lr: 1e-2, min_lr: 1e-3}
steps: 3
eval: {every: 2, windows: 2}
checkpoint: {every: 1, keep_last: 1}
`

func planOf(t *testing.T, settings ...string) *pipeline.Plan {
	t.Helper()
	spec, err := pipeline.ParseJobSpec([]byte(job))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		if err := spec.Set(s); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := pipeline.NewPlan(spec, pipeline.DatasetInfo{Fingerprint: "f", Tokenizer: "bytes", Vocab: 11, Tokens: 200})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// stream is the dataset.
type stream struct{}

func (stream) Read(dst []uint32, start uint64) error {
	for i := range dst {
		n := start + uint64(i)
		dst[i] = uint32(n*n*7+n/3) % 11
	}
	return nil
}

// newRig has a NATS server.
func newRig(t *testing.T, settings ...string) *rig {
	t.Helper()
	plan := planOf(t, settings...)
	run := plan.Spec.Name
	c, w := wire.CoordinatorPermissions(run), wire.WorkerPermissions(run, wire.AnyWorker)
	server, err := natsbus.StartServer(natsbus.ServerOptions{
		Run: run, RunDir: t.TempDir(), FS: vfs.OS,
		Roles: []natsbus.Role{{Name: "coordinator", Publish: c.Publish, Subscribe: c.Subscribe}, {Name: "worker", Publish: w.Publish, Subscribe: w.Subscribe}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	return rigOf(t, plan, func(t *testing.T, role string, bulk bool) transport.Bus {
		credential, err := server.Credential(role)
		if err != nil {
			t.Fatal(err)
		}
		b, err := natsbus.Connect(t.Context(), natsbus.ConnOptions{Server: server, Credential: credential, Name: role, Bulk: bulk})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

// newQuietRig has a hub. It belongs to the bubble that it is made in.
func newQuietRig(t *testing.T, settings ...string) *rig {
	t.Helper()
	h := &hub{}
	return rigOf(t, planOf(t, settings...), func(*testing.T, string, bool) transport.Bus { return &hubBus{hub: h} })
}

func rigOf(t *testing.T, plan *pipeline.Plan, dial func(*testing.T, string, bool) transport.Bus) *rig {
	t.Helper()
	r := &rig{plan: plan, dial: dial}
	r.coordinator, r.worker = r.connect(t, "coordinator"), r.connect(t, "worker")
	return r
}

// connect opens the connections of a role.
func (r *rig) connect(t *testing.T, role string) side {
	t.Helper()
	one := func(bulk bool) *bus {
		b := r.dial(t, role, bulk)
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		return &bus{Bus: b}
	}
	return side{control: one(false), bulk: one(true)}
}

// close closes the connections; after that no handler runs any more.
func (r *rig) close(t *testing.T) {
	for _, b := range []*bus{r.worker.control, r.worker.bulk, r.coordinator.control, r.coordinator.bulk} {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// files are an opened run's.
type files struct {
	journal  *runner.Journal
	store    *dirstore.Store
	restored *dirstore.Reader
	damaged  []dirstore.Damage
	start    pipeline.Start
}

const (
	journalPath    = "run/journal.jsonl"
	checkpointsDir = "run/checkpoints"
)

// open opens the run that lies in fsys, or makes it.
func open(fsys vfs.FS) (f *files, err error) {
	f = &files{}
	if err := vfs.MkdirAllDurable(fsys, filepath.Dir(journalPath)); err != nil {
		return nil, err
	}
	_, err = fsys.Stat(journalPath)
	if errors.Is(err, fs.ErrNotExist) {
		err = runner.CreateJournal(fsys, journalPath)
	}
	if err != nil {
		return nil, err
	}
	if f.journal, err = runner.OpenJournal(fsys, journalPath); err != nil {
		return nil, err
	}
	if f.store, err = dirstore.OpenOwned(fsys, checkpointsDir); err != nil {
		return nil, errors.Join(err, f.journal.Close())
	}
	f.start = pipeline.Start{Journal: f.journal.Journal}
	f.restored, f.damaged, err = f.store.Newest(func(m checkpoints.Manifest) error {
		if m.RecordDigest != f.journal.CommitDigest(int64(m.Step)) {
			return fmt.Errorf("the record of step %d is not in the journal", m.Step)
		}
		return nil
	})
	switch {
	case errors.Is(err, dirstore.ErrNone):
		return f, nil
	case err != nil:
		return nil, errors.Join(err, f.journal.Close())
	}
	m := f.restored.Manifest()
	f.start.Step, f.start.Digest, f.start.Checkpoint, f.start.Class = int64(m.Step), m.StateDigest, true, m.EngineClass
	return f, nil
}

func (f *files) close() error {
	err := f.journal.Close()
	if f.restored != nil {
		err = errors.Join(err, f.restored.Close())
	}
	return err
}

// told is what a run says.
type told struct {
	outcome pipeline.Outcome
	notices []pipeline.Notice
	left    error // what the worker returned
}

// gone are the workers that the run has lost.
func (said told) gone() (gone []pipeline.WorkerLeft) {
	for _, n := range said.notices {
		if left, ok := n.(pipeline.WorkerLeft); ok {
			gone = append(gone, left)
		}
	}
	return gone
}

// train opens the run in fsys and runs it with r.workers workers until all have ended. notify,
// which may be nil, is called with every notice and with the function that stops the run.
// The error is about opening.
func (r *rig) train(t *testing.T, fsys vfs.FS, notify func(pipeline.Notice, func(string))) (said told, err error) {
	t.Helper()
	f, err := open(fsys)
	if err != nil {
		return said, err
	}
	workers := max(1, r.workers)
	f.start.Workers = workers
	return r.conduct(t, f, notify, func() {
		for i := range workers {
			r.start(t, "wxyzv"[i:i+1], r.worker, nil)
		}
	}), nil
}

// play is train with workers that begin starts, and that come and go as the test says.
func (r *rig) play(t *testing.T, fsys vfs.FS, notify func(pipeline.Notice, func(string)), begin func()) told {
	t.Helper()
	f, err := open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return r.conduct(t, f, notify, begin)
}

// conduct runs a coordinator until it has ended, and then waits for all workers.
func (r *rig) conduct(t *testing.T, f *files, notify func(pipeline.Notice, func(string)), begin func()) told {
	t.Helper()
	said := r.coordinate(t, f, r.coordinator, notify, begin, nil)
	said.left = r.sendOff(t, said.outcome)
	return said
}

// coordinate runs a coordinator until it has ended, and closes its files. It calls begin when
// the coordinator can be heard; superseded is the option of that name.
func (r *rig) coordinate(t *testing.T, f *files, s side, notify func(pipeline.Notice, func(string)), begin func(), superseded func() error) (said told) {
	t.Helper()
	// A disk that has crashed cannot close its files in order.
	defer func() { _ = f.close() }()
	stop := make(chan string, 1)
	options := r.coordinatorOptions(f, stop, func(n pipeline.Notice) {
		said.notices = append(said.notices, n)
		if notify != nil {
			notify(n, func(reason string) { stop <- reason })
		}
	})
	options.Control, options.Bulk, options.Superseded = s.control, s.bulk, superseded
	s.control.set(func(b *bus) {
		b.subscribed = func(subject string) {
			if subject == wire.Hello(r.plan.Spec.Name, wire.AnyWorker) {
				b.subscribed = nil
				begin()
			}
		}
	})
	var err error
	if said.outcome, err = runner.Coordinate(options); err != nil {
		t.Fatal(err)
	}
	return said
}

// hand is a worker at work.
type hand struct {
	side
	leave func()     // asks it to go
	left  chan error // what it returned
}

// start begins a worker's life; change, unless nil, changes its options.
func (r *rig) start(t *testing.T, id string, s side, change func(*runner.WorkerOptions)) *hand {
	leave := make(chan struct{})
	h := &hand{side: s, leave: sync.OnceFunc(func() { close(leave) }), left: make(chan error, 1)}
	o := r.workerOptions()
	o.ID, o.Control, o.Bulk, o.Leave = pipeline.WorkerID(id), s.control, s.bulk, leave
	if change != nil {
		change(&o)
	}
	go func() { h.left <- runner.Work(t.Context(), o) }()
	r.hands = append(r.hands, h)
	return h
}

// nobodyNext is what sendOff tells a worker that looks for a next coordinator.
const nobodyNext = "the run is over"

// sendOff waits until all workers have left a run that has ended. Who was no member at its end
// looks for its next coordinator, and is told that there is none.
func (r *rig) sendOff(t *testing.T, o pipeline.Outcome) (left error) {
	t.Helper()
	s, err := r.coordinator.control.Subscribe(wire.Hello(r.plan.Spec.Name, wire.AnyWorker), func(m transport.Message) {
		c, err := wire.DecodeControl(m.Data)
		if err != nil {
			return
		}
		hello := c.Message.(pipeline.Hello)
		c.Generation, c.Message = max(r.generation, hello.Generation), pipeline.Finish{Complete: o.Complete, Reason: nobodyNext}
		if data, err := wire.EncodeControl(c); err == nil {
			_ = r.coordinator.control.Publish(wire.ToWorker(r.plan.Spec.Name, c.Worker), data)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range r.hands {
		left = errors.Join(left, <-h.left)
	}
	r.hands = nil
	if err := s.Unsubscribe(); err != nil {
		t.Error(err)
	}
	return left
}

func (r *rig) coordinatorOptions(f *files, stop chan string, notify func(pipeline.Notice)) runner.CoordinatorOptions {
	r.generation++
	return runner.CoordinatorOptions{
		Generation: r.generation, Plan: r.plan, Start: f.start, Journal: f.journal, Store: f.store, Restored: f.restored,
		Tokens: stream{}, Tokenizer: []byte(`{"kind":"bytes"}`), CreatedBy: "a test",
		Control: r.coordinator.control, Bulk: r.coordinator.bulk, Stop: stop, Notify: notify, Log: zap.NewNop(),
	}
}

func (r *rig) workerOptions() runner.WorkerOptions {
	engine := r.engine
	if engine == nil {
		engine = func(c model.Config, microbatch, slots int) (model.Engine, error) {
			return enginetest.NewPlain(c, microbatch, slots), nil
		}
	}
	return runner.WorkerOptions{
		Run: r.plan.Spec.Name, ID: "w", Incarnation: fmt.Sprint("life-", r.generation), Control: r.worker.control, Bulk: r.worker.bulk,
		Class: "plain-fp32-n1", Device: "a test", Log: zap.NewNop(),
		OpenEngine: engine,
	}
}

// bits is what of a journal decides bits: everything but the times.
func bits(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	j, err := runner.ReadJournal(fsys, journalPath)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range j.Steps {
		i := r.Intent
		fmt.Fprintf(&b, "%d %s %v %d %v %v %v %s %d", i.Step, i.Action, i.LossSum, i.Tokens, i.GradNorm, i.Scale, i.LR, i.RootDigest, i.Epoch)
		if r.Commit != nil {
			fmt.Fprintf(&b, " | %d %v %s", r.Commit.Step, r.Commit.Loss, r.Commit.StateDigest)
			if r.Commit.ValLoss != nil {
				fmt.Fprintf(&b, " %v", *r.Commit.ValLoss)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// mustComplete checks that the run in fsys is whole: it ended well, its journal has
// the wanted bits, and its newest checkpoint is that of the last step.
func (r *rig) mustComplete(t *testing.T, fsys vfs.FS, said told, want string) {
	t.Helper()
	steps := r.plan.Spec.Steps
	if o := said.outcome; o.Err != nil || !o.Complete || o.Step != steps || o.Checkpoint != steps || said.left != nil {
		t.Fatalf("the run ended with %+v, the worker with %v", said.outcome, said.left)
	}
	if got := bits(t, fsys); got != want {
		t.Fatalf("the journal has other bits:\n%s\nwant\n%s", got, want)
	}
	j, err := runner.ReadJournal(fsys, journalPath)
	if err != nil || j.Torn != 0 {
		t.Fatalf("%d torn bytes, %v", j.Torn, err)
	}
	m, err := dirstore.Open(fsys, checkpointsDir).Verify(int(steps))
	if err != nil {
		t.Fatal(err)
	}
	if last := j.Step(steps); m.StateDigest != last.Commit.StateDigest || m.RecordDigest != last.CommitDigest {
		t.Fatalf("the checkpoint has state %s and record %s, the journal %+v", m.StateDigest, m.RecordDigest, last)
	}
}

// reference trains without disturbance and returns the bits of the journal.
func (r *rig) reference(t *testing.T) string {
	t.Helper()
	fsys := crashfs.New()
	said, err := r.train(t, fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := bits(t, fsys)
	r.mustComplete(t, fsys, said, want)
	return want
}

// goroutinesOf returns the stacks that run in the package, without those of tests.
func goroutinesOf(pkg string) (stacks []string) {
	buffer := make([]byte, 1<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	for _, stack := range strings.Split(string(buffer), "\n\n") {
		if strings.Contains(stack, pkg+".") && !strings.Contains(stack, "testing.tRunner") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
