//go:build unix

package launch

import (
	"os/exec"
	"syscall"
)

// detach keeps a terminal's Ctrl-C from the child: the parent decides when it ends.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
