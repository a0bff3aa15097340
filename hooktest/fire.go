package hooktest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// A Firing is what came of one event: the Verdict, and all that a test may want to know
// beside it. Printed with %v it says what happened, hook by hook.
type Firing struct {
	grapnel.Verdict
	Record *grapnel.Record   // who ran, and what each said
	Late   []grapnel.HookRun // what the observing hooks came to, which run after the answer

	engine *grapnel.Engine
}

// Fire fires an event at some Specs, or at one engine, and waits for the observing hooks
// too. It asserts nothing: look at what it returns, and print that where it is wrong.
func Fire[H grapnel.Spec | *grapnel.Engine](t testing.TB, ev *grapnel.Event, by ...H) Firing {
	t.Helper()
	f := Firing{engine: engineOf(t, by)}
	once, err := f.engine.With() // parallel tests fire through one engine; each hears of its own
	if err != nil {
		t.Fatal(err)
	}
	once.AddObserver(grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { f.Record = rec }))
	verdict, late := once.FireAll(t.Context(), ev)
	f.Verdict = verdict
	for run := range late {
		f.Late = append(f.Late, run)
	}
	return f
}

// Blocks fires an event that the hooks must block. Like all functions here that expect
// something it also wants that no hook fails: a Block because a script was not found
// shows nothing about the script. For a failure that must block, look at what [Fire]
// returns.
func Blocks[H grapnel.Spec | *grapnel.Engine](t testing.TB, ev *grapnel.Event, by ...H) Firing {
	t.Helper()
	f := Fire(t, ev, by...)
	f.expect(t, f.Decision == grapnel.Block, "block")
	return f
}

// Asks fires an event for which the hooks must want a person's consent.
func Asks[H grapnel.Spec | *grapnel.Engine](t testing.TB, ev *grapnel.Event, by ...H) Firing {
	t.Helper()
	f := Fire(t, ev, by...)
	f.expect(t, f.Decision == grapnel.Ask, "ask")
	return f
}

// Passes fires an event that goes on as it came: nobody blocks, asks, changes it or ends
// the turn, and nobody allows it, which would skip the agent's own prompt. Context may be
// added.
func Passes[H grapnel.Spec | *grapnel.Engine](t testing.TB, ev *grapnel.Event, by ...H) Firing {
	t.Helper()
	f := Fire(t, ev, by...)
	f.expect(t, f.Decision == grapnel.None && f.Halt == "" && len(f.Changes) == 0, "no decision and no change")
	return f
}

// Changes fires an event that the hooks must change, and not block, so that it is like
// another one in all that may be changed:
//
//	hooktest.Changes(t, hooktest.Shell("make"), hooktest.Shell("nice make"), spec)
func Changes[H grapnel.Spec | *grapnel.Engine](t testing.TB, ev, want *grapnel.Event, by ...H) Firing {
	t.Helper()
	f := Fire(t, ev, by...)
	if !f.expect(t, f.Decision != grapnel.Block && f.Halt == "", "a change and no block") {
		return f
	}
	for _, c := range contractOf(ev).Changes {
		now, _ := f.Event.Get(c.Field)
		then, _ := want.Get(c.Field)
		if !sameJSON(now, then) {
			t.Errorf("%s: got %s, want %s\n%v", c.Field, orNothing(now), orNothing(then), f)
		}
	}
	return f
}

func orNothing(raw json.RawMessage) string {
	if raw == nil {
		return "nothing"
	}
	return short(string(raw))
}

