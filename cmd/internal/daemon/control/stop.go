package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/service"
	"github.com/grapnel-dev/grapnel/local"
)

// endTime is how long a daemon may take to stop: its own limit, and a little more.
const endTime = 2*service.StopTime + 5*time.Second

// Stop stops the running daemon, if there is one, and returns a sentence that describes the
// result.
func Stop(ctx context.Context, place local.Place) (string, error) {
	socket := client.Socket(place.State)
	found, err := server.Look(ctx, socket)
	switch {
	case errors.Is(err, server.ErrDead):
		if err := errors.Join(server.Clear(socket), removeFile(service.File(place, service.NoteName))); err != nil {
			return "", fmt.Errorf("no daemon is running, and the files of a daemon that died cannot be removed: %w", err)
		}
		return "no daemon is running; removed the files of a daemon that died", nil
	case errors.Is(err, server.ErrAbsent):
		return "no daemon is running", nil
	case found == nil:
		return "", fmt.Errorf("cannot stop the daemon: %w", err)
	}
	proc, err := identify(ctx, place, found)
	if errors.Is(err, server.ErrAbsent) { // it was about to stop
		return Stop(ctx, place)
	}
	if err != nil {
		return "", fmt.Errorf("cannot stop the daemon: %w", err)
	}
	defer func() { _ = proc.Release() }()
	if err := proc.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return "", fmt.Errorf("cannot stop the daemon%s: %w", processText(found), err)
	}
	begun := time.Now()
	for !Ended(proc) {
		if time.Since(begun) > endTime {
			return "", cli.WithHint(fmt.Errorf("the daemon%s did not stop within %v", processText(found), endTime), fmt.Sprintf("kill it: kill -9 %d", found.PID))
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "the daemon has stopped" + processText(found), nil
}

func removeFile(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// identify opens the process of a daemon, and makes sure that it is not another process that has
// reused the ID. The kernel reports the ID of the listener, and the daemon must report the same
// ID. If it still listens after the process was opened, the process is the daemon.
func identify(ctx context.Context, place local.Place, found *server.Found) (*os.Process, error) {
	if found.PID == 0 {
		return nil, cli.WithHint(errors.New("it runs in another PID namespace, where its process is not visible"), "stop it in its container")
	}
	proc, err := os.FindProcess(found.PID)
	if err != nil {
		return nil, err
	}
	again, err := server.Look(ctx, client.Socket(place.State))
	switch {
	case again == nil:
		err = fmt.Errorf("it has just stopped: %w", err)
	case again.PID != found.PID:
		err = fmt.Errorf("process %d listens now instead of process %d", again.PID, found.PID)
	default:
		pid := again.Number("pid")
		if err != nil { // the daemon does not reply: use its status file
			pid = notedPID(service.File(place, service.NoteName))
		}
		if err = nil; pid != found.PID {
			err = fmt.Errorf("process %d listens, but the daemon reports process ID %d: it may run in a container, or its socket comes from a service manager", found.PID, pid)
		}
	}
	if err != nil {
		_ = proc.Release()
		return nil, err
	}
	return proc, nil
}

// notedPID returns the process ID in a daemon's status file, or 0.
func notedPID(file string) int {
	var note struct {
		PID int `json:"pid"`
	}
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &note) != nil {
		return 0
	}
	return note.PID
}

// Ended reports whether a process has ended. A zombie process has ended.
func Ended(proc *os.Process) bool {
	if err := proc.Signal(syscall.Signal(0)); errors.Is(err, os.ErrProcessDone) {
		return true
	}
	stat := procStat(proc.Pid)
	return len(stat) > 0 && (stat[0] == "Z" || stat[0] == "X")
}

// procStat returns the fields of /proc/PID/stat after the process name; nil on other systems.
func procStat(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[max(0, strings.LastIndexByte(string(text), ')')+1):])) // the name may contain any character
}
