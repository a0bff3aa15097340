package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

const file = "/policies/grapnel.yaml"

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// policyWith returns a policy with the hooks in a file. The Stage provides the answers of their
// programs.
func policyWith(t *testing.T, hooks string) replay.Policy {
	t.Helper()
	return func(s *replay.Stage) func(*grapnel.Event) (*grapnel.Engine, error) {
		set := load.Policies(load.Request{
			Files: []load.File{{Path: file}}, Packs: packs.All(), Content: map[string][]byte{file: []byte("version: 1\n" + hooks)},
			Runners: policy.Runners{Command: func(c policyfile.Command) grapnel.Hook { return s.ReplayHook(c.Name) }}, Counter: s.Counter(), Now: s.Now,
		})
		engine, err := grapnel.New(set.Specs, &grapnel.Options{Observers: []grapnel.Observer{s}, Background: s.Run})
		if set.Files[0].State != load.Valid {
			err = fmt.Errorf("the policy is %s: %v", set.Files[0].State, set.Files[0].Errors)
		}
		return func(*grapnel.Event) (*grapnel.Engine, error) { return engine, err }
	}
}

// A log makes Records with one second between them.
type log struct {
	list []replay.Record
	at   time.Time
}

// call adds a shell command before it runs, with the decision.
func (l *log) call(session, command string, decision grapnel.Decision, hooks ...grapnel.HookRun) *spool.Entry {
	return l.add(map[string]any{
		"hook_event_name": "PreToolUse", "session_id": session, "cwd": "/w", "tool_name": "Bash",
		"tool_use_id": fmt.Sprintf("call-%d", len(l.list)), "tool_input": map[string]any{"command": command},
	}, grapnel.ToolBefore, decision, hooks...)
}

// ended adds the result of the last call of a session.
func (l *log) ended(session, call, command string, failed bool) *spool.Entry {
	p := map[string]any{
		"hook_event_name": "PostToolUse", "session_id": session, "cwd": "/w", "tool_name": "Bash", "tool_use_id": call,
		"tool_input": map[string]any{"command": command}, "tool_response": map[string]any{"stdout": "done"},
	}
	kind := grapnel.ToolAfter
	if failed {
		p["hook_event_name"], p["error"], kind = "PostToolUseFailure", "exit code 1", grapnel.ToolFailed
	}
	return l.add(p, kind, grapnel.None)
}

func (l *log) add(payload map[string]any, kind grapnel.Kind, decision grapnel.Decision, hooks ...grapnel.HookRun) *spool.Entry {
	if l.at.IsZero() {
		l.at = noon
	}
	l.at = l.at.Add(time.Second)
	raw, _ := json.Marshal(payload)
	session, _ := payload["session_id"].(string)
	tool, _ := payload["tool_name"].(string)
	e := spool.Entry{Record: grapnel.Record{
		ID: fmt.Sprintf("r%03d", len(l.list)+1), Time: l.at, Agent: "claude-code", Session: session, Event: kind, Tool: tool,
		Decision: decision, Hooks: hooks, MS: 2, Input: &grapnel.Event{Kind: kind, Agent: grapnel.Agent{Name: "claude-code"}, Native: raw},
	}}
	for _, h := range hooks {
		if h.Decision == decision && decision > grapnel.None {
			e.Reasons = append(e.Reasons, grapnel.Reason{Hook: h.Source + "::" + h.Name, Text: "because of " + h.Name})
		}
	}
	l.list = append(l.list, replay.Record{Entry: e})
	return &l.list[len(l.list)-1].Entry
}

func (l *log) seq() iter.Seq2[replay.Record, error] {
	return func(yield func(replay.Record, error) bool) {
		for _, r := range l.list {
			e := r.Entry
			if e.Input != nil {
				in := *e.Input
				e.Input = &in
			}
			if !yield(replay.Record{Entry: e, Load: r.Load}, nil) {
				return
			}
		}
	}
}

