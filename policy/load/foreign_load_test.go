package load

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A loadBench is a user with a home directory, a policy in it, and a state directory.
type loadBench struct {
	t    *testing.T
	home string
}

func newLoadBench(t *testing.T, policy string) *loadBench {
	b := &loadBench{t: t, home: t.TempDir()}
	b.put("grapnel.yaml", "version: 1\n"+policy)
	return b
}

func (b *loadBench) path(name string) string { return filepath.Join(b.home, filepath.FromSlash(name)) }

func (b *loadBench) put(name, text string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *loadBench) request(files ...File) Request {
	return Request{
		Files: append([]File{{Path: b.path("grapnel.yaml")}}, files...), Snapshots: b.path("state/policy"), Home: b.home,
		Runners: policy.Runners{
			Command: func(c policyfile.Command) grapnel.Hook {
				return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
					return grapnel.Outcome{Decision: grapnel.Block, Reason: fmt.Sprint(c.Line, c.Args)}, nil
				})
			},
			Webhook: func(policyfile.Webhook) (grapnel.Hook, error) { return noop.Hook{}, nil },
		},
	}
}

func (b *loadBench) load(files ...File) (Set, *grapnel.Engine) {
	b.t.Helper()
	set := Policies(b.request(files...))
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return set, e
}

// row returns the row of a foreign file.
func (b *loadBench) row(set Set, name string) Loaded {
	b.t.Helper()
	i := slices.IndexFunc(set.Files, func(l Loaded) bool { return l.File == b.path(name) && l.Format != "" })
	if i < 0 {
		b.t.Fatalf("%s is not loaded: %+v", name, set.Files)
	}
	return set.Files[i]
}

func shell1(agent, command string) *grapnel.Event {
	return &grapnel.Event{
		Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: agent}, Session: grapnel.Session{CWD: "/"},
		Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Commands: []string{command}, Input: []byte(`{"command":` + string(rawjson.AppendQuoted(nil, command)) + `}`)},
	}
}

func claude(commands ...string) string {
	var hooks []string
	for _, c := range commands {
		hooks = append(hooks, `{"type": "command", "command": `+string(rawjson.AppendQuoted(nil, c))+`}`)
	}
	return `{"hooks": {"PreToolUse": [{"hooks": [` + strings.Join(hooks, ", ") + `]}]}}`
}

func rule(name, pattern string) string {
	return fmt.Sprintf(`{"rules": [{"name": %q, "points": ["beforeToolCall"], "when_regex": %q, "reject_reason": "no %s"}]}`, name, pattern, name)
}

func specOf(t *testing.T, set Set, name string) grapnel.Spec {
	t.Helper()
	i := slices.IndexFunc(set.Specs, func(s grapnel.Spec) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no hook %q in %v", name, specNames(set))
	}
	return set.Specs[i]
}

func specNames(set Set) []string {
	var names []string
	for _, s := range set.Specs {
		names = append(names, s.Name)
	}
	return names
}

// The row of a bundle counts its rules, webhooks and skipped entries. Skipped entries do not affect
// the others. The total is the sum of the active hooks.
//
// Proves: IC-38, IC-39, IC-40, IC-41
func TestLoadCounts(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t, "load: [ironclaw]\n")
	b.put("hooks/hooks.json", `{"rules": [{"name": "a", "points": ["beforeToolCall"], "reject_reason": "no"}, {"name": "b", "points": []}],
  "outbound_webhooks": [{"name": "w", "points": ["beforeToolCall"], "url": "https://hooks.example.com/"}]}`)
	b.put("hooks/deep/er/x.hook.json", rule("x", "x"))
	b.put("hooks/deep/other.json", rule("y", "y"))
	set, _ := b.load()
	got := b.row(set, "hooks/hooks.json")
	if got.Rules != 1 || got.Webhooks != 1 || got.Commands != 0 || got.Skipped != 1 || got.Hooks != 2 || len(got.Errors) != 1 {
		t.Errorf("%+v, want a rule, a webhook, and one left out", got)
	}
	if !strings.Contains(got.Notice, "1 of 3 hooks of "+b.path("hooks/hooks.json")+" are skipped") {
		t.Errorf("the person is told %q", got.Notice)
	}
	if got := b.row(set, "hooks/deep/er/x.hook.json"); got.Hooks != 1 || got.State != Valid {
		t.Errorf("%+v, want it found", got)
	}
	if len(set.Files) != 3 {
		t.Errorf("%d files, want three with the policy: %+v", len(set.Files), set.Files)
	}
	w := specOf(t, set, "w")
	if w.Phase != grapnel.PhaseObserve {
		t.Errorf("the webhook is a %v", w.Phase)
	}
}

