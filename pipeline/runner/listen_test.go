package runner_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"andrea/model"
	"andrea/pipeline/runner"
	"andrea/pipeline/transport"
	"andrea/vfs/crashfs"
)

// A worker whose connection is cut while it begins to listen, or to serve what its engine
// holds, tries again. In the end it has one engine and listens to every subject once: two
// subscriptions would give two answers to one question, and the server lets neither pass.
func TestAWorkerThatIsCutOffWhileItBegins(t *testing.T) {
	for nth := 1; nth <= 4; nth++ {
		t.Run(fmt.Sprintf("in subscription %d", nth), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { cutOffInSubscription(t, nth) })
		})
	}
}

func cutOffInSubscription(t *testing.T, nth int) {
	r := newQuietRig(t)
	want := r.reference(t)
	tried, engines, listening := 0, 0, map[string]int{}
	r.worker.set(func(b *bus) {
		b.refuse = func(subject string) error {
			if tried++; tried == nth {
				return fmt.Errorf("subscribe to %s: %w", subject, transport.ErrDisconnected)
			}
			listening[subject]++
			return nil
		}
	})
	fsys := crashfs.New()
	said := r.play(t, fsys, nil, func() {
		r.start(t, "w", r.worker, func(o *runner.WorkerOptions) {
			open := o.OpenEngine
			o.OpenEngine = func(c model.Config, microbatch, slots int) (model.Engine, error) {
				engines++
				return open(c, microbatch, slots)
			}
		})
	})
	r.mustComplete(t, fsys, said, want)
	if engines != 1 || len(listening) != 4 {
		t.Errorf("%d engines were opened; listening to %v", engines, listening)
	}
	for subject, times := range listening {
		if times != 1 {
			t.Errorf("%d subscriptions to %s", times, subject)
		}
	}
}
