//go:build unix

package verify

import (
	"os/exec"
	"syscall"
)

// ownGroup puts cmd into a new process group. When the context of cmd ends, the whole group gets
// SIGTERM.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// killGroup kills the remaining processes of cmd's group. Programs that created another group or
// session, such as a detached drain of Grapnel, survive.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
