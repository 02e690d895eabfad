package ledger

import "fmt"

// Fault is something that is not true of a run.
type Fault struct {
	Step int64  `json:"step"`
	What string `json:"what"`
}

// Error implements error.
func (f Fault) Error() string { return fmt.Sprintf("step %d: %s", f.Step, f.What) }

// maxFaults is how many faults are told. A wrong dataset or job makes one or more in every step.
const maxFaults = 20

// faults collects the faults of one step.
type faults struct {
	step int64
	all  []Fault
}

func (f *faults) add(format string, args ...any) {
	f.all = append(f.all, Fault{f.step, fmt.Sprintf(format, args...)})
}

// want adds a fault unless a value is as it must be.
func (f *faults) want(ok bool, name string, recorded, must any) {
	if !ok {
		f.add("%s is %v, must be %v", name, recorded, must)
	}
}
