package policy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

// anyPolicy draws a policy: hooks with the names of others, exceptions, modes and
// priorities, and what tries to say more than it may.
func anyPolicy(t *rapid.T, label string, rewrites bool) string {
	var b strings.Builder
	b.WriteString("version: 1\n")
	b.WriteString(rapid.SampledFrom([]string{"", "", "strict: false\n", "strict: true\n", "defaults: {on_error: open}\n", "defaults: {timeout: 9s, on_error: ask}\n"}).Draw(t, label+" head"))
	n := rapid.IntRange(0, 4).Draw(t, label+" hooks")
	if n > 0 {
		b.WriteString("hooks:\n")
	}
	names := rapid.Permutation([]string{"guard", "a", "b", "locked"}).Draw(t, label+" names")
	for i := range n {
		actions := []string{"block: no", "ask: sure?", "allow: true", "run: 'true'", "run: exit2, on_error: open"}
		if rewrites {
			actions = append(actions, "set: {tool.command: ls}", "set: {tool.command: rm x}", "replace: [{pattern: x, with: y}]")
		}
		action := rapid.SampledFrom(actions).Draw(t, label+" action")
		fmt.Fprintf(&b, "  - {name: %s, on: tool.before, %s", names[i], action)
		b.WriteString(rapid.SampledFrom([]string{"", ", match: {command: rm}", ", match: {command: [ls, mv]}", ", match: {tool: shell}"}).Draw(t, label+" match"))
		b.WriteString(rapid.SampledFrom([]string{"", "", ", except: {command: rm x}", ", when: 'true'"}).Draw(t, label+" except"))
		b.WriteString(rapid.SampledFrom([]string{"", "", ", mode: observe", ", priority: -1000", ", priority: 1000"}).Draw(t, label+" more"))
		b.WriteString("}\n")
	}
	return b.String()
}

// tiers is a random world: what root and the user say, and what comes from below.
type tiers struct {
	dir     string
	base    []policy.File // of root and the user
	project *project
	session policy.File
}

func (w *tiers) load(t *rapid.T, files ...policy.File) (policy.Set, *grapnel.Engine) {
	set := policy.Load(policy.Request{
		Files: files, Trusts: w.project.trusts(), Snapshots: filepath.Join(w.dir, "snapshots"),
		Command: func(c policy.Command) grapnel.Hook {
			return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				if c.Line == "exit2" {
					return grapnel.Outcome{Decision: grapnel.Block, Reason: "exit2"}, nil
				}
				return grapnel.Outcome{}, nil
			})
		},
	})
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set, e
}

// toldOf is all of a Verdict that an agent could be told.
func toldOf(v grapnel.Verdict) string {
	return fmt.Sprintf("%v %q %q %q %q %v", v.Decision, v.Reason(), v.Messages, v.Context, v.Halt, v.Changes)
}

func commandOf(v grapnel.Verdict) string {
	if v.Event == nil || v.Event.Tool == nil || len(v.Event.Tool.Commands) == 0 {
		return ""
	}
	return v.Event.Tool.Commands[0]
}

