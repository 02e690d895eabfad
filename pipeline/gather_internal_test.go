package pipeline

import (
	"strings"
	"testing"

	"andrea/model"
)

// recordedStates is a journal whose steps gave states with the digests 1, 2, ...; the last
// one has no record.
func recordedStates(intents int) (j Journal) {
	for s := 1; s <= intents; s++ {
		r := Recorded{Intent: Intent{Step: int64(s)}}
		if s < intents {
			r.Commit = &CommitRecord{Step: int64(s), StateDigest: model.Digest{uint64(s)}}
		}
		j.Steps = append(j.Steps, r)
	}
	return j
}

// The run goes on from the highest state that a worker holds and no record contradicts, never
// beyond the last intent, and else from the checkpoint.
func TestHighestState(t *testing.T) {
	state := func(step int64, digest uint64) checkpoint { return checkpoint{step, model.Digest{digest}} }
	none := checkpoint{step: -1}
	for _, c := range []struct {
		name    string
		written checkpoint
		held    []checkpoint
		want    checkpoint
		holders int
		err     string
	}{
		{name: "nobody", written: none, want: state(0, 0)},
		{name: "nobody holds anything", written: none, held: []checkpoint{none, none}, want: state(0, 0)},
		{name: "the checkpoint", written: state(2, 2), held: []checkpoint{none}, want: state(2, 2)},
		{name: "the checkpoint is newer", written: state(2, 2), held: []checkpoint{state(1, 1)}, want: state(2, 2)},
		{name: "holders of the checkpoint", written: state(2, 2), held: []checkpoint{state(2, 2), none, state(2, 2)}, want: state(2, 2), holders: 2},
		{name: "a worker is ahead", written: state(2, 2), held: []checkpoint{state(3, 3), state(2, 2)}, want: state(3, 3), holders: 1},
		{name: "the first of two is behind", written: none, held: []checkpoint{state(1, 1), state(3, 3), state(3, 3)}, want: state(3, 3), holders: 2},
		{name: "the intent was applied", written: none, held: []checkpoint{state(3, 3), state(4, 77)}, want: state(4, 77), holders: 1},
		{name: "beyond the last intent", written: none, held: []checkpoint{state(5, 5), state(3, 3)}, want: state(3, 3), holders: 1},
		{name: "another state than the recorded", written: none, held: []checkpoint{state(3, 99), state(2, 2)}, want: state(2, 2), holders: 1},
		{name: "the state before training", written: none, held: []checkpoint{state(0, 5)}, want: state(0, 0)},
		{name: "two states of the intent", written: none, held: []checkpoint{state(4, 7), state(4, 8)}, want: state(4, 7), err: "workers hold state 4"},
		{name: "another state than the checkpoint's", written: state(2, 2), held: []checkpoint{state(2, 3)}, want: state(2, 2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			coordinator := &Coordinator{recorded: recordedStates(4), written: c.written}
			for _, h := range c.held {
				coordinator.outside = append(coordinator.outside, &member{held: h})
			}
			best, holders, err := coordinator.highest()
			if best != c.want || holders != c.holders || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v with %d holders, %v", best, holders, err)
			}
		})
	}
}
