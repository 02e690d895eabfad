//go:build !unix

package launch

import "os/exec"

// detach does nothing: this system has no process groups to leave.
func detach(*exec.Cmd) {}
