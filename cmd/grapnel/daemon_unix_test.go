//go:build unix

package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
)

func TestSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1 kB", 1500: "1.5 kB", 23_100_000: "23.1 MB", 5_000_000_000_000: "5000 GB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}

// A daemon of another version reports another process ID than the kernel, as from a container.
// The command recognizes that, and does not end another process.
func TestOtherDaemon(t *testing.T) {
	t.Parallel()
	root, err := os.MkdirTemp("", "gr") //nolint:usetesting // names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	l, err := server.Listen(client.Socket(filepath.Join(root, "state")))
	if err != nil {
		t.Fatal(err)
	}
	health := map[string]any{"version": "9.9.9-next", "pid": 1, "queue": map[string]int{"waiting": 7}, "evil\x1b[31m": "\x1b[31m"}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: server.Handler(server.Options{Version: "9.9.9-next", Health: func() (any, bool) { return health, true }})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	for _, tt := range []struct {
		args           string
		exit           int
		stdout, stderr string
	}{
		{"start", 0, "the daemon already runs: version 9.9.9-next, process " + strconv.Itoa(os.Getpid()), `hint: this program has version 0.1.0, and its hooks do not use this daemon: run "grapnel daemon restart"`},
		{"status", 0, "warning: the daemon has version 9.9.9-next and this program has version 0.1.0", ""},
		{"status", 0, `queue      {"waiting":7}`, ""},
		{"status --json", 0, `"waiting": 7`, ""},
		{"stop", 1, "", "process " + strconv.Itoa(os.Getpid()) + " listens, but the daemon reports process ID 1"},
		{"restart", 1, "", "cannot stop the daemon"},
	} {
		var stdout, stderr bytes.Buffer
		exit := run(append([]string{"daemon", "--root", root}, strings.Fields(tt.args)...), strings.NewReader(""), &stdout, &stderr)
		if exit != tt.exit || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) || strings.Contains(stdout.String(), "\x1b") {
			t.Errorf("daemon %s: exit %d, want %d\nstdout %s\nwant %s\nstderr %s\nwant %s", tt.args, exit, tt.exit, &stdout, tt.stdout, &stderr, tt.stderr)
		}
	}
}
