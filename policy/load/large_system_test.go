//go:build system

// These tests start no program, but they take too long with the race detector, which the system
// tier does not use.

package load_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/mutate"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// If a mutant is declared the same for every event, no shell line shows a difference. The test
// draws similar words of commands, paths and texts, in each place where a list of them is
// permitted.
func TestMutantsThatAreTheSame(t *testing.T) {
	t.Parallel()
	programs := []string{"rm", "git clean", "openssl x509"}
	words := []string{"-r", "-f", "-rf", "-n", "--force", "--dry-run", "--dry-run=none", "-X", "DELETE", "a", "b", "a.pem", "dist", "./dist"}
	some := func(t *rapid.T, from []string, most int, what string) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(from), 0, most).Draw(t, what), " ")
	}
	// Most patterns of a list are another pattern with more words.
	list := func(t *rapid.T, key string) string {
		base := rapid.SampledFrom(programs).Draw(t, "base")
		var all []string
		for range rapid.IntRange(2, 4).Draw(t, "words") {
			word := rapid.SampledFrom([]string{"*", "*.pem", "**/*.pem", "a*", "a", "dist", "dist/**", "/p/**", "**/dist"}).Draw(t, "path")
			switch key {
			case "command":
				word = strings.TrimSpace(base + " " + some(t, append(words, "*", "a*", "*.pem"), 2, "words"))
				if rapid.Bool().Draw(t, "next") {
					base = word
				}
			case "text":
				word = rapid.SampledFrom([]string{"rm", "rm -rf", "/rm\\s/", "/^rm/", "/dist|rm/", "a", "/a/"}).Draw(t, "text")
			}
			all = append(all, fmt.Sprintf("%q", word))
		}
		return fmt.Sprintf("{%s: [%s]}", key, strings.Join(all, ", "))
	}
	match := func(t *rapid.T) string {
		return list(t, rapid.SampledFrom([]string{"command", "command", "command", "path", "text"}).Draw(t, "key"))
	}
	rapid.Check(t, func(t *rapid.T) {
		file := fmt.Sprintf("version: 1\nhooks:\n  - name: h\n    on: tool.before\n    %s\n", rapid.SampledFrom([]string{"block: no", "allow: true"}).Draw(t, "action"))
		file += "    match: " + match(t) + "\n"
		if rapid.Bool().Draw(t, "not") {
			file = strings.TrimSuffix(file, "}\n") + ", not: " + match(t) + "}\n"
		}
		if rapid.Bool().Draw(t, "except") {
			file += "    except: [" + match(t) + "]\n"
		}
		p := fixture.Parsed(t, file)
		specs, err := policy.Build(p, fixture.Source("/p/p.yaml"), fixture.NoCommand)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mutate.All(&p.Hooks[0]) {
			if m.Same == "" {
				continue
			}
			changed, err := load.Replaced(specs, func(*grapnel.Spec) (*policyfile.Hook, bool) { return m.Hook, true }, nil)
			if err != nil {
				t.Fatalf("%s: %s: %v", file, m.At, err)
			}
			for range 30 {
				var commands []string
				for range rapid.IntRange(1, 2).Draw(t, "commands") {
					commands = append(commands, rapid.SampledFrom(programs).Draw(t, "program")+" "+some(t, append(words, "$X", `"$X"`, "--no-dry-run", "--"), 4, "words"))
				}
				line := strings.Join(commands, " && ")
				ev, err := dialect.Plain().Read(dialect.Input{Payload: fmt.Appendf(nil, `{"kind":"tool.before","session":{"id":"s","cwd":"/p","root":"/p"},`+
					`"tool":{"name":"Bash","class":"shell","input":{"command":%q},"facts":[{"field":"tool.command","at":"/command"}]}}`, line)})
				if err != nil {
					t.Fatal(err)
				}
				was, err := specs[0].Match.Match(ev, nil)
				is, wrong := changed[0].Match.Match(ev, nil)
				if err != nil || wrong != nil {
					t.Fatalf("%s: %s: %s: %v, %v", file, m.At, line, err, wrong)
				}
				if was != is {
					t.Fatalf("%s: %s: %s: %s; but of %q %v becomes %v", file, m.At, m.What, m.Same, line, was, is)
				}
			}
		}
	})
}

