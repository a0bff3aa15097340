//go:build system && unix

package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// By default a replay runs no hooks with effects. Flags permit programs and the named servers.
// Hooks that are notified or asynchronous never run.
func TestReplayEffects(t *testing.T) {
	t.Parallel()
	var asks, notified atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/decide" {
			notified.Add(1)
			return
		}
		asks.Add(1)
		_, _ = io.WriteString(w, `{"decision":"block","reason":"not on Fridays"}`)
	}))
	t.Cleanup(server.Close)
	root := t.TempDir()
	for range 3 {
		writePolicy(t, root, "version: 1\n")
		if _, stderr, exit := runHook(t, "claude-code", root, claudeShell); exit != 0 {
			t.Fatalf("exit %d\n%s", exit, stderr)
		}
	}
	ran := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err == nil
	}
	writePolicy(t, root, `version: 1
networks: [127.0.0.0/8]
hooks:
  - {name: company, on: tool.before, http: {url: `+server.URL+`/decide}}
  - {name: other, on: tool.before, http: {url: `+server.URL+`/other}}
  - {name: teller, on: tool.before, notify: {url: `+server.URL+`/told}}
  - {name: guard, on: tool.before, run: 'touch "`+root+`/guarded"; exit 0'}
  - {name: facts, on: prompt.before, context: {run: 'touch "`+root+`/facts"'}}
  - {name: later, on: tool.before, run: 'touch "`+root+`/later"', async: true}
`)
	for _, tt := range []struct {
		args  []string
		exit  int
		asks  int32
		ran   bool
		wants []string
	}{
		{nil, 0, 0, false, []string{"unchanged: 3\n", "hook company was not run: 0 recorded answers, and 3 times no answer", "hook guard was not run", "hook other was not run"}},
		{[]string{"--against", filepath.Join(root, "grapnel.yaml")}, 0, 0, false, []string{"unchanged: 3\n"}},
		{[]string{"--ask", "company"}, 0, 3, false, []string{"newly blocked 3\n", "none -> block  company (", "hook other was not run"}},
		{[]string{"--ask", "teller"}, 64, 0, false, []string{"--ask teller: no hook with this name asks a server", "hint: hooks that ask a server: company, other"}},
		{[]string{"--run"}, 0, 0, true, []string{"unchanged: 3\n", "hook company was not run"}},
	} {
		asks.Store(0)
		cmd := exec.CommandContext(t.Context(), "grapnel", append([]string{"replay", "--root", root}, tt.args...)...)
		cmd.Env = append(os.Environ(), "HOME="+root, "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		exit := 0
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			exit = failed.ExitCode()
		}
		for _, want := range tt.wants {
			if !strings.Contains(string(out), want) {
				t.Errorf("%v says\n%s\nwant %s", tt.args, out, want)
			}
		}
		if exit != tt.exit || asks.Load() != tt.asks || ran("guarded") != tt.ran {
			t.Errorf("%v: exit status %d, the server was asked %d times, the program was run: %v\n%s", tt.args, exit, asks.Load(), ran("guarded"), out)
		}
	}
	if notified.Load() > 0 || ran("later") || ran("facts") {
		t.Errorf("told %d times; ran later %v, facts %v", notified.Load(), ran("later"), ran("facts"))
	}
}
