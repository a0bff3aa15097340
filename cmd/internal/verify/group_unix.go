//go:build unix

package verify

import (
	"os/exec"
	"syscall"
)

// ownGroup puts cmd into a process group of its own and makes the end of its
// context a request to that whole group.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// killGroup ends what is left of cmd's group. Programs that made a group or a
// session of their own, such as a detached drain of Grapnel, live on.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
