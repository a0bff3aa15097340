//go:build linux || darwin

package control

import (
	"os"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/local"
)

// Stop reports whether a daemon ran, and Status the files that it has left.
func TestStopWithoutDaemon(t *testing.T) {
	t.Parallel()
	root, err := os.MkdirTemp("", "gr") //nolint:usetesting // a socket path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := Stop(t.Context(), place); err != nil || text != "no daemon is running" {
		t.Errorf("Stop = %q, %v", text, err)
	}
	if r := Status(t.Context(), place); r.State != "absent" || r.Running {
		t.Errorf("Status = %+v", r)
	}
	l, err := server.Listen(client.Socket(place.State))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if _, err := Stop(t.Context(), place); err == nil { // it listens, but does not answer
		t.Error("this process was stopped")
	}
	if r := Status(t.Context(), place); r.State != "silent" || r.PID != os.Getpid() {
		t.Errorf("Status = %+v", r)
	}
}

// A unit contains the given arguments. Arguments that a unit cannot contain are rejected.
func TestCheckArgs(t *testing.T) {
	t.Parallel()
	for arg, good := range map[string]bool{"/opt/my tools/grapnel": true, "--root": true, "a\nb": false, "\x7f": false} {
		if err := checkArgs([]string{"grapnel", arg}); (err == nil) != good {
			t.Errorf("checkArgs(%q) = %v", arg, err)
		}
	}
	if args, err := withRoot([]string{"serve"}, "here"); err != nil || len(args) != 3 || !strings.HasSuffix(args[2], "here") {
		t.Errorf("withRoot = %q, %v", args, err)
	}
}
