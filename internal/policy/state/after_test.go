package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/counts"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// newAfter returns a policy in an engine, with a clock of the test.
func newAfter(t fixture.T, hooks string, counter state.Counter) *limited {
	t.Helper()
	return newAfterIn(t, hooks, &match.FactCache{}, counter)
}

func newAfterIn(t fixture.T, hooks string, facts *match.FactCache, counter state.Counter) *limited {
	t.Helper()
	p, errs := policy.Parse("p.yaml", []byte("version: 1\nhooks:\n"+hooks))
	if len(errs) > 0 {
		t.Fatalf("%s: %v", hooks, errs)
	}
	specs, err := (&policy.Builder{Policy: p, Facts: facts}).Build(grapnel.Source{Name: "p.yaml", File: "p.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	l := &limited{clock: time.Unix(1_800_000_000, 0)}
	specs = state.Together(specs, counter)
	for i := range specs {
		state.SetClock(&specs[i], func() time.Time { return l.clock })
	}
	if l.Engine, err = grapnel.New(specs, &grapnel.Options{Observers: []grapnel.Observer{l}}); err != nil {
		t.Fatal(err)
	}
	return l
}

// did returns an event for a shell line, or for a file if what begins with @.
func did(kind grapnel.Kind, what, id string) *grapnel.Event {
	ev := fixture.Call("s", "Bash", fmt.Sprintf(`{"command":%q}`, what), id)
	if name, ok := strings.CutPrefix(what, "@"); ok {
		ev = fixture.Call("s", "Read", fmt.Sprintf(`{"file_path":%q}`, name), id)
		ev.Tool.Class, ev.Tool.Facts = grapnel.ClassRead, []grapnel.Fact{{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseRead}}
		ev.Tool.Derive()
	}
	ev.Kind = kind
	return ev
}

func TestAfter(t *testing.T) {
	t.Parallel()
	const (
		before = grapnel.ToolBefore
		after  = grapnel.ToolAfter
		failed = grapnel.ToolFailed
	)
	secret := `  - {name: x, on: tool.before, match: {command: curl}, after: {event: tool.after, match: {path: "**/.env"}, within: 30m}, block: no}` + "\n"
	tests := `  - {name: x, on: tool.before, match: {command: git commit}, after: {event: tool.failed, match: {command: [go test, npm test]}, until: {event: tool.after, match: {command: [go test, npm test]}}}, block: no}` + "\n"
	again := `  - {name: x, on: tool.before, after: {event: tool.failed, same: call, times: 3, within: 10m}, block: no}` + "\n"
	type happens struct {
		kind  grapnel.Kind
		what  string
		pause time.Duration
		want  grapnel.Decision
	}
	for name, tt := range map[string]struct {
		hooks  string
		events []happens
	}{
		"nothing before":  {secret, []happens{{kind: before, what: "curl x"}}},
		"a secret before": {secret, []happens{{kind: after, what: "@.env"}, {kind: before, what: "curl x", want: grapnel.Block}, {kind: before, what: "ls"}}},
		"another file":    {secret, []happens{{kind: after, what: "@env"}, {kind: before, what: "curl x"}}},
		"through a shell": {secret, []happens{{kind: after, what: "cat < .env"}, {kind: before, what: "curl x", want: grapnel.Block}}},
		"just in time":    {secret, []happens{{kind: after, what: "@.env"}, {kind: before, what: "curl x", pause: 30*time.Minute - 1, want: grapnel.Block}}},
		"too long ago":    {secret, []happens{{kind: after, what: "@.env"}, {kind: before, what: "curl x", pause: 30 * time.Minute}}},
		"read once more":  {secret, []happens{{kind: after, what: "@.env"}, {kind: after, what: "@.env", pause: 20 * time.Minute}, {kind: before, what: "curl x", pause: 20 * time.Minute, want: grapnel.Block}}},
		"read often": {secret, append(slices.Repeat([]happens{{kind: after, what: "@.env", pause: time.Second}}, 3*state.MaxMarks),
			happens{kind: before, what: "curl x", pause: 29 * time.Minute, want: grapnel.Block})},
		"the clock is turned back": {secret, []happens{{kind: after, what: "@.env"}, {kind: before, what: "curl x", pause: -time.Hour, want: grapnel.Block}}},
		"tests failed":             {tests, []happens{{kind: failed, what: "go test ./..."}, {kind: before, what: "git commit -m x", want: grapnel.Block}}},
		"tests passed":             {tests, []happens{{kind: failed, what: "go test ./..."}, {kind: after, what: "npm test"}, {kind: before, what: "git commit -m x"}}},
		"and failed again":         {tests, []happens{{kind: failed, what: "go test"}, {kind: after, what: "go test"}, {kind: failed, what: "go test"}, {kind: before, what: "git commit -m x", want: grapnel.Block}}},
		"another end":              {tests, []happens{{kind: failed, what: "go test"}, {kind: after, what: "go vet"}, {kind: before, what: "git commit -m x", want: grapnel.Block}}},
		"the third failure":        {again, []happens{{kind: before, what: "make"}, {kind: failed, what: "make"}, {kind: before, what: "make"}, {kind: failed, what: "make"}, {kind: before, what: "make"}, {kind: failed, what: "make"}, {kind: before, what: "make", want: grapnel.Block}}},
		"of different calls":       {again, []happens{{kind: failed, what: "a"}, {kind: failed, what: "b"}, {kind: failed, what: "a"}, {kind: failed, what: "b"}, {kind: before, what: "a"}, {kind: failed, what: "a"}, {kind: before, what: "b"}, {kind: before, what: "a", want: grapnel.Block}}},
		"a sequence": {
			`  - {name: x, on: tool.before, match: {command: c}, after: [{event: tool.after, match: {command: a}}, {event: tool.after, match: {command: b}, times: 2}], block: no}` + "\n",
			[]happens{{kind: after, what: "b"}, {kind: after, what: "b"}, {kind: after, what: "a"}, {kind: before, what: "c"}, {kind: after, what: "b"}, {kind: before, what: "c"}, {kind: after, what: "b"}, {kind: before, what: "c", want: grapnel.Block}},
		},
		"one event is one step": {
			`  - {name: x, on: tool.before, match: {command: c}, after: [{event: tool.after, match: {command: a}}, {event: tool.after, match: {command: a}}], block: no}` + "\n",
			[]happens{{kind: after, what: "a"}, {kind: before, what: "c"}, {kind: after, what: "a"}, {kind: before, what: "c", want: grapnel.Block}},
		},
		"what is blocked did not happen": {
			`  - {name: g, on: tool.before, match: {command: a --force}, block: no}` + "\n" +
				`  - {name: x, on: tool.before, match: {command: b}, after: {event: tool.before, match: {command: a}}, block: no}` + "\n",
			[]happens{{kind: before, what: "a --force", want: grapnel.Block}, {kind: before, what: "b"}, {kind: before, what: "a"}, {kind: before, what: "b", want: grapnel.Block}},
		},
		"what is blocked ends nothing": {
			`  - {name: g, on: tool.before, match: {command: z --force}, block: no}` + "\n" +
				`  - {name: x, on: tool.before, match: {command: b}, after: {event: tool.before, match: {command: a}, until: {event: tool.before, match: {command: z}}}, block: no}` + "\n",
			[]happens{{kind: before, what: "a"}, {kind: before, what: "z --force", want: grapnel.Block}, {kind: before, what: "b", want: grapnel.Block}, {kind: before, what: "z"}, {kind: before, what: "b"}},
		},
		"not before itself": {
			`  - {name: x, on: tool.before, after: {event: tool.before, same: tool}, block: no}` + "\n",
			[]happens{{kind: before, what: "a"}, {kind: before, what: "a", want: grapnel.Block}, {kind: before, what: "@f"}},
		},
		"the same path": {
			`  - {name: x, on: tool.before, after: {event: tool.after, same: path}, block: no}` + "\n",
			[]happens{{kind: after, what: "@a/../f"}, {kind: before, what: "@g"}, {kind: before, what: "@f", want: grapnel.Block}, {kind: before, what: "echo > f", want: grapnel.Block}},
		},
		"the same path, run": {
			`  - {name: x, on: tool.before, after: {event: tool.after, same: path}, block: no}` + "\n",
			[]happens{{kind: after, what: "@d/f"}, {kind: before, what: "d/g"}, {kind: before, what: "./d/f -x", want: grapnel.Block}, {kind: before, what: "cd d && sudo ./f", want: grapnel.Block}},
		},
		"the same command": {
			`  - {name: x, on: tool.before, after: {event: tool.after, same: command}, block: no}` + "\n",
			[]happens{{kind: after, what: "cd x && make all"}, {kind: before, what: "make"}, {kind: before, what: `"make" 'all'`, want: grapnel.Block}},
		},
		"an exception": {
			`  - {name: x, on: tool.before, match: {command: b}, after: {event: tool.after, match: {command: a}, except: {command: a -n}}, block: no}` + "\n",
			[]happens{{kind: after, what: "a -n"}, {kind: before, what: "b"}, {kind: after, what: "a"}, {kind: before, what: "b", want: grapnel.Block}},
		},
		"an expression": {
			`  - {name: x, on: tool.before, match: {command: b}, after: {event: tool.after, when: 'tool.command == "a"'}, block: no}` + "\n",
			[]happens{{kind: after, what: "c"}, {kind: before, what: "b"}, {kind: after, what: "a"}, {kind: before, what: "b", want: grapnel.Block}},
		},
		"ended and begun at once": {
			`  - {name: x, on: tool.before, match: {command: b}, after: {event: tool.after, match: {command: a}, until: {event: tool.after}}, block: no}` + "\n",
			[]happens{{kind: after, what: "a"}, {kind: before, what: "b", want: grapnel.Block}, {kind: after, what: "c"}, {kind: before, what: "b"}},
		},
		"observed only": {
			`  - {name: x, on: tool.before, mode: observe, match: {command: b}, after: {event: tool.after, match: {command: a}}, block: no}` + "\n",
			[]happens{{kind: after, what: "a"}, {kind: before, what: "b"}},
		},
		"an allow wants all of it": {
			`  - {name: x, on: tool.before, match: {command: b}, after: {event: tool.after, match: {command: a}}, allow: true}` + "\n",
			[]happens{{kind: after, what: "a; c"}, {kind: before, what: "b"}, {kind: after, what: "a"}, {kind: before, what: "b", want: grapnel.Allow}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAfter(t, tt.hooks, nil)
			for i, h := range tt.events {
				l.clock = l.clock.Add(h.pause)
				if v := l.fire(did(h.kind, h.what, fmt.Sprint(i))); v.Decision != h.want {
					t.Errorf("event %d, %s %q: %v, want %v", i, h.kind, h.what, v.Decision, h.want)
				}
			}
			if name == "observed only" && l.records[1].Would != grapnel.Block {
				t.Errorf("would is %v, want block", l.records[1].Would)
			}
		})
	}
}

// TestAfterIsOfASession: sessions and agents do not share steps, but sub-agents share them with
// their agent.
func TestAfterIsOfASession(t *testing.T) {
	t.Parallel()
	hook := func(by string) string {
		return `  - {name: x, on: tool.before, match: {command: b}, after: {event: tool.after, match: {command: a}` + by + `}, block: no}` + "\n"
	}
	for name, tt := range map[string]struct {
		by     string
		change func(*grapnel.Event)
		want   grapnel.Decision
	}{
		"the same":           {"", func(*grapnel.Event) {}, grapnel.Block},
		"a sub-agent":        {"", func(ev *grapnel.Event) { ev.Session.Subagent = &grapnel.Subagent{ID: "1"} }, grapnel.Block},
		"another session":    {"", func(ev *grapnel.Event) { ev.Session.ID = "t" }, grapnel.None},
		"another agent":      {"", func(ev *grapnel.Event) { ev.Agent.Name = "codex" }, grapnel.None},
		"by agent, session":  {", by: agent", func(ev *grapnel.Event) { ev.Session.ID = "t" }, grapnel.Block},
		"by session, agent":  {", by: session", func(ev *grapnel.Event) { ev.Agent.Name = "codex" }, grapnel.Block},
		"by user, the other": {", by: user", func(ev *grapnel.Event) { ev.Session.User = "u" }, grapnel.None},
	} {
		l := newAfter(t, hook(tt.by), nil)
		l.fire(did(grapnel.ToolAfter, "a", "1"))
		ev := did(grapnel.ToolBefore, "b", "2")
		tt.change(ev)
		if v := l.fire(ev); v.Decision != tt.want {
			t.Errorf("%s: %v, want %v", name, v.Decision, tt.want)
		}
	}
}

// TestAfterOnce: an action that is reported twice happens once, and never before itself.
func TestAfterOnce(t *testing.T) {
	t.Parallel()
	l := newAfter(t, `  - {name: x, on: [tool.before, permission.before], after: {event: [tool.before, permission.before], times: 2}, block: no}`+"\n", nil)
	prompt := func(what string) *grapnel.Event { return did(grapnel.PermissionBefore, what, "") } // a permission prompt of Claude Code
	for i, tt := range []struct {
		ev   *grapnel.Event
		want grapnel.Decision
	}{
		{did(grapnel.ToolBefore, "a", "1"), grapnel.None},
		{prompt("a"), grapnel.None},
		{did(grapnel.ToolBefore, "a", "1"), grapnel.None},
		{did(grapnel.ToolBefore, "b", "2"), grapnel.None},
		{prompt("b"), grapnel.None},
		{did(grapnel.ToolBefore, "c", "3"), grapnel.Block},
		{prompt("c"), grapnel.Block},
	} {
		if v := l.fire(tt.ev); v.Decision != tt.want {
			t.Errorf("event %d: %v, want %v", i, v.Decision, tt.want)
		}
	}
}

// TestAfterSourcesApart: hooks of other sources do not affect the marks of a hook, even with
// the same name.
func TestAfterSourcesApart(t *testing.T) {
	t.Parallel()
	counter := &counts.Memory{}
	build := func(file, until string) []grapnel.Spec {
		p, errs := policy.Parse(file, []byte("version: 1\nhooks:\n  - {name: x, on: tool.before, match: {command: b}, after: {event: tool.after, match: {command: a}"+until+"}, block: no}\n"))
		if errs != nil {
			t.Fatal(errs)
		}
		specs, err := (&policy.Builder{Policy: p, Facts: &match.FactCache{}}).Build(grapnel.Source{Name: file, File: file})
		if err != nil {
			t.Fatal(err)
		}
		return specs
	}
	engine, err := grapnel.New(state.Together(append(build("user.yaml", ""), build("project.yaml", ", until: {event: tool.after}")...), counter), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, what := range []string{"a", "z"} {
		engine.Fire(context.Background(), did(grapnel.ToolAfter, what, fmt.Sprint(i)))
	}
	v := engine.Fire(context.Background(), did(grapnel.ToolBefore, "b", "9"))
	if v.Decision != grapnel.Block || len(v.Reasons) != 1 || v.Reasons[0].Hook != "user.yaml::x" {
		t.Errorf("%v by %v, want a block by the user's hook alone", v.Decision, v.Reasons)
	}
}

// TestAfterStateFails: if the state cannot be stored or is damaged, the guard fails.
func TestAfterStateFails(t *testing.T) {
	t.Parallel()
	const hooks = `  - {name: x, on: tool.before, match: {command: b}, after: {event: tool.before, match: {command: a}}, block: no%s}` + "\n"
	for onError, want := range map[string]grapnel.Decision{"": grapnel.Block, ", on_error: open": grapnel.None, ", on_error: ask": grapnel.Ask} {
		l := newAfter(t, fmt.Sprintf(hooks, onError), noCounter{})
		for _, what := range []string{"a", "b"} {
			v := l.fire(did(grapnel.ToolBefore, what, what))
			if rec := l.records[len(l.records)-1]; v.Decision != want || rec.Hooks[0].Name != "x" || !strings.Contains(rec.Hooks[0].Error, "no disk") {
				t.Errorf("%q with %q: %v, want %v; recorded %+v", onError, what, v.Decision, want, rec.Hooks)
			}
		}
		if v := l.fire(did(grapnel.ToolBefore, "c", "c")); v.Decision != grapnel.None {
			t.Errorf("an event that concerns nothing: %v", v.Decision)
		}
	}
	m := stored{}
	l := newAfter(t, fmt.Sprintf(hooks, ""), m)
	l.fire(did(grapnel.ToolBefore, "a", "1"))
	for key := range m {
		m[key] = []byte("torn")
	}
	for i, want := range []grapnel.Decision{grapnel.Block, grapnel.None} {
		if v := l.fire(did(grapnel.ToolBefore, "b", fmt.Sprint("b", i))); v.Decision != want {
			t.Errorf("with a broken state, time %d: %v, want %v", i, v.Decision, want)
		}
	}
}

type noCounter struct{}

// stored is a Counter for one goroutine, whose values a test can see.
type stored map[string][]byte

func (s stored) Count(owner, key string, change func([]byte) ([]byte, time.Duration)) error {
	if now, _ := change(s[owner+key]); now != nil {
		s[owner+key] = now
	}
	return nil
}

func (noCounter) Count(string, string, func([]byte) ([]byte, time.Duration)) error {
	return errors.New("no disk")
}

// busy counts the calls of the counter.
type busy struct {
	counts.Memory
	n int
}

func (b *busy) Count(owner, key string, change func([]byte) ([]byte, time.Duration)) error {
	b.n++
	return b.Memory.Count(owner, key, change)
}

func (b *busy) Counted(owner, key string) ([]byte, error) { b.n++; return b.Memory.Counted(owner, key) }

// TestAfterCostsNothing: an event that concerns no `after:` causes no lookup.
func TestAfterCostsNothing(t *testing.T) {
	t.Parallel()
	b := &busy{}
	l := newAfter(t, `  - {name: x, on: tool.before, match: {command: b}, after: {event: tool.after, match: {command: a}, until: {event: session.end}}, block: no}`+"\n", b)
	for i, ev := range []*grapnel.Event{did(grapnel.ToolBefore, "a", "1"), did(grapnel.ToolAfter, "b", "2"), did(grapnel.ToolAfter, "@f", "3"), {Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "b"}}} {
		if l.fire(ev); b.n != 0 {
			t.Errorf("event %d looks something up", i)
		}
	}
	if l.fire(did(grapnel.ToolBefore, "b", "4")); b.n != 1 {
		t.Errorf("what the hook judges looks up %d times, want once", b.n)
	}
}

// TestAfterAtOnce: concurrent events are all recorded.
func TestAfterAtOnce(t *testing.T) {
	t.Parallel()
	l := newAfter(t, `  - {name: x, on: tool.before, match: {command: b}, after: {event: tool.after, match: {command: a}, times: 20}, block: no}`+"\n", nil)
	engine, err := grapnel.New(l.Specs(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { engine.Fire(context.Background(), did(grapnel.ToolAfter, "a", fmt.Sprint(i))) })
	}
	all.Wait()
	if v := engine.Fire(context.Background(), did(grapnel.ToolBefore, "b", "b")); v.Decision != grapnel.Block {
		t.Errorf("after 20 at once: %v, want a block", v.Decision)
	}
}

// The description names each key of a step. Some keys were missing once, so the reason was
// wrong.
func TestAfterTellsEveryKey(t *testing.T) {
	t.Parallel()
	const match = `{tool: bash, agent: claude-code, mcp: m, mode: plan, subagent: s, command: ls, shell: unknown, path: a, reads: b, writes: c, url: "https://d*", host: e, content: f, prompt: g, text: h, secret: "*", failed: true, not: {path: i}}`
	l := newAfter(t, `  - {name: x, on: tool.before, match: {command: curl}, after: {event: tool.after, match: `+match+`}, block: no}`+"\n", nil)
	specs := l.Specs("")
	got := state.NotYet(&specs[0], did(grapnel.ToolBefore, "curl x", "9"))
	if want := "not after tool.after: tool bash, agent claude-code, mcp m, mode plan, subagent s, command ls, shell unknown, path a, reads b, writes c, url https://d*, host e, a text, secret *, failed true, not (path i)"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestAfterExplains(t *testing.T) {
	t.Parallel()
	l := newAfter(t, `  - {name: x, on: tool.before, match: {command: curl}, after: {event: tool.after, match: {path: "**/.env"}}, block: no}`+"\n", nil)
	ev := did(grapnel.ToolBefore, "curl x", "9")
	specs := l.Specs("")
	if got, want := state.NotYet(&specs[0], ev), "not after tool.after: path **/.env"; got != want {
		t.Errorf("before: %q, want %q", got, want)
	}
	l.fire(did(grapnel.ToolAfter, "@.env", "1"))
	l.clock = l.clock.Add(12 * time.Second)
	if got := state.NotYet(&specs[0], ev); got != "" {
		t.Errorf("after it: %q, want nothing", got)
	}
	if got, want := l.Plan(ev).Entries[0].Matched, `command "curl": curl x, after tool.after 12s ago: path **/.env`; got != want {
		t.Errorf("the plan says %q, want %q", got, want)
	}
	if got := state.NotYet(&specs[0], did(grapnel.ToolBefore, "ls", "8")); got != "" {
		t.Errorf("of what it is not about: %q", got)
	}
}

// TestAfterModel compares random sessions with a model that keeps all events.
func TestAfterModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type stepModel struct {
			event, until string
			within       time.Duration
			times        int
			same         bool
		}
		names := []string{"a", "b", "c"}
		var model []stepModel
		var steps []string
		for range rapid.IntRange(1, 3).Draw(t, "steps") {
			s := stepModel{
				event: rapid.SampledFrom(names).Draw(t, "event"), until: rapid.SampledFrom([]string{"", "", "a", "c", "z"}).Draw(t, "until"),
				within: time.Duration(rapid.SampledFrom([]int{0, 5, 20}).Draw(t, "within")) * time.Second,
				times:  rapid.IntRange(1, 3).Draw(t, "times"), same: rapid.Bool().Draw(t, "same"),
			}
			text := fmt.Sprintf("{event: tool.after, match: {command: %s}, times: %d", s.event, s.times)
			if s.within > 0 {
				text += fmt.Sprintf(", within: %v", s.within)
			}
			if s.same {
				text += ", same: tool"
			}
			if s.until != "" {
				text += fmt.Sprintf(", until: {event: tool.after, match: {command: %s}}", s.until)
			}
			model, steps = append(model, s), append(steps, text+"}")
		}
		l := newAfter(t, "  - {name: x, on: tool.before, after: ["+strings.Join(steps, ", ")+"], block: no}\n", nil)
		type event struct {
			name, tool string
			at         time.Time
			gone       [3]bool
		}
		var all []event
		for i := range rapid.IntRange(1, 60).Draw(t, "events") {
			l.clock = l.clock.Add(time.Duration(rapid.IntRange(0, 4).Draw(t, "pause")) * time.Second)
			name, tool := rapid.SampledFrom([]string{"a", "b", "c", "z", "?"}).Draw(t, "name"), rapid.SampledFrom([]string{"Bash", "Shell"}).Draw(t, "tool")
			ev := did(grapnel.ToolAfter, name, fmt.Sprint(i))
			ev.Tool.Name = tool
			if name != "?" {
				l.fire(ev)
				for j, s := range model {
					for k := range all {
						all[k].gone[j] = all[k].gone[j] || s.until == name
					}
				}
				all = append(all, event{name: name, tool: tool, at: l.clock})
				continue
			}
			at, want := 0, true
			for j, s := range model {
				n := 0
				for ; at < len(all) && n < s.times; at++ {
					e := all[at]
					if e.name == s.event && !e.gone[j] && (s.within == 0 || l.clock.Sub(e.at) < s.within) && (!s.same || e.tool == tool) {
						n++
					}
				}
				want = want && n == s.times
			}
			ev.Kind = grapnel.ToolBefore
			if got := l.fire(ev).Decision == grapnel.Block; got != want {
				t.Fatalf("after %+v: %v, want %v; the steps are %s", all, got, want, steps)
			}
		}
	})
}

