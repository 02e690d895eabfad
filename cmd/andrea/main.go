// Command andrea trains small decoder-only language models of the ANDREA family on
// one machine, and looks after the runs: see 'andrea --help'.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"andrea/launch"
	"andrea/vfs"
)

func main() {
	engine, err := launch.CPU("", 0)
	self, selfErr := os.Executable()
	if selfErr != nil {
		self = os.Args[0]
	}
	o := outside{
		fs: vfs.OS, engine: engine, engineErr: err,
		stdout: os.Stdout, stderr: os.Stderr,
		signals: make(chan os.Signal, 2),
		self:    []string{self},
	}
	signal.Notify(o.signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(execute(context.Background(), o, os.Args[1:]))
}
