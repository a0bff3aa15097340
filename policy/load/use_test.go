package load_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
)

const twoRules = `version: 1
pack: {version: 3}
hooks:
  - {name: no-touch, on: tool.before, match: {command: touch}, block: pack says no touching}
  - {name: no-mkdir, on: tool.before, match: {command: mkdir}, mode: observe, block: pack says no mkdir}
`

// shipped returns packs.
func shipped(packs ...string) load.Packs {
	registry, errs := load.ReadPacks(files(packs...))
	if len(errs) > 0 {
		panic(errs[0])
	}
	return registry
}

// files returns packs in the form of files.
func files(packs ...string) fstest.MapFS {
	files := fstest.MapFS{}
	for i := 0; i < len(packs); i += 2 {
		files[packs[i]+".yaml"] = &fstest.MapFile{Data: []byte(packs[i+1])}
	}
	return files
}

// using loads files that use packs. The first file has the scope 0, the second 1, and so on.
func using(t *testing.T, packs load.Packs, snaps string, files ...string) (load.Set, *grapnel.Engine) {
	t.Helper()
	req := load.Request{Packs: packs, Snapshots: snaps, Runners: policy.Runners{Command: fixture.NoCommand}}
	for i, file := range files {
		req.Files = append(req.Files, load.File{Path: file, Scope: grapnel.Scope(i)})
	}
	set := load.Policies(req)
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set, e
}

func TestUse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ use, touch, mkdir string }{
		"by name":        {"[two]", "block", "none"},
		"by key":         {"[{pack: two}]", "block", "none"},
		"except":         {"[{pack: two, except: no-touch}]", "none", "none"},
		"except all":     {"[{pack: two, except: [no-touch, no-mkdir]}]", "none", "none"},
		"only observed":  {"[{pack: two, mode: observe}]", "none", "none"},
		"all enforced":   {"[{pack: two, mode: enforce}]", "block", "block"},
		"beside another": {"[other, two]", "block", "none"},
		"allowed":        {"[{pack: two, allow: {no-touch: {command: touch x}}}]", "none", "none"},
		"others allowed": {"[{pack: two, allow: {no-touch: [{command: touch y}, {path: /tmp/z}], no-mkdir: {command: mkdir y}}, mode: enforce}]", "block", "block"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "p.yaml")
			put(t, file, "version: 1\nuse: "+tt.use+"\n")
			packs := shipped("two", twoRules, "other", "version: 1\npack: {version: 1}\n")
			for _, from := range []string{"the pack's file", "its snapshot"} {
				_, e := using(t, packs, filepath.Join(dir, "state"), file)
				for line, want := range map[string]string{"touch x": tt.touch, "mkdir x": tt.mkdir, "ls": "none"} {
					if v := e.Fire(context.Background(), fixture.Shell(line)); v.Decision.String() != want {
						t.Errorf("use: %s, from %s: %q is %v, want %s (%s)", tt.use, from, line, v.Decision, want, v.Reason())
					}
				}
			}
		})
	}
}

// What a pack allows is exactly what the policy names. Every command that the rule matches must be
// allowed, and be known.
func TestUseAllow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "p.yaml")
	put(t, file, "version: 1\nuse: [{pack: rm, allow: {no-rm: {command: rm -rf reports}}}]\n")
	rm := "version: 1\npack: {version: 3}\nhooks:\n  - {name: no-rm, on: tool.before, match: {command: rm -rf}, except: {command: rm -rf build}, block: no}\n"
	for _, snapshot := range []string{"without one", "from it"} {
		_, e := using(t, shipped("rm", rm), filepath.Join(dir, "state"), file)
		for line, want := range map[string]string{
			"rm -rf reports": "none", "rm -fr ./reports": "none", "rm -rf reports; ls": "none", "rm -rf build": "none", "rm -rf build reports": "block",
			"rm -rf reports /": "block", "rm -rf reports/..": "block", "rm -rf reports && rm -rf /": "block", "rm -rf $reports": "block", "rm -rf reports*": "block", "rm -rf reports $(cat x)": "block",
		} {
			if v := e.Fire(t.Context(), fixture.Shell(line)); v.Decision.String() != want {
				t.Errorf("snapshot: %s: %q is %v, want %s (%s)", snapshot, line, v.Decision, want, v.Reason())
			}
		}
	}
}

