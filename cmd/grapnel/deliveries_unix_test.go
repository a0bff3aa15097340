//go:build system && unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/local"
)

// typed runs a command with the given arguments.
func typed(t *testing.T, root string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	var out, err bytes.Buffer
	exit = run(append(args, "--root", root), strings.NewReader(""), &out, &err)
	return out.String(), err.String(), exit
}

// wants runs a command and checks its exit code and a part of its output.
func wants(t *testing.T, root string, exit int, words string, args ...string) string {
	t.Helper()
	stdout, stderr, got := typed(t, root, args...)
	if got != exit || !strings.Contains(stdout+stderr, words) {
		t.Errorf("%s: exit %d, want %d and %q\n%s%s", strings.Join(args, " "), got, exit, words, stdout, stderr)
	}
	return stdout
}

// keep adds deliveries for the hook team to the queue of a root.
func keep(t *testing.T, place local.Place, jobs ...delivery.Job) {
	t.Helper()
	set := place.Settings()
	digest := ""
	for _, l := range set.Files {
		if l.File == place.Policy {
			digest = l.Digest
		}
	}
	s, err := queue.Open(place.Queue(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		j := &jobs[i]
		j.Record, j.Session, j.Event = "rec", "s1", json.RawMessage(`{"kind":"tool.before","agent":{"name":"codex"},"session":{"id":"s1"},"tool":{"name":"a  b"}}`)
		j.Hook = delivery.Hook{Name: "team", Source: place.Policy, File: place.Policy, Digest: digest, Scope: "user"}
		if j.Created.IsZero() {
			j.Created = time.Now().Add(time.Duration(i) * time.Second)
		}
		if j.Target == "" {
			j.Target = place.Policy + "::team"
		}
	}
	if err := s.Put(t.Context(), jobs...); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// The commands for deliveries list and change them without a daemon.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var status atomic.Int32
	var heard atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		heard.Add(1)
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(server.Close)
	writePolicy(t, root, "version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - {name: team, on: tool.before, notify: "+server.URL+"}\n")
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	target := place.Policy + "::team"

	// No event was ever queued, and reading does not create a queue.
	wants(t, root, 0, "No deliveries.", "deliveries")
	wants(t, root, 0, "No delivery is dead.", "deliveries", "retry", "--all-dead")
	wants(t, root, 1, `no delivery "x" found`, "deliveries", "show", "x")
	wants(t, root, 1, `no target "x" found`, "deliveries", "on", "x")
	wants(t, root, 0, "0 delivered, 0 failed, 0 dead, 0 waiting", "drain")
	if _, err := os.Stat(place.Queue()); err == nil {
		t.Error("a queue was made")
	}

	keep(t, place, delivery.Job{ID: "w1", Tries: 1, Next: time.Now().Add(time.Hour), Status: 500, Error: "it was busy"}, delivery.Job{ID: "d1", State: delivery.Dead, Tries: 8, Error: "it was \x1b[31mdown", Status: 500}, delivery.Job{ID: "d2", State: delivery.Dead, Tries: 8},
		delivery.Job{ID: "d3", State: delivery.Dead, Tries: 8, Target: "elsewhere::other"}, delivery.Job{ID: "ok", State: delivery.Delivered, Tries: 1, Status: 200})

	list := wants(t, root, 0, "d1", "deliveries")
	if strings.Count(list, "\n") != 5 || strings.Contains(list, "\x1b") || strings.Index(list, "d1") > strings.Index(list, "d3") {
		t.Errorf("%s", list)
	}
	if list := wants(t, root, 0, "d1", "deliveries", "--state", "dead", "--target", "team"); strings.Count(list, "\n") != 2 {
		t.Errorf("%s", list)
	}
	for line := range strings.Lines(wants(t, root, 0, `"d3"`, "deliveries", "--json", "--state", "dead")) {
		var j map[string]any
		if err := json.Unmarshal([]byte(line), &j); err != nil || j["state"] != "dead" || j["tries"] != 8.0 || j["event"] != nil || j["id"] == nil {
			t.Errorf("%v: %s", err, line)
		}
	}
	wants(t, root, 0, "only the 2 newest", "deliveries", "--limit", "2")
	wants(t, root, 64, `unknown state "gone"`, "deliveries", "--state", "gone")
	wants(t, root, 64, "unknown command", "deliveries", "shwo")
	wants(t, root, 1, `no target "nobody" found`, "deliveries", "--target", "nobody")
	if output := wants(t, root, 0, "session  s1", "deliveries", "show", "d1"); !strings.Contains(output, `"a  b"`) || strings.Contains(output, "\x1b") {
		t.Errorf("%s", output)
	}
	var shown delivery.Job
	if err := json.Unmarshal([]byte(wants(t, root, 0, "", "deliveries", "show", "d1", "--json")), &shown); err != nil || shown.ID != "d1" || len(shown.Event) == 0 {
		t.Errorf("%v: %+v", err, shown)
	}

	// Retry changes all named deliveries or none.
	wants(t, root, 64, "no delivery given", "deliveries", "retry")
	wants(t, root, 64, "not both", "deliveries", "retry", "d1", "--all-dead")
	wants(t, root, 64, "--target needs --all-dead", "deliveries", "retry", "d1", "--target", "team")
	wants(t, root, 1, `"ok" is not dead: its state is delivered`, "deliveries", "retry", "d1", "ok")
	wants(t, root, 1, "it is waiting", "deliveries", "retry", "d1", "w1")
	wants(t, root, 1, `no delivery "d9" found`, "deliveries", "retry", "d1", "d9")
	wants(t, root, 0, "8 tries", "deliveries", "--state", "dead", "--target", "team")
	status.Store(503)
	wants(t, root, 0, "1 delivery will be retried", "deliveries", "retry", "d1")
	if output := wants(t, root, 1, "answered with status 503", "drain"); !strings.Contains(output, "0 delivered, 1 failed, 0 dead, 2 waiting") {
		t.Errorf("%s", output)
	}
	status.Store(410)
	wants(t, root, 0, `"retried": 1`, "deliveries", "retry", "--all-dead", "--target", target, "--json")
	wants(t, root, 1, "its target is disabled", "drain")
	wants(t, root, 0, "is disabled since", "deliveries")
	before := heard.Load()
	wants(t, root, 0, "0 delivered, 0 failed, 0 dead, 3 waiting", "drain")
	if heard.Load() != before {
		t.Error("it was told, and wants to hear no more")
	}
	status.Store(204)
	wants(t, root, 0, "is enabled again. 3 deliveries wait", "deliveries", "on", "team")
	wants(t, root, 0, "is not disabled", "deliveries", "on", target)
	if output := wants(t, root, 0, "1 waiting", "drain", "--wait", "20s"); !strings.Contains(output, "2 delivered") {
		t.Errorf("%s", output)
	}
	wants(t, root, 0, "event    deleted after the delivery", "deliveries", "show", "d1")
	wants(t, root, 0, `"delivered": 0`, "drain", "--json")
	wants(t, root, 64, "the time must not be negative", "drain", "--wait", "-1s")
}

// While another process has the queue open, deliveries can be listed, and a drain leaves them
// to that process.
func TestDeliveriesOfADaemon(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	writePolicy(t, root, "version: 1\nhooks:\n  - {name: team, on: tool.before, notify: https://127.0.0.1:1}\n")
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	keep(t, place, delivery.Job{ID: "d1", State: delivery.Dead, Tries: 8})
	s, err := queue.Open(place.Queue(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wants(t, root, 0, "d1", "deliveries")
	wants(t, root, 0, `A daemon or another drain sends`, "drain")
	wants(t, root, 1, "hint: wait until the drain has finished", "deliveries", "retry", "d1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wants(t, root, 0, "1 delivery will be retried", "deliveries", "retry", "d1")
}

// A drain also runs pending hooks, and reports failures.
func TestDrainCommand(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	server := listener(t, filepath.Join(root, "heard"), filepath.Join(root, "status"))
	t.Cleanup(server.Close)
	writePolicy(t, root, "version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - {name: team, on: tool.before, notify: "+server.URL+"}\n  - {name: other, on: tool.before, run: echo there >> "+root+"/other, async: true}\n")
	for i := range 3 {
		runHook(t, "claude-code", root, claudeShell)
		wants(t, root, 0, "Pending hooks have run.", "drain", "--wait", "2m")
		await.Until(t, fmt.Sprintf("the server and the hook have the event of round %d", i), func() bool { // from this drain, or from the drain that the hook started
			text, _ := os.ReadFile(filepath.Join(root, "heard"))
			other, _ := os.ReadFile(filepath.Join(root, "other"))
			return bytes.Count(text, []byte("\n")) == i+1 && bytes.Count(other, []byte("\n")) == i+1
		})
	}
}
