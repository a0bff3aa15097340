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

// endProcesses ends the processes of this world that have argument, or all of them if argument is
// "". It sends SIGTERM, and SIGKILL after a grace period. It identifies the processes by the home
// directory in their initial environment, which no process outside the world has.
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
			return fmt.Errorf("cannot end processes %v", pids)
		case waited > grace:
			signal = syscall.SIGKILL
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, signal) // it may already have ended
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// processes lists the processes of this world that have argument.
func (w *World) processes(argument string) (pids []int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil // only a bad pattern causes an error
	}
	for _, dir := range dirs {
		environ, err := os.ReadFile(filepath.Join(dir, "environ")) // empty for a zombie process
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
