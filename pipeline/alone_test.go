package pipeline_test

import (
	"testing"

	"andrea/pipeline"
)

// After a crash a coordinator waits for the workers of its records, unless they ended with it.
func TestNobodyIsAwaitedWhoEndedWithTheCoordinator(t *testing.T) {
	for _, alone := range []bool{true, false} {
		recorded := pipeline.Journal{}
		for step := int64(1); step <= 3; step++ {
			recorded.Steps = append(recorded.Steps, pipeline.Recorded{
				Intent: pipeline.Intent{Step: step, Leases: []pipeline.LeaseRecord{{Hi: 2, Worker: "gone"}}},
				Commit: &pipeline.CommitRecord{Step: step, StateDigest: named("s")},
			})
		}
		c := pipeline.NewCoordinator(storyPlan(t, nil), pipeline.Start{Generation: 2, Journal: &recorded, Alone: alone})
		welcomed := false
		for _, effect := range c.Handle(pipeline.FromWorker{Worker: "w", Incarnation: "1", Message: pipeline.Hello{Protocol: pipeline.Protocol, Class: "plain-fp32-n1"}}) {
			if send, ok := effect.(pipeline.Send); ok {
				_, welcome := send.Message.(pipeline.Welcome)
				welcomed = welcomed || welcome
			}
		}
		if welcomed != alone {
			t.Errorf("alone %v: the first worker is welcomed at once: %v", alone, welcomed)
		}
	}
}
