package replay_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// suggestOptions returns options with the hooks of a file.
func suggestOptions(t *testing.T, text string) replay.SuggestOptions {
	t.Helper()
	text = "version: 1\n" + text
	p, errs := policy.Parse(file, []byte(text))
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	set := load.Policies(load.Request{
		Files: []load.File{{Path: file}}, Packs: packs.All(), Content: map[string][]byte{file: []byte(text)},
		Runners: policy.Runners{Command: func(policyfile.Command) grapnel.Hook { return noop.Hook{} }},
	})
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := replay.SuggestOptions{Files: map[string][]byte{file: []byte(text)}, Policy: file}
	for _, spec := range engine.Specs("") {
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

// last returns the ID of the newest call.
func (l *log) last() string { return fmt.Sprintf("call-%d", len(l.list)-1) }

func (l *log) prompt(session string) {
	l.add(map[string]any{"hook_event_name": "UserPromptSubmit", "session_id": session, "cwd": "/w", "prompt": "no"}, grapnel.PromptBefore, none)
}

// read adds a call before it reads a file.
func (l *log) read(hooks ...grapnel.HookRun) *spool.Entry {
	return l.add(map[string]any{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/w", "tool_name": "Read", "tool_input": map[string]any{"file_path": "/x"}}, grapnel.ToolBefore, none, hooks...)
}

// later advances the time.
func (l *log) later(d time.Duration) {
	if l.at.IsZero() {
		l.at = noon
	}
	l.at = l.at.Add(d)
}

// daily adds n calls that no hook matches, four a day.
func daily(l *log, n int) {
	times(n, func(int) {
		l.later(6 * time.Hour)
		l.call("s", "ls", none)
	})
}

// times calls f n times.
func times(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}

// changedLines returns the removed and added lines of a hunk.
func changedLines(hunk string) string {
	var lines []string
	for i, line := range strings.Split(strings.TrimRight(hunk, "\n"), "\n") {
		if i > 2 && (strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// applies applies a hunk with the program patch, if it exists, and checks that the result is a
// valid policy.
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
	if _, errs := load.Read(name); len(errs) > 0 {
		t.Errorf("it leaves %v", errs)
	}
}

// A file that has changed since, unknown hooks, and lines that are not events.
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
		was := strings.Contains(strings.Join(advice.Suggestions[1].Evidence, "\n"), "its file changed after the first")
		if want := changed.After(l.at.Add(-8 * time.Second)); was != want {
			t.Errorf("the evidence is %q", advice.Suggestions[1].Evidence)
		}
		if advice.Records != 107 || advice.NoEvents != 1 {
			t.Errorf("%d Records, %d without events", advice.Records, advice.NoEvents)
		}
	}
}

// Events outside a project give no evidence for its rules. A rule of a project does not make a
// global rule unnecessary.
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

// A suggested exception allows exactly the approved commands, and no similar ones.
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
		if r := l.play(t, replay.Options{Policy: policyWith(t, text)}); r.Same+r.Counts[replay.OtherReasons] != 1 {
			t.Errorf("%q: %v", command, shown(r))
		}
	}
}
