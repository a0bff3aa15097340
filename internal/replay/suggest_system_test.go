//go:build system

package replay_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
)

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
		title   string // a part of the title
		change  string // added and removed lines of the hunk
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
				for range 2 { // an agent whose calls have no IDs
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
				l.ended("s", l.last(), command, i%2 == 0) // the call ran, with any result
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
				l.call("s", "terraform plan", ask, run("sure", ask)).Unsupported = []string{"ask: not sent"}
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
		}, "never-approved 5", "no call with a known result continued", "-    ask: Sure?\n+    block: Sure?"},
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
		}, "shadowed 5", "all made the same or a stricter decision", "-  - {name: force, on: tool.before, match: {command: git push --force}, block: no}"},
		"shadowed, perhaps": {"hooks:\n  - {name: all, on: tool.before, match: {command: git push}, except: {command: git push mine}, block: no}\n  - {name: force, on: tool.before, match: {command: git push --force}, block: no}\n", func(l *log) {
			times(5, func(int) { l.call("s", "git push --force", block, run("all", block), run("force", block)) })
			l.call("s", "git push", block, run("all", block))
		}, "shadowed 5", "all made the same or a stricter decision", ""},
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
		}, "shadowed 5", "one made", "-  - {name: two, on: tool.before, match: {command: git push}, block: no}"},
		"once alone": {"hooks:\n  - {name: one, on: tool.before, match: {command: git push}, block: no}\n  - {name: two, on: tool.before, match: {command: git push}, ask: no}\n", func(l *log) {
			times(5, func(int) { l.call("s", "git push", block, run("one", block), run("two", ask)) })
			l.call("s", "git push", ask, run("two", ask))
		}, "", "", ""},
		"fails open": {guarded, func(l *log) {
			times(3, func(int) { l.call("s", "ls", none, failed(true)) })
		}, "fails-open 3", "3 times the action continued unguarded", "+    on_error: closed"},
		"fails closed": {guarded + "    on_error: closed\n", func(l *log) {
			times(3, func(int) { l.call("s", "ls", none, failed(false)) })
		}, "fails 3", "it failed in 3 of 3 runs", ""},
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
		}, "too-wide 3", "had an effect only for the tool Bash; 100 runs for other tools", "+    match: {tool: shell}"},
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
		}, "limit-unused 20", "at most 5 were used of 100 in 1m per session", "-  - {name: few, on: tool.before, limit: {count: 100, per: 1m, by: session}}\n+  - {name: few, on: tool.before, limit: {count: 10, per: 1m, by: session}}"},
		"a limit that is used": {"hooks:\n  - {name: few, on: tool.before, limit: {count: 10, per: 1m, by: session}}\n", func(l *log) {
			times(20, func(i int) { l.call(fmt.Sprint("s", i%4), "ls", none, run("few", none)) })
		}, "", "", ""},
		"a limit that is always hit": {"hooks:\n  - {name: few, on: tool.before, limit: {count: 1, per: 1h}}\n", func(l *log) {
			l.call("s", "ls", none, run("few", none))
			times(19, func(int) { l.call("s", "ls", block, run("few", block)) })
		}, "limit-hit 19", "19 of 20 calls exceeded it: 1 in 1h", ""},
		"fails again": {"hooks:\n  - {name: none, on: session.start, context: x}\n", func(l *log) {
			times(6, func(int) {
				l.call("s", "npm test", none)
				l.ended("s", l.last(), "npm test", true)
			})
		}, "fails-again 5", "ran again 5 times", "+  - name: think-before-trying-again"},
		"fixed in between": {"hooks:\n  - {name: none, on: session.start, context: x}\n", func(l *log) {
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
