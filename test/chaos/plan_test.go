package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The faults that strikes make.
const (
	killWorker      = "kill worker"
	killWorkers     = "kill all workers"
	killCoordinator = "kill coordinator"
	killAll         = "kill everybody"
	stopWorker      = "stop worker"
	stopCoordinator = "stop coordinator"
	termWorker      = "terminate worker"
	termCoordinator = "terminate coordinator"
	resetLink       = "reset"
	stallLink       = "stall"
	slowLink        = "slow"
	openLink        = "half-open"
	cutAll          = "cut everybody off"
	restartServer   = "restart server"
)

var faults = []string{
	killWorker, killWorkers, killCoordinator, killAll, stopWorker, stopCoordinator, termWorker, termCoordinator,
	resetLink, stallLink, slowLink, openLink, cutAll, restartServer,
}

// strike is one fault at one point.
type strike struct {
	point string
	nth   int  // message of that kind after the strike before
	after bool // once it was passed on; false: before, while it is held back

	fault  string
	other  bool          // it hits another worker than the one whose message it is
	lasts  time.Duration // of what ends by itself
	pace   time.Duration // of an operation on a slow connection
	client bool          // the end that knows that a half-open connection is gone
}

func (s strike) String() string {
	when := "before"
	if s.after {
		when = "after"
	}
	return fmt.Sprintf("%s, %s message %d of kind %s", s.fault, when, s.nth, s.point)
}

// schedule is what happens to one run.
type schedule struct {
	workers int
	foreign bool // the server is somebody else's, and outlives the coordinator
	strikes []strike
	job     []string // settings that change the job, such as steps=8
}

func (s schedule) String() string {
	server := "the run's own server"
	if s.foreign {
		server = "a server of somebody else"
	}
	var all []string
	for _, one := range s.strikes {
		all = append(all, one.String())
	}
	return fmt.Sprintf("%d workers on %s: %s", s.workers, server, strings.Join(all, "; "))
}

// targets is how many points a schedule strikes at.
const targets = 3

// draw draws schedules, the first ones the same however many there are. Points and faults are dealt
// from decks, so that all of them come soon.
func draw(seed uint64, n int) (all []schedule) {
	rng := rand.New(rand.NewPCG(seed, 0))
	nextPoint, nextFault := deck(rng, points), deck(rng, faults)
	for range n {
		s := schedule{workers: 2 + rng.IntN(4), foreign: rng.IntN(4) == 0}
		var chosen []string
		for range targets {
			chosen = append(chosen, nextPoint())
		}
		slices.SortStableFunc(chosen, func(a, b string) int { return rank(a) - rank(b) })
		for i, point := range chosen {
			s.strikes = append(s.strikes, provoke(rng, point, i == 0)...)
			fault := nextFault()
			s.strikes = append(s.strikes, drawStrike(rng, point, fault))
			s.foreign = s.foreign || fault == restartServer
		}
		all = append(all, s)
	}
	return all
}

// deck returns what deals cards, all of them before the first one comes again.
func deck(rng *rand.Rand, cards []string) func() string {
	var left []string
	return func() (card string) {
		if len(left) == 0 {
			left = slices.Clone(cards)
			rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		card, left = left[0], left[1:]
		return card
	}
}

// rank orders points within a schedule: the last message of a run comes at its end.
func rank(point string) int {
	if point == "finish" {
		return 1
	}
	return 0
}

// entering are the messages of a worker that joins.
var entering = []string{"hello", "welcome", "joined"}

func drawStrike(rng *rand.Rand, point, fault string) strike {
	nth := 1
	if often(point) {
		nth += rng.IntN(5)
	}
	return strike{
		point: point, nth: nth, after: rng.IntN(2) == 0, fault: fault, other: rng.IntN(3) == 0,
		lasts: time.Duration(100+rng.IntN(2900)) * time.Millisecond, pace: time.Duration(1+rng.IntN(15)) * time.Millisecond,
		client: rng.IntN(2) == 0,
	}
}

// often reports that messages of a kind come many times in every step.
func often(point string) bool {
	return slices.Contains([]string{"lease", "answer", "commit", "applied", "tokens", "root", "grad", "heartbeat"}, point)
}

// provoke is what makes a message come that an undisturbed run does not have, or has only when it
// begins.
func provoke(rng *rand.Rand, point string, first bool) []strike {
	s := strike{nth: 1 + rng.IntN(4), after: rng.IntN(2) == 0}
	if slices.Contains(entering, point) && (!first || rng.IntN(2) == 0) {
		s.point, s.fault = "commit", killWorker
		return []strike{s}
	}
	switch point {
	case "wait": // the first that comes back waits for the others, which the newest intent names
		s.point, s.fault, s.nth = "lease", killCoordinator, s.nth+20
	case "rejoin":
		s.point, s.fault, s.lasts = "lease", stopWorker, 3*time.Second
	case "cancel":
		s.point, s.fault = "tokens", termCoordinator
	case "leaving":
		s.point, s.fault = "lease", termWorker
	case "peer":
		s.point, s.fault, s.nth = "commit", killWorker, s.nth+5 // state 0 nobody pulls
	case "state":
		s.point, s.fault, s.nth = "snapshot", killWorkers, 2 // the first checkpoint is on disk by then
	default:
		return nil
	}
	return []strike{s}
}
