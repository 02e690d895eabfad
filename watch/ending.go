package watch

// What the coordinator logs, by package launch, at the two ends of a run's life.
const (
	Coordinator = "coordinator" // the process
	RunStarted  = "run started"
	RunEnded    = "run ended" // its last line but for what closing brings
)

// quietLooks is after how many looks in a row without a new line a log counts as finished.
const quietLooks = 8

// Link is what is known of a run's coordinator.
type Link int

// The links.
const (
	Unknown   Link = iota // it cannot be asked
	Answering             // it answers
	Silent                // there is a server and no coordinator: not yet, or no longer
	Gone                  // there is no server
)

// Ending finds out when the logs of a run that is followed are complete.
type Ending struct {
	ended bool // the newest such line says that the run ended
	quiet int  // looks since the last new line
}

// Saw takes in a new line.
func (e *Ending) Saw(l Line) {
	e.quiet = 0
	if l.Process != Coordinator || l.Damage != "" {
		return
	}
	switch l.Msg {
	case RunStarted:
		e.ended = false
	case RunEnded:
		e.ended = true
	}
}

// Look takes in that link was found and then everything was read, and reports that no line will follow.
// Without a server the processes of the run have closed their logs, or were killed; with one they may
// still have something to say, and a run that has not ended is waited for, however long a step takes.
func (e *Ending) Look(link Link) (complete bool) {
	e.quiet++
	switch link {
	case Answering:
		return false
	case Gone:
		return e.ended && e.quiet > 1 || e.quiet > quietLooks
	}
	return e.ended && e.quiet > quietLooks
}

// Ended reports that the newest word of the coordinator is that the run ended.
func (e *Ending) Ended() bool { return e.ended }

// Gaps finds lines that did not arrive, by process: the number of the line before. It is for logs that
// come over a bus, which may drop lines; a file has all of them.
type Gaps map[string]uint64

// Missing takes in the next line of a process and returns how many lines before it are missing. A lower
// number than before is of a new life, of which the first line may be missing too.
func (g Gaps) Missing(l Line) uint64 {
	before, seen := g[l.Process]
	g[l.Process] = l.Seq
	switch {
	case !seen || l.Seq == 0:
		return 0
	case l.Seq > before:
		return l.Seq - before - 1
	}
	return l.Seq - 1
}