// TestFailed determines from recorded payloads of agents whether a call failed.
func TestFailed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file, member string
		want         bool
	}{
		{"claude-code/recorded-PostToolUseFailure-Bash.txtar", "stdin.json", true},
		{"gemini-cli/recorded-AfterTool.txtar", "stdin.json", false},
		{"gemini-cli/recorded-AfterTool-error.txtar", "stdin.json", true},
		{"codex/recordings.txtar", "PostToolUse-apply_patch.json", false},
		{"copilot-cli/postToolUse-block.txtar", "stdin.json", false},
		{"openclaw/after_tool_call-block.txtar", "stdin.json", false},
		{"cursor/postToolUse-none.txtar", "stdin.json", false},
	} {
		ev := recorded(t, tt.file, tt.member)
		if got := (&match.Facts{Event: ev}).Failed(); got != tt.want {
			t.Errorf("%s: failed is %v, want %v: %s", tt.file, got, tt.want, ev.Tool.Output)
		}
	}
	for output, want := range map[string]bool{
		`"ok"`: false, `"Exit code 3\ncat: nope"`: true, `"Exit code: 0\nOutput:\nExit code: 1"`: true, `"Exit code: 0\nWall time: 0 s"`: false,
		`{"llmContent":"Output: (empty)\nError: (none)\nExit Code: 2\nSignal: (none)\nProcess Group PGID: 7"}`: true,
		`{"details":{"exitCode":1}}`: true, `{"exit_code":0,"stdout":"Exit code 1"}`: false, `"{\"output\":\"\",\"exitCode\":4}"`: true,
		`{"metadata":{"exit":1}}`: true, `{"textResultForLlm":"x\n<shellId: 0 completed with exit code 1>"}`: true,
		`null`: false, `[[[[[[[{"exit":1}]]]]]]]`: false, `{"exit":"1"}`: false, `"the exit code 1 is bad"`: false, ``: false,
	} {
		ev := did(grapnel.ToolAfter, "x", "1")
		ev.Tool.Output = json.RawMessage(output)
		if got := (&match.Facts{Event: ev}).Failed(); got != want {
			t.Errorf("failed of %s is %v, want %v", output, got, want)
		}
		ev.Tool.Class, ev.Tool.Commands = grapnel.ClassRead, nil
		if (&match.Facts{Event: ev}).Failed() {
			t.Errorf("what is no command failed by its text %s", output)
		}
	}
}

