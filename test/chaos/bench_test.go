package chaos

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"andrea/pipeline/runner"
	"andrea/vfs"
)

// BenchmarkLostWorker kills one of two workers when it has just been leased lanes, and measures the
// time until the other one is told to compute them.
func BenchmarkLostWorker(b *testing.B) {
	var took []float64
	for b.Loop() {
		r := &release{done: make(chan struct{})}
		c := newClusterWith(b, schedule{workers: 2, strikes: []strike{{point: "lease", nth: 13, after: true, fault: killWorker}}}, newTable(), r.look)
		<-r.done
		took = append(took, r.took.Seconds())
		c.supervise()
		c.finish()
	}
	reportAll(b, took)
}

// lanes are what a lease says.
type lanes struct{ Step, Lo, Hi int }

// release watches for lanes to be leased again. It is called with the cluster's lock held.
type release struct {
	leases [2]lanes // the newest of each worker
	took   time.Duration
	done   chan struct{}
}

func (r *release) look(c *cluster, worker int, point string, payload []byte) {
	if point != "lease" || r.took > 0 {
		return
	}
	var message struct{ Body lanes }
	if err := json.Unmarshal(payload, &message); err != nil {
		panic(err) // the programs write JSON
	}
	l, other := message.Body, r.leases[1-worker]
	if !c.struck.IsZero() && l.Step == other.Step && l.Lo < other.Hi && other.Lo < l.Hi {
		r.took = time.Since(c.struck)
		close(r.done)
	}
	r.leases[worker] = l
}

// BenchmarkLostCoordinator kills the coordinator of two workers and starts it again at once. It
// measures the time from that start until the next step is committed.
func BenchmarkLostCoordinator(b *testing.B) {
	var took []float64
	for b.Loop() {
		c := newClusterWith(b, schedule{workers: 2, strikes: []strike{{point: "commit", nth: 19, fault: killCoordinator}}}, newTable(), nil)
		<-c.exits
		began := time.Now()
		c.startCoordinator()
		c.coordinator.waitFor(b, `"step":`)
		took = append(took, time.Since(began).Seconds())
		c.supervise()
		c.finish()
	}
	reportAll(b, took)
}

// reportAll reports the least, the middle and the most of what was measured, in seconds.
func reportAll(b *testing.B, seconds []float64) {
	b.ReportMetric(0, "ns/op") // is about the whole run
	b.ReportMetric(slices.Min(seconds), "s-least")
	b.ReportMetric(median(seconds), "s-median")
	b.ReportMetric(slices.Max(seconds), "s-most")
}

// BenchmarkSlowWorker trains with two workers of one thread each, of which one stands still nine
// tenths of every 100 ms in every other ten steps, and compares the speed of these steps with that of the
// others. Half of the computing is the slow worker's share, so the loss may be 60 %.
func BenchmarkSlowWorker(b *testing.B) {
	const block, blocks = 10, 6
	for b.Loop() {
		c := newClusterWith(b, schedule{workers: 2, job: []string{
			fmt.Sprintf("steps=%d", block*blocks), "model.d_model=128", "model.n_head=4", "model.n_layer=4", "model.context=128",
			"batch.tokens_per_step=8192", "batch.lanes=32", "eval.every=0", "checkpoint.every=1000",
		}}, newTable(), nil)
		for i := 1; i < blocks; i++ {
			c.coordinator.waitFor(b, fmt.Sprintf(`"step":%d,`, i*block))
			if i%2 == 1 {
				stop := hinder(c.workers[0])
				c.coordinator.waitFor(b, fmt.Sprintf(`"step":%d,`, (i+1)*block))
				stop()
			}
		}
		c.supervise()
		c.finish()
		seconds := secondsOf(b, c.run())
		var fast, slow []float64
		for i, s := range seconds {
			if in := i % block; in < 2 {
				continue // the leases follow the speed
			}
			if i/block%2 == 1 {
				slow = append(slow, s)
			} else if i >= block {
				fast = append(fast, s)
			}
		}
		b.ReportMetric(100*(1-median(fast)/median(slow)), "%loss-median")
		b.ReportMetric(100*(1-sum(fast)/float64(len(fast))/(sum(slow)/float64(len(slow)))), "%loss")
		b.ReportMetric(8192/median(fast), "tokens/s-even")
		b.ReportMetric(8192/median(slow), "tokens/s-hindered")
	}
}

// hinder lets a process run a tenth of the time until the function is called.
func hinder(p *process) (stop func()) {
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		defer p.signal(syscall.SIGCONT)
		for {
			for s, pause := range map[syscall.Signal]time.Duration{syscall.SIGSTOP: 90 * time.Millisecond, syscall.SIGCONT: 10 * time.Millisecond} {
				p.signal(s)
				select {
				case <-quit:
					return
				case <-time.After(pause):
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-gone
	}
}

// secondsOf are the times of a run's steps.
func secondsOf(b *testing.B, run string) (seconds []float64) {
	b.Helper()
	journal, err := runner.ReadJournal(vfs.OS, filepath.Join(run, "journal.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range journal.Steps {
		seconds = append(seconds, s.Commit.Seconds)
	}
	return seconds
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	if len(x) == 0 {
		return math.NaN()
	}
	return x[len(x)/2]
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// args are a job's settings as flags.
func (s schedule) args() (args []string) {
	for _, setting := range s.job {
		args = append(args, "--set", setting)
	}
	return args
}
