//go:build unix

package served

import "syscall"

func signaled(status syscall.WaitStatus) bool {
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}
