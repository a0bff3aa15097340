//go:build unix

package control

import (
	"os/exec"
	"syscall"
)

// newSession gives a program a session of its own.
func newSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
