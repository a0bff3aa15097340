package replay_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/replay"
	"github.com/grapnel-dev/grapnel/spool"
)

// suggestOptions are those for the hooks of a file.
func suggestOptions(t *testing.T, text string) replay.SuggestOptions {
	t.Helper()
	text = "version: 1\n" + text
	p, errs := policy.Parse(file, []byte(text))
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	set := policy.Load(policy.Request{
		Files: []policy.File{{Path: file}}, Packs: packs.All, Content: map[string][]byte{file: []byte(text)},
		Command: func(policy.Command) grapnel.Hook { return grapnel.Func(nil) },
	})
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := replay.SuggestOptions{Files: map[string][]byte{file: []byte(text)}, Policy: file}
	for _, spec := range engine.List("") {
		h := replay.Hook{Spec: spec}
		for i := range p.Hooks {
			if p.Hooks[i].Name == spec.Name && spec.Source.Name == file {
				h.Policy = &p.Hooks[i]
				h.Leaves = p.Hooks[i].Run != nil
			}
		}
		opts.Hooks = append(opts.Hooks, h)
	}
	return opts
}

func (l *log) suggest(t *testing.T, opts replay.SuggestOptions) *replay.Advice {
	t.Helper()
	advice, err := replay.Suggest(t.Context(), l.seq(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return advice
}

// last is the ID of the call that was added last.
func (l *log) last() string { return fmt.Sprintf("call-%d", len(l.list)-1) }

func (l *log) prompt(session string) {
	l.add(map[string]any{"hook_event_name": "UserPromptSubmit", "session_id": session, "cwd": "/w", "prompt": "no"}, grapnel.PromptBefore, none)
}

// read adds a file that is about to be read.
func (l *log) read(hooks ...grapnel.HookRun) *spool.Entry {
	return l.add(map[string]any{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/w", "tool_name": "Read", "tool_input": map[string]any{"file_path": "/x"}}, grapnel.ToolBefore, none, hooks...)
}

// later lets time pass.
func (l *log) later(d time.Duration) {
	if l.at.IsZero() {
		l.at = noon
	}
	l.at = l.at.Add(d)
}

// daily adds so many calls of which nobody has an opinion, four a day.
func daily(l *log, n int) {
	times(n, func(int) {
		l.later(6 * time.Hour)
		l.call("s", "ls", none)
	})
}

// times calls f so often.
func times(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	const sure = `hooks:
  - name: sure
    on: tool.before
    match: {command: terraform}
    ask: Sure?
`
	const guarded = "hooks:\n  - name: lint\n    on: tool.before\n    run: lint\n"
	failed := func(open bool) grapnel.HookRun {
		return grapnel.HookRun{Name: "lint", Source: file, Error: "exit code 1", Cause: grapnel.CauseError, FailOpen: open, MS: 1}
	}
	slow := func(name string, ms float64) grapnel.HookRun {
		return grapnel.HookRun{Name: name, Source: file, MS: ms}
	}
	tests := map[string]struct {
		policy  string
		records func(l *log)
		want    string // kind and count; empty = nothing
		title   string // a part of it
		change  string // lines of the hunk that are added or taken away
	}{
		"always approved": {sure, func(l *log) {
			times(5, func(int) {
				l.call("s", "terraform plan", ask, run("sure", ask))
				l.ended("s", l.last(), "terraform plan", false)
			})
		}, "always-approved 5", "asked 5 times", `+    when: tool.command not in ["terraform plan"]`},
		"always approved, in braces": {"hooks:\n  - {name: sure, on: tool.before, match: {command: terraform}, ask: Sure?}\n", func(l *log) {
			times(5, func(int) {
				l.call("s", "terraform plan", ask, run("sure", ask))
				l.ended("s", l.last(), "terraform plan", false)
			})
		}, "always-approved 5", "", "-  - {name: sure, on: tool.before, match: {command: terraform}, ask: Sure?}\n+  - {name: sure, on: tool.before, match: {command: terraform}, ask: Sure?, when: 'tool.command not in [\"terraform plan\"]'}"},
		"always approved, a file": {"hooks:\n  - {name: sure, on: tool.before, match: {path: \"**/prod/**\"}, ask: Sure?}\n", func(l *log) {
			times(5, func(i int) {
				write := map[string]any{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/w", "tool_name": "Write", "tool_use_id": fmt.Sprint(i), "tool_input": map[string]any{"file_path": "prod/x"}}
				l.add(write, grapnel.ToolBefore, ask, run("sure", ask))
				write["hook_event_name"] = "PostToolUse"
				l.add(write, grapnel.ToolAfter, none)
			})
		}, "always-approved 5", "", ""},
		"always approved by a program": {guarded, func(l *log) {
			times(5, func(int) {
				l.call("s", "terraform plan", ask, run("lint", ask))
				l.ended("s", l.last(), "terraform plan", false)
			})
		}, "always-approved 5", "", ""},
		"went on before anybody could answer": {sure, func(l *log) {
			times(9, func(int) {
				l.call("s", "terraform plan", ask, run("sure", ask))
				l.at = l.at.Add(-900 * time.Millisecond)
				l.ended("s", l.last(), "terraform plan", false)
			})
		}, "", "", ""},
		"nobody knows which call was let through": {sure, func(l *log) {
			times(9, func(int) {
				l.call("s", "terraform plan", ask, run("sure", ask)).Input = nil // records: metadata
				l.ended("s", l.last(), "terraform plan", false).Input = nil
			})
			l.prompt("s")
		}, "", "", ""},
		"asked twice, let through once": {sure, func(l *log) {
			times(9, func(int) {
				for range 2 { // an agent that gives calls no IDs
					l.call("s", "terraform plan", ask, run("sure", ask)).Input.Native = json.RawMessage(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_input":{"command":"terraform plan"}}`)
				}
				l.ended("s", "", "terraform plan", false)
				l.prompt("s")
			})
		}, "", "", ""},
		"always approved, too many different": {sure, func(l *log) {
			times(6, func(i int) {
				command := fmt.Sprintf("terraform plan -out %d.bin", i)
				l.call("s", command, ask, run("sure", ask))
				l.ended("s", l.last(), command, i%2 == 0) // it went on, whatever came of it
			})
		}, "always-approved 6", "asked 6 times", ""},
		"always approved, of a pack": {"use:\n  - destructive # not undone\nhooks: []\n", func(l *log) {
			times(5, func(int) {
				e := l.call("s", "git reset --hard", ask, grapnel.HookRun{Name: "no-hard-reset", Source: file + "#destructive", Decision: ask})
				e.Reasons = nil
				l.ended("s", l.last(), "git reset --hard", false)
			})
		}, "always-approved 5", "", ""},
		"approved, but for one": {sure, func(l *log) {
			times(5, func(int) {
				l.call("s", "terraform plan", ask, run("sure", ask))
				l.ended("s", l.last(), "terraform plan", false)
			})
			l.call("s", "terraform plan", ask, run("sure", ask))
			l.prompt("s")
		}, "", "", ""},
		"asked too seldom": {sure, func(l *log) {
			times(4, func(int) {
				l.call("s", "terraform plan", ask, run("sure", ask))
				l.ended("s", l.last(), "terraform plan", false)
			})
		}, "", "", ""},
		"another call went on": {sure, func(l *log) {
			times(5, func(int) {
				l.call("s", "terraform plan", ask, run("sure", ask))
				l.ended("s", "another", "ls", false)
			})
		}, "", "", ""},
		"the agent cannot ask": {sure, func(l *log) {
			times(5, func(int) {
				l.call("s", "terraform plan", ask, run("sure", ask)).Lost = []string{"ask: not told"}
				l.ended("s", l.last(), "terraform plan", false)
			})
		}, "", "", ""},
		"never approved": {sure, func(l *log) {
			times(5, func(int) {
				l.call("s", "ls", none)
				l.ended("s", l.last(), "ls", false)
				l.call("s", "terraform destroy", ask, run("sure", ask))
				l.prompt("s")
			})
		}, "never-approved 5", "no call went on", "-    ask: Sure?\n+    block: Sure?"},
		"never approved, by an agent that never tells": {sure, func(l *log) {
			times(5, func(int) {
				l.call("s", "terraform destroy", ask, run("sure", ask))
				l.prompt("s")
			})
		}, "", "", ""},
		"never matched": {sure, func(l *log) { daily(l, 100) }, "never-matched 100", "none of 100 events in 24 days", ""},
		"never matched, and would not have been missed": {"hooks:\n  - name: fine\n    on: tool.before\n    match: {command: terraform plan}\n    allow: true\n", func(l *log) {
			daily(l, 100)
		}, "never-matched 100", "", "-  - name: fine\n-    on: tool.before\n-    match: {command: terraform plan}\n-    allow: true"},
		"never matched, on a busy day": {sure, func(l *log) { times(500, func(int) { l.call("s", "ls", none) }) }, "", "", ""},
		"never asked, since all was blocked before": {"hooks:\n  - {name: no, on: tool.before, match: {command: ls}, block: no}\n  - {name: lint, on: tool.before, match: {command: ls}, run: lint}\n", func(l *log) {
			times(100, func(int) {
				l.later(6 * time.Hour)
				l.call("s", "ls", block, run("no", block))
			})
		}, "", "", ""},
		"matched once": {sure, func(l *log) {
			daily(l, 100)
			l.call("s", "terraform plan", ask, run("sure", ask))
		}, "", "", ""},
		"never had its chance": {sure, func(l *log) {
			times(200, func(int) {
				l.later(6 * time.Hour)
				l.prompt("s")
			})
		}, "", "", ""},
		"a rule of a pack waits": {"use: [destructive]\nhooks: []\n", func(l *log) { daily(l, 200) }, "", "", ""},
		"shadowed": {"hooks:\n  - {name: all, on: tool.before, match: {command: git push}, block: no}\n  - {name: force, on: tool.before, match: {command: git push --force}, block: no}\n", func(l *log) {
			times(5, func(int) { l.call("s", "git push --force", block, run("all", block), run("force", block)) })
			l.call("s", "git push", block, run("all", block))
		}, "shadowed 5", "all decided the same or more", "-  - {name: force, on: tool.before, match: {command: git push --force}, block: no}"},
		"shadowed, perhaps": {"hooks:\n  - {name: all, on: tool.before, match: {command: git push}, except: {command: git push mine}, block: no}\n  - {name: force, on: tool.before, match: {command: git push --force}, block: no}\n", func(l *log) {
			times(5, func(int) { l.call("s", "git push --force", block, run("all", block), run("force", block)) })
			l.call("s", "git push", block, run("all", block))
		}, "shadowed 5", "all decided the same or more", ""},
		"shadowed by a limit": {"hooks:\n  - {name: few, on: tool.before, limit: {count: 1, per: 24h}}\n  - {name: force, on: tool.before, match: {command: git push --force}, block: no}\n", func(l *log) {
			times(5, func(int) { l.call("s", "git push --force", block, run("few", block), run("force", block)) })
		}, "", "", ""},
		"a rule of a pack that is shadowed stays": {"use: [destructive]\nhooks:\n  - {name: mine, on: tool.before, match: {command: git}, ask: no}\n", func(l *log) {
			times(5, func(int) {
				l.call("s", "git reset --hard", ask, run("mine", ask), grapnel.HookRun{Name: "no-hard-reset", Source: file + "#destructive", Decision: ask})
			})
			l.call("s", "git status", ask, run("mine", ask))
		}, "", "", ""},
		"shadowed by each other": {"hooks:\n  - {name: one, on: tool.before, match: {command: git push}, block: no}\n  - {name: two, on: tool.before, match: {command: git push}, block: no}\n", func(l *log) {
			times(5, func(int) { l.call("s", "git push", block, run("one", block), run("two", block)) })
		}, "shadowed 5", "one decided", "-  - {name: two, on: tool.before, match: {command: git push}, block: no}"},
		"once alone": {"hooks:\n  - {name: one, on: tool.before, match: {command: git push}, block: no}\n  - {name: two, on: tool.before, match: {command: git push}, ask: no}\n", func(l *log) {
			times(5, func(int) { l.call("s", "git push", block, run("one", block), run("two", ask)) })
			l.call("s", "git push", ask, run("two", ask))
		}, "", "", ""},
		"fails open": {guarded, func(l *log) {
			times(3, func(int) { l.call("s", "ls", none, failed(true)) })
		}, "fails-open 3", "3 times the action went on unguarded", "+    on_error: closed"},
		"fails closed": {guarded + "    on_error: closed\n", func(l *log) {
			times(3, func(int) { l.call("s", "ls", none, failed(false)) })
		}, "fails 3", "it failed 3 times of 3", ""},
		"fails now and then": {guarded, func(l *log) {
			times(100, func(int) { l.call("s", "ls", none, run("lint", none)) })
			times(4, func(int) { l.call("s", "ls", none, failed(false)) })
		}, "", "", ""},
		"slow": {guarded, func(l *log) {
			times(20, func(i int) { l.call("s", "ls", none, slow("lint", float64(900+i*20))) })
		}, "slow 20", "5 % of its runs take 1.2", ""},
		"slow, where nothing can be stopped": {"hooks:\n  - name: lint\n    on: tool.after\n    run: lint\n", func(l *log) {
			times(20, func(i int) {
				l.ended("s", fmt.Sprint(i), "ls", false).Hooks = []grapnel.HookRun{slow("lint", float64(900+i*20))}
			})
		}, "slow 20", "5 % of its runs take 1.2", "+    async: true"},
		"quick": {guarded, func(l *log) { times(40, func(int) { l.call("s", "ls", none, slow("lint", 20)) }) }, "", "", ""},
		"too wide": {guarded, func(l *log) {
			times(3, func(int) { l.call("s", "rm x", block, run("lint", block)) })
			times(100, func(int) { l.read(run("lint", none)) })
		}, "too-wide 3", "only ever said something at the tool Bash; 100 runs at other tools", "+    match: {tool: shell}"},
		"too wide, perhaps": {guarded, func(l *log) {
			times(3, func(int) { l.call("s", "rm x", block, run("lint", block)) })
			times(99, func(int) { l.read(run("lint", none)) })
		}, "", "", ""},
		"tells the model something elsewhere": {guarded, func(l *log) {
			times(3, func(int) { l.call("s", "rm x", block, run("lint", block)) })
			times(100, func(int) { l.read(run("lint", none)).Context = []string{"so it is"} })
		}, "", "", ""},
		"says something at two tools": {guarded, func(l *log) {
			times(20, func(int) { l.call("s", "rm x", block, run("lint", block)) })
			times(100, func(int) { l.read(run("lint", none)) })
			l.read(run("lint", block)).Decision = block
		}, "", "", ""},
		"a limit that nothing comes near": {"hooks:\n  - {name: few, on: tool.before, limit: {count: 100, per: 1m, by: session}}\n", func(l *log) {
			times(20, func(i int) { l.call(fmt.Sprint("s", i%4), "ls", none, run("few", none)) })
		}, "limit-unused 20", "no more than 5 were ever used of 100 in 1m per session", "-  - {name: few, on: tool.before, limit: {count: 100, per: 1m, by: session}}\n+  - {name: few, on: tool.before, limit: {count: 10, per: 1m, by: session}}"},
		"a limit that is used": {"hooks:\n  - {name: few, on: tool.before, limit: {count: 10, per: 1m, by: session}}\n", func(l *log) {
			times(20, func(i int) { l.call(fmt.Sprint("s", i%4), "ls", none, run("few", none)) })
		}, "", "", ""},
		"a limit that is always hit": {"hooks:\n  - {name: few, on: tool.before, limit: {count: 1, per: 1h}}\n", func(l *log) {
			l.call("s", "ls", none, run("few", none))
			times(19, func(int) { l.call("s", "ls", block, run("few", block)) })
		}, "limit-hit 19", "19 of 20 calls were beyond it: 1 in 1h", ""},
		"fails again": {"hooks:\n  - {name: none, on: session.start, context: x}\n", func(l *log) {
			times(6, func(int) {
				l.call("s", "npm test", none)
				l.ended("s", l.last(), "npm test", true)
			})
		}, "fails-again 5", "run again 5 times", "+  - name: think-before-trying-again"},
		"mended in between": {"hooks:\n  - {name: none, on: session.start, context: x}\n", func(l *log) {
			times(12, func(i int) {
				l.call("s", "npm test", none)
				l.ended("s", l.last(), "npm test", i%2 == 0)
			})
		}, "", "", ""},
		"another session": {"hooks:\n  - {name: none, on: session.start, context: x}\n", func(l *log) {
			times(12, func(i int) {
				session := fmt.Sprint("s", i)
				l.call(session, "npm test", none)
				l.ended(session, l.last(), "npm test", true)
			})
		}, "", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l log
			tt.records(&l)
			opts := suggestOptions(t, tt.policy)
			advice := l.suggest(t, opts)
			if tt.want == "" {
				if len(advice.Suggestions) > 0 {
					t.Fatalf("suggests %+v", advice.Suggestions)
				}
				return
			}
			if len(advice.Suggestions) != 1 {
				t.Fatalf("suggests %+v, want %s", advice.Suggestions, tt.want)
			}
			s := advice.Suggestions[0]
			if got := fmt.Sprint(s.Kind, " ", s.Count); got != tt.want || !strings.Contains(s.Title, tt.title) {
				t.Errorf("suggests %s: %s, want %s: %s", got, s.Title, tt.want, tt.title)
			}
			if s.First.Before(noon) || s.Last.Before(s.First) || len(s.Records) > 3 || s.Advice == "" || s.File != file {
				t.Errorf("the evidence is %+v", s)
			}
			if diff := cmp.Diff(tt.change, changedLines(s.Hunk)); diff != "" && !(strings.HasPrefix(changedLines(s.Hunk), tt.change) && s.Rule == nil) {
				t.Errorf("the change (-want +got):\n%s", diff)
			}
			if s.Hunk != "" {
				applies(t, opts.Files[file], s.Hunk)
			}
		})
	}
}

// changedLines are the lines that a hunk takes away and adds.
func changedLines(hunk string) string {
	var lines []string
	for i, line := range strings.Split(strings.TrimRight(hunk, "\n"), "\n") {
		if i > 2 && (strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// applies gives a hunk to the program patch, where there is one, and wants a valid policy.
func applies(t *testing.T, content []byte, hunk string) {
	t.Helper()
	patch, err := exec.LookPath("patch")
	if err != nil {
		return
	}
	name := filepath.Join(t.TempDir(), "grapnel.yaml")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(patch, "--batch", "--fuzz=0", name)
	cmd.Stdin = strings.NewReader(hunk)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "offset") {
		t.Errorf("patch: %v\n%s\n%s", err, out, hunk)
	}
	if _, errs := policy.Read(name); len(errs) > 0 {
		t.Errorf("it leaves %v", errs)
	}
}

// A file that was changed meanwhile, hooks that nobody knows, and lines that are no events.
func TestSuggestBeside(t *testing.T) {
	t.Parallel()
	var l log
	times(100, func(int) {
		l.later(6 * time.Hour)
		l.call("s", "ls", none, grapnel.HookRun{Name: "gone", Source: "/old.yaml", Error: "x", FailOpen: true})
	})
	for range 3 {
		l.call("s", "terraform plan", ask, run("sure", ask))
		l.ended("s", l.last(), "terraform plan", false)
	}
	l.call("s", "ls", none).Input = nil
	l.call("s", "ls", none).Event = "native.grapnel.pause"
	late := l.call("s", "ls", none, grapnel.HookRun{Name: "tell", Source: file, Error: "exit code 1", Async: true})
	late.Late = true
	l.list = append(l.list, l.list[len(l.list)-1], l.list[len(l.list)-1])
	opts := suggestOptions(t, "hooks:\n  - {name: old, on: tool.before, match: {command: dd}, block: x}\n  - {name: sure, on: tool.before, match: {command: terraform}, ask: x}\n  - {name: tell, on: tool.before, run: x, async: true}\n")
	opts.Thresholds.Asked = 3
	for changed, want := range map[time.Time][]string{
		{}:                         {"fails tell", "always-approved sure", "never-matched old"},
		noon.Add(9 * time.Hour):    {"fails tell", "always-approved sure", "never-matched old"}, // its first chance is the second call
		noon.Add(600 * time.Hour):  {"fails tell", "always-approved sure"},
		l.at.Add(-7 * time.Second): {"fails tell", "always-approved sure"},
	} {
		opts.Changed = map[string]time.Time{file: changed}
		advice := l.suggest(t, opts)
		var kinds []string
		for _, s := range advice.Suggestions {
			kinds = append(kinds, string(s.Kind)+" "+s.Rule.Name)
		}
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Fatalf("changed at %v (-want +got):\n%s", changed, diff)
		}
		was := strings.Contains(strings.Join(advice.Suggestions[1].Evidence, "\n"), "its file was changed after the first")
		if want := changed.After(l.at.Add(-8 * time.Second)); was != want {
			t.Errorf("the evidence is %q", advice.Suggestions[1].Evidence)
		}
		if advice.Records != 107 || advice.NoEvents != 1 {
			t.Errorf("%d Records, %d without events", advice.Records, advice.NoEvents)
		}
	}
}

// A rule of a project has no chance elsewhere, and what only holds in a project makes no rule
// needless that holds everywhere.
func TestSuggestProjects(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string][]string{"/w": {"shadowed ours", "never-matched old"}, "/elsewhere": nil} {
		var l log
		times(100, func(int) {
			l.later(6 * time.Hour)
			l.call("s", "rm x", block, grapnel.HookRun{Name: "ours", Source: "/w/grapnel.yaml", Decision: block}, run("mine", block))
		})
		opts := suggestOptions(t, "hooks:\n  - {name: mine, on: tool.before, match: {command: rm x}, block: x}\n")
		theirs := suggestOptions(t, "hooks:\n  - {name: old, on: tool.before, match: {command: dd}, block: x}\n  - {name: ours, on: tool.before, match: {command: rm}, block: x}\n")
		for _, h := range theirs.Hooks {
			if h.Policy != nil {
				h.Source = grapnel.Source{Name: dir + "/grapnel.yaml", File: dir + "/grapnel.yaml", Scope: grapnel.ScopeProject}
				opts.Hooks = append(opts.Hooks, h)
			}
		}
		var kinds []string
		for _, s := range l.suggest(t, opts).Suggestions {
			kinds = append(kinds, string(s.Kind)+" "+s.Rule.Name)
		}
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Errorf("at %s (-want +got):\n%s", dir, diff)
		}
	}
}

// An exception frees what was let through, and nothing that only looks like it.
func TestSuggestedExceptionIsExact(t *testing.T) {
	t.Parallel()
	var l log
	times(5, func(int) {
		l.call("s", "git push origin main", ask, run("sure", ask))
		l.ended("s", l.last(), "git push origin main", false)
	})
	opts := suggestOptions(t, "hooks:\n  - name: sure\n    on: tool.before\n    match: {command: git push}\n    ask: Sure?\n")
	s := l.suggest(t, opts).Suggestions[0]
	before, after := "    match: {command: git push}\n", changedLines(s.Hunk)
	text := strings.Replace(string(opts.Files[file]), before, before+strings.TrimPrefix(after, "+")+"\n", 1)
	text = strings.TrimPrefix(text, "version: 1\n")
	for command, want := range map[string]grapnel.Decision{
		"git push origin main":                               none,
		"git push origin main --force":                       ask,
		"git push --force origin main":                       ask,
		"git push origin main other":                         ask,
		"git push origin main; git push --force origin main": ask,
		"cd /elsewhere && git push origin main":              ask,
		"GIT_SSH_COMMAND='sh -c evil' git push origin main":  ask,
		"git push origin main\ngit push --force origin main": ask,
	} {
		var l log
		l.call("s", command, want, run("sure", want))
		if r := l.play(t, replay.Options{Policy: says(t, text)}); r.Same+r.Counts[replay.OtherReasons] != 1 {
			t.Errorf("%q: %v", command, shown(r))
		}
	}
}