func (l *log) play(t *testing.T, opts replay.Options) *replay.Report {
	t.Helper()
	r, err := replay.Play(t.Context(), l.seq(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// shown formats a report: each difference with its count, its rules and the IDs.
func shown(r *replay.Report) []string {
	var lines []string
	for _, d := range r.Differences {
		line := fmt.Sprintf("%s %d %v->%v", d.Class, d.Count, d.Then, d.Now)
		for _, rule := range d.By {
			line += " by " + rule.Name
		}
		for _, rule := range d.Was {
			line += " was " + rule.Name
		}
		for _, ex := range d.Examples {
			line += " " + ex.ID
		}
		lines = append(lines, line)
	}
	return lines
}

func run(name string, decision grapnel.Decision) grapnel.HookRun {
	return grapnel.HookRun{Name: name, Source: file, Line: 3, Decision: decision, MS: 1}
}

const (
	none  = grapnel.None
	allow = grapnel.Allow
	ask   = grapnel.Ask
	block = grapnel.Block
)

func TestPlay(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		policy  string
		records func(l *log)
		want    []string
	}{
		"the same": {"hooks: [{name: no, on: tool.before, match: {command: rm}, block: because of no}]", func(l *log) {
			l.call("s", "rm x", block, run("no", block))
			l.call("s", "ls", none)
		}, nil},
		"newly blocked": {"hooks: [{name: no, on: tool.before, match: {command: rm}, block: no}]", func(l *log) {
			l.call("s", "rm x", none)
			l.call("s", "ls", none)
			l.call("s", "rm y", ask, run("maybe", ask))
		}, []string{"newly-blocked 1 none->block by no r001", "newly-blocked 1 ask->block by no was maybe r003"}},
		"newly asked": {"hooks: [{name: sure, on: tool.before, match: {command: rm}, ask: sure}]", func(l *log) {
			l.call("s", "rm x", none)
			l.call("s", "rm x", block, run("no", block))
		}, []string{"newly-asked 1 none->ask by sure r001", "newly-asked 1 block->ask by sure was no r002"}},
		"newly allowed": {"hooks: [{name: yes, on: tool.before, match: {command: git}, allow: true}]", func(l *log) {
			l.call("s", "rm x", block, run("no", block))
			l.call("s", "rm y", ask, run("sure", ask))
			l.call("s", "git status", none)
		}, []string{"newly-allowed 1 block->none was no r001", "newly-allowed 1 ask->none was sure r002", "newly-allowed 1 none->allow by yes r003"}},
		"no longer allowed": {"hooks: []", func(l *log) { l.call("s", "ls", allow, run("yes", allow)) }, []string{"no-longer-allowed 1 allow->none was yes r001"}},
		"another reason": {"hooks: [{name: no, on: tool.before, match: {command: rm}, block: something else}]", func(l *log) {
			l.call("s", "rm x", block, run("no", block))
		}, []string{"other-reasons 1 block->block by no was no r001"}},
		"only a number in the reason": {"hooks: [{name: no, on: tool.before, match: {command: rm}, block: wait 17 s}]", func(l *log) {
			l.call("s", "rm x", block, run("no", block)).Reasons[0].Text = "wait 4 s"
		}, nil},
		"another change": {"hooks: [{name: hide, on: tool.before, replace: [{pattern: abc, with: x}]}]", func(l *log) {
			l.call("s", "echo abc", none)
			l.call("s", "echo def", none)
			e := l.call("s", "echo abc", none, grapnel.HookRun{Name: "hide", Source: file, Changed: []grapnel.Field{grapnel.FieldInput}})
			e.Changed = []grapnel.Field{grapnel.FieldInput}
		}, []string{"other-changes 1 none->none by hide r001"}},
		"what was masked cannot be found": {"hooks: []", func(l *log) {
			l.call("s", "export KEY=***", block, run("keys", block))
			l.call("s", "rm x", block, run("no", block))
		}, []string{"newly-allowed 1 block->none was no r002", "unsure 1 block->none was keys r001"}},
		"stricter although it was masked": {"hooks: [{name: no, on: tool.before, match: {command: export}, block: no}]", func(l *log) {
			l.call("s", "export KEY=***", none)
		}, []string{"newly-blocked 1 none->block by no r001"}},
		"what would be is not": {"hooks: [{name: no, on: tool.before, mode: observe, block: no}]", func(l *log) { l.call("s", "ls", none) }, nil},
		"a limit by the time of then": {"hooks: [{name: twice, on: tool.before, limit: {count: 2, per: 1m, by: session}}]", func(l *log) {
			for range 3 { // the third exceeds the limit
				l.call("a", "ls", none)
				l.call("b", "ls", none)
			}
			l.at = l.at.Add(time.Hour)
			l.call("a", "ls", none)
		}, []string{"newly-blocked 2 none->block by twice r005 r006"}},
		"what came before": {"hooks: [{name: after-secret, on: tool.before, match: {command: curl}, after: {event: tool.after, match: {command: cat}}, block: no}]", func(l *log) {
			l.call("a", "curl x", none)
			l.ended("a", "c1", "cat .env", false)
			l.call("a", "curl x", none)
			l.call("b", "curl x", none)
		}, []string{"newly-blocked 1 none->block by after-secret r003"}},
		"the recorded answer of a program": {"hooks: [{name: lint, on: tool.before, run: 'exit 99'}]", func(l *log) {
			l.call("s", "ls", block, run("lint", block)).Reasons[0].Text = "because of lint"
			l.call("s", "ls", none, run("lint", none))
		}, nil},
		"its failure counts as the policy of today says": {"hooks: [{name: lint, on: tool.before, run: 'exit 99', on_error: closed}]", func(l *log) {
			l.call("s", "ls", none, grapnel.HookRun{Name: "lint", Source: file, Error: "exit code 1", Cause: grapnel.CauseError, FailOpen: true})
		}, []string{"newly-blocked 1 none->block by lint r001"}},
		"a program that was not asked then": {"hooks: [{name: new, on: tool.before, run: 'exit 2'}]", func(l *log) {
			l.call("s", "ls", none)
			l.call("s", "rm x", block, run("no", block))
		}, []string{"unsure 1 block->none was no r002"}},
		"the program of another source": {"hooks: [{name: lint, on: tool.before, run: 'exit 2'}]", func(l *log) {
			l.call("s", "ls", block, grapnel.HookRun{Name: "lint", Source: "/other.yaml", Decision: block})
		}, []string{"unsure 1 block->none was lint r001"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l log
			tt.records(&l)
			for _, workers := range []int{1, 3} {
				r := l.play(t, replay.Options{Policy: policyWith(t, tt.policy), Workers: workers})
				if diff := cmp.Diff(tt.want, shown(r)); diff != "" {
					t.Errorf("%d workers (-want +got):\n%s", workers, diff)
				}
				if different := len(l.list) - r.Same; r.Played != len(l.list) || (different == 0) != (len(tt.want) == 0) {
					t.Errorf("played %d of %d, the same %d", r.Played, len(l.list), r.Same)
				}
			}
		})
	}
}

func TestPlayCounts(t *testing.T) {
	t.Parallel()
	var l log
	l.call("s", "ls", none, grapnel.HookRun{Name: "gone", Source: "/old.yaml"}, run("lint", none))
	l.call("s", "ls", none).Input = nil // records: metadata
	e := l.call("s", "ls", none)
	e.Input, e.InputAt = nil, "abc"
	l.call("s", "ls", none).Input.Native = json.RawMessage(`{"hook_event_name":"Other"}`)
	l.call("s", "ls", none).Late = true
	l.call("s", "ls", none).Event = "native.grapnel.pause"
	l.list = append(l.list, replay.Record{Load: func(*spool.Entry) error { return errors.New("no JSON") }})
	l.call("s", "ls", none)

	r := l.play(t, replay.Options{Policy: policyWith(t, "hooks: [{name: lint, on: tool.before, run: x}]")})
	want := []replay.Skipped{{Cause: replay.Unread, Count: 1, ID: "r004"}, {Cause: replay.NoEvent, Count: 1, ID: "r002"}, {Cause: replay.Gone, Count: 1, ID: "r003"}, {Cause: replay.Torn, Count: 1}}
	slices.SortFunc(want, func(a, b replay.Skipped) int { return strings.Compare(string(a.Cause), string(b.Cause)) })
	if diff := cmp.Diff(want, r.Skipped); diff != "" {
		t.Errorf("not played (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]replay.GoneSource{{Source: "/old.yaml", Count: 1}}, r.Gone); diff != "" {
		t.Errorf("sources that are gone (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]replay.RecordedHook{{Name: "lint", Answers: 1, Unknown: 1}}, r.RecordedHooks); diff != "" {
		t.Errorf("recorded answers (-want +got):\n%s", diff)
	}
	if r.Played != 2 || r.Same != 2 || r.Then.Mean != 2 || r.Now.Mean <= 0 || !r.From.Equal(noon.Add(time.Second)) {
		t.Errorf("got %+v", r)
	}
}

func TestPlayWanted(t *testing.T) {
	t.Parallel()
	var l log
	l.call("a", "rm x", none)
	l.call("b", "rm x", none)
	filter := spool.Filter{Session: "b"}
	r := l.play(t, replay.Options{Policy: policyWith(t, "hooks: [{name: no, on: tool.before, block: no}]"), Wants: filter.Wants})
	if diff := cmp.Diff([]string{"newly-blocked 1 none->block by no r002"}, shown(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Two policies are compared for the same events, without the recorded results.
func TestPlayAgainst(t *testing.T) {
	t.Parallel()
	var l log
	l.call("s", "rm ***", none)
	l.call("s", "echo abc", block, run("no", block))
	l.call("s", "ls", block, run("no", block))
	r := l.play(t, replay.Options{
		Policy:  policyWith(t, "hooks: [{name: hide, on: tool.before, replace: [{pattern: abc, with: z}]}]"),
		Against: policyWith(t, "hooks: [{name: hide, on: tool.before, replace: [{pattern: abc, with: y}]}, {name: no, on: tool.before, match: {command: rm}, block: no}]"),
	})
	want := []string{"newly-allowed 1 block->none was no r001", "other-changes 1 none->none by hide was hide r002"}
	if diff := cmp.Diff(want, shown(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ex := r.Differences[1].Examples[0]; !strings.Contains(ex.Then, "echo y") || !strings.Contains(ex.Now, "echo z") {
		t.Errorf("the changes are shown as %q and %q", ex.Then, ex.Now)
	}
}

// A policy that replaces another one has hooks of the same names.
func TestPlayStandIn(t *testing.T) {
	t.Parallel()
	var l log
	for _, source := range []string{"/home/other/grapnel.yaml", "/home/other/grapnel.yaml#pack"} {
		l.call("s", "ls", block, grapnel.HookRun{Name: "lint", Source: source, Decision: block}).Reasons[0].Text = "x"
	}
	r := l.play(t, replay.Options{Policy: policyWith(t, "hooks: [{name: lint, on: tool.before, run: x}]"), StandIn: file})
	if diff := cmp.Diff([]string{"unsure 1 block->none was lint r002"}, shown(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlayNamesFewExamples(t *testing.T) {
	t.Parallel()
	var l log
	for i := range 500 {
		l.call(fmt.Sprint("s", i%7), "rm x", none)
	}
	r := l.play(t, replay.Options{Policy: policyWith(t, "hooks: [{name: no, on: tool.before, block: no}]"), Examples: 2, Workers: 3})
	if diff := cmp.Diff([]string{"newly-blocked 500 none->block by no r001 r002"}, shown(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.Counts[replay.NewlyBlocked] != 500 {
		t.Errorf("counted %d", r.Counts[replay.NewlyBlocked])
	}
}

func TestPlayEnds(t *testing.T) {
	t.Parallel()
	var l log
	for range 1000 {
		l.call("s", "ls", none)
	}
	if _, err := replay.Play(t.Context(), l.seq(), replay.Options{Policy: policyWith(t, "hooks: [{name: x}]")}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("with a broken policy the error is %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	reported := 0
	_, err := replay.Play(ctx, l.seq(), replay.Options{Policy: policyWith(t, "hooks: []"), Progress: func(int) {
		reported++
		cancel(why)
	}})
	if !errors.Is(err, why) || reported == 0 {
		t.Errorf("told %d times, the error is %v", reported, err)
	}
}

// Events of every agent are read again in its dialect, even if its payloads do not contain the
// name of the event.
func TestEvent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		agent, native string
		kind          grapnel.Kind
	}{
		"claude-code": {"claude-code", `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`, grapnel.ToolBefore},
		"gemini-cli":  {"gemini-cli", `{"hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"ls"}}`, grapnel.ToolBefore},
		"copilot-cli": {"copilot-cli", `{"timestamp":1,"cwd":"/w","toolName":"bash","toolArgs":"{\"command\":\"ls\"}"}`, grapnel.ToolBefore},
		"its own":     {"my-agent", `{"kind":"tool.before","agent":{"name":"my-agent"},"tool":{"name":"Bash","class":"shell","commands":["ls"],"input":{"command":"ls"}}}`, grapnel.ToolBefore},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := spool.Entry{Record: grapnel.Record{ID: "x", Time: noon, Agent: tt.agent, Event: tt.kind, Input: &grapnel.Event{Kind: tt.kind, Agent: grapnel.Agent{Name: tt.agent}, Native: json.RawMessage(tt.native)}}}
			ev, err := replay.Event(&e)
			if err != nil {
				t.Fatal(err)
			}
			if ev.Kind != tt.kind || ev.Tool == nil || !slices.Equal(ev.Tool.Commands, []string{"ls"}) || ev.ID != "x" || ev.Time.IsZero() {
				t.Errorf("read %+v, tool %+v", ev, ev.Tool)
			}
		})
	}
	if _, err := replay.Event(&spool.Entry{}); !errors.Is(err, replay.ErrNoEvent) {
		t.Errorf("without an event the error is %v", err)
	}
}

func TestRecordsOfASpool(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	sp, err := spool.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := grapnel.New(nil, &grapnel.Options{Observers: []grapnel.Observer{sp}})
	if err != nil {
		t.Fatal(err)
	}
	engine.Fire(t.Context(), &grapnel.Event{ // an agent written in Go
		Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "mine"}, Session: grapnel.Session{ID: "s"},
		Tool: &grapnel.Tool{Name: "sh", Class: grapnel.ClassShell, Input: json.RawMessage(`{"line":"rm x"}`), Commands: []string{"rm x"}, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/line"}}},
	})
	if err := errors.Join(sp.Err(), sp.Close()); err != nil {
		t.Fatal(err)
	}
	var l log
	for e, err := range spool.Read(dir, spool.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		l.list = append(l.list, replay.Record{Entry: e})
	}
	r := l.play(t, replay.Options{Policy: policyWith(t, "hooks: [{name: no, on: tool.before, match: {command: rm}, block: no}]")})
	if got := shown(r); len(got) != 1 || !strings.HasPrefix(got[0], "newly-blocked 1 none->block by no ") {
		t.Errorf("got %q, %+v", got, r)
	}
}
