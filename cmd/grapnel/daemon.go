package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/local"
)

func newDaemon(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "daemon",
		Short: "Run the daemon in the background, and look after it",
		Long: `The daemon is "grapnel serve" in the background: it answers grapnel-hook with policies that
stay loaded and workers that stay running, and keeps and delivers what events leave.
Nothing needs it. Without it, or when it dies, grapnel-hook answers by itself with the same
bytes.`,
		Example: "  grapnel daemon start\n  grapnel daemon status\n  grapnel daemon logs -f",
		Args:    usageArgs(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDaemonStart(c), newDaemonStop(c), newDaemonRestart(c), newDaemonStatus(c), newDaemonLogs(c), newDaemonUnit(c))
	return cmd
}

func newDaemonStart(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "start",
		Short: "Start the daemon, unless it runs",
		Long: `Starts "grapnel serve" in a session of its own and waits until it answers. What it has to
say goes to STATE/daemon/log. Where one runs already, that is said, and all is well.

It does not come back after the machine has been started anew: "grapnel daemon unit" has
what systemd and launchd want for that.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			return c.startDaemon(cmd.Context(), place)
		},
	}
}

func newDaemonStop(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the daemon",
		Long: `Asks the daemon to end (SIGTERM), and waits until it has: it answers what it was asked,
and ends its workers. grapnel-hook answers by itself from then on.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			return c.stopDaemon(cmd.Context(), place)
		},
	}
}

func newDaemonRestart(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "restart",
		Short: "Stop the daemon if it runs, and start it",
		Long:  `Does what "grapnel daemon stop" and "grapnel daemon start" do: after a new version was installed, for one.`,
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			if err := c.stopDaemon(cmd.Context(), place); err != nil {
				return err
			}
			return c.startDaemon(cmd.Context(), place)
		},
	}
}

