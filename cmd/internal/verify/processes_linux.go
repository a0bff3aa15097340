package verify

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// endProcesses ends the processes of this world that have argument, or all of them
// when it is "": it asks, and after a while it does not ask any more. They are known
// by the home directory in the environment they were started with, which no process
// outside has.
func (w *World) endProcesses(argument string) error {
	signal := syscall.SIGTERM
	start := time.Now()
	for {
		pids := w.processes(argument)
		if len(pids) == 0 {
			return nil
		}
		switch waited := time.Since(start); {
		case waited > 2*grace:
			return fmt.Errorf("processes %v cannot be ended", pids)
		case waited > grace:
			signal = syscall.SIGKILL
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, signal) // it may be gone by now
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// processes lists the processes of this world that have argument.
func (w *World) processes(argument string) (pids []int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil // only a bad pattern gets here
	}
	for _, dir := range dirs {
		environ, err := os.ReadFile(filepath.Join(dir, "environ")) // empty for a process that only waits to be reaped
		if err != nil || !slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(kv []byte) bool { return string(kv) == "HOME="+w.Home }) {
			continue
		}
		if argument != "" {
			cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
			if err != nil || !slices.ContainsFunc(bytes.Split(cmdline, []byte{0}), func(arg []byte) bool { return string(arg) == argument }) {
				continue
			}
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
