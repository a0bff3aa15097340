//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"io"
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

	"github.com/grapnel-dev/grapnel/cmd/internal/answer"
	"github.com/grapnel-dev/grapnel/daemon/deliver"
	"github.com/grapnel-dev/grapnel/daemon/store"
)

// heard is one request, as a listener saw it.
type heard struct {
	ID     string          `json:"id"`
	Signed bool            `json:"signed"` // by hookKey, as another library than ours reads it
	Type   string          `json:"type"`
	Team   string          `json:"team,omitempty"`
	Body   json.RawMessage `json:"body"`
}

// listener is a server that writes each request into a file, a line each, and answers with
// the status that stands in another.
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
		line, err := json.Marshal(heard{r.Header.Get("Webhook-Id"), wh.Verify(body, r.Header) == nil, r.Header.Get("Content-Type"), r.Header.Get("X-Team"), body})
		if err != nil {
			t.Errorf("%v: %s", err, body)
			return
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = f.Write(append(line, '\n'))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(status); err == nil {
			code, _ := strconv.Atoi(strings.TrimSpace(string(text)))
			w.WriteHeader(code)
		}
	}))
}

// TestNotify runs the way of an event to a server that wants to know of it through all that
// takes part: grapnel-hook, the spool, the drain, the store, and a server on loopback.
func TestNotify(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/notify",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			server := listener(env.T().(testing.TB), filepath.Join(env.WorkDir, "heard"), filepath.Join(env.WorkDir, "status"))
			env.Defer(server.Close)
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
		},
	})
}

// deliveries waits until that many are there, and no more wait for their first try.
func deliveries(t *testing.T, place answer.Place, n int) []deliver.Job {
	t.Helper()
	var jobs []deliver.Job
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		r, err := store.OpenReader(storeDir(place))
		if err != nil {
			continue
		}
		jobs, err = r.Deliveries(t.Context(), store.DeliveryQuery{})
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		tried := 0
		for _, j := range jobs {
			if j.Tries > 0 || j.State != deliver.Waiting {
				tried++
			}
		}
		if tried == n && len(jobs) == n {
			return jobs
		}
	}
	t.Fatalf("there are the deliveries %+v, want %d that were tried", jobs, n)
	return nil
}

// The outbox is in use: what is to be told waits in the spool, other hooks do not, and the
// next drain brings it. It is told once.
func TestNotifyWhileTheStoreIsInUse(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	server := listener(t, filepath.Join(root, "heard"), filepath.Join(root, "status"))
	t.Cleanup(server.Close)
	writePolicy(t, root, "version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - {name: team, on: tool.before, notify: "+server.URL+"}\n  - {name: other, on: tool.before, run: echo there >> "+root+"/other, async: true}\n")
	place, err := answer.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	busy, err := store.Open(storeDir(place), nil)
	if err != nil {
		t.Fatal(err)
	}
	runHook(t, "claude-code", root, claudeShell)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, errLater := os.Stat(filepath.Join(place.Spool(), "later.jsonl"))
		_, errOther := os.Stat(filepath.Join(root, "other"))
		if errLater == nil && errOther == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(errLater, errOther)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "heard")); err == nil {
		t.Error("it was told past the store")
	}
	if err := busy.Close(); err != nil {
		t.Fatal(err)
	}
	if exit := hook([]string{"--drain", "--root", root}, strings.NewReader(""), io.Discard, os.Stderr); exit != 0 {
		t.Fatalf("the drain ended with %d", exit)
	}
	if jobs := deliveries(t, place, 1); jobs[0].State != deliver.Delivered || jobs[0].Target != place.Policy+"::team" || jobs[0].Session != "c" {
		t.Errorf("%+v", jobs[0])
	}
	text, err := os.ReadFile(filepath.Join(root, "heard"))
	if err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%v, %s", err, text)
	}
}

// A server that hangs keeps nobody from anything: the agent has its answer at once, and the
// delivery waits for its next try.
func TestNotifyOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	writePolicy(t, root, "version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - {name: team, on: tool.before, notify: {url: "+server.URL+", timeout: 1s}}\n")
	place, err := answer.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, exit := runHook(t, "claude-code", root, claudeShell); stdout != "" || stderr != "" || exit != 0 {
		t.Errorf("exit %d, %s%s", exit, stdout, stderr)
	}
	if j := deliveries(t, place, 1)[0]; j.State != deliver.Waiting || j.Tries != 1 || !strings.Contains(j.Error, "1s") || j.Next.Before(time.Now()) {
		t.Errorf("%+v", j)
	}
}
