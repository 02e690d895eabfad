package launch_test

import (
	"fmt"
	"strings"
	"testing"

	"andrea/launch"
	"andrea/model"
)

// doomed is an engine whose device fails for good in its n-th microbatch.
type doomed struct {
	model.Engine
	n    int
	dead bool
}

func (m *doomed) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	if m.n--; m.n == 0 {
		m.dead = true
	}
	if m.dead {
		return model.Loss{}, fmt.Errorf("computing a microbatch: %w", model.ErrDevice)
	}
	return m.Engine.Accumulate(slot, b)
}

// A run whose device fails goes on with an engine that is opened anew, to the same bits, and ends where devices only
// fail.
func TestADeviceThatFails(t *testing.T) {
	engine, err := launch.CPU("", 1)
	if err != nil {
		t.Fatal(err)
	}
	base, spec := memory(t)
	whole := base.Kill()
	if err := trainOn(t, whole, engine, spec); err != nil {
		t.Fatal(err)
	}
	perStep := spec.Batch.TokensPerStep / 16 // microbatches of one window
	opened, failing := 0, engine
	failing.Open = func(c model.Config, microbatch, slots int) (model.Engine, error) {
		e, err := engine.Open(c, microbatch, slots)
		if opened++; opened > 2 {
			return e, err
		}
		return &doomed{Engine: e, n: 2*perStep + perStep/2}, err
	}
	often := base.Kill()
	if err := trainOn(t, often, failing, spec); err != nil {
		t.Fatal(err)
	}
	if got, want := ending(t, often, killSteps), ending(t, whole, killSteps); got != want {
		t.Errorf("other bits:\n%s\nwant\n%s", got, want)
	}
	if opened != 3 {
		t.Errorf("%d engines were opened, want 3", opened)
	}

	failing.Open = func(c model.Config, microbatch, slots int) (model.Engine, error) {
		e, err := engine.Open(c, microbatch, slots)
		return &doomed{Engine: e, n: 1}, err
	}
	if err := trainOn(t, base.Kill(), failing, spec); err == nil || !strings.Contains(err.Error(), model.ErrDevice.Error()) {
		t.Errorf("where every device fails the run ends with %v", err)
	}
}
