//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// alone gives a program a session of its own.
func alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
