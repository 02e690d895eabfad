package sim

import (
	"errors"
	"maps"
	"math"
	"strings"

	"andrea/model"
	"andrea/pipeline"
)

// evidence is what the judge has seen.
type evidence struct {
	opinions map[opinionKey]map[pipeline.WorkerID]bool // who answered for a share; true: from the group's state
	applied  map[appliedKey]int                        // right digests reported
	tickets  map[seat]int64                            // of the members
	heard    map[seat]int64                            // when a member was welcomed, or last gave a sign of life
	speaker  pipeline.FromWorker                       // what the coordinator whose turn it is was told last
	joined   int
	errors   int
}

type opinionKey struct {
	generation uint64
	step       int64
	lo, hi     int
}

type appliedKey struct {
	generation uint64
	step       int64
}

// seat is a worker's place at a coordinator.
type seat struct {
	generation uint64
	worker     pipeline.WorkerID
}

func newEvidence() evidence {
	return evidence{opinions: map[opinionKey]map[pipeline.WorkerID]bool{}, applied: map[appliedKey]int{}, tickets: map[seat]int64{}, heard: map[seat]int64{}}
}

// claim is what a worker that waits outside says it holds.
type claim struct {
	holds  bool
	step   int64
	digest model.Digest
	at     int64 // when it said so
}

// judgeHeard keeps what a worker says.
func (w *world) judgeHeard(c *coordinator, e pipeline.CoordinatorEvent) {
	if gone, ok := e.(pipeline.WorkerLost); ok {
		delete(c.outside, gone.Worker)
	}
	from, ok := e.(pipeline.FromWorker)
	w.evidence.speaker = from
	if !ok || from.Ticket != w.evidence.tickets[seat{c.generation, from.Worker}] {
		return
	}
	if from.Ticket > 0 {
		w.evidence.heard[seat{c.generation, from.Worker}] = w.clock.now
	}
	c.hears(from)
	switch m := from.Message.(type) {
	case pipeline.Hello:
		if c.greeted == 0 {
			c.greeted = w.clock.now
		}
		c.outside[from.Worker] = claim{m.Holds, m.Step, m.Digest, w.clock.now}
	case pipeline.Answer:
		key := opinionKey{c.generation, m.Step, m.Lo, m.Hi}
		if w.evidence.opinions[key] == nil {
			w.evidence.opinions[key] = map[pipeline.WorkerID]bool{}
		}
		w.evidence.opinions[key][from.Worker] = m.StateDigest == w.job.want.digest(w.job.device, m.Step-1)
	case pipeline.Applied:
		if m.Digest == w.job.want.step(m.Step).state {
			w.evidence.applied[appliedKey{c.generation, m.Step}]++
		}
	case pipeline.SnapshotTaken:
		c.copies[from.Worker] = m.Digest
	case pipeline.Joined:
		if m.Step > 0 {
			w.evidence.joined++
		}
	}
}

// judgeTwin checks that nobody takes the place of a member that gives signs of life.
func (w *world) judgeTwin(c *coordinator, e pipeline.CoordinatorEvent, effects []pipeline.CoordinatorEffect) {
	from, ok := e.(pipeline.FromWorker)
	if !ok || from.Incarnation != twinLife || w.clock.now >= w.evidence.heard[seat{c.generation, from.Worker}]+tick {
		return
	}
	for _, effect := range effects {
		if n, ok := effect.(pipeline.Announce); ok && n.Notice == (pipeline.WorkerLeft{Worker: from.Worker, Reason: lostContact}) {
			w.failf("%s lost its place to another process, and was heard of just before", from.Worker)
		}
	}
}

// lostContact is what becomes of a member that says hello.
const lostContact = "was lost: it has lost contact, or was started again"