// recorded returns an event from a recorded payload of an agent.
func recorded(t testing.TB, file, member string) *grapnel.Event {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "dialect", "testdata", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	agent, _, _ := strings.Cut(file, "/")
	d, ok := dialect.FindAgent(agent)
	if !ok {
		t.Fatalf("no agent %s", agent)
	}
	for _, f := range txtar.Parse(data).Files {
		if f.Name == member {
			got := dialect.Receive(d, dialect.Input{Payload: f.Data})
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			return got.Event
		}
	}
	t.Fatalf("%s has no %s", file, member)
	return nil
}

// TestTestsBeforeCommit plays the same session with the payloads of three agents: tests fail
// and the commit is blocked; the tests pass and the commit is permitted.
func TestTestsBeforeCommit(t *testing.T) {
	t.Parallel()
	const hook = `  - {name: x, on: tool.before, match: {command: git commit}, after: {event: tool.failed, match: {command: [go test, npm test]}, until: {event: tool.after, match: {command: [go test, npm test]}}}, block: no}` + "\n"
	at := func(template, command, output string) string {
		quoted, _ := json.Marshal(output)
		return strings.NewReplacer("COMMAND", command, "OUTPUT", string(quoted)).Replace(template)
	}
	for agent, payloads := range map[string]struct{ before, fails, passes, failed, passed string }{
		"claude-code": {
			before: `{"session_id":"s","transcript_path":"/t","cwd":"/w","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"COMMAND"},"tool_use_id":"ID"}`,
			fails:  `{"session_id":"s","transcript_path":"/t","cwd":"/w","permission_mode":"default","hook_event_name":"PostToolUseFailure","tool_name":"Bash","tool_input":{"command":"COMMAND"},"tool_use_id":"ID","error":OUTPUT,"is_interrupt":false}`,
			passes: `{"session_id":"s","transcript_path":"/t","cwd":"/w","permission_mode":"default","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"COMMAND"},"tool_use_id":"ID","tool_response":{"stdout":OUTPUT,"stderr":"","interrupted":false}}`,
			failed: "Exit code 1\nFAIL", passed: "ok",
		},
		"gemini-cli": {
			before: `{"session_id":"s","transcript_path":"/t","cwd":"/w","hook_event_name":"BeforeTool","timestamp":"2026-11-20T19:43:26.060Z","tool_name":"run_shell_command","tool_input":{"command":"COMMAND"}}`,
			fails:  `{"session_id":"s","transcript_path":"/t","cwd":"/w","hook_event_name":"AfterTool","timestamp":"2026-11-20T19:43:26.060Z","tool_name":"run_shell_command","tool_input":{"command":"COMMAND"},"tool_response":{"llmContent":OUTPUT,"returnDisplay":"x"}}`,
			failed: "<untrusted_context>\nOutput: FAIL\nExit Code: 1\nProcess Group PGID: 7\n</untrusted_context>", passed: "<untrusted_context>\nOutput: ok\nProcess Group PGID: 7\n</untrusted_context>",
		},
		"codex": {
			before: `{"session_id":"s","turn_id":"t","transcript_path":"/t","cwd":"/w","hook_event_name":"PreToolUse","model":"m","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"COMMAND"},"tool_use_id":"ID"}`,
			fails:  `{"session_id":"s","turn_id":"t","transcript_path":"/t","cwd":"/w","hook_event_name":"PostToolUse","model":"m","permission_mode":"default","tool_name":"Bash","tool_input":{"command":"COMMAND"},"tool_use_id":"ID","tool_response":OUTPUT}`,
			failed: "Exit code: 1\nWall time: 2 seconds\nOutput:\nFAIL\n", passed: "ok  \tx\t0.1s\n",
		},
	} {
		if payloads.passes == "" {
			payloads.passes = payloads.fails
		}
		l := newAfter(t, hook, nil)
		d, _ := dialect.FindAgent(agent)
		n := 0
		fire := func(payload string, want grapnel.Decision) {
			t.Helper()
			n++
			got := dialect.Receive(d, dialect.Input{Payload: []byte(strings.ReplaceAll(payload, "ID", fmt.Sprint("call_", n)))})
			if got.Err != nil {
				t.Fatalf("%s: %v: %s", agent, got.Err, payload)
			}
			got.Event.Terms.Can = nil // the test does not depend on the agent's abilities
			if v := l.Fire(context.Background(), got.Event); v.Decision != want {
				t.Errorf("%s, event %d: %v, want %v: %s", agent, n, v.Decision, want, payload)
			}
		}
		fire(at(payloads.before, "git commit -m x", ""), grapnel.None)
		fire(at(payloads.fails, "cd x && go test ./...", payloads.failed), grapnel.None)
		fire(at(payloads.before, "git commit -m x", ""), grapnel.Block)
		fire(at(payloads.fails, "go vet", payloads.failed), grapnel.None)
		fire(at(payloads.before, "git commit -m x", ""), grapnel.Block)
		fire(at(payloads.passes, "go test ./...", payloads.passed), grapnel.None)
		fire(at(payloads.before, "git commit -m x", ""), grapnel.None)
	}
}

// TestAfterInPacks: hooks of packs can use `after:` too.
func TestAfterInPacks(t *testing.T) {
	t.Parallel()
	registry, errs := load.ReadPacks(fstest.MapFS{"order.yaml": {Data: []byte("version: 1\npack: {version: 1}\nhooks:\n  - {name: x, on: tool.before, match: {command: b}, after: {event: tool.after, match: {command: a}}, block: no}\n")}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nuse: [order]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := load.Policies(load.Request{Files: []load.File{{Path: file, Scope: grapnel.ScopeUser}}, Packs: registry})
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		ev   *grapnel.Event
		want grapnel.Decision
	}{{did(grapnel.ToolBefore, "b", "1"), grapnel.None}, {did(grapnel.ToolAfter, "a", "2"), grapnel.None}, {did(grapnel.ToolBefore, "b", "3"), grapnel.Block}} {
		if v := engine.Fire(context.Background(), tt.ev); v.Decision != tt.want {
			t.Errorf("event %d: %v, want %v", i, v.Decision, tt.want)
		}
	}
}
