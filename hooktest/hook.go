package hooktest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/sample"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// TestHook is the test suite for all kinds of hooks. It fires ordinary, huge, hostile and empty
// events of each kind that the Spec listens to, and checks that the hook
//
//   - does not modify the event,
//   - is safe for concurrent use: run the test with -race,
//   - returns only outcomes that the event permits,
//   - does not panic, and does not treat a failure as an Allow,
//   - returns within a minute (plus its Grace) after its context is done.
//
// At least one event must reach the hook. If the hook needs special events, pass them and the suite
// also fires them. The suite does not know the hook's purpose; test it with [Blocks] and similar
// functions.
func TestHook(t *testing.T, spec grapnel.Spec, events ...*grapnel.Event) { //nolint:tparallel // the caller decides whether the test itself is parallel
	t.Helper()
	events = append(slices.Clone(events), eventsOf(spec.On)...)
	for _, law := range hookLaws {
		t.Run(law.name, func(t *testing.T) {
			t.Parallel()
			law.hold(t, newHookSuite(t, spec), events)
		})
	}
}

// hookLaws lists the checks of TestHook, each a subtest.
var hookLaws = []struct {
	name string
	hold func(t testing.TB, s *hookSuite, events []*grapnel.Event)
}{
	{"Answers", func(t testing.TB, s *hookSuite, events []*grapnel.Event) {
		called := 0
		for _, ev := range events {
			if !s.listens(t, ev) {
				continue
			}
			called++
			s.permitted(t, ev, s.call(t, patient(s.spec), ev))
		}
		if called == 0 {
			t.Errorf("none of %d events reached the hook; pass a matching event to TestHook", len(events))
		}
	}},
	{"Hostile", func(t testing.TB, s *hookSuite, events []*grapnel.Event) {
		for _, ev := range events {
			for _, odd := range hostile(ev) {
				if s.listens(t, odd) {
					s.call(t, patient(s.spec), odd)
				}
			}
		}
	}},
	{"Concurrent", func(t testing.TB, s *hookSuite, events []*grapnel.Event) {
		for _, ev := range events {
			if !s.listens(t, ev) {
				continue
			}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { s.call(t, patient(s.spec), ev) })
			}
			all.Wait()
		}
	}},
	{"Cancelled", func(t testing.TB, s *hookSuite, events []*grapnel.Event) {
		for _, ev := range events {
			if s.listens(t, ev) {
				s.call(t, 0, ev)                   // cancelled before the call
				s.call(t, 20*time.Millisecond, ev) // cancelled during the call
			}
		}
	}},
}

// patient returns the time limit for a call that is not canceled.
func patient(spec grapnel.Spec) time.Duration { return cmp.Or(spec.Timeout, 2*time.Minute) }

// hookSuite tests one Spec.
type hookSuite struct {
	spec   grapnel.Spec
	engine *grapnel.Engine
}

func newHookSuite(t testing.TB, spec grapnel.Spec) *hookSuite {
	t.Helper()
	engine, err := grapnel.New([]grapnel.Spec{spec}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &hookSuite{spec, engine}
}

// listens reports whether an engine would pass the event to the hook.
func (s *hookSuite) listens(t testing.TB, ev *grapnel.Event) bool {
	t.Helper()
	entries := s.engine.Plan(ev).Entries
	if len(entries) > 0 && strings.Contains(entries[0].Error, grapnel.ErrPanic.Error()) {
		t.Errorf("its Matcher %s\n\tevent %s", entries[0].Error, sample.ShownEvent(ev))
	}
	return len(entries) > 0
}

// answer is the result of one call of a hook.
type answer struct {
	out      grapnel.Outcome
	err      error
	panicked string
}

// call calls the hook with one event and a time limit, and fails the test if the hook violates a
// rule that holds for all events.
func (s *hookSuite) call(t testing.TB, within time.Duration, ev *grapnel.Event) answer {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), within, grapnel.ErrTimeout)
	defer cancel()
	before := state(ev)
	own := *ev
	own.ID = "hooktest" // as in a firing with a Record
	done := make(chan answer, 1)
	go func() {
		a := answer{err: errors.New("it ended its goroutine")}
		defer func() {
			if r := recover(); r != nil {
				a.panicked = fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
			done <- a
		}()
		a.out, a.err = s.spec.Hook.Handle(ctx, &own)
	}()
	limit := soon
	if g, ok := seam.As[seam.Graceful](s.spec.Hook); ok {
		limit += g.Grace()
	}
	var a answer
	select {
	case a = <-done:
	case <-time.After(within + limit):
		t.Errorf("it still runs %v after its context was done\n\tevent %s", limit, sample.ShownEvent(ev))
		return answer{err: ctx.Err()}
	}
	if a.panicked != "" {
		t.Errorf("it panicked: %s\n\tevent %s", a.panicked, sample.ShownEvent(ev))
	}
	if a.err != nil && a.out.Decision == grapnel.Allow {
		t.Errorf("it allows although it failed: %v\n\tevent %s", a.err, sample.ShownEvent(ev))
	}
	own.ID = ev.ID
	if now := state(&own); now != before {
		t.Errorf("it changed the event; return an Outcome instead\n\twas %s\n\tis  %s", sample.Short(before), sample.Short(now))
	}
	return a
}

