//go:build system

// Package corpus tests the shipped packs with actions of agents: the packs must stop each case in
// dangerous/ and no case in harmless/. The cases in fresh/ measure how the packs do with new kinds of
// actions.
//
// A case is a short description of an event. The test converts it to an event of Claude Code and
// fires it with all packs enabled:
//
//   - id: force-push-short-flag      # unique
//     family: git
//     command: git push -f           # of the shell; or
//     tool: Write                    # another tool and its
//     input: {file_path: a, content: b}
//     output: what the tool printed  # after the call of the command or tool; or
//     prompt: what the person typed
//     before: [{command: cat .env}]  # earlier events of the same session
//     files: {.gitignore: dist, empty/: "", a: {link: b}} # the project, in a new directory
//     near: no-force-push            # for a harmless case: a hook that must not match it
//     reason: This sends a token     # for a dangerous case: the first reason, or its beginning
package corpus

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy/load"
)

const (
	enough    = 400  // cases of each sort
	minRecall = 0.95 // required share of the dangerous cases that are stopped
)

// A played case holds the results of one case.
type played struct {
	id, family string
	command    string
	messages   string   // the hooks that returned a message, with the message
	hooks      []string // their names, without the file
	near       string
	reason     string // the first reason, if it is not the one of the case
	stopped    bool
	before     []string // commands of earlier events of the session that were stopped
}

// TestCorpus plays every case. "make corpus" prints the table. docs/packs.md must state its last line.
func TestCorpus(t *testing.T) {
	t.Parallel()
	dangerous, harmless := play(t, "dangerous/*.yaml", project), play(t, "harmless/*.yaml", project)
	t.Logf("\n%s", families(dangerous, harmless))
	for sort, cases := range map[string][]played{"dangerous": dangerous, "harmless": harmless} {
		if len(cases) < enough {
			t.Errorf("there are %d %s cases, want %d", len(cases), sort, enough)
		}
	}
	missed := 0
	for _, c := range dangerous {
		if !c.stopped {
			missed++
			t.Logf("not stopped: %s (%s)", c.id, c.family)
		}
		if c.reason != "" {
			t.Errorf("%s (%s): %s", c.id, c.family, c.reason)
		}
	}
	if recall := 1 - float64(missed)/float64(max(1, len(dangerous))); recall < minRecall {
		t.Errorf("%.1f %% of the dangerous cases are stopped, want %.0f %%", 100*recall, 100*minRecall)
	}
	for _, c := range harmless {
		if c.stopped {
			t.Errorf("a harmless case is stopped: %s (%s): %s", c.id, c.family, c.messages)
		}
	}
	stopped := len(dangerous) - missed
	onPage(t, fmt.Sprintf("%s of the %s dangerous cases of the corpus (%.1f %%) are blocked or asked about, and none of the %s harmless cases",
		thousands(stopped), thousands(len(dangerous)), 100*float64(stopped)/float64(max(1, len(dangerous))), thousands(len(harmless))))
}

// onPage requires a sentence in docs/packs.md.
func onPage(t *testing.T, sentence string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/packs.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(strings.Fields(string(page)), " "), sentence) {
		t.Errorf("docs/packs.md does not state: %s", sentence)
	}
}

// thousands formats a number below a million with a comma.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// families returns a table with the stopped cases of each family.
func families(dangerous, harmless []played) string {
	type row struct{ cases, stopped, spared, disturbed int }
	rows := map[string]*row{"": {}}
	at := func(family string) *row {
		if rows[family] == nil {
			rows[family] = &row{}
		}
		return rows[family]
	}
	for _, c := range dangerous {
		for _, r := range []*row{at(c.family), rows[""]} {
			r.cases++
			if c.stopped {
				r.stopped++
			}
		}
	}
	for _, c := range harmless {
		for _, r := range []*row{at(c.family), rows[""]} {
			r.spared++
			if c.stopped {
				r.disturbed++
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s %9s %8s %8s %9s %9s\n", "family", "dangerous", "stopped", "recall", "harmless", "stopped")
	line := func(name string, r *row) {
		recall := "-"
		if r.cases > 0 {
			recall = fmt.Sprintf("%.1f %%", 100*float64(r.stopped)/float64(r.cases))
		}
		fmt.Fprintf(&b, "%-22s %9d %8d %8s %9d %9d\n", name, r.cases, r.stopped, recall, r.spared, r.disturbed)
	}
	for _, family := range slices.Sorted(maps.Keys(rows)) {
		if family != "" {
			line(family, rows[family])
		}
	}
	line("all", rows[""])
	return b.String()
}

// play fires the cases of the files that match a pattern, each in a new session of an agent that
// works in cwd.
func play(t *testing.T, pattern, cwd string) []played {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || files == nil {
		t.Fatalf("no cases in %s: %v", pattern, err)
	}
	engine, rec := engine(t, loaded(t))
	var cases []played
	ids := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root, err := yaml.Parse(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, node := range root.Items {
			c := played{command: text(node, "command"), id: text(node, "id"), family: text(node, "family"), near: text(node, "near")}
			if c.id == "" || c.family == "" || ids[c.id] {
				t.Fatalf("%s:%d: the id %q or the family %q is missing, or the id is listed twice", file, node.Line, c.id, c.family)
			}
			ids[c.id] = true
			cwd := cwd
			if files := node.Get("files"); files != nil {
				cwd = plant(t, files)
			}
			if before := node.Get("before"); before != nil {
				for _, step := range before.Items {
					if earlier(t, engine, step, c.id, cwd) {
						c.before = append(c.before, text(step, "command"))
					}
				}
			}
			*rec = grapnel.Record{}
			v := fire(t, engine, node, c.id, cwd, "")
			c.stopped = stops(v)
			if want := text(node, "reason"); want != "" && (len(v.Reasons) == 0 || !strings.HasPrefix(v.Reasons[0].Text, want)) {
				c.reason = fmt.Sprintf("the reasons are %v, want first %q", v.Reasons, want)
			}
			for _, run := range rec.Hooks {
				if run.Decision != grapnel.None || run.Error != "" || len(run.Changed) > 0 {
					c.hooks = append(c.hooks, run.Name[strings.LastIndexByte(run.Name, ':')+1:])
					c.messages += fmt.Sprintf("%s %s %s; ", run.Name, run.Decision, run.Error)
				}
			}
			cases = append(cases, c)
		}
	}
	return cases
}

// plant writes the files of a case into a new project, and returns its directory.
func plant(t *testing.T, files *yaml.Node) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "project")
	for _, pair := range files.Pairs {
		name := filepath.Join(dir, pair.Key.Text)
		parent, err := filepath.Dir(name), error(nil)
		if strings.HasSuffix(pair.Key.Text, "/") {
			parent = name
		}
		if err = os.MkdirAll(parent, 0o700); err == nil {
			switch link := pair.Value.Get("link"); {
			case link != nil:
				err = os.Symlink(link.Text, name)
			case parent != name:
				err = os.WriteFile(name, []byte(pair.Value.Text), 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// loaded returns a policy that uses every pack.
func loaded(t *testing.T) load.Set {
	t.Helper()
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nuse: ["+strings.Join(registry(t).Names(), ", ")+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := load.Policies(load.Request{Files: []load.File{{Path: file, Must: true}}, Packs: registry(t)})
	if loaded := set.Files[0]; loaded.State != load.Valid {
		t.Fatalf("the policy is %s: %v", loaded.State, loaded.Errors)
	}
	return set
}

func engine(t *testing.T, set load.Set) (*grapnel.Engine, *grapnel.Record) {
	t.Helper()
	rec := &grapnel.Record{}
	e, err := grapnel.New(set.Specs, &grapnel.Options{Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, r *grapnel.Record) { *rec = *r })}})
	if err != nil {
		t.Fatal(err)
	}
	return e, rec
}

// project is the agent's working directory. No pack has a rule for it.
const project = "/home/dev/project"

// earlier fires a step before a case, and reports whether it was stopped. A call that is not blocked
// also ends: the person said yes.
func earlier(t *testing.T, e *grapnel.Engine, step *yaml.Node, id, cwd string) bool {
	t.Helper()
	v := fire(t, e, step, id, cwd, "")
	if v.Decision < grapnel.Block && step.Get("prompt") == nil && step.Get("output") == nil {
		fire(t, e, step, id, cwd, "ok")
	}
	return stops(v)
}

// stops reports whether a verdict blocks a call, asks about it, or changes it.
func stops(v grapnel.Verdict) bool {
	return v.Decision >= grapnel.Ask || v.Halt != "" || len(v.Changes) > 0
}

// fire fires one event. It is the end of a call if there is an output.
func fire(t *testing.T, e *grapnel.Engine, node *yaml.Node, id, cwd, output string) grapnel.Verdict {
	t.Helper()
	payload := map[string]any{"session_id": id, "cwd": cwd, "hook_event_name": "PreToolUse", "tool_use_id": "call"}
	payload["tool_name"] = cmp.Or(text(node, "tool"), "Bash")
	payload["tool_input"] = map[string]any{"command": cmp.Or(text(node, "command"), "true")}
	if input := node.Get("input"); input != nil {
		payload["tool_input"] = input.JSON()
	}
	output = cmp.Or(text(node, "output"), output)
	switch {
	case node.Get("prompt") != nil:
		payload = map[string]any{"session_id": id, "cwd": cwd, "hook_event_name": "UserPromptSubmit", "prompt": text(node, "prompt")}
	case output != "":
		payload["hook_event_name"] = "PostToolUse"
		payload["tool_response"] = map[string]any{"stdout": output, "stderr": "", "interrupted": false}
	case node.Get("command") == nil && node.Get("tool") == nil:
		t.Fatalf("%s: the case in line %d has no command, tool, output or prompt", id, node.Line)
	}
	raw, err := rawjson.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: raw})
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	return e.Fire(t.Context(), ev)
}

func text(n *yaml.Node, key string) string {
	if v := n.Get(key); v != nil {
		return v.Text
	}
	return ""
}

// registry returns the packs from their files, which may be newer than the built-in table.
func registry(t *testing.T) load.Packs {
	t.Helper()
	packs, errs := load.ReadPacks(packs.Files())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return packs
}
