//go:build e2e && linux

package machines

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/forwarding"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/machines"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/postgrestest"
)

// do runs a command of Grapnel below the root of a machine.
func (m machine) do(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), grapnel, append(args, "--root", m.root)...)
	cmd.Env = append(os.Environ(), "HOME="+m.root)
	cmd.Dir = m.root
	data, err := cmd.CombinedOutput()
	return string(data), err
}

// event sends an event of an agent to the hook program.
func (m machine) event(t *testing.T, n int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), hook, "claude-code", "--root", m.root)
	cmd.Dir = m.root
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":"s","transcript_path":"","cwd":%q,"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"echo %d"},"tool_use_id":"t%d"}`, m.root, n, n))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// reports returns what "grapnel status" says about the targets.
func (m machine) reports(t *testing.T) []forwarding.Report {
	t.Helper()
	out, err := m.do(t, "status", "--json")
	var s struct{ Forward []forwarding.Report }
	if err != nil || json.Unmarshal([]byte(out), &s) != nil {
		t.Fatalf("status: %v: %s", err, out)
	}
	return s.Forward
}

func count(t *testing.T, s *postgrestest.Server) (n int) {
	t.Helper()
	conn := connect(t, s)
	defer func() { _ = conn.Close(context.Background()) }() // it is called again and again
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM grapnel.records WHERE event = 'tool.before'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDaemon: a daemon sends Records as they arrive. A server that is away delays no event, and the
// operator sees it.
func TestDaemon(t *testing.T) {
	t.Parallel()
	s, n := postgrestest.Start(t), startNATS(t, "")
	m := newMachine(t, forwardTo(s, n))
	m.event(t, 1) // before the database is prepared, and without a daemon
	if out, err := m.do(t, "forward"); err == nil || !strings.Contains(out, "grapnel forward setup") {
		t.Errorf("forward to a database that is not prepared: %v: %s", err, out)
	}
	for _, r := range m.reports(t) {
		if !strings.Contains(r.Error, "grapnel forward setup") || r.Behind == 0 {
			t.Errorf("status of %s: %+v", r.To, r)
		}
	}
	if out, err := m.do(t, "forward", "setup", s.URL("postgres", "postgres"), "--credentials", s.Passwords()); err != nil || !strings.Contains(out, "The database is ready") {
		t.Fatalf("setup: %v: %s", err, out)
	}
	if out, err := m.do(t, "forward", "setup", n.url()); err != nil || !strings.Contains(out, "The stream is ready") {
		t.Fatalf("setup: %v: %s", err, out)
	}
	if out, err := m.do(t, "daemon", "start"); err != nil {
		t.Fatalf("daemon start: %v: %s", err, out)
	}
	t.Cleanup(func() {
		cmd := exec.Command(grapnel, "daemon", "stop", "--root", m.root)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("daemon stop: %v: %s", err, out)
		}
	})
	m.event(t, 2)
	await.Until(t, "both Records are in the database", func() bool { return count(t, s) == 2 })
	s.Kill()
	n.kill()
	m.event(t, 3)
	await.Until(t, "status names both servers", func() bool {
		failing := 0
		for _, r := range m.reports(t) {
			if strings.Contains(r.Error, "cannot reach") && r.Behind > 0 && !r.FailingSince.IsZero() {
				failing++
			}
		}
		return failing == 2
	})
	if out, _ := m.do(t, "doctor"); !strings.Contains(out, "cannot reach the database") { // other findings are not of this test
		t.Errorf("doctor: %s", out)
	}
	n.run()
	s.Run()
	if out, err := m.do(t, "forward", "--wait", "2m"); err != nil {
		t.Errorf("forward: %v: %s", err, out)
	}
	if got := count(t, s); got != 3 {
		t.Errorf("%d Records in the database, want 3", got)
	}
	await.Until(t, "status shows that all is well", func() bool {
		for _, r := range m.reports(t) {
			if r.Error != "" || r.Behind != 0 {
				return false
			}
		}
		return true
	})
}

// TestForwardUsage: without a target, the command says what to do.
func TestForwardUsage(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "")
	if out, err := m.do(t, "forward"); err == nil || !strings.Contains(out, "no policy lists a target") || !strings.Contains(out, "records: {forward:") {
		t.Errorf("forward without a target: %v: %s", err, out)
	}
	for _, args := range [][]string{{"forward", "setup", "postgres://u:hunter2@db/x"}, {"machines", "--records", "postgres://u:hunter2@db/x"}} {
		if out, err := m.do(t, args...); err == nil || !strings.Contains(out, "cannot contain a password") || !strings.Contains(out, "--credentials FILE") || strings.Contains(out, "hunter2") {
			t.Errorf("%s with a password: %v: %s", args[0], err, out)
		}
	}
	if out, err := m.do(t, "forward", "setup", "kafka://x"); err == nil || !strings.Contains(out, "write postgres://HOST/DATABASE") {
		t.Errorf("setup of another system: %v: %s", err, out)
	}
}

// TestMachines: a machine that sends Records is listed with its heartbeat, which no list of events shows.
func TestMachines(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	m := newMachine(t, fmt.Sprintf("records: {forward: [{to: %q, credentials: %s}]}\n", s.URL("postgres", "postgres"), s.Passwords()))
	if out, err := m.do(t, "forward", "setup", s.URL("postgres", "postgres"), "--credentials", s.Passwords()); err != nil {
		t.Fatalf("setup: %v: %s", err, out)
	}
	m.event(t, 1)
	if out, err := m.do(t, "forward"); err != nil {
		t.Fatalf("forward: %v: %s", err, out)
	}
	out, err := m.do(t, "machines", "--credentials", s.Passwords(), "--json")
	var list []machines.Machine
	if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list) != 1 {
		t.Fatalf("machines: %v: %s", err, out)
	}
	id := m.place(t).Identity()
	if got := list[0]; got.ID != id.Machine || got.Host != id.Host || got.User != id.User || got.Login != "postgres" || got.Beat.IsZero() || got.System != "linux/"+runtime.GOARCH || got.Version == "" || got.Digest == "" || len(got.Problems) != 0 {
		t.Errorf("machines: %+v", got)
	}
	if out, err := m.do(t, "machines", "--records", s.URL("postgres", "postgres"), "--credentials", s.Passwords(), "--silent-after", "1ms"); err != nil || !strings.Contains(out, "problem: silent since") || !strings.Contains(out, "1 machine, 1 with problems") {
		t.Errorf("machines: %v: %s", err, out)
	}
	if out, err := m.do(t, "machines", "--records", "nats://x"); err == nil || !strings.Contains(out, "only a PostgreSQL database can be read") {
		t.Errorf("machines of a stream: %v: %s", err, out)
	}
	if out, err := m.do(t, "log", "--json"); err != nil || strings.Contains(out, "native.grapnel.alive") || !strings.Contains(out, "tool.before") {
		t.Errorf("log: %v: %s", err, out)
	}
	if out, err := m.do(t, "log", "--json", "--event", "native.grapnel.alive"); err != nil || !strings.Contains(out, "native.grapnel.alive") {
		t.Errorf("log of heartbeats: %v: %s", err, out)
	}
}
