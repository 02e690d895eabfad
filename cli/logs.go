package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"andrea/launch"
	"andrea/watch"
	"andrea/watch/logdir"
)

// lookInterval is how often the files are looked at, and the coordinator is asked,
// when the bus says nothing.
const lookInterval = 250 * time.Millisecond

// logsFlags are the flags of 'andrea logs'.
type logsFlags struct {
	follow    bool
	processes []string
	level     string
	step      string
	json      bool
	nats      natsFlags
	run       string
}

func logsCommand(o outside) *cobra.Command {
	var f logsFlags
	c := &cobra.Command{
		Use:   "logs RUN | logs --nats URL --creds FILE [--run NAME]",
		Short: "Show what the processes of a run have logged",
		Long: `Show what the processes of a run have logged, in the order of time (UTC).

RUN is the run's folder, or its name below runs/. With -f new lines are shown as they
are written, until the run ends. A line that a crash tore, or that is damaged, is
shown as such and counts as a warning. With --json the lines stay as they lie in
RUN/logs: one JSON object each.

A run elsewhere is asked over its NATS server, as by 'andrea status': its coordinator keeps
the newest 10,000 lines of all processes in memory and sends them in the order in
which they reached it. Older ones are in the files beside the coordinator.`,
		Example: `  andrea logs demo
  andrea logs -f demo --level warn             only what may need somebody
  andrea logs demo --process worker-2          one process: coordinator, local, worker-1 ...
  andrea logs demo --step 100-120              what was said of these steps
  andrea logs -f demo --json | jq 'select(.msg == "step") | .loss'
  andrea logs -f --nats tls://nats.example.com:4222 --creds observer.creds`,
		Args: atMostOneArgument,
		RunE: func(c *cobra.Command, args []string) error { return logs(c.Context(), o, args, f) },
	}
	flags := c.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with new lines until the run ends")
	flags.StringArrayVar(&f.processes, "process", nil, "only this process: coordinator, local (its worker), worker-1 ...; can be repeated")
	flags.StringVar(&f.level, "level", "debug", "the lowest level: debug, info, warn or error")
	flags.StringVar(&f.step, "step", "", "only lines of one step, N, or of steps A-B")
	flags.BoolVar(&f.json, "json", false, "lines as they were written, one JSON object each")
	f.nats.add(c, "ask the run's NATS server elsewhere", "with --nats or alone: the run's server.json or observer.json, or credentials for another server: "+othersCreds)
	flags.StringVar(&f.run, "run", "", "with --nats: name of the run (default: the only one there)")
	return c
}

// filter reads the flags that choose lines.
func (f logsFlags) filter() (watch.Filter, error) {
	filter := watch.Filter{Processes: f.processes}
	var levelErr, stepErr error
	filter.Level, levelErr = watch.ParseLevel(f.level)
	if f.step != "" {
		var steps watch.Steps
		steps, stepErr = watch.ParseSteps(f.step)
		filter.Steps = &steps
	}
	return filter, errors.Join(levelErr, stepErr)
}

func logs(ctx context.Context, o outside, args []string, f logsFlags) error {
	filter, err := f.filter()
	name, nameErr := runOrServer(args, &f.nats, f.run)
	if err := errors.Join(err, nameErr); err != nil {
		return badInput(err)
	}
	write := watch.AppendText
	if f.json {
		write = watch.AppendJSON
	}
	if name == "" {
		return remoteLogs(ctx, o, f, filter, write)
	}
	return localLogs(ctx, o, name, f, filter, write)
}

// localLogs shows the logs of a run whose folder is here.
func localLogs(ctx context.Context, o outside, name string, f logsFlags, filter watch.Filter, write func([]byte, watch.Line) []byte) error {
	dir, err := findRun(o.fs, name)
	if err != nil {
		return badInput(err)
	}
	unreadable := false
	files := logdir.Open(o.fs, launch.LogsPath(dir), func(err error) {
		unreadable = true
		fmt.Fprintln(o.stderr, "andrea:", err)
	})
	if f.follow {
		err = followLogs(ctx, o, dir, files, filter, write)
	} else {
		err = printLogs(o, files, filter, write)
	}
	err = errors.Join(err, files.Close())
	if err == nil && unreadable {
		return exitError{exitFailed, nil}
	}
	return err
}

// printLogs shows what there is.
func printLogs(o outside, files *logdir.Dir, filter watch.Filter, write func([]byte, watch.Line) []byte) error {
	out := bufio.NewWriterSize(o.stdout, 64<<10)
	emit := func(l watch.Line) error {
		if !filter.Match(l) {
			return nil
		}
		_, err := out.Write(write(nil, l))
		return err
	}
	if err := errors.Join(files.Drain(emit), files.Torn(emit), out.Flush()); err != nil {
		return err
	}
	return badInput(unknown(filter.Processes, files))
}

// unknown is the error that one of the processes has no log, or nil.
func unknown(processes []string, files *logdir.Dir) error {
	there := files.Processes()
	for _, process := range processes {
		if !slices.Contains(there, process) {
			return fmt.Errorf("process %q has no log in this run: there are logs of: %s", process, strings.Join(there, ", "))
		}
	}
	return nil
}

// followLogs shows what there is and what comes.
func followLogs(ctx context.Context, o outside, dir string, files *logdir.Dir, filter watch.Filter, write func([]byte, watch.Line) []byte) error {
	guard := newGuard(ctx, o)
	defer guard.close()
	listener := newListener(guard.preparing, o.fs, dir)
	defer listener.close()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	looks := 0
	follower := logdir.Follower{
		Dir: files, Live: listener.lines, Look: ticker.C,
		Emit: func(l watch.Line) error {
			if !filter.Match(l) {
				return nil
			}
			_, err := o.stdout.Write(write(nil, l))
			return err
		},
		Link: func() watch.Link {
			if looks++; looks == 2 { // now the files are listed
				if err := unknown(filter.Processes, files); err != nil {
					fmt.Fprintf(o.stderr, "andrea: %v: waiting for its lines\n", err)
				}
			}
			link, news := listener.link()
			if news != nil {
				fmt.Fprintf(o.stderr, "andrea: the run cannot be asked: %v: following its files\n", news)
			}
			return link
		},
	}
	ended, err := follower.Run(guard.preparing)
	switch {
	case err != nil && guard.preparing.Err() != nil:
		return exitError{guard.code(), nil}
	case err == nil && !ended:
		fmt.Fprintf(o.stderr, "andrea: the run does not run and has not said that it ended: '%s status %s' tells how far it is\n", commandName(), dir)
	}
	return err
}
