package audit_test

import (
	"testing"

	"andrea/checkpoints/audit"
	"andrea/vfs/crashfs"
)

// A run that was made and has trained nothing yet has no checkpoints and no fault;
// what is missing of it is a fault each. What is in checkpoints is tested with the
// program in cmd/andrea.
func TestARunWithoutCheckpoints(t *testing.T) {
	fsys := crashfs.New()
	f, err := audit.Run(fsys, "run")
	if err != nil || len(f.Steps()) != 0 || len(f.Faults()) != 2 || !f.InRun() {
		t.Errorf("an empty folder: steps %v, faults %v, %v", f.Steps(), f.Faults(), err)
	}
	if _, err := audit.One(fsys, "run/checkpoints/step-00000001"); err == nil {
		t.Error("a checkpoint that is not there was found")
	}
}

// A checkpoint that its owner deletes after the listing is no damage.
func TestADeletedCheckpointIsNotFound(t *testing.T) {
	fsys := crashfs.New()
	if err := fsys.MkdirAll("run/checkpoints/step-00000005"); err != nil {
		t.Fatal(err)
	}
	f, err := audit.Run(fsys, "run")
	if err != nil || len(f.Steps()) != 1 {
		t.Fatalf("steps %v, %v", f.Steps(), err)
	}
	if c, found := f.Verify(5); !found || c.Fault == "" || c.Verified {
		t.Errorf("an empty folder: %+v, found %v", c, found)
	}
	if err := fsys.Remove("run/checkpoints/step-00000005"); err != nil {
		t.Fatal(err)
	}
	if c, found := f.Glance(5); found {
		t.Errorf("deleted: %+v", c)
	}
}
