package pipeline_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"andrea/enginetest"
	"andrea/model"
	"andrea/pipeline"
)

// A world is a coordinator, some workers, a network and a disk in one goroutine. Every
// choice (lost messages, their order of arrival, when the power fails or a worker
// dies) comes from a seed. It is written against the state machines only, so it says what the runner
// owes them.

// tinyJob is a job that trains in milliseconds: 2 layers, 4 lanes of 2 microbatches.
func tinyJob(t testing.TB) *pipeline.Plan {
	t.Helper()
	spec, err := pipeline.ParseJobSpec([]byte(`
name: tiny
model: {d_model: 8, n_head: 2, n_layer: 1, context: 4}
data: {path: nowhere, validation: 0.1}
batch: {tokens_per_step: 32, microbatch: 1, lanes: 4}
optimizer: {warmup_steps: 2, lr: 1e-2, min_lr: 1e-3}
steps: 7
eval: {every: 3, windows: 2}
checkpoint: {every: 2, keep_last: 2}
`))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pipeline.NewPlan(spec, tinyData)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// token is token i of the world's dataset.
func token(i uint64) uint32 { return uint32(i*i*7+i/3) % 11 }

// disk is what survives a power cut.
type disk struct {
	journal     []byte
	durable     int // bytes of journal that were synced
	checkpoints map[int64]savedState
	writes      int // counted, to choose when the power fails
	failAt      int // the power fails instead of write number failAt; 0: never
}

type savedState struct {
	digest model.Digest
	record string
	data   [3][]float32
}

var errPower = errors.New("the power failed")

// write counts one durable act.
func (d *disk) write() {
	d.writes++
	if d.writes == d.failAt {
		panic(errPower)
	}
}

// crash forgets what was not synced, except torn bytes of it.
func (d *disk) crash(rng *rand.Rand) {
	kept := d.durable
	if lost := len(d.journal) - d.durable; lost > 0 {
		kept += rng.IntN(lost + 1)
	}
	d.journal, d.durable = d.journal[:kept], kept
}

type world struct {
	t           testing.TB
	plan        *pipeline.Plan
	rng         *rand.Rand
	disk        *disk
	coordinator *pipeline.Coordinator
	workers     []*worker
	journal     *pipeline.Journal
	start       pipeline.Start
	restored    savedState
	toC         []pipeline.FromWorker
	results     []pipeline.CoordinatorEvent
	saving      *pipeline.WriteCheckpoint
	outcome     *pipeline.Outcome
	root        []float32 // of the newest reduction
	steps       []pipeline.StepDone
	events      int
	loss        float64 // probability that a message is lost
	stopAt      int     // event at which a stop is requested; 0: never
	dieAt       int     // event at which the last worker dies; 0: never
	unseen      bool    // nobody tells the coordinator of that death
	poison      func(step int64, lane int) bool
}

// worker is one worker with its engine and its way from the coordinator.
type worker struct {
	id       pipeline.WorkerID
	machine  *pipeline.Worker
	engine   model.Engine
	snapshot savedState
	inbox    []pipeline.Message
	left     bool // or dead
}

// newWorld starts processes on a disk, as a restart after a crash does.
func newWorld(t testing.TB, plan *pipeline.Plan, d *disk, seed uint64) *world {
	t.Helper()
	return newGroup(t, plan, d, seed, 1)
}

// newGroup is newWorld with several workers.
func newGroup(t testing.TB, plan *pipeline.Plan, d *disk, seed uint64, workers int) *world {
	t.Helper()
	w := &world{t: t, plan: plan, rng: rand.New(rand.NewPCG(seed, 1)), disk: d}
	journal, err := pipeline.ParseJournal(d.journal)
	if err != nil {
		t.Fatalf("the journal that the crash left cannot be read: %v\n%s", err, d.journal)
	}
	d.journal = d.journal[:len(d.journal)-journal.Torn]
	d.durable = len(d.journal)
	w.journal = journal
	w.start = pipeline.Start{Journal: journal, Workers: workers}
	for step, s := range d.checkpoints {
		if s.record != journal.CommitDigest(step) {
			t.Fatalf("checkpoint %d is on disk, its record is not in the journal", step)
		}
		if step >= w.start.Step {
			w.start.Step, w.start.Digest, w.start.Checkpoint, w.restored = step, s.digest, true, s
		}
	}
	w.coordinator = pipeline.NewCoordinator(plan, w.start)
	for i := range workers {
		w.workers = append(w.workers, &worker{id: pipeline.WorkerID(fmt.Sprintf("w%d", i)), machine: pipeline.NewWorker("plain-fp32-n1", "test")})
	}
	return w
}

// find returns the worker with that name.
func (w *world) find(id pipeline.WorkerID) *worker {
	for _, k := range w.workers {
		if k.id == id {
			return k
		}
	}
	w.t.Fatalf("there is no worker %s", id)
	return nil
}

// run lets the world turn until the run has ended, and reports a power failure.
func (w *world) run() (failed bool) {
	defer func() {
		if r := recover(); r != nil {
			if r != errPower {
				panic(r)
			}
			failed = true
			w.disk.crash(w.rng)
		}
	}()
	for w.outcome == nil {
		if w.events++; w.events > 200000 {
			w.t.Fatalf("no end in sight: %+v", w.coordinator.Status())
		}
		w.turn()
	}
	return false
}

// turn lets one thing happen.
func (w *world) turn() {
	if len(w.results) > 0 {
		event := w.results[0]
		w.results = w.results[1:]
		w.do(w.coordinator.Handle(event))
		return
	}
	switch w.events {
	case w.stopAt:
		w.do(w.coordinator.Handle(pipeline.StopRequested{Reason: "test"}))
		return
	case w.dieAt:
		k := w.workers[len(w.workers)-1]
		k.left, k.engine = true, nil
		if w.unseen {
			return
		}
		w.do(w.coordinator.Handle(pipeline.WorkerLost{Worker: k.id, Reason: "killed"}))
		return
	}
	k := w.workers[w.rng.IntN(len(w.workers))]
	switch w.rng.IntN(6) {
	case 0:
		if w.rng.IntN(len(w.workers)) == 0 {
			w.do(w.coordinator.Tick())
		}
		if !k.left {
			w.reply(k, k.machine.Tick())
			w.toC = append(w.toC, pipeline.FromWorker{Worker: k.id, Incarnation: "1", Message: pipeline.Heartbeat{}})
		}
	case 1, 2:
		if m, ok := take(w, &w.toC); ok {
			w.do(w.coordinator.Handle(m))
		}
	case 3:
		if m, ok := take(w, &k.inbox); ok && !k.left {
			w.reply(k, k.machine.Handle(pipeline.Received{Message: m}))
		}
	case 4:
		if !k.left {
			w.work(k)
		}
	case 5:
		w.save()
	}
}

// take delivers the next message, unless it is lost; sometimes it arrives twice.
func take[M any](w *world, queue *[]M) (m M, ok bool) {
	if len(*queue) == 0 {
		return m, false
	}
	m = (*queue)[0]
	if w.rng.Float64() < w.loss {
		if w.rng.IntN(2) == 0 {
			return m, true // and stays in the queue
		}
		*queue = (*queue)[1:]
		return m, false
	}
	*queue = (*queue)[1:]
	return m, true
}

// do executes the coordinator's effects.
func (w *world) do(effects []pipeline.CoordinatorEffect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case pipeline.Send:
			if k := w.find(e.Worker); !k.left {
				k.inbox = append(k.inbox, e.Message)
			}
		case pipeline.Reduce:
			w.results = append(w.results, w.reduce(e))
		case pipeline.WriteIntent:
			line, err := w.journal.AppendIntent(e.Intent)
			w.append(line, err)
			w.sync()
			w.results = append(w.results, pipeline.IntentDurable{Step: e.Intent.Step})
		case pipeline.WriteCommit:
			line, err := w.journal.AppendCommit(e.Record)
			w.append(line, err)
			w.steps = append(w.steps, pipeline.StepDone{Record: e.Record})
		case pipeline.WriteCheckpoint:
			w.sync()
			w.saving = &e
		case pipeline.Announce:
			if s, ok := e.Notice.(pipeline.StepDone); ok {
				w.steps = append(w.steps, s)
			}
		case pipeline.End:
			w.outcome = &e.Outcome
		}
	}
}

