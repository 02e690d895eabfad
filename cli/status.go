package cli

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/spf13/cobra"

	"andrea/launch"
	"andrea/pipeline"
	"andrea/pipeline/runner"
	"andrea/vfs"
	"andrea/watch"
)

// States of a run.
const (
	stateRunning    = "running"
	stateComplete   = "complete"
	stateNotRunning = "not running"
	stateUnknown    = "unknown" // it may run, but cannot be asked
)

// runStatus is what 'andrea status' says of a run, as JSON.
type runStatus struct {
	Run        string                `json:"run"`
	Dir        string                `json:"dir,omitempty"` // of one whose files are here
	State      string                `json:"state"`
	Phase      string                `json:"phase,omitempty"`  // of a running one
	Reason     string                `json:"reason,omitempty"` // why it does not run, or cannot be asked
	Step       int64                 `json:"step"`             // last committed
	Steps      int64                 `json:"steps"`
	Loss       *pipeline.Float       `json:"loss,omitempty"` // of that step, nats per token
	GradNorm   *pipeline.Float       `json:"grad_norm,omitempty"`
	Speed      float64               `json:"tokens_per_second,omitempty"` // of the newest steps of a running one, else of the last step
	ValLoss    *pipeline.Float       `json:"val_loss,omitempty"`
	ValStep    int64                 `json:"val_step,omitempty"`
	ETASeconds *pipeline.Float       `json:"eta_seconds,omitempty"` // of a running one, at that speed; from its first new step on
	Class      string                `json:"engine_class,omitempty"`
	Workers    []runner.WorkerReport `json:"workers,omitempty"`
	Generation uint64                `json:"generation"`
	LeftOut    int                   `json:"audits_left_out,omitempty"` // leases that the job wanted a second worker for, and had none
	Checkpoint int64                 `json:"checkpoint_step"`           // -1: there is none
	Path       string                `json:"checkpoint,omitempty"`
	Resume     string                `json:"resume,omitempty"` // the command, of one that does not run and is not complete
}

// statusFlags are the flags of 'andrea status'.
type statusFlags struct {
	nats natsFlags
	run  string
	json bool
}

func statusCommand(o outside) *cobra.Command {
	var f statusFlags
	c := &cobra.Command{
		Use:   "status RUN | status --nats URL --creds FILE [--run NAME]",
		Short: "How far a run is, whether it runs or not",
		Long: `How far a run is, whether it runs or not.

RUN is the run's folder, or its name below runs/. A running one is asked: phase,
steps, loss, speed, time left, worker, newest checkpoint. Of one that does not run,
its journal and checkpoints tell; checkpoints are listed, not verified. The exit code
is 0 in both cases, and 2 when there is no such run.

A run elsewhere is asked over its NATS server: with --creds the run's server.json or
observer.json, which names the server too, or with --nats and credentials for it. The exit
code is 1 when no coordinator answers.`,
		Example: `  andrea status demo
  andrea status runs/demo --json | jq .step
  watch andrea status demo
  andrea status --nats tls://nats.example.com:4222 --creds observer.creds --run run7`,
		Args: atMostOneArgument,
		RunE: func(c *cobra.Command, args []string) error { return status(c.Context(), o, args, f) },
	}
	flags := c.Flags()
	flags.BoolVar(&f.json, "json", false, "one JSON object")
	f.nats.add(c, "ask the run's NATS server elsewhere", "with --nats or alone: the run's server.json or observer.json, or credentials for another server: "+othersCreds)
	flags.StringVar(&f.run, "run", "", "with --nats: name of the run (default: the only one there)")
	return c
}

// runOrServer returns a command's RUN, which is empty when a server is named in its place.
func runOrServer(args []string, nats *natsFlags, run string) (name string, err error) {
	switch {
	case len(args) == 1 && (nats.given() || run != ""):
		return "", errors.New("a run's folder and a server are given: leave out RUN, or --nats, --creds and --run")
	case len(args) == 1:
		return args[0], nil
	case !nats.given():
		return "", errors.New("no run is given: name its folder, or its server with --nats or --creds")
	}
	return "", nil
}

func status(ctx context.Context, o outside, args []string, f statusFlags) error {
	name, err := runOrServer(args, &f.nats, f.run)
	if err != nil {
		return badInput(err)
	}
	var s runStatus
	if name == "" {
		s, err = remoteStatus(ctx, o, f)
	} else {
		s, err = localStatus(ctx, o, name)
	}
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(o.stdout).Encode(s)
	}
	_, err = o.stdout.Write(s.text())
	return err
}

// localStatus is the status of a run whose folder is here.
func localStatus(ctx context.Context, o outside, name string) (runStatus, error) {
	dir, err := findRun(o.fs, name)
	if err != nil {
		return runStatus{}, badInput(err)
	}
	ctx, cancel := context.WithTimeout(ctx, observeTime)
	defer cancel()
	ob := &observer{fs: o.fs, dir: dir}
	defer ob.close()
	report, link, reason := ob.ask(ctx)
	if link == watch.Answering {
		return reported(dir, report), nil
	}
	s, err := recorded(o.fs, dir, link, reason)
	return s, badInput(err)
}

// reported is the status of a run whose coordinator answered.
func reported(dir string, r runner.Report) runStatus {
	s := runStatus{
		Run: r.Run, Dir: dir, State: stateRunning, Phase: r.Phase, Step: r.Step, Steps: r.Steps,
		Class: r.Class, Workers: r.Workers, Generation: r.Generation, ETASeconds: &r.ETASeconds, LeftOut: r.AuditsLeftOut,
	}
	s.records(r.Last, r.Validation)
	if r.TokensPerSecond > 0 {
		s.Speed = r.TokensPerSecond
	}
	if math.IsNaN(float64(r.ETASeconds)) {
		s.ETASeconds = nil
	}
	s.checkpoint(r.Checkpoint)
	return s
}

// recorded is the status that the files tell of a run that did not answer.
func recorded(fsys vfs.FS, dir string, link watch.Link, reason error) (s runStatus, err error) {
	record, err := launch.Look(fsys, dir)
	if err != nil {
		return s, err
	}
	s = runStatus{
		Run: record.Spec.Name, Dir: dir, State: stateNotRunning, Reason: reason.Error(), Steps: record.Spec.Steps,
		Generation: record.Generation,
	}
	last, validation := runner.LastRecords(record.Journal, record.Journal.Last())
	if last != nil {
		s.Step = last.Step
	}
	s.records(last, validation)
	s.checkpoint(record.Checkpoint)
	switch {
	case s.Step == s.Steps && s.Checkpoint == s.Steps:
		s.State, s.Reason = stateComplete, ""
	case link == watch.Unknown:
		s.State = stateUnknown
	default:
		if record.Ended != "" {
			s.Reason += "; " + record.Ended
		}
		s.Resume = commandName() + " resume " + dir
	}
	return s, nil
}

// records takes over what the journal says of the last step.
func (s *runStatus) records(last, validation *pipeline.CommitRecord) {
	if last != nil {
		s.Loss, s.GradNorm, s.Speed = &last.Loss, &last.GradNorm, last.TokensPerSecond
	}
	if validation != nil {
		s.ValLoss, s.ValStep = validation.ValLoss, validation.Step
	}
}

func (s *runStatus) checkpoint(step int64) {
	s.Checkpoint = step
	if step >= 0 && s.Dir != "" {
		s.Path = launch.CheckpointPath(s.Dir, step)
	}
}
