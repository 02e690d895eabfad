package wire

import (
	"fmt"
	"strings"

	"andrea/pipeline"
)

// AnyWorker stands for the worker in a subject that is subscribed to: what any worker sends
// there is received, and Sender tells who it was. Nothing is published to it.
const AnyWorker pipeline.WorkerID = "*"

// prefix begins every subject of a run; run is a valid name.
func prefix(run string) string { return "andrea." + run }

// Hello is where a worker says hello to the coordinator of any generation.
func Hello(run string, worker pipeline.WorkerID) string {
	return fmt.Sprintf("%s.c.hello.%s", prefix(run), worker)
}

// ToCoordinator is where a worker sends control messages to the coordinator of one
// generation: what an older one gets is nobody's.
func ToCoordinator(run string, generation uint64, worker pipeline.WorkerID) string {
	return coordinator(run, generation, worker, "control")
}

// Tokens is where a worker asks for windows.
func Tokens(run string, generation uint64, worker pipeline.WorkerID) string {
	return coordinator(run, generation, worker, "tokens")
}

// State is where a worker asks the coordinator for the state it has to load.
func State(run string, generation uint64, worker pipeline.WorkerID) string {
	return coordinator(run, generation, worker, "state")
}

// Root is where a worker asks for the root gradient that the coordinator has summed.
func Root(run string, generation uint64, worker pipeline.WorkerID) string {
	return coordinator(run, generation, worker, "root")
}

// coordinator is a subject of one generation's coordinator that names the sender.
func coordinator(run string, generation uint64, worker pipeline.WorkerID, what string) string {
	return fmt.Sprintf("%s.c.%d.%s.%s", prefix(run), generation, worker, what)
}

// ToWorker is where a worker listens for control messages.
func ToWorker(run string, worker pipeline.WorkerID) string {
	return fmt.Sprintf("%s.w.%s.control", prefix(run), worker)
}

// WorkerState is where a worker serves the snapshot of its state to the coordinator.
func WorkerState(run string, worker pipeline.WorkerID) string {
	return fmt.Sprintf("%s.w.%s.state", prefix(run), worker)
}

// WorkerGrad is where a worker serves the contribution of its lease to the coordinator.
func WorkerGrad(run string, worker pipeline.WorkerID) string {
	return fmt.Sprintf("%s.w.%s.grad", prefix(run), worker)
}

// PeerState is where one worker, the asker, asks another, the holder, for a state. The
// holder subscribes with AnyWorker as the asker.
func PeerState(run string, asker, holder pipeline.WorkerID) string {
	return fmt.Sprintf("%s.p.%s.%s.state", prefix(run), asker, holder)
}

// Status is where anybody of the run asks the coordinator of any generation how the
// run goes.
func Status(run string) string { return prefix(run) + ".c.status" }

// Runs is where anybody asks the coordinators of a server which runs they have. Each
// answers with the name of its run.
const Runs = "andrea.runs"

// Logs is a pattern: where all processes of a run send their log lines.
func Logs(run string) string { return prefix(run) + ".log.>" }

// History is where anybody of the run asks the coordinator for the newest log lines of all
// processes.
func History(run string) string { return prefix(run) + ".c.history" }

// LoggedBy is the process that a subject of Logs names; false when it is none.
func LoggedBy(subject string) (process string, ok bool) {
	tokens := strings.Split(subject, ".") // andrea, run, log, process, level
	if len(tokens) != 5 || tokens[0] != "andrea" || tokens[2] != "log" {
		return "", false
	}
	return tokens[3], true
}

// Sender is the worker that a subject names as its sender, which the server's permissions
// vouch for; false when the subject is not one that a worker sends on.
func Sender(subject string) (pipeline.WorkerID, bool) {
	tokens := strings.Split(subject, ".") // andrea, run, and what tells the subjects apart
	place := -1
	switch {
	case len(tokens) < 5 || tokens[0] != "andrea":
	case len(tokens) == 5 && tokens[2] == "c" && tokens[3] == "hello":
		place = 4
	case len(tokens) == 6 && tokens[2] == "c":
		place = 4
	case len(tokens) == 6 && tokens[2] == "p":
		place = 3
	}
	if place < 0 || !idRule.MatchString(tokens[place]) {
		return "", false
	}
	return pipeline.WorkerID(tokens[place]), true
}

// Permissions lists the subjects that a role may publish to and subscribe to,
// besides its own inbox.
type Permissions struct{ Publish, Subscribe []string }

// CoordinatorPermissions are everything of the run, and answering which run it is.
func CoordinatorPermissions(run string) Permissions {
	all := prefix(run) + ".>"
	return Permissions{Publish: []string{all}, Subscribe: []string{all, Runs}}
}

// WorkerPermissions are the subjects that name a worker as the sender or as the one who
// listens, so that it can neither pose as another nor overhear one. With AnyWorker they are
// those of all workers together. Each may ask which runs there are and how its own goes.
func WorkerPermissions(run string, worker pipeline.WorkerID) Permissions {
	p := prefix(run)
	return Permissions{
		Publish: []string{
			Runs, Status(run), Hello(run, worker),
			fmt.Sprintf("%s.c.*.%s.>", p, worker),
			fmt.Sprintf("%s.p.%s.>", p, worker),
			fmt.Sprintf("%s.log.%s.>", p, worker),
		},
		Subscribe: []string{
			fmt.Sprintf("%s.w.%s.>", p, worker),
			fmt.Sprintf("%s.p.*.%s.>", p, worker),
		},
	}
}

// ObserverPermissions are asking for the status and reading the logs, old and new.
func ObserverPermissions(run string) Permissions {
	return Permissions{Publish: []string{Runs, Status(run), History(run)}, Subscribe: []string{Logs(run)}}
}
