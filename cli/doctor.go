package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"andrea/launch"
)

func doctorCommand(o outside) *cobra.Command {
	var asJSON bool
	var f doctorFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Show what this machine can compute on",
		Long: `Show what this machine can compute on: its GPUs with driver, memory and engine classes, or why
there are none; its processors with instruction sets, threads and available memory; and
which engine 'andrea worker' and 'andrea train' would take. Engine classes are what has to
agree between the workers of a run. With --creds or --nats it also tries the server that a
worker would connect to.

The exit code is 0 when the engine that --engine asks for can be had and the server, if one is
named, answers; and 1 when not: so 'andrea doctor --engine cuda' tells a script whether this
is a GPU machine. Files and addresses that are at fault give 2.`,
		Example: `  andrea doctor
  andrea doctor --engine cuda --device 1 && andrea worker --engine cuda --device 1 --creds worker.json
  andrea doctor --creds worker.json
  andrea doctor --json | jq -r '.gpus[].name'`,
		Args: noArgument,
		RunE: func(c *cobra.Command, _ []string) error { return doctor(c.Context(), o, f, asJSON) },
	}
	f.engine.add(c)
	f.nats.add(c, "try this NATS server", "try the server of this worker.json or observer.json; with --nats: credentials for it: "+othersCreds)
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

type doctorFlags struct {
	engine engineFlags
	nats   natsFlags
}

// examined is what 'andrea doctor' prints as JSON.
type examined struct {
	Version string `json:"version"`
	launch.Machine
	Engine string       `json:"engine"` // engine class that --engine gives, in fp32; empty: none
	Device string       `json:"device"`
	Chosen string       `json:"chosen"`           // why it is this one
	Error  string       `json:"error,omitempty"`  // why there is no engine
	Server *triedServer `json:"server,omitempty"` // absent: none was named
}

// triedServer is what was found out about a NATS server.
type triedServer struct {
	URL   string   `json:"url"`
	Runs  []string `json:"runs"` // that are coordinated there and that the credentials let see
	Error string   `json:"error,omitempty"`
}

func doctor(ctx context.Context, o outside, f doctorFlags, asJSON bool) error {
	e := examined{Version: version(), Machine: launch.Examine()}
	chosen, err := f.engine.use(o, "")
	if err != nil {
		e.Error = err.Error()
	} else {
		e.Engine, e.Device, e.Chosen = chosen.engine.Class, chosen.engine.Device, chosen.engine.Chosen
	}
	code := 0
	if e.Error != "" {
		code = exitFailed
	}
	if f.nats.given() {
		var failed int
		if e.Server, failed = f.nats.try(ctx, o); failed != 0 {
			code = failed
		}
	}
	if err := o.report(asJSON, e, e.text()); err != nil {
		return err
	}
	if code != 0 {
		return exitError{code, nil}
	}
	return nil
}

// try connects to the server; code is the exit code that what was found out deserves.
func (f natsFlags) try(ctx context.Context, o outside) (s *triedServer, code int) {
	ctx, cancel := context.WithTimeout(ctx, remoteTime)
	defer cancel()
	url, runs, err := f.remote.Reach(ctx, o.fs)
	s = &triedServer{URL: url, Runs: append([]string{}, runs...)}
	if err == nil {
		return s, 0
	}
	s.Error = err.Error()
	if errors.As(err, new(launch.KeyError)) {
		return s, exitBadInput
	}
	return s, exitFailed
}

// text is the result for people.
func (e examined) text() string {
	var b strings.Builder
	row := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s"+format+"\n", append([]any{key}, args...)...)
	}
	row("version", "%s, %s", e.Version, e.System)
	row("processor", "%s", e.Processor)
	row("", "instruction sets: %s; engine class %s", strings.Join(e.Paths, ", "), e.Class)
	if e.Available > 0 {
		row("memory", "%s available", gibibytes(e.Available))
	} else {
		row("memory", "the system does not say how much is available")
	}
	for _, g := range e.GPUs {
		row("GPU", "%s", g.Text)
		if len(g.Classes) == 0 {
			row("", "too old for the engine: compute capability 8.0 or newer is needed")
		} else {
			row("", "engine classes %s", strings.Join(g.Classes, ", "))
		}
	}
	if e.NoGPU != "" {
		row("GPU", "none: %s", e.NoGPU)
	}
	if s := e.Server; s != nil {
		switch {
		case s.Error != "":
			row("server", "%s: %s", cmp.Or(s.URL, "none"), s.Error)
		case len(s.Runs) == 0:
			// A worker's credentials let see none.
			row("server", "%s answers; these credentials show no run there", s.URL)
		default:
			row("server", "%s answers; runs: %s", s.URL, strings.Join(s.Runs, ", "))
		}
	}
	if e.Error != "" {
		row("engine", "none: %s", e.Error)
	} else {
		row("engine", "%s on %s (%s)", e.Engine, e.Device, e.Chosen)
	}
	return b.String()
}

// gibibytes writes a number of bytes for people.
func gibibytes(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }
