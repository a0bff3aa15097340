package policy_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

const twoRules = `version: 1
pack: {version: 3}
hooks:
  - {name: no-touch, on: tool.before, match: {command: touch}, block: pack says no touching}
  - {name: no-mkdir, on: tool.before, match: {command: mkdir}, mode: observe, block: pack says no mkdir}
`

// shipped is what a program brings along.
func shipped(packs ...string) fstest.MapFS {
	files := fstest.MapFS{}
	for i := 0; i < len(packs); i += 2 {
		files[packs[i]+".yaml"] = &fstest.MapFile{Data: []byte(packs[i+1])}
	}
	return files
}

// using loads files, of the scopes user, project and so on, that use packs.
func using(t *testing.T, packs fstest.MapFS, snaps string, files ...string) (policy.Set, *grapnel.Engine) {
	t.Helper()
	req := policy.Request{Packs: packs, Snapshots: snaps, Command: noCommand}
	for i, file := range files {
		req.Files = append(req.Files, policy.File{Path: file, Scope: grapnel.Scope(i)})
	}
	set := policy.Load(req)
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
					if v := e.Fire(context.Background(), sh(line)); v.Decision.String() != want {
						t.Errorf("use: %s, from %s: %q is %v, want %s (%s)", tt.use, from, line, v.Decision, want, v.Reason())
					}
				}
			}
		})
	}
}

// A person who asks where a rule comes from is led to the line that names its pack.
func TestUseIsASourceOfItsOwn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "p.yaml")
	put(t, file, "version: 1\nuse:\n  - two\nhooks:\n  - {name: no-touch, on: tool.before, match: {command: touch}, block: file says no touching}\n")
	set, e := using(t, shipped("two", twoRules), "", file)
	var got []grapnel.Planned
	for _, p := range e.Plan(sh("touch x")).Entries {
		p.Matched = ""
		got = append(got, p)
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

// What one file takes out of a pack, another still has.
func TestUseIsAboutOneFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	user, project := filepath.Join(dir, "user.yaml"), filepath.Join(dir, "project.yaml")
	put(t, user, "version: 1\nuse: [two]\n")
	for name, use := range map[string]string{"except": "{pack: two, except: no-touch}", "observe": "{pack: two, mode: observe}"} {
		put(t, project, "version: 1\nuse: ["+use+"]\n")
		for _, files := range [][]string{{user, project}, {project, user}} {
			set, e := using(t, shipped("two", twoRules), filepath.Join(dir, "state"), files...)
			if v := e.Fire(context.Background(), sh("touch x")); v.Decision != grapnel.Block {
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
	packs := shipped("destructive", twoRules, "plain", blockAll, "broken", "version: 7\n")
	for use, want := range map[string]string{
		"[destructiv]":     `p.yaml:2:7: unknown pack "destructiv" (did you mean "destructive"?)`,
		"[x, {pack: y}]":   `p.yaml:2:17: unknown pack "y" (there are broken, destructive, plain)`,
		"[../destructive]": `p.yaml:2:7: unknown pack "../destructive"`,
		"[{pack: destructive, except: [no-tuch]}]":     `p.yaml:2:36: pack "destructive" has no hook "no-tuch" (did you mean "no-touch"?)`,
		"[{pack: destructive, except: no-such-thing}]": `p.yaml:2:35: pack "destructive" has no hook "no-such-thing"`,
		"[plain]":  `p.yaml:2:7: "plain" is no pack`,
		"[broken]": `p.yaml:2:7: pack "broken": broken.yaml:1:10: version 7 is not known`,
	} {
		p, errs := policy.Parse("p.yaml", []byte("version: 1\nuse: "+use+"\n"))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		_, errs = p.Packs("p.yaml", packs)
		var said []string
		for _, err := range errs {
			said = append(said, err.Error())
		}
		if got := strings.Join(said, "\n"); !strings.Contains(got, want) {
			t.Errorf("use: %s: says %q, want %q", use, got, want)
		}
		if _, errs := p.Packs("p.yaml", nil); len(errs) == 0 || !strings.Contains(errs[0].Msg, "unknown pack") {
			t.Errorf("use: %s without any packs: %v, want an error", use, errs)
		}
		if _, err := p.Build(source("p.yaml"), noCommand); err == nil {
			t.Errorf("use: %s: Build leaves the packs out and says nothing", use)
		}
	}
}

// A mistake in `use:` opens no gate: what was in force stays, and where nothing was,
// tools are blocked.
func TestUseMistakeKeepsTheLastValidContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
	for _, step := range []struct {
		use, line string
		state     policy.State
		want      grapnel.Decision
	}{
		{"[too]", "ls", policy.Broken, grapnel.Block},
		{"[two]", "touch x", policy.Valid, grapnel.Block},
		{"[two]", "ls", policy.Valid, grapnel.None},
		{"[{pack: two, except: no-toch}]", "touch x", policy.Broken, grapnel.Block},
		{"[{pack: two, except: no-toch}]", "ls", policy.Broken, grapnel.None},
	} {
		put(t, file, "version: 1\nuse: "+step.use+"\n")
		set, e := using(t, shipped("two", twoRules), snaps, file)
		if v := e.Fire(context.Background(), sh(step.line)); v.Decision != step.want || set.Files[0].State != step.state {
			t.Errorf("use: %s: %q is %v and the file %s, want %v and %s", step.use, step.line, v.Decision, set.Files[0].State, step.want, step.state)
		}
	}
}

// A new Grapnel brings a new pack: its rules count at once, although the file that
// uses it did not change.
func TestUseFollowsTheProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
	put(t, file, "version: 1\nuse: [two]\n")
	changed := strings.ReplaceAll(twoRules, "touch", "chmod")
	for _, step := range []struct{ pack, line string }{{twoRules, "touch x"}, {changed, "chmod 1 x"}, {twoRules, "touch x"}} {
		_, e := using(t, shipped("two", step.pack), snaps, file)
		if v := e.Fire(context.Background(), sh(step.line)); v.Decision != grapnel.Block {
			t.Errorf("%q is %v, want the block of the pack as it is now", step.line, v.Decision)
		}
	}
}

// The snapshot of a pack is what counts once it is there, so that answering an event
// parses no YAML.
func TestUseTakesTheSnapshot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
	put(t, file, "version: 1\nuse: [two]\n")
	set, _ := using(t, shipped("two", twoRules), snaps, file)
	kept := filepath.Join(snaps, set.Specs[0].Source.Digest+".json")
	data, err := os.ReadFile(kept)
	if err != nil {
		t.Fatalf("the pack is not kept: %v", err)
	}
	put(t, kept, strings.ReplaceAll(string(data), "pack says", "snapshot says"))
	_, e := using(t, shipped("two", twoRules), snaps, file)
	if v := e.Fire(context.Background(), sh("touch x")); v.Reason() != "snapshot says no touching" {
		t.Errorf("the reason is %q, want that of the snapshot", v.Reason())
	}
}
