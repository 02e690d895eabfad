package pipeline

import (
	"fmt"
	"testing"

	"andrea/model"
)

// When as many wait as are remembered, only those that nobody knows are turned away.
func TestManyWorkersOutside(t *testing.T) {
	c := &Coordinator{
		plan:    &Plan{Spec: JobSpec{Engine: "auto", Precision: "fp32", Batch: BatchSpec{Lanes: 4}}},
		phase:   deciding,
		members: members{{id: "member", incarnation: "1", joined: true, quiet: restartTicks}, {id: "other", joined: true}},
	}
	for i := range maxOutside {
		c.outside = append(c.outside, &member{id: WorkerID(fmt.Sprint("w", i)), incarnation: "1", quiet: outsideTicks})
	}
	hello := Hello{Protocol: Protocol, Class: model.EngineClass("cpu", model.FP32)}
	for _, say := range []struct {
		worker WorkerID
		life   string
		want   int // workers outside afterwards
	}{{"new", "1", maxOutside}, {"w7", "1", maxOutside}, {"member", "2", maxOutside + 1}} {
		c.hello(FromWorker{Worker: say.worker, Incarnation: say.life}, hello)
		m := c.outside.find(say.worker)
		if known := say.worker != "new"; len(c.outside) != say.want || (m != nil) != known || known && m.quiet != 0 {
			t.Errorf("after a hello of %s there are %d outside, it is %+v", say.worker, len(c.outside), m)
		}
	}
	if len(c.members) != 1 {
		t.Errorf("%d members: the life that ended is still one", len(c.members))
	}
}