// soon is the time limit for a hook to return after its context ends. Hooks return much faster, but
// a busy machine must not make the test fail.
const soon = time.Minute

// state returns the complete event as text.
func state(ev *grapnel.Event) string {
	text, err := rawjson.Marshal(ev)
	if err != nil { // hostile events may contain invalid JSON
		return fmt.Sprintf("%+v %+v", *ev, ev.Tool)
	}
	return string(text)
}

// permitted fails the test if an engine would drop a part of the answer.
func (s *hookSuite) permitted(t testing.TB, ev *grapnel.Event, a answer) {
	t.Helper()
	if s.spec.Phase == grapnel.PhaseObserve {
		return // answers of observing hooks are ignored
	}
	f := Fire(t, ev, grapnel.Spec{Name: cmp.Or(s.spec.Name, "hook"), Phase: s.spec.Phase, Hook: grapnel.Func(
		func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return a.out, a.err })})
	for _, run := range f.Record.Hooks {
		if strings.Contains(run.Error, grapnel.ErrIllegal.Error()) {
			t.Errorf("it %s; narrow the On of the Spec, or the answer\n%v", run.Error, f)
		}
	}
}

// eventsOf returns an event of each kind; without kinds, of all kinds.
func eventsOf(kinds []grapnel.Kind) []*grapnel.Event {
	if len(kinds) == 0 {
		for _, c := range grapnel.Contracts() {
			kinds = append(kinds, c.Kind)
		}
		kinds = append(kinds, "native.hooktest.Unheard")
	}
	var events []*grapnel.Event
	for _, kind := range kinds {
		switch {
		case kind == grapnel.ToolBefore:
			events = append(events, Shell("make"), Read("a.go"), Write("a.go", "package a"), Fetch("https://example.com/"),
				Tool("Edit", object{"file_path": "a.go", "old_string": "a", "new_string": "b"}), Tool("mcp__lab__echo", object{"text": "hi"}))
		case kind == "native.hooktest.Unheard":
			events = append(events, &grapnel.Event{Kind: kind, Agent: grapnel.Agent{Name: "hooktest"}, Native: json.RawMessage(`{"new":true}`)})
		default:
			events = append(events, Event(kind))
		}
	}
	return events
}

// hostile returns variants of an event that are as large, deep, odd or empty as an agent, a model
// or a program can make them.
func hostile(ev *grapnel.Event) []*grapnel.Event {
	empty := &grapnel.Event{Kind: ev.Kind, Terms: ev.Terms}
	if ev.Tool != nil {
		empty.Tool = &grapnel.Tool{Name: ev.Tool.Name, Class: ev.Tool.Class}
	}
	list := []*grapnel.Event{{}, {Kind: ev.Kind, Terms: ev.Terms}, empty}
	// 160 KiB is more than a pipe buffer or an environment variable can hold.
	texts := []string{strings.Repeat("x", 160<<10), "a\x00b\x1b[31m\r\n$(touch /tmp/x)'\"`\\", "\xff\xfe half \xed\xa0\x80", strings.Repeat("[{", 5000), ""}
	for _, text := range texts {
		list = append(list, withText(ev, text))
	}
	if ev.Tool != nil {
		deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
		for _, input := range []string{`null`, `[]`, `"text"`, `1e400`, `{"command":["rm","-rf"],"file_path":7,"url":null}`, `{"a":1,"a":2,"A":3}`, deep} {
			odd := *ev
			tool := *ev.Tool
			tool.Input, tool.Output = json.RawMessage(input), json.RawMessage(input)
			tool.Derive()
			odd.Tool, odd.Native = &tool, nil
			list = append(list, &odd)
		}
	}
	odd := *ev
	odd.Session = grapnel.Session{ID: "../../\x00", CWD: "/nowhere/at/all\x00", Root: "relative", Transcript: "\n", Mode: strings.Repeat("m", 70_000)}
	return append(list, &odd)
}

// withText puts one text into every text field of an event.
func withText(ev *grapnel.Event, text string) *grapnel.Event {
	out := *ev
	out.Native = nil
	for _, f := range ev.TextFields() {
		raw, changed := out.MapText(f, func(string) string { return text })
		if !changed {
			continue
		}
		if next, err := out.Set(f, raw); err == nil {
			out = *next
		}
	}
	return &out
}

// answers returns a hook with the same outcome for every event.
func answers(out grapnel.Outcome) grapnel.Hook {
	return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return out, nil })
}