func newDaemonStatus(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "status",
		Short: "Show whether the daemon runs, and how it is",
		Long: `Shows the daemon's process, version, memory and CPU time, and all that it says of itself.

Exit code 0: it runs; 1: it does not, or does not answer.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			r := daemonStatus(cmd.Context(), place)
			if c.JSON {
				err = c.PrintJSON(r)
			} else {
				c.printDaemon(r)
			}
			if err == nil && !r.Running {
				err = cli.ErrFailed
			}
			return err
		},
	})
}

// noteName is where a daemon writes down which process it is.
const noteName = "daemon.json"

// daemonFile is a file that a daemon has beside its socket.
func daemonFile(place local.Place, name string) string {
	return filepath.Join(filepath.Dir(client.Socket(place.State)), name)
}

// startTime is how long a daemon may take until it answers.
const startTime = 15 * time.Second

// startDaemon starts a daemon, if none runs, and waits until it answers.
func (c *console) startDaemon(ctx context.Context, place local.Place) error {
	socket := client.Socket(place.State)
	found, err := server.Look(ctx, socket)
	switch {
	case err == nil:
		return c.sayDaemon("already runs", socket, found)
	case errors.Is(err, server.ErrSilent):
		return cli.WithHint(fmt.Errorf("a daemon runs%s, and does not say how it is: %w", ofProcess(found), err), `run "grapnel daemon restart"`)
	case !errors.Is(err, server.ErrAbsent):
		return fmt.Errorf("cannot start the daemon: %w", err)
	}
	if err := server.Prepare(socket); err != nil {
		return fmt.Errorf("cannot start the daemon: %w", err)
	}
	begun, ended, err := c.spawn(place)
	if err != nil {
		return fmt.Errorf("cannot start the daemon: %w", err)
	}
	for limit := time.Now().Add(startTime); ; {
		if found, err = server.Look(ctx, socket); err == nil {
			if found.PID != begun.pid {
				return c.sayDaemon("already runs", socket, found) // somebody else was quicker
			}
			return c.sayDaemon("runs", socket, found)
		}
		select {
		case how := <-ended:
			ended = nil
			if !server.Busy(socket) {
				return cli.WithHint(fmt.Errorf("the daemon has ended at once: %s%s", how, begun.said()), `"grapnel serve" runs it here, in the foreground`)
			}
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if time.Now().After(limit) {
			return cli.WithHint(fmt.Errorf("the daemon does not answer within %v: %w%s", startTime, err, begun.said()), `see "grapnel daemon logs"`)
		}
	}
}

// ofProcess names the process of a daemon, if it is known.
func ofProcess(f *server.Found) string {
	if f == nil || f.PID == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", f.PID)
}

func (c *console) sayDaemon(what, socket string, found *server.Found) error {
	version := found.Text("version")
	_, err := fmt.Fprintf(c.Out, "the daemon %s: version %s, process %d, on %s\n", what, printable.Line(version), found.PID, printable.Line(socket))
	if version != hookcmd.Version {
		fmt.Fprintf(c.Err, "grapnel: hint: this program is of version %s; hooks of that version do not ask it: run \"grapnel daemon restart\"\n", hookcmd.Version)
	}
	return err
}

// A begun is a daemon that was started.
type begun struct {
	pid  int
	log  string
	from int64 // where what it says begins there
}

// said is what it has written since it was started.
func (b *begun) said() string {
	f, err := os.Open(b.log)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	text := make([]byte, 4<<10)
	n, _ := f.ReadAt(text, b.from) // it is short, or there is nothing
	said := strings.TrimSpace(printable.Text(string(text[:n])))
	if said == "" {
		return ""
	}
	return "\n" + cli.Indent(said, "  ")
}

// spawn starts "grapnel serve" where no terminal, directory or agent holds it. How it ended
// is told if it does while we look.
func (c *console) spawn(place local.Place) (*begun, <-chan string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	b := &begun{log: daemonFile(place, "log")}
	log, err := openLog(b.log)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = log.Close() }()
	if info, err := log.Stat(); err == nil {
		b.from = info.Size()
	}
	args := []string{"serve", "--log", b.log}
	if c.Root != "" {
		root, err := filepath.Abs(c.Root)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, "--root", root)
	}
	cmd := exec.Command(program, args...) //nolint:noctx // it outlives every context
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = filepath.VolumeName(program)+string(filepath.Separator), log, log, daemonEnv(os.Environ())
	alone(cmd)
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

// daemonEnv is the environment of a daemon: that of the person who starts it, without what
// is about one hook or one trace.
func daemonEnv(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "GRAPNEL_") || name == "TRACEPARENT" || name == "TRACESTATE"
	})
}

// drainTime is longer than a drain may have the store, or a daemon that is about to end.
const drainTime = 45 * time.Second

// openStore opens a store, and waits for so long while another process has it: a daemon
// takes as long to let go of it as it may take to end.
func openStore(ctx context.Context, dir string, wait time.Duration, opts *store.Options) (*store.Store, error) {
	for limit := time.Now().Add(wait); ; {
		s, err := store.Open(dir, opts)
		if !errors.Is(err, store.ErrLocked) || time.Now().After(limit) {
			return s, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// endTime is how long a daemon may take to end: what it allows itself, and a little more.
const endTime = 2*stopTime + 5*time.Second

// stopDaemon ends the daemon that runs, if one does.
func (c *console) stopDaemon(ctx context.Context, place local.Place) error {
	socket := client.Socket(place.State)
	found, err := server.Look(ctx, socket)
	switch {
	case errors.Is(err, server.ErrDead):
		if err := errors.Join(server.Clear(socket), removeFile(daemonFile(place, noteName))); err != nil {
			return fmt.Errorf("no daemon is running, and what a dead one has left cannot be removed: %w", err)
		}
		_, err = fmt.Fprintln(c.Out, "no daemon is running; what one that died has left was removed")
		return err
	case errors.Is(err, server.ErrAbsent):
		_, err = fmt.Fprintln(c.Out, "no daemon is running")
		return err
	case found == nil:
		return fmt.Errorf("cannot stop the daemon: %w", err)
	}
	proc, err := identify(ctx, place, found)
	if errors.Is(err, server.ErrAbsent) { // it was about to end
		return c.stopDaemon(ctx, place)
	}
	if err != nil {
		return fmt.Errorf("cannot stop the daemon: %w", err)
	}
	defer func() { _ = proc.Release() }()
	if err := proc.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cannot stop the daemon%s: %w", ofProcess(found), err)
	}
	begun := time.Now()
	for !ended(proc) {
		if time.Since(begun) > endTime {
			return cli.WithHint(fmt.Errorf("the daemon%s was told to end and has not within %v", ofProcess(found), endTime), fmt.Sprintf("end it: kill -9 %d", found.PID))
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err = fmt.Fprintf(c.Out, "the daemon has ended%s\n", ofProcess(found))
	return err
}

func removeFile(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// identify takes hold of the process of a daemon: of that one, not of another that has its
// number since. The kernel says who listens, and it has to say so of itself; that it still
// listens once we hold the process shows that it is this one.
func identify(ctx context.Context, place local.Place, found *server.Found) (*os.Process, error) {
	if found.PID == 0 {
		return nil, cli.WithHint(errors.New("it runs where its process cannot be seen from here"), "stop it in its container")
	}
	proc, err := os.FindProcess(found.PID)
	if err != nil {
		return nil, err
	}
	again, err := server.Look(ctx, client.Socket(place.State))
	switch {
	case again == nil:
		err = fmt.Errorf("it has just gone: %w", err)
	case again.PID != found.PID:
		err = fmt.Errorf("process %d listens now, where process %d has", again.PID, found.PID)
	default:
		says := again.Number("pid")
		if err != nil { // it does not answer: what it wrote down has to do
			says = notedPID(daemonFile(place, noteName))
		}
		if err = nil; says != found.PID {
			err = fmt.Errorf("process %d listens, and the daemon says that it is process %d: it may be in a container, or was given its socket by a service manager", found.PID, says)
		}
	}
	if err != nil {
		_ = proc.Release()
		return nil, err
	}
	return proc, nil
}

// notedPID is the process that a daemon has written down, 0 if none.
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

// ended reports whether a process has. One that nobody has waited for yet has, too.
func ended(proc *os.Process) bool {
	if err := proc.Signal(syscall.Signal(0)); errors.Is(err, os.ErrProcessDone) {
		return true
	}
	stat := procStat(proc.Pid)
	return len(stat) > 0 && (stat[0] == "Z" || stat[0] == "X")
}

// procStat is what Linux says of a process behind its name, from its state on; nil elsewhere.
func procStat(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[max(0, strings.LastIndexByte(string(text), ')')+1):])) // the name may hold anything
}

// daemonReport is what "grapnel daemon status --json" prints.
type daemonReport struct {
	Running bool      `json:"running"`
	State   string    `json:"state"` // running, silent (it does not answer), dead (it has left its socket), absent, unknown
	Socket  string    `json:"socket"`
	PID     int       `json:"pid,omitempty"`
	Version string    `json:"version,omitempty"`
	Program string    `json:"program_version"` // of the program that asks
	Since   time.Time `json:"since,omitzero"`
	Memory  int64     `json:"memory_bytes,omitempty"`
	CPU     float64   `json:"cpu_seconds,omitempty"`
	Store   int64     `json:"store_bytes,omitempty"`
	Problem string    `json:"problem,omitempty"`

	Health map[string]json.RawMessage `json:"health,omitempty"` // all that it says of itself
}

func daemonStatus(ctx context.Context, place local.Place) *daemonReport {
	r := &daemonReport{Socket: client.Socket(place.State), Program: hookcmd.Version, Store: sizeOf(place.Store())}
	found, err := server.Look(ctx, r.Socket)
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
	r.Memory, r.CPU = cost(r.PID)
	store := found.Store()
	switch {
	case r.Running && found.Health["failed"] != nil, r.Running && !found.Well && store.Well():
		r.Problem = "it says that a part of it does not work"
	case r.Running && store.Problem() != "":
		r.Problem = store.Problem() + " (\"grapnel log verify\" tells what is missing; a restart of the daemon resets this)"
	case r.Running && r.Version != r.Program:
		r.Problem = fmt.Sprintf("it is of version %s and this program of %s: hooks of this version answer by themselves until \"grapnel daemon restart\"", r.Version, r.Program)
	}
	return r
}

// cost is what a process takes: memory in bytes and CPU time in seconds; 0 where the system
// does not say.
func cost(pid int) (memory int64, cpu float64) {
	stat := procStat(pid)
	if pid == 0 || len(stat) < 22 {
		return 0, 0
	}
	user, _ := strconv.ParseFloat(stat[11], 64)
	system, _ := strconv.ParseFloat(stat[12], 64)
	pages, _ := strconv.ParseInt(stat[21], 10, 64)
	return pages * int64(os.Getpagesize()), (user + system) / 100 // Linux counts in hundredths for everybody
}

// sizeOf is the size in bytes of the files of a directory.
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

func (c *console) printDaemon(r *daemonReport) {
	line := func(name, text string) { fmt.Fprintf(c.Out, "%-10s %s\n", printable.Line(name), printable.Line(text)) }
	state := map[string]string{
		"running": c.Paint(cli.Green, "running"), "silent": c.Paint(cli.Red, "does not answer"), "dead": c.Paint(cli.Yellow, "not running, and it has died"), "absent": "not running",
		"unknown": c.Paint(cli.Red, "unknown"),
	}[r.State]
	if r.PID != 0 {
		state += fmt.Sprintf(", process %d", r.PID)
	}
	fmt.Fprintf(c.Out, "%-10s %s\n", "daemon", state)
	if r.Version != "" {
		line("version", r.Version)
	}
	if !r.Since.IsZero() {
		line("since", fmt.Sprintf("%s (%v)", minute(r.Since), max(0, time.Since(r.Since)).Round(time.Second)))
	}
	line("socket", r.Socket)
	if r.Memory > 0 {
		line("cost", fmt.Sprintf("%s of memory, %.2f s of CPU time", size(r.Memory), r.CPU))
	}
	if r.Store > 0 {
		line("store", size(r.Store))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Health)) {
		if !slices.Contains([]string{"version", "pid", "since"}, name) {
			line(name, string(r.Health[name]))
		}
	}
	if r.Problem != "" && r.State != "absent" && r.State != "dead" {
		fmt.Fprintf(c.Out, "%s %s\n", c.Paint(cli.Yellow, "warning:"), printable.Line(r.Problem))
	}
	switch r.State {
	case "dead":
		fmt.Fprintln(c.Out, `hint: "grapnel daemon start" starts it, "grapnel daemon stop" removes what it has left; "grapnel daemon logs" may say why`)
	case "absent":
		fmt.Fprintln(c.Out, `hint: grapnel-hook answers by itself; "grapnel daemon start" starts it`)
	case "silent":
		fmt.Fprintln(c.Out, `hint: grapnel-hook answers by itself; "grapnel daemon restart" may help`)
	}
}

func minute(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// size is a number of bytes for people.
func size(n int64) string {
	unit := 0
	f := float64(n)
	for f >= 1000 && unit < 3 {
		f, unit = f/1000, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', cmp.Or(min(unit, 1), 0), 64), ".0") + []string{" B", " kB", " MB", " GB"}[unit]
}