// A hook without a setting gets the default of its system: the timeout, on_error, and a unique name
// in its file.
//
// Proves: IC-05, GC-12
func TestLoadDefaults(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]grapnel.OnError{"load: [claude-code]\n": grapnel.OnErrorOpen, "strict: true\nload: [claude-code]\n": grapnel.OnErrorClosed} {
		b := newLoadBench(t, policy)
		b.put(".claude/settings.json", claude("x one", "x two", "/opt/grapnel-hook --id t", "env A=b '/o p/grapnel' hook --id t"))
		set, _ := b.load()
		first, second := specOf(t, set, "x"), specOf(t, set, "x #2")
		if first.Timeout != 600*time.Second || first.OnError != want || second.OnError != want {
			t.Errorf("%s: %v %v %v", policy, first.Timeout, first.OnError, second.OnError)
		}
		if got := b.row(set, ".claude/settings.json"); got.Commands != 2 || got.Skipped != 0 || got.RunBy != "claude-code" {
			t.Errorf("%+v, want our own entries passed over in silence", got)
		}
	}
}

// Hooks in a file that an agent runs itself are skipped for that agent's events. Hooks in a
// file that a policy names run for all agents.
func TestLoadSkipsTheAgentItself(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t, "load: [claude-code, {format: claude-code, file: ~/team.json}]\n")
	b.put(".claude/settings.json", claude("own"))
	b.put("team.json", claude("team"))
	for agent, want := range map[string][]string{"claude-code": {"team"}, "gemini-cli": {"own", "team"}} {
		_, e := b.load()
		var planned []string
		for _, p := range e.Plan(shell1(agent, "ls")).Entries {
			planned = append(planned, p.Hook)
		}
		if diff := cmp.Diff(want, planned); diff != "" {
			t.Errorf("%s: the plan (-want +got)\n%s", agent, diff)
		}
	}
}

// A file that a pattern found stays in force after it was deleted, until the user forgets it.
func TestLoadKeepsWhatAPatternFound(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t, "load: [ironclaw]\n")
	b.put("hooks/a.hook.json", rule("a", "rm"))
	b.put("hooks/b.hook.json", rule("b", "curl"))
	blocked := func(what, command string, want bool) Set {
		t.Helper()
		set, e := b.load()
		if v := e.Fire(context.Background(), shell1("x", command)); (v.Decision == grapnel.Block) != want {
			t.Errorf("%s: %s is answered with %v %q", what, command, v.Decision, v.Reason())
		}
		return set
	}
	blocked("at first", "rm x", true)
	if err := os.Remove(b.path("hooks/a.hook.json")); err != nil {
		t.Fatal(err)
	}
	set := blocked("gone", "rm x", true)
	if got := b.row(set, "hooks/a.hook.json"); got.State != Gone || got.Hooks != 1 || !strings.Contains(got.Notice, "grapnel untrust") {
		t.Errorf("%+v", got)
	}
	for i := range 60 { // other contents do not evict its snapshot
		b.put("hooks/b.hook.json", rule("b", "curl")+strings.Repeat(" ", i))
		b.load()
	}
	blocked("gone, and long ago", "rm x", true)
	b.put("hooks/b.hook.json", "{")
	set = blocked("broken", "curl x", true)
	if got := b.row(set, "hooks/b.hook.json"); got.State != Broken || got.Hooks != 1 || !strings.Contains(got.Notice, "its last valid content stays active") {
		t.Errorf("%+v", got)
	}
	if ok, err := Forget(b.path("state/policy"), b.path("hooks/a.hook.json")); !ok || err != nil {
		t.Fatal(ok, err)
	}
	blocked("let go of", "rm x", false)
}

