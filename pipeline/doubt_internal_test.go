package pipeline

import "testing"

// What is to be done when nobody has room does not depend on which share comes first: an audit is not
// left out of a step that begins again.
func TestStuckDoesNotDependOnTheOrder(t *testing.T) {
	for _, unanswered := range []int{0, 1} {
		shares := []*share{{span: span{0, 2}, opinions: 2}, {span: span{2, 4}, opinions: 2}}
		shares[1-unanswered].answers = answersOf(1)
		c := &Coordinator{
			plan:    &Plan{Spec: JobSpec{Audit: 1, Batch: BatchSpec{Lanes: 4}}},
			phase:   computing,
			members: members{{id: "a", joined: true}},
			shares:  shares,
		}
		c.stuck()
		if c.round != 1 || c.leftOut != 0 || c.phase != computing {
			t.Errorf("share %d without an answer: %d rounds, %d audits left out, phase %v", unanswered, c.round, c.leftOut, c.phase)
		}
	}
}
