package wire

import (
	"fmt"

	"andrea/pipeline"
)

// prefix begins every subject of a run; run is a valid name.
func prefix(run string) string { return "andrea." + run }

// Hello is where workers say hello to the coordinator of any generation.
func Hello(run string) string { return prefix(run) + ".c.hello" }

// ToCoordinator is where a worker sends control messages to the coordinator of one
// generation: what an older one gets is nobody's.
func ToCoordinator(run string, generation uint64) string {
	return fmt.Sprintf("%s.c.%d.control", prefix(run), generation)
}

// Status is where anybody of the run asks the coordinator of any generation how the
// run goes.
func Status(run string) string { return prefix(run) + ".c.status" }

// Logs is a pattern: where all processes of a run send their log lines.
func Logs(run string) string { return prefix(run) + ".log.>" }

// Tokens is where a worker asks for windows.
func Tokens(run string, generation uint64) string {
	return fmt.Sprintf("%s.c.%d.tokens", prefix(run), generation)
}

// State is where a worker asks for the state it has to load.
func State(run string, generation uint64) string {
	return fmt.Sprintf("%s.c.%d.state", prefix(run), generation)
}

// Root is where a worker asks for the root gradient that the coordinator has summed.
func Root(run string, generation uint64) string {
	return fmt.Sprintf("%s.c.%d.root", prefix(run), generation)
}

// ToWorker is where a worker listens for control messages.
func ToWorker(run string, worker pipeline.WorkerID) string {
	return fmt.Sprintf("%s.w.%s.control", prefix(run), worker)
}

// WorkerState is where a worker serves the snapshot of its state.
func WorkerState(run string, worker pipeline.WorkerID) string {
	return fmt.Sprintf("%s.w.%s.state", prefix(run), worker)
}

// WorkerGrad is where a worker serves the contribution of its lease.
func WorkerGrad(run string, worker pipeline.WorkerID) string {
	return fmt.Sprintf("%s.w.%s.grad", prefix(run), worker)
}

// Permissions lists the subjects that a role may publish to and subscribe to,
// besides its own inbox.
type Permissions struct{ Publish, Subscribe []string }

// CoordinatorPermissions are everything of the run.
func CoordinatorPermissions(run string) Permissions {
	all := []string{prefix(run) + ".>"}
	return Permissions{Publish: all, Subscribe: all}
}

// WorkerPermissions are the coordinator's subjects, and listening on a worker's.
func WorkerPermissions(run string) Permissions {
	p := prefix(run)
	return Permissions{
		Publish:   []string{p + ".c.>", Logs(run)},
		Subscribe: []string{p + ".w.>"},
	}
}

// ObserverPermissions are asking for the status and reading the logs.
func ObserverPermissions(run string) Permissions {
	return Permissions{Publish: []string{Status(run)}, Subscribe: []string{Logs(run)}}
}