// A file that was never valid blocks tools, but not prompts.
func TestLoadOfABrokenFile(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*loadBench){
		"no JSON":     func(b *loadBench) { b.put("hooks/hooks.json", "{") },
		"too large":   func(b *loadBench) { b.put("hooks/hooks.json", strings.Repeat(" ", maxForeignSize+1)) },
		"a directory": func(b *loadBench) { b.put("hooks/hooks.json/x", "") },
		"a dead link": func(b *loadBench) { b.link("/nowhere/at/all", "hooks/hooks.json") },
		"too many":    func(b *loadBench) { b.many() },
		"named, gone": func(b *loadBench) { b.put("grapnel.yaml", "version: 1\nload: [{format: ironclaw, file: x.json}]\n") },
		"named, a lie": func(b *loadBench) {
			b.put("x", "{")
			b.put("grapnel.yaml", "version: 1\nload: [{format: ironclaw, file: x}]\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLoadBench(t, "load: [ironclaw]\n")
			spoil(b)
			_, e := b.load()
			if v := e.Fire(context.Background(), shell1("x", "ls")); v.Decision != grapnel.Block {
				t.Errorf("a tool: %v %q", v.Decision, v.Reason())
			}
			if v := e.Fire(context.Background(), &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "x"}}); v.Decision != grapnel.None || len(v.Messages) == 0 {
				t.Errorf("a prompt: %v %v", v.Decision, v.Messages)
			}
		})
	}
}

func (b *loadBench) link(to, name string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink(to, b.path(name)); err != nil {
		if runtime.GOOS != "windows" {
			b.t.Fatal(err)
		}
		b.t.Skip(err) // on Windows, links need a privilege
	}
}

func (b *loadBench) many() {
	for i := range maxForeignFiles + 1 {
		b.put(fmt.Sprintf("hooks/%d.hook.json", i), rule(fmt.Sprint("r", i), "x"))
	}
}

// The search is limited, sorted, and stays in its directory.
func TestGlob(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t, "")
	deep := strings.Repeat("d/", maxForeignDepth+1)
	for _, name := range []string{"h/b.json", "h/a.json", "h/x/c.json", "h/x/y/d.json", "h/x/y/d.txt", "h/" + deep + "e.json", "out/f.json", "h/v1/hooks/g.json"} {
		b.put(name, "{}")
	}
	b.link(b.path("out/f.json"), "h/out.json")
	b.link(b.path("out"), "h/outdir")
	b.link(b.path("h/a.json"), "h/inside.json")
	b.link(b.path("out"), "h/v2/hooks")
	for pattern, want := range map[string][]string{
		"h/*.json":          {"h/a.json", "h/b.json", "h/inside.json"},
		"h/**/*.json":       {"h/a.json", "h/b.json", "h/inside.json", "h/v1/hooks/g.json", "h/x/c.json", "h/x/y/d.json"},
		"h/*/c.json":        {"h/x/c.json"},
		"h/*/hooks/*.json":  {"h/v1/hooks/g.json"},
		"h/x/{c,y/d}.json":  {"h/x/c.json", "h/x/y/d.json"},
		"h/a.json":          {"h/a.json"},
		"none/*.json":       nil,
		"h/a.json/*":        nil,
		"h/x/**/hooks.json": nil,
	} {
		got, err := globFiles(b.home, pattern)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", pattern, err, diff)
		}
	}
}

// If two policies find the same file, it is loaded once. A second hook of the same name would
// make the engine refuse all hooks.
func TestLoadOnce(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t, "load: [claude-code, {format: claude-code, file: .claude/settings.json}]\n")
	b.put(".claude/settings.json", claude("x"))
	b.put("session.yaml", "version: 1\nload: [claude-code]\n")
	set, _ := b.load(File{Path: b.path("session.yaml"), Scope: grapnel.ScopeSession, Must: true})
	if got := b.row(set, ".claude/settings.json"); got.Scope != "user" || len(set.Files) != 3 {
		t.Errorf("%+v", set.Files)
	}
}

