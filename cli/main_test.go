package cli

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"andrea/launch"
	"andrea/model"
	"andrea/pipeline/transport"
	"andrea/vfs"
)

// binary is the program as a user builds it.
var binary string

// faultVariable tells this test binary to be the program, with a fault: the name of
// an event and its number, such as "accumulate:37". Kill points are events, never
// moments in time.
const faultVariable = "ANDREA_TEST_FAULT"

func TestMain(m *testing.M) {
	if fault := os.Getenv(faultVariable); fault != "" {
		os.Exit(faulty(fault, os.Args[1:]))
	}
	os.Exit(withBinary(m.Run))
}

// withBinary builds the program and runs the tests.
func withBinary(run func() int) int {
	dir, err := os.MkdirTemp("", "andrea-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "andrea")
	build := exec.Command("go", "build", "-o", binary, "andrea/cmd/andrea")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic("building the program: " + err.Error() + "\n" + string(out))
	}
	return run()
}

// faulty is main with a signal that comes at an event.
func faulty(fault string, args []string) int {
	event, number, _ := strings.Cut(fault, ":")
	n, err := strconv.Atoi(number)
	if err != nil {
		panic(err)
	}
	engine, err := launch.CPU("", 0)
	self, selfErr := os.Executable()
	if selfErr != nil {
		panic(selfErr)
	}
	o := outside{
		fs: vfs.OS, engine: engine, engineErr: err, stdout: os.Stdout, stderr: os.Stderr,
		signals: make(chan os.Signal, 2), self: []string{self},
	}
	listen(o.signals)
	switch event {
	case "accumulate":
		o.engine.Open = terminateInAccumulate(engine.Open, n)
	case "kill-operation":
		o.fs = &countingFS{FS: vfs.OS, before: onFile(killAt(n))}
	case "kill-engine":
		o.engine.Open = counting(engine.Open, killAt(n))
	case "kill-before-message":
		message := killAt(n)
		o.bus = func(b transport.Bus) transport.Bus { return countingBus{b, message, nothing} }
	case "kill-after-message":
		message := killAt(n)
		o.bus = func(b transport.Bus) transport.Bus { return countingBus{b, nothing, message} }
	case "kill-worker-1":
		if slices.Contains(args, "worker-1") {
			o.engine.Open = counting(engine.Open, killAt(n))
		}
	case "before-rename":
		o.fs = &killingFS{FS: vfs.OS, at: n, before: true}
	case "after-rename":
		o.fs = &killingFS{FS: vfs.OS, at: n}
	default:
		panic("unknown fault " + fault)
	}
	return execute(context.Background(), o, args)
}

// killingFS kills its process around the at-th rename of a checkpoint into its place.
type killingFS struct {
	vfs.FS
	at     int
	before bool
	seen   int
}

func (k *killingFS) Rename(from, to string) error {
	if !strings.HasPrefix(filepath.Base(to), "step-") {
		return k.FS.Rename(from, to)
	}
	k.seen++
	if k.seen == k.at && k.before {
		kill()
	}
	err := k.FS.Rename(from, to)
	if k.seen == k.at {
		kill()
	}
	return err
}

// kill ends this process as a power switch would, and waits for it.
func kill() {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}

// terminating is an engine that is interrupted in the middle of a step.
type terminating struct {
	model.Engine
	at   int
	seen int
}

func terminateInAccumulate(open func(model.Config, int, int) (model.Engine, error), at int) func(model.Config, int, int) (model.Engine, error) {
	return func(c model.Config, microbatch, slots int) (model.Engine, error) {
		engine, err := open(c, microbatch, slots)
		return &terminating{Engine: engine, at: at}, err
	}
}

func (e *terminating) Accumulate(slot int, b model.Batch) (model.Loss, error) {
	e.seen++
	if e.seen == e.at {
		arrived := make(chan os.Signal, 1)
		signal.Notify(arrived, syscall.SIGTERM)
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return model.Loss{}, err
		}
		<-arrived // or a loaded machine might finish the run first
	}
	return e.Engine.Accumulate(slot, b)
}