// The laws of tiers hold for any policies: a lower policy adds restrictions and never removes
// them; an untrusted policy has no effect; trusted content stays in force; root can make its
// policies the only ones.
func TestTiersLaw(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(top, "w") //nolint:usetesting // one per case, removed at its end
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		file := func(name, text string, scope grapnel.Scope) load.File {
			name = filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				rt.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				rt.Fatal(err)
			}
			return load.File{Path: name, Scope: scope, Must: true}
		}
		w := &tiers{dir: dir, project: &project{t: t, dir: filepath.Join(dir, "p"), file: filepath.Join(dir, "p", "grapnel.yaml"), state: filepath.Join(dir, "state")}}
		managed := file("managed.yaml", anyPolicy(rt, "managed", true), grapnel.ScopeManaged)
		user1 := file("user1.yaml", anyPolicy(rt, "user", true), grapnel.ScopeUser)
		user2 := file("user2.yaml", anyPolicy(rt, "other", false), grapnel.ScopeUser)
		w.base = []load.File{managed, user1, user2}
		theirs := file("p/grapnel.yaml", anyPolicy(rt, "project", true), grapnel.ScopeProject)
		theirs.Must, theirs.Trust = false, true
		w.session = file("session.yaml", anyPolicy(rt, "session", false), grapnel.ScopeSession)

		ev := fixture.Shell(rapid.SampledFrom([]string{"ls", "rm x", "mv a b", "rm -rf y"}).Draw(rt, "command"))
		_, base := w.load(rt, w.base...)
		alone := base.Fire(context.Background(), ev)

		// An untrusted policy: the same bytes as without it.
		untrusted, e := w.load(rt, append(slices.Clone(w.base), theirs)...)
		if v := e.Fire(context.Background(), ev); verdictText(v) != verdictText(alone) {
			rt.Fatalf("an untrusted project changes %s into %s", verdictText(alone), verdictText(v))
		}
		if w.project.state1(untrusted).State != load.Untrusted {
			rt.Fatalf("%+v", untrusted.Files)
		}
		x, errs := load.Examine(theirs.Path, filepath.Dir(theirs.Path), load.Packs{})
		if len(errs) > 0 {
			rt.Fatal(errs)
		}
		if err := w.project.trusts().Keep(x); err != nil {
			rt.Fatal(err)
		}
		below := []load.File{theirs}
		if rapid.Bool().Draw(rt, "with a session") {
			below = append(below, w.session)
		}
		set, full := w.load(rt, append(slices.Clone(w.base), below...)...)
		v := full.Fire(context.Background(), ev)

		// The resulting call is judged at least as strictly as by root and the user alone, who
		// may rewrite it again when they judge it.
		end := base.Fire(context.Background(), fixture.Shell(commandOf(v)))
		if commandOf(v) == commandOf(alone) && alone.Decision >= grapnel.Ask && v.Decision < alone.Decision {
			rt.Fatalf("root and the user answer %s, and with more policies it is %s", verdictText(alone), verdictText(v))
		}
		if commandOf(end) == commandOf(v) && end.Decision >= grapnel.Ask && v.Decision < end.Decision {
			rt.Fatalf("what root and the user answer with %v, %v is the answer to with more policies: %s", end.Decision, v.Decision, verdictText(v))
		}
		// A project allows nothing.
		if len(below) == 1 && v.Decision == grapnel.Allow && end.Decision != grapnel.Allow && alone.Decision != grapnel.Allow {
			rt.Fatalf("a project's allow counts: %s", verdictText(v))
		}
		// The order of the policies does not matter.
		turned := slices.Concat(slices.Clone(below), []load.File{user2, user1, managed})
		_, other := w.load(rt, turned...)
		if got := other.Fire(context.Background(), ev); got.Decision != v.Decision && commandOf(got) == commandOf(v) {
			rt.Fatalf("in another order: %s, not %s", verdictText(got), verdictText(v))
		}
		// Trusted content is in force, for any content of the file.
		text := anyPolicy(rt, "later", true)
		if rapid.Bool().Draw(rt, "broken") {
			text = text[:rapid.IntRange(0, len(text)).Draw(rt, "cut")] + "\x00{"
		}
		file("p/grapnel.yaml", text, grapnel.ScopeProject)
		_, later := w.load(rt, append(slices.Clone(w.base), below...)...)
		if got := later.Fire(context.Background(), ev); verdictText(got) != verdictText(v) {
			rt.Fatalf("the file says something else, and now: %s, not %s", verdictText(got), verdictText(v))
		}
		// No lower policy can set the keys of root or the user.
		grab := rapid.SampledFrom([]string{
			"networks: [10.0.0.0/8]\n", "grants: [{source: '**', may: [allow]}]\n", "trust: [{source: '**', digest: '" + x.Digest() + "'}]\n", "use_only_managed: true\n",
		}).Draw(rt, "grab")
		grabbing := file("grab.yaml", "version: 1\n"+grab+"hooks: [{name: yes, on: tool.before, allow: true}]\n", grapnel.ScopeSession)
		got, e := w.load(rt, append(append(slices.Clone(w.base), below...), grabbing)...)
		if d := e.Fire(context.Background(), ev).Decision; d != grapnel.Block || len(got.Reach.Networks) != 0 || got.OnlyManaged != "" || len(set.Reach.Networks) != 0 {
			rt.Fatalf("%s is heard: %v, %+v", grab, d, got)
		}
		// Root can make its policies the only ones.
		only := file("only.yaml", "version: 1\nuse_only_managed: true\n", grapnel.ScopeManaged)
		_, root := w.load(rt, managed)
		_, e = w.load(rt, append(append(slices.Clone(w.base), below...), only)...)
		if a, b := root.Fire(context.Background(), ev), e.Fire(context.Background(), ev); verdictText(a) != verdictText(b) {
			rt.Fatalf("beside use_only_managed: %s, not %s", verdictText(b), verdictText(a))
		}
	})
}