// The laws of tiers, for any policies: what comes from below adds, and never takes away;
// what nobody trusted does nothing; what was trusted stays; root can be the only one.
func TestTiersLaw(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(top, "w") //nolint:usetesting // one for each case, gone when it is over
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		file := func(name, text string, scope grapnel.Scope) policy.File {
			name = filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				rt.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				rt.Fatal(err)
			}
			return policy.File{Path: name, Scope: scope, Must: true}
		}
		w := &tiers{dir: dir, project: &project{t: t, dir: filepath.Join(dir, "p"), file: filepath.Join(dir, "p", "grapnel.yaml"), state: filepath.Join(dir, "state")}}
		managed := file("managed.yaml", anyPolicy(rt, "managed", true), grapnel.ScopeManaged)
		user1 := file("user1.yaml", anyPolicy(rt, "user", true), grapnel.ScopeUser)
		user2 := file("user2.yaml", anyPolicy(rt, "other", false), grapnel.ScopeUser)
		w.base = []policy.File{managed, user1, user2}
		theirs := file("p/grapnel.yaml", anyPolicy(rt, "project", true), grapnel.ScopeProject)
		theirs.Must, theirs.Trust = false, true
		w.session = file("session.yaml", anyPolicy(rt, "session", false), grapnel.ScopeSession)

		ev := sh(rapid.SampledFrom([]string{"ls", "rm x", "mv a b", "rm -rf y"}).Draw(rt, "command"))
		_, base := w.load(rt, w.base...)
		alone := base.Fire(context.Background(), ev)

		// Nobody trusted it: byte for byte as if it were not there.
		untrusted, e := w.load(rt, append(slices.Clone(w.base), theirs)...)
		if v := e.Fire(context.Background(), ev); toldOf(v) != toldOf(alone) {
			rt.Fatalf("an untrusted project changes %s into %s", toldOf(alone), toldOf(v))
		}
		if w.project.state1(untrusted).State != policy.Untrusted {
			rt.Fatalf("%+v", untrusted.Files)
		}
		x, errs := policy.Examine(theirs.Path, filepath.Dir(theirs.Path), nil)
		if len(errs) > 0 {
			rt.Fatal(errs)
		}
		if err := w.project.trusts().Keep(x); err != nil {
			rt.Fatal(err)
		}
		below := []policy.File{theirs}
		if rapid.Bool().Draw(rt, "with a session") {
			below = append(below, w.session)
		}
		set, full := w.load(rt, append(slices.Clone(w.base), below...)...)
		v := full.Fire(context.Background(), ev)

		// What runs in the end is judged at least as strictly as root and the user do, who
		// may rewrite it once more if they are asked about that.
		end := base.Fire(context.Background(), sh(commandOf(v)))
		if commandOf(v) == commandOf(alone) && alone.Decision >= grapnel.Ask && v.Decision < alone.Decision {
			rt.Fatalf("root and the user answer %s, and with more policies it is %s", toldOf(alone), toldOf(v))
		}
		if commandOf(end) == commandOf(v) && end.Decision >= grapnel.Ask && v.Decision < end.Decision {
			rt.Fatalf("what root and the user answer with %v, %v is the answer to with more policies: %s", end.Decision, v.Decision, toldOf(v))
		}
		// A project allows nothing.
		if len(below) == 1 && v.Decision == grapnel.Allow && end.Decision != grapnel.Allow && alone.Decision != grapnel.Allow {
			rt.Fatalf("a project's allow counts: %s", toldOf(v))
		}
		// In any order.
		turned := slices.Concat(slices.Clone(below), []policy.File{user2, user1, managed})
		_, other := w.load(rt, turned...)
		if got := other.Fire(context.Background(), ev); got.Decision != v.Decision && commandOf(got) == commandOf(v) {
			rt.Fatalf("in another order: %s, not %s", toldOf(got), toldOf(v))
		}
		// What was trusted is in force whatever the file says now.
		text := anyPolicy(rt, "later", true)
		if rapid.Bool().Draw(rt, "broken") {
			text = text[:rapid.IntRange(0, len(text)).Draw(rt, "cut")] + "\x00{"
		}
		file("p/grapnel.yaml", text, grapnel.ScopeProject)
		_, later := w.load(rt, append(slices.Clone(w.base), below...)...)
		if got := later.Fire(context.Background(), ev); toldOf(got) != toldOf(v) {
			rt.Fatalf("the file says something else, and now: %s, not %s", toldOf(got), toldOf(v))
		}
		// Nothing from below says what is root's or the user's to say.
		grab := rapid.SampledFrom([]string{
			"networks: [10.0.0.0/8]\n", "grants: [{source: '**', may: [allow]}]\n", "trust: [{source: '**', digest: '" + x.Digest() + "'}]\n", "use_only_managed: true\n",
		}).Draw(rt, "grab")
		grabbing := file("grab.yaml", "version: 1\n"+grab+"hooks: [{name: yes, on: tool.before, allow: true}]\n", grapnel.ScopeSession)
		got, e := w.load(rt, append(append(slices.Clone(w.base), below...), grabbing)...)
		if d := e.Fire(context.Background(), ev).Decision; d != grapnel.Block || len(got.Networks) != 0 || got.OnlyManaged != "" || len(set.Networks) != 0 {
			rt.Fatalf("%s is heard: %v, %+v", grab, d, got)
		}
		// Root can be the only one.
		only := file("only.yaml", "version: 1\nuse_only_managed: true\n", grapnel.ScopeManaged)
		_, root := w.load(rt, managed)
		_, e = w.load(rt, append(append(slices.Clone(w.base), below...), only)...)
		if a, b := root.Fire(context.Background(), ev), e.Fire(context.Background(), ev); toldOf(a) != toldOf(b) {
			rt.Fatalf("beside use_only_managed: %s, not %s", toldOf(b), toldOf(a))
		}
	})
}