// judgeChosen checks that the run goes on from no state beyond its records, and, where
// nothing kept the workers from telling, from the highest that one of them holds which it can know of.
func (w *world) judgeChosen(c *coordinator, n pipeline.StateChosen) {
	mine := func(generation uint64) bool { return generation == c.generation } // what was said before is given up
	maps.DeleteFunc(w.evidence.applied, func(k appliedKey, _ int) bool { return mine(k.generation) })
	maps.DeleteFunc(w.evidence.tickets, func(k seat, _ int64) bool { return mine(k.generation) })
	maps.DeleteFunc(w.evidence.opinions, func(k opinionKey, _ map[pipeline.WorkerID]bool) bool { return mine(k.generation) })
	defer func() {
		c.awaited = nil
		clear(c.outside) // some are welcomed, and the others say hello again
	}()
	w.judgeClaims(c, n.Step)
	w.judgeAwaited(c, n.Step)
	last := int64(len(c.journal.Steps))
	if n.Step > last {
		w.failf("coordinator %d goes on from state %d: its journal ends with intent %d", c.generation, n.Step, last)
	}
	for _, f := range []fault{cutBoth, cutUp, cutDown, pauseWorker, hangWorker, slowWorker, twinWorker, pauseCoordinator, replaceCoordinator} {
		if w.struck[f] > 0 {
			return
		}
	}
	before := w.coordinator(c.generation - 1)
	if w.network.loss > 0 || w.network.late > 0 || before != nil && w.clock.now < before.ended+8*tick {
		return // a worker that was told to wait says nothing for a while
	}
	for _, k := range w.workers {
		if k.state == last && n.Step == last-1 && c.unknown(k.id) {
			continue // the last step is computed again, to the same bits
		}
		if k.alive && !k.guilty && !k.leaving && k.state > n.Step && k.state <= last {
			w.failf("coordinator %d goes on from state %d: %s holds state %d", c.generation, n.Step, k.id, k.state)
		}
	}
}

// unknown reports that a coordinator which has just begun cannot know of a worker: no record names it, since
// it only stood by, and it has not said hello yet.
func (c *coordinator) unknown(id pipeline.WorkerID) bool {
	_, heard := c.outside[id]
	return c.awaited != nil && !c.awaited[id] && !heard
}

// judgeClaims checks that no two workers that wait outside hold the chosen state with
// different digests, unless its record tells which one is right.
func (w *world) judgeClaims(c *coordinator, step int64) {
	if r := c.journal.Step(step); r == nil || r.Commit != nil {
		return
	}
	digests := map[model.Digest]bool{}
	for _, o := range c.outside {
		if o.holds && o.step == step && o.at > w.clock.now-8*tick { // it is remembered for longer
			digests[o.digest] = true
		}
	}
	if len(digests) > 1 {
		w.failf("coordinator %d goes on from state %d, of which workers hold %d kinds", c.generation, step, len(digests))
	}
}

// judgeAwaited checks that a coordinator that has just begun gives those a while that may hold
// more than the others, as the records say.
func (w *world) judgeAwaited(c *coordinator, step int64) {
	for id := range c.awaited {
		k := w.worker(id)
		if _, heard := c.outside[id]; !heard && k.alive && !k.guilty && k.state > step && w.clock.now < c.greeted+4*tick {
			w.failf("coordinator %d goes on from state %d and has not waited for %s, which holds state %d", c.generation, step, id, k.state)
		}
	}
}

// judgeSend checks what a coordinator orders.
func (w *world) judgeSend(c *coordinator, e pipeline.Send) {
	switch m := e.Message.(type) {
	case pipeline.Welcome:
		at := seat{c.generation, e.Worker}
		if w.evidence.tickets[at] != e.Ticket { // else it is repeated
			w.evidence.heard[at] = w.clock.now
		}
		w.evidence.tickets[at] = e.Ticket
		c.lives[e.Worker] = e.Incarnation
		delete(c.outside, e.Worker)
		if r := c.journal.Step(m.Step); r != nil && r.Commit != nil && r.Commit.StateDigest != m.Digest {
			w.failf("%s is welcomed to state %d with digest %s: its record has %s", e.Worker, m.Step, m.Digest, r.Commit.StateDigest)
		}
	case pipeline.Commit:
		if _, durable := c.intents[m.Step]; !durable {
			w.failf("commit %d is sent and its intent is not durable", m.Step)
		}
	case pipeline.Lease:
		size := m.Hi - m.Lo
		if size < 1 || size&(size-1) != 0 || m.Lo%size != 0 || m.Hi > w.job.plan.Spec.Batch.Lanes || m.Lo < 0 {
			w.failf("lanes [%d, %d) are leased: they are no subtree", m.Lo, m.Hi)
		}
	}
}

