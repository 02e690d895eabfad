package sim

import (
	"fmt"
	"strings"
)

// phaseNames are the coordinator's states.
var phaseNames = [...]string{"waiting for workers", "loading", "computing", "summing gradients", summed, "deciding", "applying", "evaluating", "copying", "writing a checkpoint"}

// summed is a state of its own here: the sum is there, and is not acted on before joiners have loaded the state.
const summed = "summed"

// phase is the name of the state that the coordinator is in.
func (c *coordinator) phase() string {
	name := c.machine.Phase()
	if name == "summing gradients" && c.reduction == nil {
		return summed
	}
	return name
}

// Coverage counts in which states faults have struck.
type Coverage struct {
	phase    [faults][len(phaseNames)]int
	activity [faults][activities]int
}

// cover counts a fault; k is the worker that it befalls, nil: it befalls the coordinator.
func (w *world) cover(f fault, k *worker) {
	w.struck[f]++
	if c := w.current(); c != nil {
		phase := c.phase()
		for i, name := range phaseNames {
			if name == phase {
				w.coverage.phase[f][i]++
			}
		}
	}
	for _, o := range w.workers {
		if o.alive && (k == nil || o == k) {
			w.coverage.activity[f][o.doing]++
		}
	}
}

// Add counts another run's.
func (c *Coverage) Add(o Coverage) {
	for f := range faults {
		for i, n := range o.phase[f] {
			c.phase[f][i] += n
		}
		for i, n := range o.activity[f] {
			c.activity[f][i] += n
		}
	}
}

// String is the table of the counts: a row for each fault, a column for each state.
func (c Coverage) String() string {
	return c.table(func(n int) string { return fmt.Sprint(n) })
}

// Cells is the same with "x" where a fault has struck, and "." where it has not. Some never
// do: there is no state to damage before an engine is open.
func (c Coverage) Cells() string {
	return c.table(func(n int) string {
		if n > 0 {
			return "x"
		}
		return "."
	})
}

func (c Coverage) table(cell func(n int) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s", "")
	for _, name := range append(phaseNames[:], activityNames[:]...) {
		fmt.Fprintf(&b, " %9.9s", name)
	}
	b.WriteByte('\n')
	for f := range faults {
		fmt.Fprintf(&b, "%-20s", faultNames[f])
		for _, n := range append(c.phase[f][:], c.activity[f][:]...) {
			fmt.Fprintf(&b, " %9s", cell(n))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
