package process

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// passedSignals are the signals that Contain passes to the line. The terminal sends some of them
// to the whole process group, so the line may get them twice.
var passedSignals = [...]os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2}

// contain runs a line under the rules, as a child in the process group of this process.
func contain(c *Contained, p *Program, r *rules) (int, error) {
	cmd := &exec.Cmd{Path: p.Args[0], Args: p.Args, Env: p.Env, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr}
	// The agent may kill this process alone. The kernel sends the signal when this thread ends,
	// which is at the end of the process, because the thread is locked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	box, err := newShim(cmd, r)
	if err != nil {
		return 0, startError(p, err)
	}
	signals := make(chan os.Signal, len(passedSignals))
	for _, s := range passedSignals {
		if !signal.Ignored(s) { // as under nohup; the line ignores it, too
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		box.close()
		return 0, startError(p, err)
	}
	box.started()
	ended := make(chan struct{})
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s)
			case <-ended:
				return
			}
		}
	}()
	_ = cmd.Wait() // the exit code has the result
	close(ended)
	<-passed
	end := &Ending{Exit: cmd.ProcessState.ExitCode()}
	if err := box.became(p, end); err != nil {
		return 0, err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		end.Exit = signalExit + int(status.Signal())
	}
	return end.Exit, nil
}

// signalExit plus the number of a signal is the exit code that shells report for it.
const signalExit = 128
