package pipeline

import "fmt"

// Status is a coordinator at a glance.
type Status struct {
	Phase   string
	Step    int64 // last confirmed
	Steps   int64
	Workers []WorkerStatus // members in the order in which they came, then who waits
	Class   string         // engine class of the run; empty until a worker has come
	LeftOut int            // audits that there was nobody for, or no room, since this coordinator began
}

// WorkerStatus is a worker at a glance.
type WorkerStatus struct {
	Worker WorkerID
	Device string
	Joined bool   // it holds the group's state
	Doing  string // for people
}

// Status says where the run is.
func (c *Coordinator) Status() Status {
	s := Status{Phase: c.phase.String(), Step: c.step, Steps: c.plan.Spec.Steps, Class: c.class, LeftOut: c.leftOut}
	for _, m := range c.members {
		s.Workers = append(s.Workers, WorkerStatus{Worker: m.id, Device: m.device, Joined: m.joined, Doing: c.doing(m)})
	}
	for _, m := range c.outside {
		s.Workers = append(s.Workers, WorkerStatus{Worker: m.id, Device: m.device, Doing: "waits: " + c.whyWait()})
	}
	return s
}

// Phase is what the coordinator waits for, as in Status.
func (c *Coordinator) Phase() string { return c.phase.String() }

// doing is what a member is at.
func (c *Coordinator) doing(m *member) string {
	switch {
	case !m.joined:
		return fmt.Sprintf("loads state %d", c.step)
	case m.leaving:
		return "leaves after this step"
	case m.share != nil:
		return fmt.Sprintf("computes lanes [%d, %d) of step %d", m.share.lo, m.share.hi, c.step+1)
	case c.phase == computing && m.contributions == 0:
		return "stands by: the others are as fast without it"
	case c.phase == computing:
		return "is done and waits for the others"
	}
	return c.phase.String()
}
