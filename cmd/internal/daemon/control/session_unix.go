//go:build unix

package control

import (
	"os/exec"
	"syscall"
)

// newSession starts a program in its own session.
func newSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
