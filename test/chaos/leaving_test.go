package chaos

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"andrea/checkpoints/dirstore"
	"andrea/pipeline/runner"
	"andrea/vfs"
)

// A worker that is told to go finishes or returns its lease and ends with 143 while the run goes
// on; the last one waits for a checkpoint of all that was confirmed.
func TestWorkersLeave(t *testing.T) {
	t.Parallel()
	c := newCluster(t, schedule{workers: 2, strikes: []strike{{point: "tokens", nth: 25, fault: termWorker, after: true}}}, newTable())
	first := <-c.exits
	if !first.isWorker() || first.code != 143 {
		c.fail(fmt.Sprintf("%s ended first, with code %d", first.name, first.code))
	}
	var last *process
	for _, w := range c.workers {
		if w != first {
			last = w
		}
	}
	last.signal(syscall.SIGTERM)
	if code := last.wait(); code != 143 {
		c.fail(fmt.Sprintf("the last worker, %s, ended with code %d", last.name, code))
	}
	journal, err := runner.ReadJournal(vfs.OS, filepath.Join(c.run(), "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	saved, err := dirstore.Open(vfs.OS, filepath.Join(c.run(), "checkpoints")).List()
	if err != nil || len(saved) == 0 {
		c.fail(fmt.Sprintf("no checkpoint was written: %v", err))
	}
	if confirmed, newest := journal.Last(), int64(saved[len(saved)-1]); confirmed < 1 || newest != confirmed || confirmed == steps {
		c.fail(fmt.Sprintf("the newest checkpoint is of step %d, the last record of step %d", newest, confirmed))
	}
	c.startWorker(0)
	c.supervise()
	judge(t, c.run())
}

// Workers stay while there is no coordinator, and the next one goes on from what they hold,
// which is newer than any checkpoint. One that is told to go meanwhile goes at once.
func TestWorkersWithoutCoordinator(t *testing.T) {
	t.Parallel()
	c := newCluster(t, schedule{workers: 3, strikes: []strike{{point: "commit", nth: 21, fault: killCoordinator, after: true}}}, newTable())
	if ended := <-c.exits; ended != c.coordinator || ended.code != -1 {
		c.fail(fmt.Sprintf("%s ended first, with code %d", ended.name, ended.code))
	}
	for _, w := range c.workers {
		w.waitFor(t, "the coordinator answers no more")
	}
	c.workers[2].signal(syscall.SIGTERM)
	if gone := <-c.exits; gone != c.workers[2] || gone.code != 143 {
		c.fail(fmt.Sprintf("%s ended with code %d", gone.name, gone.code))
	}
	c.startCoordinator()
	c.supervise()
	if text := c.coordinator.log.String(); !strings.Contains(text, `"step":20`) {
		c.fail("the second coordinator did not finish the run")
	}
	c.hasLogged("going on", func(line map[string]any) bool {
		step, holders := line["step"].(float64), line["holders"].(float64)
		return step == 6 && holders == 2 || step == 7 && holders >= 1 // the commit of step 7, the last before the kill, may have reached one alone
	})
	judge(t, c.run())
}
