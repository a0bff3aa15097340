//go:build e2e && linux

package machines

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/postgrestest"
)

// TestUI: the browser page shows the machines of a database and their Records, and changes nothing.
func TestUI(t *testing.T) {
	t.Parallel()
	s := postgrestest.Start(t)
	url := s.URL("postgres", "postgres")
	policy := fmt.Sprintf("records: {forward: [{to: %q, credentials: %s}]}\n", url, s.Passwords())
	a, b := newMachine(t, policy), newMachine(t, policy+"hooks:\n  - {name: no-echo, on: tool.before, match: {command: echo}, block: No echo.}\n")
	if out, err := a.do(t, "ui", "--no-open", "--records", url, "--credentials", s.Passwords()); err == nil || !strings.Contains(out, "grapnel forward setup") {
		t.Errorf("ui of a database that is not prepared: %v: %s", err, out)
	}
	if out, err := a.do(t, "forward", "setup", url, "--credentials", s.Passwords()); err != nil {
		t.Fatalf("setup: %v: %s", err, out)
	}
	for _, m := range []machine{a, b} {
		m.event(t, 1)
		if out, err := m.do(t, "forward"); err != nil {
			t.Fatalf("forward: %v: %s", err, out)
		}
	}
	link := serve(t, a, "ui", "--no-open", "--records", url, "--credentials", s.Passwords())
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	base := link[:strings.Index(link, "/login")]
	get := func(path string) (int, string) {
		t.Helper()
		r, err := client.Get(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(body)
	}
	get(link) // sets the cookie
	first, second := a.place(t).Identity(), b.place(t).Identity()
	for path, want := range map[string][]string{
		"/":                                 {"2 machines", `<a href="/machines">0 with problems</a>`, "/events?decision=block", "</th><td>1</td><td>0</td><td>0</td>"},
		"/machines":                         {first.User + "@" + first.Host, "/events?machine=" + second.Machine, `<span class="word allow">works</span>`},
		"/events":                           {"no-echo", "echo 1", first.Host},
		"/events?machine=" + second.Machine: {"echo 1"},
		"/events?text=echo":                 {"echo 1"},
		"/sessions":                         {"claude-code"},
	} {
		status, body := get(base + path)
		for _, text := range want {
			if status != http.StatusOK || !strings.Contains(body, text) {
				t.Errorf("%s: status %d, want %q in\n%s", path, status, text, body)
			}
		}
	}
	_, all := get(base + "/events")
	_, some := get(base + "/events?machine=" + second.Machine)
	if strings.Contains(all, "native.grapnel.alive") || strings.Count(all, "echo 1") != 2*strings.Count(some, "echo 1") {
		t.Error("the filter by machine or by heartbeats is wrong")
	}
	id := regexp.MustCompile(`/records/([0-9a-f]+)`).FindStringSubmatch(some)
	if id == nil {
		t.Fatal("no link to a Record")
	}
	if status, body := get(base + "/records/" + id[1]); status != http.StatusOK || !strings.Contains(body, "no-echo") || !strings.Contains(body, "run &#34;grapnel ui&#34; there") {
		t.Errorf("the Record: status %d\n%s", status, body)
	}
	for _, path := range []string{"/policy", "/approvals", "/deliveries"} {
		if status, _ := get(base + path); status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, status)
		}
	}
	s.Kill()
	if status, body := get(base + "/machines"); status != http.StatusOK || !strings.Contains(body, "the database") {
		t.Errorf("without the database: status %d\n%s", status, body)
	}
}

// serve runs a command until the test ends, and returns the first line that it prints.
func serve(t *testing.T, m machine, args ...string) string {
	t.Helper()
	cmd := exec.Command(grapnel, append(args, "--root", m.root)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var failures bytes.Buffer
	cmd.Stderr = &failures
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		timer := time.AfterFunc(await.Limit, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, failures.Bytes())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return strings.TrimSpace(line)
}
