//go:build system && unix

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/control"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
)

// signalDaemon sends a signal to the daemon of a root: signal KILL|QUIT|STOP|CONT ROOT
func signalDaemon(ts *testscript.TestScript, _ bool, args []string) {
	sig, ok := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "QUIT": syscall.SIGQUIT, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}[args[0]]
	if !ok {
		ts.Fatalf("unknown signal %s", args[0])
	}
	found, err := server.Look(context.Background(), client.Socket(filepath.Join(ts.MkAbs(args[1]), "state")))
	if found == nil {
		ts.Fatalf("no daemon: %v", err)
	}
	proc, err := os.FindProcess(found.PID)
	ts.Check(err)
	ts.Check(proc.Signal(sig))
	if !within(func() bool { // wait until all threads have received it
		_, err = server.Look(context.Background(), client.Socket(filepath.Join(ts.MkAbs(args[1]), "state")))
		return sig == syscall.SIGCONT || sig == syscall.SIGSTOP && errors.Is(err, server.ErrSilent) || errors.Is(err, server.ErrAbsent) && control.Ended(proc)
	}) {
		ts.Fatalf("the daemon does not heed %s: %v", args[0], err)
	}
}

// endDaemons kills the daemons that scripts left running below a directory.
func endDaemons(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() == fs.ModeSocket {
			if found, _ := server.Look(context.Background(), path); found != nil && found.PID != os.Getpid() {
				_ = syscall.Kill(found.PID, syscall.SIGKILL)
			}
		}
		return nil
	})
}
