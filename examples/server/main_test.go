package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/local/server"
)

const rules = `version: 1
hooks:
  - {name: no-rm, on: tool.before, match: {command: rm}, block: Keep the file.}
  - {name: ask, on: tool.before, match: {command: make}, ask: Build it?}
  - {name: once, on: tool.before, match: {command: date}, limit: {count: 1, per: 1h, by: session}}
`

// Requests are turns of their sessions: a blocked command and a question do not run, and a limit of
// a session does not affect another session. At the end, each session ends once.
func TestServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	var started, ended atomic.Int32
	observer := grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
		if rec.Event == grapnel.SessionStart {
			started.Add(1)
		}
		if rec.Event == grapnel.SessionEnd {
			ended.Add(1)
		}
	})
	var runs sync.Map // the inputs that the tool got
	tool := func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
		runs.Store(string(input), true)
		return json.RawMessage("the tool ran"), nil
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	opts := &server.Options{Root: t.TempDir(), CWD: dir, Policies: []string{file}, Observers: []grapnel.Observer{observer}}
	go func() { done <- serve(ctx, ln, opts, tool) }()

	post := func(session, command string) string {
		t.Helper()
		body := strings.NewReader(url.Values{"command": {command}}.Encode())
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ln.Addr().String()+session, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, test := range []struct{ session, command, want string }{
		{"/ada", "echo rm", "the tool ran"},
		{"/ada", "sudo rm a", "Keep the file."},
		{"/ada", "make", "Build it?"},
		{"/ada", "date", "the tool ran"},
		{"/ada", "date -u", "blocked"},
		{"/bob", "date -R", "the tool ran"},
	} {
		answer := post(test.session, test.command)
		if !strings.Contains(answer, test.want) {
			t.Errorf("%s %s: the answer is %q, want %q", test.session, test.command, answer, test.want)
		}
		_, ran := runs.Load(`{"command":"` + test.command + `"}`)
		if want := test.want == "the tool ran"; ran != want {
			t.Errorf("%s %s: ran %v, want %v", test.session, test.command, ran, want)
		}
	}

	stop()
	if err := <-done; err != nil {
		t.Errorf("serve returned %v", err)
	}
	if started.Load() != 2 || ended.Load() != 2 {
		t.Errorf("%d sessions started and %d ended, want 2", started.Load(), ended.Load())
	}
}
