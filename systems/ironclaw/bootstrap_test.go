package ironclaw_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/ironclaw"
)

// write creates files below a directory and returns it.
func write(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// start returns a registry after its start, and what it loaded.
func start(t *testing.T, opts *ironclaw.BootstrapOptions) (*ironclaw.HookRegistry, *ironclaw.Loaded) {
	t.Helper()
	r := ironclaw.NewHookRegistry(nil)
	loaded, err := r.Bootstrap(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Engine().Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r, loaded
}

const rule = `[{"name": "r", "points": ["beforeInbound"], "append": "!"}]`

// IC-33, IC-34, IC-40: a fresh start has the audit and the session summary, which is not counted.
//
// Proves: IC-33, IC-34
func TestFreshBootstrap(t *testing.T) {
	t.Parallel()
	r, loaded := start(t, &ironclaw.BootstrapOptions{Home: t.TempDir(), Workspace: t.TempDir()})
	if diff := cmp.Diff([]string{"builtin.audit_log", "session_summary"}, r.List()); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	if want := (ironclaw.HookBootstrapSummary{BundledHooks: 1}); loaded.Summary != want || len(loaded.Warnings) > 0 {
		t.Errorf("%+v, warnings %v, want %+v and no warnings", loaded.Summary, loaded.Warnings, want)
	}
	if v := r.Engine().Fire(t.Context(), &grapnel.Event{Kind: grapnel.SessionStart}); len(v.Messages) > 0 {
		t.Errorf("messages %q at session start, want none", v.Messages)
	}
}

// IC-33, IC-36, IC-38, IC-40, IC-41: all places are read, and each invalid hook and webhook is
// reported at session start.
//
// Proves: IC-33, IC-34, IC-40, IC-41
func TestBootstrap(t *testing.T) {
	t.Parallel()
	home := write(t, t.TempDir(), map[string]string{
		".ironclaw/tools/git.capabilities.json":     `{"hooks": ` + rule + `}`,
		".ironclaw/channels/chat.capabilities.json": `{"capabilities": {"hooks": ` + rule + `}}`,
		".ironclaw/tools/off.capabilities.json":     `{"hooks": ` + rule + `}`,
		"hooks/hooks.json":                          rule, // not a place of the home directory
	})
	workspace := write(t, t.TempDir(), map[string]string{
		"hooks/hooks.json": `{"rules": [
  {"name": "r", "points": ["beforeInbound"], "append": "?"},
  {"name": "bad-rule", "points": ["beforeInbound"], "when_regex": "(", "append": "!"}
], "outbound_webhooks": [
  {"name": "far", "points": ["onSessionEnd"], "url": "https://example.com/hook"},
  {"name": "bad-webhook", "points": ["onSessionEnd"], "url": "https://169.254.169.254/hook"}
]}`,
		"hooks/deep/more.hook.json": rule,
		"hooks/broken.hook.json":    `{`,
		"hooks/notes.json":          rule, // not a hook file
	})
	var audit []string
	client := outbound.NewClient(nil)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	r, loaded := start(t, &ironclaw.BootstrapOptions{
		Home: home, Workspace: workspace,
		BundleOptions: ironclaw.BundleOptions{
			Active:  func(source string) bool { return source != "plugin.tool:off" },
			Webhook: func(w policyfile.Webhook) (grapnel.Hook, error) { return client.PolicyWebhook(w) },
		},
		Audit: func(line []byte) error { audit = append(audit, string(line)); return nil },
	})
	if want := (ironclaw.HookBootstrapSummary{BundledHooks: 1, PluginHooks: 2, WorkspaceHooks: 2, OutboundWebhooks: 1, Errors: 3}); loaded.Summary != want {
		t.Errorf("%+v, want %+v\n%v", loaded.Summary, want, loaded.Errors)
	}
	want := []string{
		"builtin.audit_log", "session_summary", "plugin.channel:chat::r", "plugin.tool:git::r", "workspace:hooks/deep/more.hook.json::r",
		"workspace:hooks/hooks.json::r", "workspace:hooks/hooks.json::far",
	}
	if diff := cmp.Diff(want, r.List()); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	for _, kind := range []grapnel.Kind{grapnel.SessionStart, grapnel.PromptBefore} {
		v := r.Engine().Fire(t.Context(), &grapnel.Event{Kind: kind, Session: grapnel.Session{User: "u"}, Prompt: &grapnel.Prompt{Text: "hello"}})
		for _, skipped := range []string{`"bad-rule"`, `"bad-webhook"`, "broken.hook.json"} {
			if !strings.Contains(fmt.Sprint(v.Messages), skipped) {
				t.Errorf("%s: messages %q do not name %s", kind, v.Messages, skipped)
			}
		}
		if kind == grapnel.PromptBefore && string(v.Changes[grapnel.FieldPrompt]) != `"hello!!!?"` {
			t.Errorf("the prompt is %s, want that each rule changed it", v.Changes[grapnel.FieldPrompt])
		}
	}
	if diff := cmp.Diff([]string{
		`{"hook":"builtin.audit_log","point":"onSessionStart","user_id":"u"}` + "\n",
		`{"hook":"builtin.audit_log","point":"beforeInbound","user_id":"u"}` + "\n",
	}, audit); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

// The default summary lists the prompts of the session in the workspace: IC-71, IC-73, IC-76.
func TestSessionSummary(t *testing.T) {
	t.Parallel()
	workspace := write(t, t.TempDir(), map[string]string{"chat.jsonl": `{"sessionId":"s","startTime":"2026-03-04T05:00:00Z","kind":"main"}
{"id":"1","type":"user","content":[{"text":"Add a greeting."}]}
{"id":"2","type":"gemini","content":"Which language?"}
{"id":"3","type":"user","content":[{"text":"Say Hello in greet.go."}]}
`})
	r, _ := start(t, &ironclaw.BootstrapOptions{Home: t.TempDir(), Workspace: workspace})
	v := r.Engine().Fire(t.Context(), &grapnel.Event{
		Kind: grapnel.SessionEnd, Session: grapnel.Session{ID: "s", Transcript: filepath.Join(workspace, "chat.jsonl")},
		Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
	})
	if v.Err != nil {
		t.Error(v.Err)
	}
	got, err := os.ReadFile(filepath.Join(workspace, "daily", "2026-03-04-session-summary.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\n## Session Summary (05:06 UTC)\n\n- Add a greeting.\n- Say Hello in greet.go.\n"; string(got) != want {
		t.Errorf("summary %q, want %q", got, want)
	}
}

// A program without a client for webhooks skips them and reports it.
//
// Proves: IC-40, IC-41
func TestBootstrapWithoutWebhooks(t *testing.T) {
	t.Parallel()
	workspace := write(t, t.TempDir(), map[string]string{"hooks/hooks.json": `{"outbound_webhooks": [{"name": "far", "points": ["onSessionEnd"], "url": "https://example.com/hook"}]}`})
	r, loaded := start(t, &ironclaw.BootstrapOptions{Home: t.TempDir(), Workspace: workspace})
	v := r.Engine().Fire(t.Context(), &grapnel.Event{Kind: grapnel.SessionStart})
	if text := fmt.Sprint(v.Messages); loaded.Summary.Errors != 1 || !strings.Contains(text, `"far"`) || !strings.Contains(text, "BundleOptions.Webhook") {
		t.Errorf("messages %s, %+v, want the skipped webhook and what to set", text, loaded.Summary)
	}
}

// No link leads out of the workspace, and a directory that does not exist is an error.
func TestBootstrapPlaces(t *testing.T) {
	t.Parallel()
	other := write(t, t.TempDir(), map[string]string{"hooks.json": rule})
	workspace := write(t, t.TempDir(), map[string]string{"hooks/x.hook.json/dir": ""})
	if err := os.Symlink(filepath.Join(other, "hooks.json"), filepath.Join(workspace, "hooks", "hooks.json")); err != nil {
		if runtime.GOOS != "windows" {
			t.Fatal(err)
		}
		t.Skip(err) // on Windows, links need a privilege
	}
	_, loaded := start(t, &ironclaw.BootstrapOptions{Home: t.TempDir(), Workspace: workspace})
	if n := loaded.Summary.WorkspaceHooks; n != 0 {
		t.Errorf("%d hooks from outside of the workspace", n)
	}
	gone := &ironclaw.BootstrapOptions{Home: t.TempDir(), Workspace: filepath.Join(workspace, "gone")}
	if _, err := ironclaw.NewHookRegistry(nil).Bootstrap(gone); err == nil {
		t.Error("a workspace that does not exist is accepted")
	}
}
