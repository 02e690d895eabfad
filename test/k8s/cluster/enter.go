//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"
)

// insideVariable tells a process that it is in namespaces of its own; its value is why it is not.
const insideVariable = "ANDREA_K8S_INSIDE"

// Enter runs the process again as the first of new namespaces (network, processes, mounts), where run is called, and
// returns its exit code. Whatever is started there ends with that process, and that one ends with this, by whatever they
// end: the kernel sees to it. Where namespaces cannot be made run is called here, and Inside says why.
func Enter(run func() int) int {
	if text, isNode := os.LookupEnv(nodeVariable); isNode {
		return runNode(text)
	}
	switch why, again := os.LookupEnv(insideVariable); {
	case !again:
		return enter(run)
	case why == "":
		if err := settle(); err != nil {
			fmt.Fprintln(os.Stderr, "settling in new namespaces:", err)
			return 1
		}
	}
	return run()
}

// Inside returns an error when the process is not in namespaces of its own.
func Inside() error {
	why, again := os.LookupEnv(insideVariable)
	if !again || why != "" {
		return fmt.Errorf("network, process and mount namespaces cannot be made here: %s: run as root", why)
	}
	return nil
}

func enter(run func() int) int {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	runtime.LockOSThread() // the child ends with the thread that started it
	c := exec.Command(self, os.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = append(os.Environ(), insideVariable+"=")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := c.Start(); err != nil {
		_ = os.Setenv(insideVariable, err.Error()) // a variable can be set
		return run()
	}
	err = c.Wait()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return max(1, ended.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// settle gives the namespaces a /proc of their own and a loopback interface that is up.
func settle() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts here: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return loopbackUp()
}

func loopbackUp() error {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(socket) }()
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte // the rest of struct ifreq
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], "lo")
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("bringing up loopback: %w", errno)
	}
	return nil
}
