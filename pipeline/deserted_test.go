package pipeline_test

import (
	"strings"
	"testing"

	"andrea/pipeline"
)

// A run whose workers have all ended ends, too, though the hello of one of them arrived after the
// news of its end; but not while somebody else takes part.
func TestARunThatNobodyComesToEnds(t *testing.T) {
	spec, err := pipeline.ParseJobSpec([]byte("name: alone\nmodel: {d_model: 8, n_head: 2, n_layer: 1, context: 4}\ndata: {path: nowhere}\nbatch: {tokens_per_step: 8, microbatch: 1, lanes: 2}\n"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pipeline.NewPlan(spec, pipeline.DatasetInfo{Fingerprint: "f", Tokenizer: "bytes", Vocab: 11, Tokens: 2000})
	if err != nil {
		t.Fatal(err)
	}
	for name, joins := range map[string]bool{"a ghost": false, "somebody": true} {
		t.Run(name, func(t *testing.T) {
			c := pipeline.NewCoordinator(plan, pipeline.Start{Generation: 1})
			from := func(ticket int64, m pipeline.Message) pipeline.FromWorker {
				return pipeline.FromWorker{Worker: "w", Incarnation: "1", Ticket: ticket, Message: m}
			}
			c.Handle(from(0, pipeline.Hello{Protocol: pipeline.Protocol, Class: "cpu-fp32-n1"}))
			if ended(c.Handle(pipeline.NobodyComes{Reason: "all are gone"})) != nil {
				t.Fatal("it ended while a worker seemed to be there")
			}
			if joins {
				c.Handle(from(1, pipeline.Joined{}))
			}
			var outcome *pipeline.Outcome
			for range 100 {
				if outcome == nil {
					outcome = ended(c.Tick())
				}
			}
			if joins != (outcome == nil) {
				t.Errorf("it ended with %+v", outcome)
			}
			if outcome != nil && (outcome.Err == nil || !strings.Contains(outcome.Err.Error(), "all are gone")) {
				t.Errorf("it ended with %v", outcome.Err)
			}
		})
	}
}

// ended is the outcome among effects; nil: there is none.
func ended(effects []pipeline.CoordinatorEffect) *pipeline.Outcome {
	for _, e := range effects {
		if end, ok := e.(pipeline.End); ok {
			return &end.Outcome
		}
	}
	return nil
}
