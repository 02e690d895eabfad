package runner

import (
	"time"

	"andrea/pipeline"
)

// farewells are the workers that were told that the run has ended and have not answered.
type farewells map[pipeline.WorkerID]pipeline.Send

// note remembers what was sent, if it is a farewell.
func (f farewells) note(e pipeline.Send) {
	if _, last := e.Message.(pipeline.Finish); last {
		f[e.Worker] = e
	}
}

// linger repeats the farewells of a run that has ended until all are answered, or the time is
// over. Whoever does not hear of the end waits for the run's next start.
func (c *coordinator) linger() {
	over, repeat := time.NewTimer(c.Linger), time.NewTicker(tickInterval)
	defer over.Stop()
	defer repeat.Stop()
	for c.Linger > 0 && len(c.farewells) > 0 {
		select {
		case event := <-c.inbox:
			c.farewell(event)
		case <-repeat.C:
			for _, e := range c.farewells {
				c.send(e)
			}
		case <-over.C:
			return
		}
	}
}

// farewell takes in what a worker says after the end: that it knows, or a hello.
func (c *coordinator) farewell(event pipeline.CoordinatorEvent) {
	e, ok := event.(pipeline.FromWorker)
	if !ok {
		return
	}
	switch e.Message.(type) {
	case pipeline.Leaving:
		if c.farewells[e.Worker].Incarnation == e.Incarnation {
			delete(c.farewells, e.Worker)
		}
	case pipeline.Hello:
		last := pipeline.Finish{Complete: c.outcome.Complete, Reason: c.outcome.Reason()}
		c.send(pipeline.Send{Worker: e.Worker, Incarnation: e.Incarnation, Message: last})
	}
}
