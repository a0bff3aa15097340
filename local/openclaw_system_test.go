//go:build system && unix

package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/local"
)

// A Go agent keeps the worker of a handler in JavaScript running: a handler that is registered later
// sees the next event, state stays, and a change to the file takes effect. It covers OC-02.
func TestOpenClawModuleKeepsRunning(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatalf("this test needs Node.js on the PATH: %v", err)
	}
	root := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("grapnel.yaml", "version: 1\nload: [openclaw]\n")
	write("openclaw-hooks.json", `{"before-tool-call": "h.mjs"}`)
	write("h.mjs", `
		let events = 0;
		const later = () => ({ block: true, blockReason: process.pid + ' event ' + events });
		api.registerHook({ event: 'before-tool-call', handler() { if (++events === 1) api.registerHook({ event: 'before-tool-call', handler: later }); } });`)
	engine, err := local.Open(t.Context(), &local.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	fire := func() (grapnel.Decision, string) {
		v := engine.Fire(t.Context(), &grapnel.Event{Kind: grapnel.ToolBefore, Session: grapnel.Session{ID: "s", CWD: root}, Tool: &grapnel.Tool{Name: "x", Input: []byte(`{}`)}})
		return v.Decision, v.Reason()
	}
	if decision, reason := fire(); decision != grapnel.None {
		t.Errorf("first event: %v because %q, want no opinion", decision, reason)
	}
	decision, second := fire()
	if _, third := fire(); decision != grapnel.Block || len(second) < 8 || second[len(second)-7:] != "event 2" || third != second[:len(second)-1]+"3" {
		t.Errorf("later events: %v because %q, then %q, want a block of the same process", decision, second, third)
	}
	write("h.mjs", `export default () => ({ block: true, blockReason: 'changed' })`)
	if _, reason := fire(); reason != "changed" {
		t.Errorf("after the change: %q", reason)
	}
	write("h.mjs", `export default (`)
	if decision, reason := fire(); decision != grapnel.Block {
		t.Errorf("after a mistake: %v because %q, want a block", decision, reason)
	}
	write("h.mjs", `export default () => {}`)
	if decision, reason := fire(); decision != grapnel.None {
		t.Errorf("after its correction: %v because %q, want no opinion", decision, reason)
	}
	if err := engine.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
