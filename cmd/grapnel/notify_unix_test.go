//go:build system && unix

package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/local"
)

// heard is one request as the listener received it.
type delivered struct {
	ID     string          `json:"id"`
	Signed bool            `json:"signed"` // by hookKey, verified with a library that Grapnel does not use
	Type   string          `json:"type"`
	Team   string          `json:"team,omitempty"`
	Body   json.RawMessage `json:"body"`
}

// listener is a server that writes each request as a line to a file. It answers with the status
// in another file.
func listener(t testing.TB, file, status string) *httptest.Server {
	t.Helper()
	var mu sync.Mutex
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		wh, err := standardwebhooks.NewWebhook(hookKey)
		if err != nil {
			t.Error(err)
			return
		}
		var line bytes.Buffer
		e := json.NewEncoder(&line)
		e.SetEscapeHTML(false)
		if err := e.Encode(delivered{r.Header.Get("Webhook-Id"), wh.Verify(body, r.Header) == nil, r.Header.Get("Content-Type"), r.Header.Get("X-Team"), body}); err != nil {
			t.Errorf("%v: %s", err, body)
			return
		}
		// Read the status first: a script changes it as soon as it sees the line.
		answer, noStatus := os.ReadFile(status)
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = f.Write(line.Bytes())
		if err := errors.Join(err, f.Close()); err != nil {
			t.Error(err)
		}
		if noStatus == nil {
			code, _ := strconv.Atoi(strings.TrimSpace(string(answer)))
			w.WriteHeader(code)
		}
	}))
}

// TestNotify tests the delivery of an event to a server through all parts: grapnel-hook, the
// outbox, the drain, the queue, and a server on loopback.
func TestNotify(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/notify",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			server := listener(env.T().(testing.TB), filepath.Join(env.WorkDir, "heard"), filepath.Join(env.WorkDir, "status"))
			env.Defer(server.Close)
			env.Defer(func() { endDaemons(env.WorkDir) })
			env.Setenv("URL", server.URL)
			env.Setenv("KEY", hookKey)
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return os.MkdirAll(env.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":  exits,
			"until":  until,
			"lines":  lines,
			"expand": expand,
			"save":   save,
		},
	})
}

// deliveries waits until n deliveries exist and all of them were tried.
func deliveries(t *testing.T, place local.Place, n int) []delivery.Job {
	t.Helper()
	var jobs []delivery.Job
	await.Until(t, fmt.Sprintf("%d deliveries were tried", n), func() bool {
		r, err := queue.OpenReader(place.Queue())
		if err != nil {
			return false
		}
		jobs, err = r.Deliveries(t.Context(), queue.Query{})
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		tried := 0
		for _, j := range jobs {
			if j.Tries > 0 || j.State != delivery.Waiting {
				tried++
			}
		}
		return tried == n && len(jobs) == n
	})
	return jobs
}

// While the queue is in use, deliveries wait in the outbox and other hooks do not wait. The next
// drain sends each delivery once.
func TestNotifyWhileTheQueueIsInUse(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	server := listener(t, filepath.Join(root, "heard"), filepath.Join(root, "status"))
	t.Cleanup(server.Close)
	writePolicy(t, root, "version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - {name: team, on: tool.before, notify: "+server.URL+"}\n  - {name: other, on: tool.before, run: echo there >> "+root+"/other, async: true}\n")
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	busy, err := queue.Open(place.Queue(), nil)
	if err != nil {
		t.Fatal(err)
	}
	runHook(t, "claude-code", root, claudeShell)
	await.Until(t, "the notice waits and the other hook has run", func() bool {
		later, _ := filepath.Glob(filepath.Join(place.State, "outbox", "*.later"))
		_, errOther := os.Stat(filepath.Join(root, "other"))
		return len(later) == 1 && errOther == nil
	})
	if _, err := os.Stat(filepath.Join(root, "heard")); err == nil {
		t.Error("it was told past the queue")
	}
	if err := busy.Close(); err != nil {
		t.Fatal(err)
	}
	if exit := hook([]string{"--drain", "--root", root}, strings.NewReader(""), io.Discard, os.Stderr); exit != 0 {
		t.Fatalf("the drain ended with %d", exit)
	}
	if jobs := deliveries(t, place, 1); jobs[0].State != delivery.Delivered || jobs[0].Target != place.Policy+"::team" || jobs[0].Session != "c" {
		t.Errorf("%+v", jobs[0])
	}
	text, err := os.ReadFile(filepath.Join(root, "heard"))
	if err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%v, %s", err, text)
	}
}

