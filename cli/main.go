// Package cli is the command line: it parses flags, shows progress, turns signals
// into an orderly end and errors into exit codes. The main programs under cmd/ are
// one line each.
package cli

import (
	"context"
	"os"
	"runtime"

	"andrea/launch"
	"andrea/vfs"
)

// Main runs this process's command line, after the given arguments, and returns the
// exit code. The daemons of a cluster give their command as an argument.
func Main(arguments ...string) int {
	runtime.MemProfileRate = 0 // nobody can have the profile, and every message's memory would be sampled for it
	engine, err := launch.CPU("", 0)
	self, selfErr := os.Executable()
	if selfErr != nil {
		self = os.Args[0]
	}
	o := outside{
		fs: vfs.OS, engine: frugalEngine(engine), engineErr: err,
		choose: func(choice string, device int, gemm string) (launch.Engine, error) {
			engine, err := launch.Choose(choice, device, gemm)
			return frugalEngine(engine), err
		},
		stdout: os.Stdout, stderr: messages(os.Stderr),
		signals: make(chan os.Signal, 2),
		self:    []string{self},
	}
	listen(o.signals)
	return execute(context.Background(), o, append(arguments, os.Args[1:]...))
}