func engineOf[H grapnel.Spec | *grapnel.Engine](t testing.TB, by []H) *grapnel.Engine {
	t.Helper()
	var specs []grapnel.Spec
	for _, one := range by {
		switch one := any(one).(type) {
		case *grapnel.Engine:
			if len(by) > 1 {
				t.Fatalf("an event is fired at one engine, and there are %d; see grapnel.Engine.With", len(by))
			}
			return one
		case grapnel.Spec:
			specs = append(specs, one)
		}
	}
	engine, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// expect fails the test unless what is wanted holds and every hook could answer.
func (f Firing) expect(t testing.TB, holds bool, want string) bool {
	t.Helper()
	failed := slices.ContainsFunc(f.runs(), func(r grapnel.HookRun) bool { return r.Error != "" })
	switch {
	case !holds:
		t.Errorf("got %v, want %s\n%v", f.Decision, want, f)
	case failed:
		t.Errorf("got %v, but a hook could not answer\n%v", f.Decision, f)
	}
	return holds && !failed
}

// runs are those of all hooks. Of an observing hook the Record knows nothing yet but
// that it could not be started.
func (f Firing) runs() []grapnel.HookRun {
	runs := slices.DeleteFunc(slices.Clone(f.Record.Hooks), func(r grapnel.HookRun) bool {
		return r.Async && slices.ContainsFunc(f.Late, func(l grapnel.HookRun) bool { return l.Name == r.Name && l.Source == r.Source })
	})
	return append(runs, f.Late...)
}

// String says what was fired, what came of it, and what each hook said.
func (f Firing) String() string {
	var b strings.Builder
	line := func(what, text string) { fmt.Fprintf(&b, "\t%-8s %s\n", what, text) }
	line("event", shownEvent(f.Record.Input))
	line("verdict", shown(f.Verdict))
	runs := f.runs()
	for _, run := range runs {
		line("hook", f.name(run)+": "+shownRun(run))
	}
	if specs := f.engine.Specs(); len(runs) == 0 {
		line("hook", fmt.Sprintf("none of the %d listens", len(specs)))
		for _, s := range specs {
			line("", fmt.Sprintf("%s: on %v tools %v", s.FullName(), s.On, s.Tools))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// name is a hook's name, and where it stands.
func (f Firing) name(run grapnel.HookRun) string {
	for _, s := range f.engine.Specs() {
		if s.Name == run.Name && s.Source.Name == run.Source && s.Source.File != "" {
			return fmt.Sprintf("%s (%s:%d)", run.Name, filepath.Base(s.Source.File), run.Line)
		}
	}
	return run.Name
}

func shownRun(run grapnel.HookRun) string {
	var said []string
	if run.Outcome != nil {
		said = append(said, shown(run.Outcome))
	}
	for note, is := range map[string]bool{"it only observes": run.Observed && !run.Async, "its allow does not count": run.Expired} {
		if is {
			said = append(said, note)
		}
	}
	if run.Error != "" {
		said = append(said, "could not answer: "+run.Error)
	}
	if len(said) == 0 {
		return "no opinion"
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}

// shownEvent leaves out what repeats the input.
func shownEvent(ev *grapnel.Event) string {
	out := *ev
	out.ID, out.Native = "", nil
	if ev.Tool != nil {
		tool := *ev.Tool
		tool.Facts = nil
		out.Tool = &tool
	}
	return shown(&out)
}

func shown(v any) string {
	text, err := marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v (%v)", v, err)
	}
	return short(string(text))
}

// short cuts what nobody would read.
func short(text string) string {
	const limit = 2000
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s… (%d more bytes)", strings.ToValidUTF8(text[:limit], ""), len(text)-limit)
}

// contractOf is what governs an event.
func contractOf(ev *grapnel.Event) grapnel.Contract {
	c := grapnel.ContractOf(ev.Kind)
	if ev.Kind.Native() {
		c = ev.Contract
	}
	if c == nil {
		return grapnel.Contract{FailOpen: true}
	}
	return *c
}

// sameJSON compares values without regard to white space and the order of keys.
func sameJSON(a, b json.RawMessage) bool { return bytes.Equal(canonical(a), canonical(b)) }

// canonical is a value with its keys in order and its numbers as they are written, and
// what is no JSON as it is.
func canonical(raw json.RawMessage) []byte {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	text, err := marshal(v)
	if err != nil {
		return raw
	}
	return text
}