// Hooks of packs are built when an event needs them.
func TestWhyPacks(t *testing.T) {
	t.Parallel()
	registry, errs := load.ReadPacks(os.DirFS("../../packs"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nuse: ["+strings.Join(registry.Names(), ", ")+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := load.Policies(load.Request{Files: []load.File{{Path: file}}, Packs: registry})
	matched := 0
	for _, line := range append(slices.Clip(whyCommands), "rm -rf ~", "git push --force origin main", "terraform destroy") {
		ev := fixture.Shell(line)
		agrees(t, set.Specs, ev)
		for i := range set.Specs {
			if load.NewReasoner(&set.Specs[i]).Why(ev, nil).Matched {
				matched++
			}
		}
	}
	if matched < 5 {
		t.Errorf("%d hooks listen", matched)
	}
}

// For a change of any byte in a trusted file, the closed gate stays closed.
func TestTrustedStaysInForce(t *testing.T) {
	t.Parallel()
	p := newProject(t, gate)
	p.trust()
	p.closed("as trusted")
	for i := range gate {
		p.put("grapnel.yaml", gate[:i])
		p.closed(fmt.Sprintf("truncated to %d", i))
		p.put("grapnel.yaml", gate[:i]+gate[i+1:])
		p.closed(fmt.Sprintf("without byte %d", i))
		for _, insert := range []string{"\x00", "\n", " ", "#", "x"} {
			p.put("grapnel.yaml", gate[:i]+insert+gate[i:])
			p.closed(fmt.Sprintf("with %q at %d", insert, i))
		}
		for bit := range 8 {
			flipped := []byte(gate)
			flipped[i] ^= 1 << bit
			p.put("grapnel.yaml", string(flipped))
			p.closed(fmt.Sprintf("bit %d of byte %d flipped", bit, i))
		}
	}
}

// A hook answers the same with any number of other hooks.
func TestRuleIndexLaw(t *testing.T) {
	t.Parallel()
	others := manyOthers()
	listens := func(s *grapnel.Spec, ev *grapnel.Event) string {
		if s.Match == nil {
			return "always"
		}
		ok, err := s.Match.Match(ev, nil)
		return fmt.Sprint(ok, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		file := anyPolicyToAsk(t)
		build := func(text string) []grapnel.Spec {
			p, errs := policy.Parse("p.yaml", []byte(text))
			if len(errs) > 0 {
				t.Fatalf("%s: %v", text, errs)
			}
			specs, err := policy.Build(p, fixture.Source("/p/p.yaml"), fixture.NoCommand)
			if err != nil {
				t.Fatal(err)
			}
			return specs
		}
		few, many := build(file), build(file+others)
		for range 3 {
			ev := anyEvent(t)
			if ev.Tool != nil && rapid.IntRange(0, 20).Draw(t, "huge") == 0 {
				ev.Tool.Commands = []string{strings.Repeat("x", 2<<20)}
			}
			for i := range few {
				if few[i].Name != many[i].Name && !strings.HasPrefix(many[i].Name, "other") {
					t.Fatalf("hook %d is %q and %q", i, few[i].Name, many[i].Name)
				}
				if few[i].Name != many[i].Name { // the hooks that record steps are after all others
					continue
				}
				if alone, among := listens(&few[i], ev), listens(&many[i], ev); alone != among {
					t.Errorf("%s: %s, and %s among others\n%s", few[i].Name, alone, among, file)
				}
			}
		}
	})
}

// A mutant that is declared the same never differs, a weaker mutant never matches more, and
// replacing a hook by itself changes nothing.
func TestMutantsLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		file := anyPolicyToAsk(t)
		p := fixture.Parsed(t, file)
		specs, err := policy.Build(p, fixture.Source("/p/p.yaml"), fixture.NoCommand)
		if err != nil {
			t.Fatal(err)
		}
		var events []*grapnel.Event
		for range 4 {
			events = append(events, anyEvent(t))
		}
		listens := func(specs []grapnel.Spec, i int, ev *grapnel.Event) (bool, error) {
			if specs[i].Match == nil {
				return true, nil
			}
			return specs[i].Match.Match(ev, nil)
		}
		for i := range p.Hooks {
			mutants := append(mutate.All(&p.Hooks[i]), mutate.Mutant{Hook: &p.Hooks[i], Same: "it is the hook itself"})
			for _, m := range mutants {
				swapped, err := load.Replaced(specs, func(s *grapnel.Spec) (*policyfile.Hook, bool) { return m.Hook, s.Name == p.Hooks[i].Name }, nil)
				if err != nil {
					t.Fatalf("%s: %+v: %v", file, m, err)
				}
				if m.Hook == nil {
					if len(swapped) >= len(specs) {
						t.Fatalf("%d hooks of %d are left", len(swapped), len(specs))
					}
					continue
				}
				for _, ev := range events {
					was, err := listens(specs, i, ev)
					is, wrong := listens(swapped, i, ev)
					if err != nil || wrong != nil || p.Hooks[i].After != nil {
						continue
					}
					if m.Same != "" && was != is {
						t.Fatalf("%s: hook %d: %s: %s; but %v becomes %v", file, i, m.At, m.Same, was, is)
					}
					if m.More && was && !is || !m.More && is && !was {
						if strings.HasSuffix(m.At, "command") && (p.Hooks[i].Decide == "allow" || strings.Contains(m.At, "except")) {
							continue // without a command no shell line is let through
						}
						if m.At == "match" && len(p.Hooks[i].Except) > 0 {
							continue // without a match an exception excludes a whole call, not one of its commands
						}
						t.Fatalf("%s: hook %d: %s: %s: more %v; but %v becomes %v", file, i, m.At, m.What, m.More, was, is)
					}
				}
			}
		}
	})
}