func (w *world) append(line []byte, err error) {
	if err != nil {
		w.t.Fatal(err)
	}
	w.disk.journal = append(w.disk.journal, line...)
	w.disk.write()
}

func (w *world) sync() {
	w.disk.write()
	w.disk.durable = len(w.disk.journal)
}

// save finishes the checkpoint that is being written.
func (w *world) save() {
	if w.saving == nil {
		return
	}
	e := w.saving
	w.saving = nil
	k := w.find(e.Worker)
	if k.left && k.engine == nil {
		w.results = append(w.results, pipeline.CheckpointWritten{Step: e.Step, Worker: e.Worker, Err: errors.New("the worker is gone"), CopyLost: true})
		return
	}
	if k.snapshot.digest != e.Digest {
		w.t.Fatalf("the snapshot of step %d is not the state that was confirmed", e.Step)
	}
	w.disk.write()
	s := k.snapshot
	s.record = w.journal.CommitDigest(e.Step)
	w.disk.checkpoints[e.Step] = s
	w.disk.write()
	w.results = append(w.results, pipeline.CheckpointWritten{Step: e.Step, Worker: e.Worker})
}

// reduce sums contributions along the tree, as the runner does.
func (w *world) reduce(e pipeline.Reduce) pipeline.Reduced {
	parts := map[int]pipeline.Contribution{}
	for _, c := range e.Contributions {
		parts[c.Lo] = c
	}
	var sum func(lo, hi int) ([]float32, error)
	sum = func(lo, hi int) ([]float32, error) {
		c, ok := parts[lo]
		if ok && c.Hi == hi {
			k := w.find(c.Worker)
			if k.engine == nil {
				return nil, errors.New("the worker is gone")
			}
			x := make([]float32, w.plan.Layout.Size)
			return x, k.engine.ReadGrad(0, 0, x)
		}
		mid := (lo + hi) / 2
		left, err := sum(lo, mid)
		if err != nil {
			return nil, err
		}
		right, err := sum(mid, hi)
		for i := range right {
			left[i] += right[i]
		}
		return left, err
	}
	root, err := sum(0, w.plan.Spec.Batch.Lanes)
	if err != nil {
		return pipeline.Reduced{Step: e.Step, Err: err}
	}
	w.root = root
	return pipeline.Reduced{Step: e.Step, RootDigest: model.DigestOf(model.Gradient, 0, root), SumSquares: []pipeline.Float{pipeline.Float(model.SumSquares(root))}}
}

