package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// Variables that change what is tested.
const (
	seedVariable       = "ANDREA_TEST_SEED"      // of what is drawn; printed when it is not set
	schedulesVariable  = "ANDREA_TEST_SCHEDULES" // how many
	everythingVariable = "ANDREA_TEST_EVERYTHING"
)

// atOnce is how many schedules run at a time. They mostly wait for silence to be noticed.
const atOnce = 5

// howMany is the number of schedules.
func howMany(t *testing.T) int {
	t.Helper()
	switch text := os.Getenv(schedulesVariable); {
	case text != "":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s is %q: give a number from 1", schedulesVariable, text)
		}
		return n
	case os.Getenv(everythingVariable) != "":
		return 60
	}
	return 20
}

// seed is the one that is set, or one that is drawn.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		text = strconv.FormatUint(rand.Uint64N(1e6), 10)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", seedVariable, err)
	}
	t.Logf("drawn with %s=%d", seedVariable, n)
	return n
}

// Whatever strikes at whatever point, a run ends in the same bits.
func TestSchedules(t *testing.T) {
	plans, table := draw(seed(t), howMany(t)), newTable()
	var next atomic.Int64
	var players sync.WaitGroup
	for range atOnce {
		players.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(plans)); i = next.Add(1) - 1 {
				t.Run(fmt.Sprint(i), func(t *testing.T) { play(t, plans[i], table) })
			}
		})
	}
	players.Wait()
	t.Logf("which faults struck at which points:\n%s", table)
	if !t.Failed() && len(plans) >= 20 {
		table.covered(t)
	}
}

// play runs one schedule.
func play(t *testing.T, plan schedule, table *table) {
	t.Log(plan)
	c := newCluster(t, plan, table)
	c.supervise()
	c.finish()
	judge(t, c.run())
	t.Logf("struck %d of %d\n%s", c.next, len(plan.strikes), c.story.String())
}
