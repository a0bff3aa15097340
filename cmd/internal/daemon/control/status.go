package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/local"
)

// Report is the output of "grapnel daemon status --json".
type Report struct {
	Running bool      `json:"running"`
	State   string    `json:"state"` // running, silent (no reply), dead (it left its socket), absent, unknown
	Socket  string    `json:"socket"`
	PID     int       `json:"pid,omitempty"`
	Version string    `json:"version,omitempty"`
	Program string    `json:"program_version"` // of the program that prints the report
	Since   time.Time `json:"since,omitzero"`
	Memory  int64     `json:"memory_bytes,omitempty"`
	CPU     float64   `json:"cpu_seconds,omitempty"`
	Log     int64     `json:"log_bytes,omitempty"` // with its index
	Problem string    `json:"problem,omitempty"`

	Health map[string]json.RawMessage `json:"health,omitempty"` // the complete status report of the daemon
}

// Status returns the state of the daemon of a place.
func Status(ctx context.Context, place local.Place) *Report {
	found, err := server.Look(ctx, client.Socket(place.State))
	return Describe(place, found, err)
}

// Describe returns the state of the daemon of a place, as [server.Look] found it.
func Describe(place local.Place, found *server.Found, err error) *Report {
	r := &Report{Socket: client.Socket(place.State), Program: hookcmd.Version, Log: sizeOf(place.Journal()) + sizeOf(place.Index())}
	switch {
	case err == nil:
		r.State, r.Running = "running", true
	case errors.Is(err, server.ErrSilent):
		r.State = "silent"
	case errors.Is(err, server.ErrDead):
		r.State = "dead"
	case errors.Is(err, server.ErrAbsent):
		r.State = "absent"
	default:
		r.State = "unknown"
	}
	if err != nil {
		r.Problem = err.Error()
	}
	if found == nil {
		return r
	}
	r.PID, r.Health, r.Version = found.PID, found.Health, found.Text("version")
	r.Since, _ = time.Parse(time.RFC3339, found.Text("since"))
	r.Memory, r.CPU = processCost(r.PID)
	store := found.Store()
	switch {
	case r.Running && found.Health["failed"] != nil, r.Running && !found.Well && store.Well():
		r.Problem = "a part of the daemon has failed"
	case r.Running && store.Problem() != "":
		r.Problem = store.Problem() + " (\"grapnel log verify\" shows what is missing; a restart of the daemon clears this message)"
	case r.Running && r.Version != r.Program:
		r.Problem = fmt.Sprintf("the daemon has version %s and this program has version %s: hook programs of this version answer without the daemon until you run \"grapnel daemon restart\"", r.Version, r.Program)
	}
	return r
}

// processCost returns the memory in bytes and the CPU time in seconds of a process; 0 if the
// system does not report them.
func processCost(pid int) (memory int64, cpu float64) {
	stat := procStat(pid)
	if pid == 0 || len(stat) < 22 {
		return 0, 0
	}
	user, _ := strconv.ParseFloat(stat[11], 64)
	system, _ := strconv.ParseFloat(stat[12], 64)
	pages, _ := strconv.ParseInt(stat[21], 10, 64)
	return pages * int64(os.Getpagesize()), (user + system) / 100 // Linux reports hundredths of a second on every machine
}

// sizeOf returns the total size in bytes of the files in a directory.
func sizeOf(dir string) (size int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	return size
}