// reply executes what Handle and Tick of a worker return.
func (w *world) reply(k *worker, effects []pipeline.WorkerEffect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case pipeline.Reply:
			w.toC = append(w.toC, pipeline.FromWorker{Worker: k.id, Incarnation: "1", Message: e.Message})
		case pipeline.Leave:
			k.left = true
		}
	}
}

// work executes the engine's work.
func (w *world) work(k *worker) {
	for _, effect := range k.machine.Work() {
		event, err := w.execute(k, effect)
		if err != nil {
			event = pipeline.WorkFailed{Err: err}
		}
		if event != nil {
			w.reply(k, k.machine.Handle(event))
		}
	}
}

func (w *world) execute(k *worker, effect pipeline.WorkerEffect) (pipeline.WorkerEvent, error) {
	switch e := effect.(type) {
	case pipeline.OpenEngine:
		return w.open(k, e)
	case pipeline.Zero:
		return nil, k.engine.Zero(e.Slot)
	case pipeline.Fold:
		return nil, k.engine.Fold(e.Dst, e.Src)
	case pipeline.Accumulate:
		numbers, err := w.plan.Sampler.Append(nil, uint64(e.Step), e.Lane, e.Microbatch)
		if err != nil {
			return nil, err
		}
		b := w.batch(numbers)
		loss, err := k.engine.Accumulate(e.Slot, b)
		if w.poison != nil && w.poison(e.Step, e.Lane) {
			loss.Sum = loss.Sum / 0 * 0 // a sum that is no number
		}
		return pipeline.Accumulated{Loss: loss, TokenDigest: model.TokenDigestOf(e.Microbatch*len(b.Tokens), b.Tokens)}, err
	case pipeline.Measure:
		m := pipeline.Measured{StateDigest: w.stateDigest(k)}
		m.GradDigest, _ = k.engine.GradDigest(0, 0)
		sum, err := k.engine.SumSquares(0, 0)
		if e.SumSquares {
			m.SumSquares = []pipeline.Float{pipeline.Float(sum)}
		}
		return m, err
	case pipeline.PullRoot:
		err := k.engine.WriteGrad(0, 0, w.root)
		return pipeline.RootPulled{Digest: model.DigestOf(model.Gradient, 0, w.root)}, err
	case pipeline.Update:
		digest, err := k.engine.Update(0, e.Scale, e.Hyper)
		return pipeline.Updated{Digest: digest}, err
	case pipeline.EvalWindow:
		loss, err := k.engine.Eval(w.batch(w.plan.ValidationWindows[e.Window : e.Window+1]))
		return pipeline.WindowEvaluated{Loss: loss}, err
	case pipeline.TakeSnapshot:
		k.snapshot = savedState{digest: w.stateDigest(k)}
		for i := range k.snapshot.data {
			k.snapshot.data[i] = make([]float32, w.plan.Layout.Size)
		}
		return pipeline.SnapshotCopied{}, k.engine.Save(0, k.snapshot.data[0], k.snapshot.data[1], k.snapshot.data[2])
	}
	w.t.Fatalf("unknown effect %T", effect)
	return nil, nil
}