// A pending hook is found with the content at the time it was queued.
func TestLoadSource(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t, "load: [claude-code]\n")
	b.put(".claude/settings.json", claude("x then"))
	set, _ := b.load()
	then := specOf(t, set, "x").Source
	b.put(".claude/settings.json", claude("x now"))
	b.load()
	req := b.request()
	req.Files = nil
	specs, err := Source(req, then)
	if err != nil || len(specs) != 1 {
		t.Fatalf("%v, %v", specs, err)
	}
	if out, _ := specs[0].Hook.Handle(context.Background(), shell1("x", "ls")); !strings.Contains(out.Reason, "x then") || specs[0].Source != then {
		t.Errorf("%+v of %+v, want that of then", out, specs[0].Source)
	}
	then.Digest = files.Digest([]byte("never"))
	if specs, err := Source(req, then); err == nil {
		t.Errorf("a content that never was: %v", specs)
	}
	policy := grapnel.Source{Name: b.path("grapnel.yaml"), File: b.path("grapnel.yaml"), Digest: set.Files[0].Digest}
	if specs, err := Source(req, policy); err != nil || len(specs) != 0 {
		t.Errorf("the policy itself: %v, %v, want none of the hooks that it loads", specs, err)
	}
}

// For a change of any byte in a trusted hook file, the gate stays closed.
func TestTrustedForeignBytes(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t, "load: [ironclaw]\n")
	text := rule("rm", "rm")
	b.put("hooks/hooks.json", text)
	x, errs := Examine(b.path("grapnel.yaml"), b.home, Packs{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	trusts := Trusts(b.path("state/trust"))
	if err := trusts.Keep(x); err != nil {
		t.Fatal(err)
	}
	closed := func(what string) Set {
		t.Helper()
		req := b.request()
		req.Files = []File{{Path: b.path("grapnel.yaml"), Scope: grapnel.ScopeProject, Trust: true}}
		req.Trusts = trusts
		set := Policies(req)
		e, err := grapnel.New(set.Specs, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Fire(context.Background(), shell1("x", "rm x")); v.Decision != grapnel.Block {
			t.Errorf("%s: %v", what, v.Decision)
		}
		return set
	}
	if set := closed("trusted"); b.row(set, "hooks/hooks.json").State != Trusted {
		t.Errorf("%+v", set.Files)
	}
	for i := range len(text) {
		b.put("hooks/hooks.json", text[:i]+string(text[i]^1)+text[i+1:])
		if set := closed(fmt.Sprintf("byte %d", i)); b.row(set, "hooks/hooks.json").State != Changed {
			t.Errorf("byte %d: %+v", i, set.Files)
		}
		if y, errs := Examine(b.path("grapnel.yaml"), b.home, Packs{}); len(errs) == 0 && y.Digest() == x.Digest() {
			t.Errorf("byte %d: the digest does not cover it", i)
		}
	}
	if err := os.RemoveAll(b.path("hooks")); err != nil {
		t.Fatal(err)
	}
	closed("gone")
	for _, load := range x.Loads { // the trusted content is lost, so its rules are unknown
		if err := os.Remove(filepath.Join(string(trusts), load.SHA256)); err != nil {
			t.Fatal(err)
		}
	}
	closed("lost")
}

// The root in the file names of a hook is the root of the trust, for any root of the session.
func TestTrustedRoot(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t, "load: [claude-code]\n")
	b.put(".claude/settings.json", claude(`sh "$CLAUDE_PROJECT_DIR"/check.sh`))
	b.put("check.sh", "")
	x, errs := Examine(b.path("grapnel.yaml"), b.home, Packs{})
	if len(errs) > 0 || len(x.Pins) != 1 || x.Pins[0].Path != b.path("check.sh") {
		t.Fatalf("%v, pins %+v", errs, x.Pins)
	}
	roots := x.command(func(policyfile.Command) grapnel.Hook {
		return grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Reason: ev.Session.Root}, nil
		})
	}, "")
	ev := shell1("x", "ls")
	ev.Session.Root = "/elsewhere"
	out, err := roots(policyfile.Command{Name: "x", Speaks: "claude-code"}).Handle(context.Background(), ev)
	if err != nil || out.Reason != b.home || ev.Session.Root != "/elsewhere" {
		t.Errorf("%+v, %v: the root is %q", out, err, ev.Session.Root)
	}
}