// defaults: {mode: observe} is the mode of hooks and packs that set none.
func TestDefaultMode(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "p.yaml")
	for name, tt := range map[string]struct {
		text                  string
		own, strict, pack, on string // decisions
	}{
		"observe":    {"defaults: {mode: observe}\n", "none", "block", "none", "block"},
		"at the end": {"", "none", "block", "none", "block"},
		"enforce":    {"defaults: {mode: enforce}\n", "block", "block", "block", "block"},
	} {
		text := "version: 1\n" + tt.text + "use: [two, {pack: other, mode: enforce}]\nhooks:\n  - {name: a, on: tool.before, match: {command: own}, block: x}\n  - {name: b, on: tool.before, match: {command: strict}, mode: enforce, block: x}\n"
		if tt.text == "" {
			text += "defaults: {mode: observe}\n"
		}
		put(t, file, text)
		_, e := using(t, shipped("two", twoRules, "other", strings.ReplaceAll(twoRules, "touch", "rmdir")), "", file)
		for line, want := range map[string]string{"own": tt.own, "strict": tt.strict, "touch x": tt.pack, "rmdir x": tt.on} {
			if v := e.Fire(t.Context(), fixture.Shell(line)); v.Decision.String() != want {
				t.Errorf("%s: %q is %v, want %s", name, line, v.Decision, want)
			}
		}
	}
}

// The source of a rule from a pack is the line that names the pack.
func TestUseIsASourceOfItsOwn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "p.yaml")
	put(t, file, "version: 1\nuse:\n  - two\nhooks:\n  - {name: no-touch, on: tool.before, match: {command: touch}, block: file says no touching}\n")
	set, e := using(t, shipped("two", twoRules), "", file)
	var got []grapnel.Planned
	for _, p := range e.Plan(fixture.Shell("touch x")).Entries {
		if p.Matched = ""; p.Phase == grapnel.PhaseRule {
			got = append(got, p)
		}
	}
	want := []grapnel.Planned{
		{Step: 1, Phase: grapnel.PhaseRule, Hook: "no-touch", Source: file + "#two", File: file, Line: 3},
		{Step: 1, Phase: grapnel.PhaseRule, Hook: "no-touch", Source: file, File: file, Line: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if hooks := set.Files[0].Hooks; hooks != 3 {
		t.Errorf("%d hooks are in force, want 3", hooks)
	}
	if set.Specs[0].Source.Digest == set.Files[0].Digest {
		t.Error("the hooks of a pack have the digest of the file that uses it")
	}
}

// If one file excludes a rule of a pack, the rule still applies in another file.
func TestUseIsAboutOneFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	user, project := filepath.Join(dir, "user.yaml"), filepath.Join(dir, "project.yaml")
	put(t, user, "version: 1\nuse: [two]\n")
	for name, use := range map[string]string{"except": "{pack: two, except: no-touch}", "observe": "{pack: two, mode: observe}"} {
		put(t, project, "version: 1\nuse: ["+use+"]\n")
		for _, files := range [][]string{{user, project}, {project, user}} {
			set, e := using(t, shipped("two", twoRules), filepath.Join(dir, "state"), files...)
			if v := e.Fire(context.Background(), fixture.Shell("touch x")); v.Decision != grapnel.Block {
				t.Errorf("%s in %v: %v, want the other file's block", name, files, v.Decision)
			}
			for _, spec := range set.Specs {
				if want := grapnel.Scope(slices.Index(files, spec.Source.File)); spec.Source.Scope != want {
					t.Errorf("%s has scope %v, want that of its file, %v", spec.FullName(), spec.Source.Scope, want)
				}
			}
		}
	}
}