func (w *world) open(k *worker, e pipeline.OpenEngine) (pipeline.WorkerEvent, error) {
	config, err := pipeline.ConfigOf(e.Job)
	if err != nil {
		return nil, err
	}
	k.engine = enginetest.NewPlain(config, e.Job.Batch.Microbatch, model.Slots(e.Job.Batch.Lanes))
	n := w.plan.Layout.Size
	data := w.restored.data
	if !e.Stored {
		data = [3][]float32{make([]float32, n), make([]float32, n), make([]float32, n)}
		w.plan.Layout.InitBucket(e.Job.Seed, 0, data[0])
	}
	err = k.engine.Load(0, data[0], data[1], data[2])
	return pipeline.StateLoaded{Digest: w.stateDigest(k)}, err
}

func (w *world) stateDigest(k *worker) model.Digest {
	d, err := k.engine.StateDigest(0)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) batch(windows []uint64) model.Batch {
	b := model.Batch{Windows: len(windows), T: w.plan.Model.Context}
	for _, number := range windows {
		start, n := w.plan.Index.Span(number)
		for i := range uint64(n) {
			b.Tokens = append(b.Tokens, token(start+i))
		}
	}
	return b
}

// newDisk is an empty disk.
func newDisk() *disk { return &disk{checkpoints: map[int64]savedState{}} }

// stripTimes removes what may differ between two runs of one job.
func stripTimes(t testing.TB, journal []byte) string {
	t.Helper()
	j, err := pipeline.ParseJournal(journal)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, r := range j.Steps {
		i, c := r.Intent, r.Commit
		b.WriteString(i.RootDigest.String())
		if c != nil {
			b.WriteString(" " + c.StateDigest.String())
		}
		b.WriteByte('\n')
	}
	return b.String()
}
