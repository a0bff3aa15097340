package served

import "syscall"

func signaled(status syscall.WaitStatus) bool { return status.ExitCode == 1 }