// A rule runs inline unless its file limits its time: it never times out, and a goroutine costs
// more than the rule.
func TestForeignRulesRunInline(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t, "load: [ironclaw]\n")
	b.put("hooks/hooks.json", `{"rules": [
  {"name": "plain", "points": ["beforeToolCall"], "when_regex": "x", "reject_reason": "no"},
  {"name": "limited", "points": ["beforeToolCall"], "when_regex": "x", "reject_reason": "no", "timeout_ms": 70}]}`)
	set, _ := b.load()
	for name, want := range map[string]time.Duration{"plain": 0, "limited": 70 * time.Millisecond} {
		if got := specOf(t, set, name); got.Timeout != want || got.OnError != grapnel.OnErrorOpen {
			t.Errorf("%s has the timeout %v and %v, want %v and open", name, got.Timeout, got.OnError, want)
		}
	}
}

// The name of a hook depends only on its own file. The drain loads only that file, and the pins
// of a project are stored by name, so no other hook must get the name.
func TestForeignNamesOfOneFile(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t, "load: [claude-code]\n")
	same := func(hooks string) string { return `{"hooks": {"PreToolUse": [{"hooks": [` + hooks + `]}]}}` }
	once := `{"type": "command", "command": "sh x.sh"}`
	b.put(".claude/settings.json", same(once+`, {"type": "command", "command": "sh x.sh --more"}`))
	b.put(".claude/settings.local.json", same(once)) // this hook replaces the first one
	set, _ := b.load()
	file := b.path(".claude/settings.json")
	var names []string
	for _, s := range set.Specs {
		if s.Source.File != file {
			continue
		}
		names = append(names, s.Name)
		specs, err := Source(b.request(), s.Source)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(specs, func(a grapnel.Spec) bool { return a.Name == s.Name })
		if i < 0 {
			t.Fatalf("loaded alone %s has no hook %q: %v", file, s.Name, specNames(Set{Specs: specs}))
		}
		if out, _ := specs[i].Hook.Handle(t.Context(), shell1("x", "ls")); !strings.Contains(out.Reason, "--more") {
			t.Errorf("loaded alone %q is %q", s.Name, out.Reason)
		}
	}
	if len(names) != 1 {
		t.Errorf("%s has %q in force, want one hook", file, names)
	}
}

// A file that is named directly and through a symlink is loaded once.
func TestForeignFileLoadedOnce(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t, "load: [{format: claude-code, file: p/.claude/settings.json}, {format: claude-code, file: link.json}]\n")
	b.put("p/.claude/settings.json", claude("one.sh"))
	if err := os.Symlink(b.path("p/.claude/settings.json"), b.path("link.json")); err != nil {
		if runtime.GOOS != "windows" {
			t.Fatal(err)
		}
		t.Skip(err) // on Windows, links need a privilege
	}
	set, _ := b.load()
	if got := specNames(set); !slices.Equal(got, []string{"one.sh"}) {
		t.Errorf("in force are %q, want one.sh once", got)
	}
}

// A plugin is identified by its path below the home directory. The agent and the user database
// may have different names for that directory.
func TestForeignPluginOfOtherHome(t *testing.T) {
	t.Parallel()
	b := newLoadBench(t, "load: [claude-code]\n")
	const dir = ".claude/plugins/cache/m/p/1.0"
	b.put(".claude/settings.json", `{"enabledPlugins": {"p@m": true, "q@m": true}}`)
	b.put(".claude/plugins/installed_plugins.json", `{"plugins": {
  "p@m": [{"scope": "user", "installPath": "/another/name/of/it/`+dir+`"}],
  "q@m": [{"scope": "user", "installPath": "/another/place/1.0"}]}}`)
	b.put(dir+"/hooks/hooks.json", claude("one.sh"))
	b.put(".claude/plugins/cache/m/q/1.0/hooks/hooks.json", claude("two.sh"))
	set, _ := b.load()
	if got := specNames(set); !slices.Equal(got, []string{"one.sh"}) {
		t.Errorf("in force are %q, want one.sh", got)
	}
}
