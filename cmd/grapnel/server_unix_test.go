//go:build system && unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/local/server"
)

// A Go agent with package server looks to the user like any other agent: grapnel shows its Records,
// and a server gets each notice once. If the agent cannot deliver it, the daemon does.
func TestServerOfGoAgent(t *testing.T) {
	t.Parallel()
	for _, daemon := range []bool{false, true} {
		t.Run(fmt.Sprintf("daemon %v", daemon), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			refuse, got := daemon, map[string]int{}
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if refuse {
					refuse = false
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				got[r.Header.Get("Webhook-Id")]++
			}))
			defer s.Close()
			notices := func() int { mu.Lock(); defer mu.Unlock(); return len(got) }
			root := t.TempDir()
			run := func(args ...string) string {
				t.Helper()
				out, err := exec.CommandContext(t.Context(), "grapnel", append(args, "--root", root)...).CombinedOutput()
				if err != nil {
					t.Errorf("grapnel %s: %v\n%s", args, err, out)
				}
				return string(out)
			}
			writePolicy(t, root, "version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - {name: no-deploy, on: tool.before, match: {command: deploy}, block: Ask.}\n"+
				"  - {name: team, on: tool.before, when: 'verdict.decision == \"block\"', notify: {url: "+s.URL+"}}\n")
			if daemon {
				run("daemon", "start")
				t.Cleanup(func() { endDaemons(root) })
			}
			engine, err := server.Open(t.Context(), &server.Options{Root: root, CWD: root, Agent: "go-agent", Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			engine.Fire(t.Context(), &grapnel.Event{
				Kind: grapnel.ToolBefore, Session: grapnel.Session{ID: "s1"},
				Tool: &grapnel.Tool{Name: "shell", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"deploy"}`)},
			})
			await.Until(t, "the notice arrives", func() bool { return notices() == 1 })
			ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
			defer cancel()
			if err := engine.Close(ctx); err != nil {
				t.Error(err)
			}
			run("drain") // finds nothing to deliver again
			if notices() != 1 {
				t.Errorf("%d notices", notices())
			}
			for id, n := range got {
				if n != 1 || id == "" {
					t.Errorf("notice %q arrived %d times", id, n)
				}
			}
			await.Until(t, "grapnel log shows the event", func() bool {
				log := run("log")
				return strings.Contains(log, "go-agent") && strings.Contains(log, "no-deploy")
			})
			if n := engine.Counts(); n.Events != 1 || n.Blocked != 1 || n.Lost != 0 || n.Delivered+n.Retries != 1 {
				t.Errorf("%+v", n)
			}
			if files, _ := filepath.Glob(filepath.Join(root, "state", "*", "*.jsonl")); len(files) == 0 && !daemon {
				t.Error("the Records are not in the log")
			}
		})
	}
}