func TestUseMistakes(t *testing.T) {
	t.Parallel()
	packs := shipped("destructive", twoRules, "other", twoRules)
	for use, want := range map[string]string{
		"[destructiv]":     `p.yaml:2:7: unknown pack "destructiv" (did you mean "destructive"?)`,
		"[x, {pack: y}]":   `p.yaml:2:17: unknown pack "y" (valid values: destructive, other)`,
		"[../destructive]": `p.yaml:2:7: unknown pack "../destructive"`,
		"[{pack: destructive, except: [no-tuch]}]":                  `p.yaml:2:36: pack "destructive" has no hook "no-tuch" (did you mean "no-touch"?)`,
		"[{pack: destructive, except: no-such-thing}]":              `p.yaml:2:35: pack "destructive" has no hook "no-such-thing"`,
		"[{pack: destructive, allow: {no-tuch: {command: touch}}}]": `p.yaml:2:35: pack "destructive" has no hook "no-tuch" (did you mean "no-touch"?)`,
	} {
		p, errs := policy.Parse("p.yaml", []byte("version: 1\nuse: "+use+"\n"))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		_, errs = load.PacksOf(p, "p.yaml", packs)
		var messages []string
		for _, err := range errs {
			messages = append(messages, err.Error())
		}
		if got := strings.Join(messages, "\n"); !strings.Contains(got, want) {
			t.Errorf("use: %s: says %q, want %q", use, got, want)
		}
		if _, errs := load.PacksOf(p, "p.yaml", load.Packs{}); len(errs) == 0 || !strings.Contains(errs[0].Msg, "unknown pack") {
			t.Errorf("use: %s without any packs: %v, want an error", use, errs)
		}
		if _, err := policy.Build(p, fixture.Source("p.yaml"), fixture.NoCommand); err == nil {
			t.Errorf("use: %s: Build leaves the packs out and says nothing", use)
		}
	}
}

// An error in `use:` opens no gate: the last valid content stays in force, and without one
// tools are blocked.
func TestUseMistakeKeepsTheLastValidContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
	for _, step := range []struct {
		use, line string
		state     load.State
		want      grapnel.Decision
	}{
		{"[too]", "ls", load.Broken, grapnel.Block},
		{"[two]", "touch x", load.Valid, grapnel.Block},
		{"[two]", "ls", load.Valid, grapnel.None},
		{"[{pack: two, except: no-toch}]", "touch x", load.Broken, grapnel.Block},
		{"[{pack: two, except: no-toch}]", "ls", load.Broken, grapnel.None},
	} {
		put(t, file, "version: 1\nuse: "+step.use+"\n")
		set, e := using(t, shipped("two", twoRules), snaps, file)
		if v := e.Fire(context.Background(), fixture.Shell(step.line)); v.Decision != step.want || set.Files[0].State != step.state {
			t.Errorf("use: %s: %q is %v and the file %s, want %v and %s", step.use, step.line, v.Decision, set.Files[0].State, step.want, step.state)
		}
	}
}

// If a new version of Grapnel contains a new pack, its rules apply immediately, although the
// file that uses it did not change.
func TestUseFollowsTheProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
	put(t, file, "version: 1\nuse: [two]\n")
	changed := strings.ReplaceAll(twoRules, "touch", "chmod")
	for _, step := range []struct{ pack, line string }{{twoRules, "touch x"}, {changed, "chmod 1 x"}, {twoRules, "touch x"}} {
		_, e := using(t, shipped("two", step.pack), snaps, file)
		if v := e.Fire(context.Background(), fixture.Shell(step.line)); v.Decision != grapnel.Block {
			t.Errorf("%q is %v, want the block of the pack as it is now", step.line, v.Decision)
		}
	}
}

// Errors in packs are found when they are read, for all packs together.
func TestReadPacks(t *testing.T) {
	t.Parallel()
	registry, errs := load.ReadPacks(files("plain", blockAll, "broken", "version: 7\n", "two", twoRules))
	var messages []string
	for _, err := range errs {
		messages = append(messages, err.Error())
	}
	want := []string{"broken.yaml:1:10: unknown version 7 (write `version: 1`)", "plain.yaml:1:1: it is not a pack (write `pack: {version: 1}`)"}
	if diff := cmp.Diff(want, messages); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if got := registry.Names(); !slices.Equal(got, []string{"broken", "plain", "two"}) {
		t.Errorf("the packs are %v", got)
	}
}

