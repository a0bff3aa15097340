package grapnel_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/presets"
)

// toolEvent returns a call of a shell tool. Its command is a view of the input.
func toolEvent(command string) *grapnel.Event {
	tool := &grapnel.Tool{
		Name: "bash", Class: grapnel.ClassShell,
		Input: encoded(map[string]string{"command": command}),
		Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}},
	}
	tool.Derive()
	return &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "test"}, Tool: tool}
}

func encoded(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// setCommand returns the Outcome of a hook that changes the command.
func setCommand(command string) grapnel.Outcome {
	return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldCommand: encoded(command)}}
}

func set(field grapnel.Field, value string) grapnel.Outcome {
	return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{field: json.RawMessage(value)}}
}

func returns(out grapnel.Outcome) grapnel.Hook {
	return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return out, nil })
}

func decides(d grapnel.Decision, reason string) grapnel.Hook {
	return returns(grapnel.Outcome{Decision: d, Reason: reason})
}

func fails(err error) grapnel.Hook {
	return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, err })
}

// diary records the names of the called hooks and the commands that they got.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

// count returns how often a line was written.
func (d *diary) count(line string) int {
	n := 0
	for _, l := range d.read() {
		if l == line {
			n++
		}
	}
	return n
}

// logged returns a hook that writes "name saw command" and then calls answer.
func (d *diary) logged(name string, answer grapnel.Hook) grapnel.Hook {
	return grapnel.Func(func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		line := name
		if ev.Tool != nil && len(ev.Tool.Commands) > 0 {
			line += " saw " + ev.Tool.Commands[0]
		}
		d.write(line)
		return answer.Handle(ctx, ev)
	})
}

// normal is the priority in the tests of a step that has none.
const normal = 100

// scoped returns the Spec of a step from a source of one scope.
func scoped(name string, scope grapnel.Scope, priority int, hook grapnel.Hook) grapnel.Spec {
	return grapnel.Spec{
		Name: name, Source: grapnel.Source{Name: scope.String(), Scope: scope}, Priority: priority - normal, Hook: hook,
	}
}

func phase(p grapnel.Phase, name string, hook grapnel.Hook) grapnel.Spec {
	return grapnel.Spec{Name: name, Phase: p, Hook: hook}
}

func step(name string, hook grapnel.Hook) grapnel.Spec { return phase(grapnel.PhaseStep, name, hook) }

// open makes a hook fail open.
func open(s grapnel.Spec) grapnel.Spec {
	s.OnError = grapnel.OnErrorOpen
	return s
}

func rule(name string, hook grapnel.Hook) grapnel.Spec { return phase(grapnel.PhaseRule, name, hook) }

func rewrite(name string, hook grapnel.Hook) grapnel.Spec {
	return phase(grapnel.PhaseRewrite, name, hook)
}

func newEngine(t testing.TB, opts *grapnel.Options, specs ...grapnel.Spec) *grapnel.Engine {
	t.Helper()
	engine, err := grapnel.New(specs, opts)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// keeper is an Observer that stores the last Record.
type keeper struct {
	mu  sync.Mutex
	rec *grapnel.Record
	n   int
}

func (k *keeper) Observe(_ context.Context, rec *grapnel.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec = rec
	k.n++
}

// fire fires one event through an engine with these hooks.
func fire(t testing.TB, ev *grapnel.Event, specs ...grapnel.Spec) (grapnel.Verdict, *grapnel.Record) {
	t.Helper()
	var k keeper
	v := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{&k}}, specs...).Fire(context.Background(), ev)
	if k.n != 1 {
		t.Fatalf("the Observer was called %d times, want once", k.n)
	}
	return v, k.rec
}

func run(t testing.TB, rec *grapnel.Record, hook string) grapnel.HookRun {
	t.Helper()
	for _, r := range rec.Hooks {
		if r.Name == hook {
			return r
		}
	}
	t.Fatalf("no run of hook %q in the Record: %+v", hook, rec.Hooks)
	return grapnel.HookRun{}
}

func command(t testing.TB, v grapnel.Verdict) string {
	t.Helper()
	if v.Event.Tool == nil || len(v.Event.Tool.Commands) != 1 {
		t.Fatalf("Verdict.Event has no command: %+v", v.Event)
	}
	return v.Event.Tool.Commands[0]
}

// unreadable fires an event that could not be read.
func unreadable(ctx context.Context, e *grapnel.Engine, ev *grapnel.Event, why error) grapnel.Verdict {
	own := *ev
	own.Terms = &grapnel.Terms{Unread: why}
	return e.Fire(ctx, &own)
}

func heard(e *grapnel.Engine, k grapnel.Kind) bool {
	heard, _ := e.Listens(k)
	return heard
}

func mayDecide(e *grapnel.Engine, k grapnel.Kind) bool {
	_, decides := e.Listens(k)
	return decides
}

func sourceIs(name string) func(*grapnel.Spec) bool {
	return func(s *grapnel.Spec) bool { return s.Source.Name == name }
}

// allPresets returns the presets of all systems, Grapnel's first.
func allPresets() []grapnel.Preset {
	var all []grapnel.Preset
	for _, row := range presets.Rows() {
		all = append(all, presets.Of(row).(grapnel.Preset))
	}
	return all
}
