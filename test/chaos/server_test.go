package chaos

import "testing"

// The NATS server that a run uses is restarted in the middle, twice, and what it forgets
// everybody tells again.
func TestTheServerIsRestarted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, schedule{workers: 3, foreign: true, strikes: []strike{
		{point: "answer", nth: 9, after: true, fault: restartServer},
		{point: "commit", nth: 9, fault: restartServer},
	}}, newTable())
	c.supervise()
	c.finish()
	if c.next != 2 {
		c.fail("the server was not restarted twice")
	}
	judge(t, c.run())
}