// judgeReduce checks that every lane is summed exactly once.
func (w *world) judgeReduce(_ *coordinator, e pipeline.Reduce) {
	next := 0
	for _, from := range e.Contributions {
		if from.Lo != next {
			w.failf("the sum of step %d has lanes %d to %d twice or not at all: %+v", e.Step, min(next, from.Lo), max(next, from.Lo), e.Contributions)
		}
		next = from.Hi
	}
	if next != w.job.plan.Spec.Batch.Lanes {
		w.failf("the sum of step %d ends at lane %d: %+v", e.Step, next, e.Contributions)
	}
}

// judgeIntent compares a decision with the reference.
func (w *world) judgeIntent(c *coordinator, i pipeline.Intent) {
	if i.Step > w.job.plan.Spec.Steps {
		w.failf("step %d is decided: the job has %d", i.Step, w.job.plan.Spec.Steps)
	}
	want := w.job.want.step(i.Step)
	next := 0
	for _, lease := range i.Leases {
		if lease.Lo != next {
			w.failf("the intent of step %d has lane %d twice or not at all", i.Step, next)
		}
		next = lease.Hi
		w.judgeLease(c, i, lease, want)
	}
	switch {
	case next != w.job.plan.Spec.Batch.Lanes:
		w.failf("the intent of step %d ends at lane %d", i.Step, next)
	case i.RootDigest != want.root:
		w.failf("the root of step %d is %s, want %s", i.Step, i.RootDigest, want.root)
	case i.Action != want.action || i.Scale != want.scale || i.LR != want.hyper.LR || i.Tokens != want.tokens:
		w.failf("the intent of step %d is %+v, want %+v", i.Step, i, want)
	case !same(i.LossSum, want.loss) || !same(i.GradNorm, want.norm):
		w.failf("step %d has loss %v and norm %v, want %v and %v", i.Step, i.LossSum, i.GradNorm, want.loss, want.norm)
	}
}

// judgeLease compares one contribution. A wrong one that no second worker computed cannot be
// found by any protocol, but one that is not finite calls for a second, where there is one.
func (w *world) judgeLease(c *coordinator, i pipeline.Intent, lease pipeline.LeaseRecord, want expected) {
	step, suspect := i.Step, !finite(i.GradNorm)
	right := lease.GradDigest == want.nodes[[2]int{lease.Lo, lease.Hi}]
	for n, loss := range lease.LossSums {
		lane := want.lanes[lease.Lo+n]
		suspect = suspect || !finite(loss)
		if lease.TokenDigests[n] != lane.TokenDigest {
			w.failf("lane %d of step %d was not trained on its windows", lease.Lo+n, step)
		}
		right = right && same(loss, float64(lane.LossSum))
	}
	opinions := w.evidence.opinions[opinionKey{c.generation, step, lease.Lo, lease.Hi}]
	if same, heard := opinions[pipeline.WorkerID(lease.Worker)]; heard && !same {
		w.failf("lanes [%d, %d) of step %d count, which %s computed from another state than the group's", lease.Lo, lease.Hi, step, lease.Worker)
	}
	if right {
		return
	}
	if w.worker(pipeline.WorkerID(lease.Worker)).guilty && len(opinions) < 2 && (!suspect || c.alone == step) {
		panic(excuse("a wrong contribution that nobody else computed"))
	}
	w.failf("lanes [%d, %d) of step %d, from %s, are wrong", lease.Lo, lease.Hi, step, lease.Worker)
}

