package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"andrea/pipeline"
	"andrea/pipeline/transport/natsbus"
	"andrea/telemetry"
)

// child is a worker's process.
type child struct {
	command *exec.Cmd
	stdin   io.Closer // open as long as this process lives: the child ends with it
	log     io.Closer // nil: nobody reads what it logs
}

// startChild starts the i-th worker's process.
func (r *Run) startChild(ctx context.Context, i int, id pipeline.WorkerID) (*child, error) {
	arguments := append(r.env.Crew.Command[1:len(r.env.Crew.Command):len(r.env.Crew.Command)],
		"--creds", filepath.Join(r.Dir, natsbus.IdentityFile), "--id", string(id), "--end-with-input")
	if r.env.Crew.Each != nil {
		arguments = append(arguments, r.env.Crew.Each(i)...)
	}
	c := exec.CommandContext(ctx, r.env.Crew.Command[0], arguments...)
	started := &child{command: c}
	c.Cancel = func() error { return started.stdin.Close() } // it takes its leave, or is killed
	c.WaitDelay = leaveTime
	if log, err := telemetry.OpenFile(r.env.FS, r.logPath(string(id))); err == nil {
		c.Stderr, started.log = log, log
	} else {
		r.warn(err) // the bus has the lines too
	}
	c.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(threadsEach(r.Start.Workers)))
	detach(c)
	var err error
	if started.stdin, err = c.StdinPipe(); err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting worker %s: %w", id, err), started.closeLog())
	}
	return started, nil
}

// threadsEach shares this machine's processors among the workers.
func threadsEach(workers int) int { return max(1, runtime.GOMAXPROCS(0)/workers) }

// wait returns when the process has ended: nil when it left a run that has ended.
// What its log has lost is a warning.
func (c *child) wait(warn func(error)) error {
	err := c.command.Wait()
	_ = c.stdin.Close() // nobody reads it any more
	if err := c.closeLog(); err != nil {
		warn(err)
	}
	if code := c.command.ProcessState.ExitCode(); code == 0 || code == ExitStopped {
		return nil // an error would be about its log
	}
	return err
}

func (c *child) closeLog() error {
	if c.log == nil {
		return nil
	}
	return c.log.Close()
}

// ExitStopped is the exit code of a worker that left because the run ended before its
// last step.
const ExitStopped = 3

func (r *Run) logPath(process string) string {
	return filepath.Join(r.Dir, logsDir, process+".jsonl")
}
