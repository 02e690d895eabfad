package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"andrea/launch"
	"andrea/pipeline/transport"
	"andrea/vfs"
)

// outside is everything the commands touch beyond their flags, so that tests can run
// the same commands on a disk that fails or an engine that stops.
type outside struct {
	fs        vfs.FS
	engine    launch.Engine
	engineErr error                                                               // why there is no engine
	choose    func(choice string, device int, gemm string) (launch.Engine, error) // answers --engine; nil: engine is the only one
	stdout    io.Writer
	stderr    io.Writer
	bus       func(transport.Bus) transport.Bus // wraps connections; nil: as they are
	signals   chan os.Signal                    // SIGINT, SIGTERM and SIGHUP
	self      []string                          // starts this program
}

// Exit codes.
const (
	exitDone       = 0
	exitFailed     = 1
	exitBadInput   = 2   // usage, job, dataset or checkpoint
	exitHangup     = 129 // SIGHUP
	exitInterrupt  = 130 // SIGINT
	exitTerminated = 143 // SIGTERM
)

// exitError is an error with the code that the program ends with.
type exitError struct {
	code int
	err  error // nil: everything is said already
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// badInput marks an error as the user's to mend.
func badInput(err error) error {
	if err == nil {
		return nil
	}
	return exitError{exitBadInput, err}
}

// version is the program's version as the toolchain recorded it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return "andrea " + info.Main.Version
	}
	return "andrea (devel)"
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, o outside, args []string) int {
	out := &output{to: o.stdout, messages: o.stderr}
	o.stdout = out
	root := rootCommand(o)
	began := false // flags and arguments were understood
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	root.SetArgs(args)
	root.SetOut(o.stdout)
	root.SetErr(o.stderr)
	err := root.ExecuteContext(ctx)
	var coded exitError
	switch {
	case err == nil:
		return out.end()
	case errors.As(err, &coded):
	case began, !out.whole():
		coded = exitError{exitFailed, err}
	default:
		coded = exitError{exitBadInput, err} // unknown commands and flags
	}
	if coded.err != nil {
		fmt.Fprintln(o.stderr, "andrea:", visible(coded.err.Error()))
	}
	return coded.code
}

func rootCommand(o outside) *cobra.Command {
	root := &cobra.Command{
		Use:   "andrea",
		Short: "Train small language models: the same bits on any machine, after any crash",
		Long: `andrea trains decoder-only transformers of the ANDREA family (12m, 120m, 480m, or a
shape of your own) on the processors or GPUs of a machine, or of several. A run can be interrupted at
any moment and resumed to exactly the weights that an uninterrupted run gives.`,
		Example: `  andrea train --text ~/books --steps 50       learn from the text files in a folder
  andrea train --print-job                     every setting with its default
  andrea resume runs/demo                      go on after an interruption`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
	}
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(helpCommand(root))
	root.AddCommand(trainCommand(o), resumeCommand(o), coordinatorCommand(o), workerCommand(o), statusCommand(o), logsCommand(o), keysCommand(o),
		dataCommand(o), checkpointsCommand(o), verifyRunCommand(o), replayCommand(o), generateCommand(o), modelCommand(o), benchCommand(o), doctorCommand(o), k8sCommand(o))
	return root
}

// helpCommand is that of the library, but a command that does not exist is an error.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		Long:  "Explain a command, with examples. 'andrea help' lists the commands.",
		Example: `  andrea help train
  andrea help data prepare`,
		RunE: func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 {
				err = fmt.Errorf("unknown command %q for %q", rest[0], about.CommandPath())
			}
			if err != nil {
				return badInput(err)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