// judgeUpdate checks that a state is made of a durable decision.
func (w *world) judgeUpdate(k *worker, e pipeline.Update) {
	i := w.judgeKept(k, e.Step, pipeline.ActionApply)
	if want := w.job.want.step(e.Step); e.Scale != want.scale || e.Hyper != want.hyper {
		w.failf("%s applies step %d with scale %v and %+v, want %v and %+v", k.id, e.Step, e.Scale, e.Hyper, want.scale, want.hyper)
	}
	if root := w.job.device.gradDigest(k.engine, 0); root != i.RootDigest && !k.flaws.spoiled {
		w.failf("%s applies step %d with root %s: the intent has %s", k.id, e.Step, root, i.RootDigest)
	}
}

func (w *world) judgeKeep(k *worker, e pipeline.Keep) { w.judgeKept(k, e.Step, pipeline.ActionSkip) }

func (w *world) judgeKept(k *worker, step int64, action string) pipeline.Intent {
	generation := k.machine.Membership().Generation
	i, durable := w.coordinator(generation).intents[step]
	switch {
	case !durable:
		w.failf("%s makes state %d, and coordinator %d has no durable intent for it", k.id, step, generation)
	case k.state != step-1:
		w.failf("%s makes state %d from state %d", k.id, step, k.state)
	case i.Action != action:
		w.failf("%s does other than %s step %d", k.id, i.Action, step)
	}
	return i
}

// judgeCommit compares a confirmed step with the reference.
func (w *world) judgeCommit(c *coordinator, r pipeline.CommitRecord) {
	want := w.job.want.step(r.Step)
	if _, durable := c.intents[r.Step]; !durable {
		w.failf("step %d is recorded before its intent is durable", r.Step)
	}
	if r.StateDigest != want.state {
		if w.evidence.applied[appliedKey{c.generation, r.Step}] == 0 && w.struckBits() {
			panic(excuse("a wrong state that nobody else reported otherwise"))
		}
		w.failf("state %d is confirmed as %s, want %s", r.Step, r.StateDigest, want.state)
	}
	switch {
	case r.Tokens != want.tokens || r.LR != want.hyper.LR || !same(r.GradNorm, want.norm) || !same(r.Loss, want.loss/float64(want.tokens)):
		w.failf("the record of step %d is %+v, want %+v", r.Step, r, want)
	case (r.ValLoss != nil) != want.due:
		w.failf("the record of step %d has validation %v, due %v", r.Step, r.ValLoss, want.due)
	case r.ValLoss != nil && !same(*r.ValLoss, want.val):
		w.failf("the validation loss of step %d is %v, want %v", r.Step, *r.ValLoss, want.val)
	}
	w.confirmed = max(w.confirmed, r.Step)
}

// struckBits reports that some worker has computed, or holds, something wrong.
func (w *world) struckBits() bool {
	return w.struck[damageState]+w.struck[spoilGradient]+w.struck[wrongGradient]+w.struck[nonFinite] > 0
}

func (w *world) judgeCheckpoint(step int64, s stored) {
	if want := w.job.want.digest(w.job.device, step); s.digest != want || w.job.device.digest(s.state) != want {
		w.failf("the checkpoint of step %d has state %s, want %s", step, s.digest, want)
	}
}

// judgeLeft checks that nobody is expelled who did nothing wrong, that the coordinator leads
// nobody into doing nothing, and that nobody is let go who takes the state along.
func (w *world) judgeLeft(c *coordinator, n pipeline.WorkerLeft) {
	w.judgeContact(c, n)
	delete(w.evidence.tickets, seat{c.generation, n.Worker})
	for key, opinions := range w.evidence.opinions {
		if key.generation == c.generation {
			delete(opinions, n.Worker) // its contributions went with it
		}
	}
	if n.Reason == "left" && len(c.holders) == 1 && c.holders[n.Worker] && c == w.newest() {
		if saved, _ := w.disk.newest(c.journal); saved < c.step && c.step > 0 { // state 0 comes from the seed
			w.failf("%s was the last to hold state %d and is let go: the newest checkpoint is of step %d", n.Worker, c.step, saved)
		}
	}
	w.judgeHanging(c, n)
	if n.Expelled && !w.worker(n.Worker).guilty {
		w.failf("%s is expelled and has done nothing: %s", n.Worker, n.Reason)
	}
}