// Any drain retries a failed delivery when its retry time has come, with the same ID. A
// disabled target gets no more deliveries.
func TestNotifyAgain(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	status := filepath.Join(root, "status")
	server := listener(t, filepath.Join(root, "heard"), status)
	t.Cleanup(server.Close)
	writePolicy(t, root, "version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - {name: team, on: tool.before, notify: "+server.URL+"}\n")
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	setStatus := func(code string) {
		t.Helper()
		if err := os.WriteFile(status, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	drains := func() (tried delivery.Summary) {
		t.Helper()
		var out strings.Builder
		if exit := run([]string{"drain", "--root", root, "--json"}, strings.NewReader(""), &out, os.Stderr); exit != 0 {
			t.Fatalf("the drain ended with %d", exit)
		}
		if err := json.Unmarshal([]byte(out.String()), &tried); err != nil {
			t.Fatal(err)
		}
		return tried
	}
	setStatus("500")
	runHook(t, "claude-code", root, claudeShell)
	if j := deliveries(t, place, 1)[0]; j.State != delivery.Waiting || j.Status != 500 || j.Tries != 1 {
		t.Errorf("%+v", j)
	}
	setStatus("204")
	await.Until(t, "the delivery is tried again", func() bool { return drains().Delivered > 0 })
	text, err := os.ReadFile(filepath.Join(root, "heard"))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for line := range strings.Lines(string(text)) {
		var h delivered
		if err := json.Unmarshal([]byte(line), &h); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, h.ID)
	}
	if len(ids) != 2 || ids[0] == "" || ids[0] != ids[1] {
		t.Errorf("the server heard %q", ids)
	}
	setStatus("410")
	runHook(t, "claude-code", root, claudeShell)
	deliveries(t, place, 2)
	if tried := drains(); tried.Tries() != 0 {
		t.Errorf("a server that wants no more is told: %+v", tried)
	}
}

// An agent's project can set any variable of the hook program. No variable changes the
// certificates that a delivery trusts.
func TestNotifyIgnoresVariables(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was told") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake fails, as it should
	server.StartTLS()
	t.Cleanup(server.Close)
	known := filepath.Join(root, "known.pem")
	if err := os.WriteFile(known, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	writePolicy(t, root, "version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - {name: team, on: tool.before, notify: "+server.URL+"}\n")
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	runHook(t, "claude-code", root, claudeShell, "SSL_CERT_FILE="+known, "SSL_CERT_DIR="+root)
	if j := deliveries(t, place, 1)[0]; j.State != delivery.Waiting || !strings.Contains(j.Error, "certificate") {
		t.Errorf("%+v", j)
	}
}

// A server that hangs delays nothing: the agent gets its reply at once, and the delivery waits
// for its next try.
func TestNotifyOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	writePolicy(t, root, "version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - {name: team, on: tool.before, notify: {url: "+server.URL+", timeout: 1s}}\n")
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, exit := runHook(t, "claude-code", root, claudeShell); stdout != "" || stderr != "" || exit != 0 {
		t.Errorf("exit %d, %s%s", exit, stdout, stderr)
	}
	if j := deliveries(t, place, 1)[0]; j.State != delivery.Waiting || j.Tries != 1 || !strings.Contains(j.Error, "1s") || j.Next.Before(time.Now()) {
		t.Errorf("%+v", j)
	}
}