// A hook of a pack is built when an event may concern it. This decision uses little data and is
// never wrong: a hook that is built at the start answers the same.
func TestRegistryHooksAreEquivalent(t *testing.T) {
	t.Parallel()
	const many = `version: 1
pack: {version: 1}
hooks:
  - {name: command, on: tool.before, match: {command: [touch, git push --force]}, block: command}
  - {name: any-program, on: tool.before, match: {command: "mk* /dev/*"}, block: any-program}
  - {name: wrapped, on: tool.before, match: {command: sudo touch}, block: wrapped}
  - {name: path, on: tool.before, match: {path: "**/.env"}, block: path}
  - {name: both, on: tool.before, match: {command: cp, path: "**/.env"}, block: both}
  - {name: class, on: tool.before, match: {tool: [write, edit]}, block: class}
  - {name: named, on: tool.before, match: {tool: [write, mcp__x__y]}, block: named}
  - {name: text, on: tool.before, match: {tool: shell, text: secret}, block: text}
  - {name: unknown, on: tool.before, match: {shell: unknown}, block: unknown}
  - {name: not, on: tool.before, match: {not: {command: ls}}, block: not}
  - {name: expression, on: tool.before, when: 'tool.command contains "x"', block: expression}
  - {name: observed, on: tool.before, mode: observe, match: {command: touch}, block: observed}
  - {name: first, on: tool.before, match: {command: touch}, block: first, priority: 50}
  - {name: rewrite, on: tool.before, match: {command: echo}, replace: [{pattern: rewritten, with: touch}]}
`
	packs := shipped("many", many)
	plain := strings.Replace(many, "pack: {version: 1}\n", "", 1)
	dir := t.TempDir()
	packed, written := filepath.Join(dir, "packed.yaml"), filepath.Join(dir, "written.yaml")
	put(t, packed, "version: 1\nuse: [many]\n")
	put(t, written, plain)
	_, lazy := using(t, packs, "", packed)
	_, eager := using(t, load.Packs{}, "", written)
	tool := func(class grapnel.Class, name, input string, facts ...grapnel.Fact) *grapnel.Event {
		tool := &grapnel.Tool{Class: class, Name: name, Input: []byte(input), Facts: facts}
		tool.Derive()
		return &grapnel.Event{Kind: grapnel.ToolBefore, Tool: tool, Session: grapnel.Session{CWD: dir}}
	}
	file := grapnel.Fact{Field: grapnel.FieldPath, At: "/file"}
	events := map[string]*grapnel.Event{
		"Write": tool(grapnel.ClassWrite, "Write", `{"file":"a"}`, file), "Write .env": tool(grapnel.ClassWrite, "Write", `{"file":".env"}`, file),
		"write by name": tool(grapnel.ClassOther, "WRITE", `{}`), "mcp": tool(grapnel.ClassMCP, "mcp__x__y", `{}`),
		"prompt": {Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "touch"}}, "no tool": {Kind: grapnel.ToolBefore},
		"batch": {Kind: grapnel.ToolBefore, Calls: []grapnel.Tool{*fixture.Shell("touch x").Tool, *fixture.Shell("ls").Tool}},
	}
	for _, line := range []string{
		"ls", "touch x", "t''ouch x", "$x y", "sudo touch x", "cp a .env", "cat < .env", "mkfs /dev/sda", "echo secret", "echo rewritten x", "echo 'rewritten' x",
		"git push -f", "git push", "xargs touch", "curl x | sh", "", "if", strings.Repeat("touch x;", 200000),
	} {
		events[line[:min(len(line), 40)]] = fixture.Shell(line)
	}
	for name, ev := range events {
		got, want := lazy.Fire(context.Background(), ev), eager.Fire(context.Background(), ev)
		got.Event, want.Event, got.Err, want.Err = nil, nil, nil, nil
		for i := range got.Reasons {
			got.Reasons[i].Hook, want.Reasons[i].Hook = "", ""
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-made at once +made when needed):\n%s", name, diff)
		}
	}
}

// Packs that are always in force have precedence over all files.
func TestAlways(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "p.yaml")
	for name, content := range map[string]string{
		"no file": "", "a broken file": "version: 7\n", "a file that uses it": "version: 1\nuse: [two]\n",
		"a file that leaves it out": "version: 1\nuse: [{pack: two, except: no-touch, mode: observe}]\n",
		"a file that allows":        "version: 1\nhooks: [{name: no-touch, on: tool.before, allow: true}]\n",
	} {
		put(t, file, content)
		req := load.Request{Packs: shipped("two", twoRules), Always: []string{"two"}}
		if content != "" {
			req.Files = []load.File{{Path: file, Scope: grapnel.ScopeUser}}
		}
		set := load.Policies(req)
		e, err := grapnel.New(pause.Pause{}.Apply(set.Specs), nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Fire(context.Background(), fixture.Shell("touch x")); v.Decision != grapnel.Block {
			t.Errorf("%s: %v, want a block", name, v.Decision)
		}
	}
	set := load.Policies(load.Request{Always: []string{"two"}})
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := e.Fire(context.Background(), fixture.Shell("ls")); v.Decision != grapnel.Block || !strings.Contains(v.Reason(), `unknown pack "two"`) {
		t.Errorf("a pack that is not there: %v (%s), want a block that says so", v.Decision, v.Reason())
	}
}
