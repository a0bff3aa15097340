// Package control starts and stops the daemon, reports its status, and manages its deliveries.
package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/logfile"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/service"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/local"
)

// startTime is how long a daemon may take until it replies.
const startTime = 15 * time.Second

// A Started is a running daemon, and whether this call has started it.
type Started struct {
	*server.Found
	Socket  string
	Already bool // it was running before
}

// Start starts a daemon, if none runs, and waits until it replies. If root is not empty, the
// daemon gets it as its --root. Where a daemon for all users runs, that one starts it.
func Start(ctx context.Context, place local.Place, root string) (Started, error) {
	socket := client.Socket(place.State)
	found, err := server.Look(ctx, socket)
	switch {
	case err == nil:
		return Started{found, socket, true}, nil
	case errors.Is(err, server.ErrSilent):
		return Started{}, cli.WithHint(fmt.Errorf("a daemon is running%s, but its health check failed: %w", processText(found), err), `run "grapnel daemon restart"`)
	case !errors.Is(err, server.ErrAbsent):
		return Started{}, fmt.Errorf("cannot start the daemon: %w", err)
	}
	if err := server.Prepare(socket); err != nil {
		return Started{}, fmt.Errorf("cannot start the daemon: %w", err)
	}
	begun, ended := &spawned{}, (<-chan string)(nil)
	if root != "" || !server.Wake(ctx, client.All) {
		if begun, ended, err = spawn(place, root); err != nil {
			return Started{}, fmt.Errorf("cannot start the daemon: %w", err)
		}
	}
	for limit := time.Now().Add(startTime); ; {
		if found, err = server.Look(ctx, socket); err == nil {
			if begun.pid != 0 && found.PID != begun.pid {
				return Started{found, socket, true}, nil // another process started it first
			}
			return Started{found, socket, false}, nil
		}
		select {
		case how := <-ended:
			ended = nil
			if !server.Busy(socket) {
				return Started{}, cli.WithHint(fmt.Errorf("the daemon stopped immediately after its start: %s%s", how, begun.output()), `"grapnel serve" runs the daemon in the foreground`)
			}
		case <-time.After(20 * time.Millisecond):
			if begun.pid == 0 { // the daemon that ends may have received the first request
				server.Wake(ctx, client.All)
			}
		case <-ctx.Done():
			return Started{}, ctx.Err()
		}
		if time.Now().After(limit) {
			return Started{}, cli.WithHint(fmt.Errorf("the daemon did not answer within %v: %w%s", startTime, err, begun.output()), `see "grapnel daemon logs"`)
		}
	}
}

// processText returns the process ID of a daemon in parentheses, or "".
func processText(f *server.Found) string {
	if f == nil || f.PID == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", f.PID)
}

// A spawned is a daemon process that was started here.
type spawned struct {
	pid  int
	log  string
	from int64 // offset in the log at which its output begins
}

// output returns the beginning of the log output since the start.
func (b *spawned) output() string {
	f, err := os.Open(b.log)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	text := make([]byte, 4<<10)
	n, _ := f.ReadAt(text, b.from) // an error means that the output is short or empty
	output := strings.TrimSpace(printable.Text(string(text[:n])))
	if output == "" {
		return ""
	}
	return "\n" + cli.Indent(output, "  ")
}

// spawn starts "grapnel serve" without a terminal, in its own session and in a neutral directory.
// If the process ends early, the channel receives its result.
func spawn(place local.Place, root string) (*spawned, <-chan string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	b := &spawned{log: service.File(place, "log")}
	log, err := logfile.Open(b.log)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = log.Close() }()
	if info, err := log.Stat(); err == nil {
		b.from = info.Size()
	}
	args := []string{"serve", "--log", b.log}
	if args, err = withRoot(args, root); err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(program, args...) //nolint:noctx // it outlives every context
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = filepath.VolumeName(program)+string(filepath.Separator), log, log, daemonEnv(os.Environ())
	newSession(cmd)
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	b.pid = cmd.Process.Pid
	ended := make(chan string, 1)
	go func() {
		_ = cmd.Wait()
		ended <- cmd.ProcessState.String()
	}()
	return b, ended, nil
}

// withRoot adds --root to the arguments of a daemon, if root is not empty.
func withRoot(args []string, root string) ([]string, error) {
	if root == "" {
		return args, nil
	}
	abs, err := filepath.Abs(root)
	return append(args, "--root", abs), err
}

// daemonEnv returns the environment for a daemon: the environment of the user, without variables
// about one hook or one trace.
func daemonEnv(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "GRAPNEL_") || name == "TRACEPARENT" || name == "TRACESTATE"
	})
}
