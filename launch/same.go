package launch

import (
	"errors"
	"fmt"
	"strings"

	"andrea/pipeline"
)

// OpenSame opens a run to go on with it, as Open does, when it is the run of this job, whose
// data.path says where the dataset lies now. So what starts a coordinator again and again can give it the
// same command each time.
func OpenSame(env Environment, dir string, spec pipeline.JobSpec) (*Run, error) {
	if err := checkReach(env); err != nil {
		return nil, err
	}
	stored, err := readJob(env.FS, dir)
	if err != nil {
		return nil, err
	}
	p, data, err := plan(env, spec)
	if err != nil {
		return nil, err
	}
	stored.Data.Path = p.Spec.Data.Path // the dataset may have moved; its fingerprint is compared
	if differences := stored.Differences(p.Spec); len(differences) > 0 {
		err := fmt.Errorf("opening the run %s with another job than it began with: a run's job cannot change: %s: choose another folder with --run for a new run",
			dir, strings.Join(differences, "; "))
		return nil, errors.Join(err, data.Close())
	}
	return open(env, dir, p, data, func() error { return nil })
}