// judgeContact checks that a member counts as out of touch only when it has said hello since its welcome, or
// another process has in its place. What an earlier life of it said, and the network kept, looks like a later one's when the member
// has been silent.
func (w *world) judgeContact(c *coordinator, n pipeline.WorkerLeft) {
	k, at := w.worker(n.Worker), seat{c.generation, n.Worker}
	if n.Reason != lostContact || c != w.newest() || w.struck[twinWorker] > 0 || !k.alive || k.incarnation() != c.lives[n.Worker] {
		return
	}
	if w.evidence.speaker.Incarnation != c.lives[n.Worker] && w.clock.now >= w.evidence.heard[at]+tick {
		return
	}
	if k.hailed != (pipeline.Membership{Generation: c.generation, Ticket: w.evidence.tickets[at]}) {
		w.failf("%s counts as out of touch, and has said no hello since its welcome", n.Worker)
	}
}

// judgeLeave checks that a worker leaves for a reason.
func (w *world) judgeLeave(k *worker, err error) {
	var left pipeline.ErrLeft
	switch {
	case errors.As(err, &left) && !k.leaving:
		w.failf("%s leaves and was not asked to: %v", k.id, err)
	case err == nil && w.confirmed < w.job.plan.Spec.Steps:
		w.failf("%s leaves a run as done at step %d", k.id, w.confirmed)
	}
}

// justified says which strikes may end a run with which error.
var justified = []struct {
	text   string
	faults []fault
}{
	{"writing the journal", []fault{failJournal}},
	{"writing the checkpoint", []fault{failCheckpoint}},
	{"computed different gradients", []fault{wrongGradient, nonFinite}},
	{"reports a state", []fault{damageState, spoilGradient}},
	{"workers hold state", []fault{damageState, spoilGradient}},
	{"loaded state", []fault{damageState}},
	{"recomputing step", []fault{wrongGradient, nonFinite, damageState, spoilGradient}},
	{"workers failed in step", []fault{failDevice, damageState}},
}

// judgeOutcome checks how a coordinator ended.
func (w *world) judgeOutcome(_ *coordinator, o pipeline.Outcome) {
	steps := w.job.plan.Spec.Steps
	if o.Complete && (o.Step != steps || o.Checkpoint != steps || o.Err != nil) {
		w.failf("the run is called complete: %+v", o)
	}
	if !o.Complete && o.Err == nil && o.Stopped == "" {
		w.failf("the run ends without a reason: %+v", o)
	}
	if o.Err == nil {
		return
	}
	w.evidence.errors++
	for _, j := range justified {
		if !strings.Contains(o.Err.Error(), j.text) {
			continue
		}
		for _, f := range j.faults {
			if w.struck[f] > 0 {
				return
			}
		}
	}
	w.failf("the run ends with an error that no strike justifies: %v", o.Err)
}

// judgeEnd checks what is on disk when the job is done.
func (w *world) judgeEnd() {
	steps := w.job.plan.Spec.Steps
	journal, err := pipeline.ParseJournal(w.disk.journal.data)
	if err != nil || journal.Last() != steps || journal.Torn != 0 {
		w.failf("the journal of the finished run has %d steps: %v", journal.Last(), err)
	}
	for _, r := range journal.Steps {
		if r.Commit == nil {
			w.failf("the journal has no record of step %d", r.Intent.Step)
		}
	}
	step, s := w.disk.newest(journal)
	if step != steps {
		w.failf("the newest checkpoint is of step %d", step)
	}
	w.judgeCheckpoint(step, s)
}

func finite(f pipeline.Float) bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// same reports that both have the same bits, or neither is a number.
func same(f pipeline.Float, want float64) bool {
	return math.Float64bits(float64(f)) == math.Float64bits(want) || math.IsNaN(float64(f)) && math.IsNaN(want)
}
