package grapnel_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"weak"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/allruns"
)

// TestPanicInUpdate checks that a panicking callback does not leave the engine locked.
func TestPanicInUpdate(t *testing.T) {
	t.Parallel()
	engine := newEngine(t, nil, step("a", returns(grapnel.Outcome{})))
	for name, change := range map[string]func(){
		"RemoveFunc": func() { engine.Remove(func(*grapnel.Spec) bool { panic("no") }) },
		"Update":     func() { _ = engine.Update(func([]grapnel.Spec) []grapnel.Spec { panic("no") }) },
		"Check":      func() { _ = engine.Add(grapnel.Spec{Name: "b", Hook: panicky{}}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			change()
		}()
	}
	if err := engine.Add(step("c", returns(grapnel.Outcome{}))); err != nil || len(engine.Specs("")) != 2 {
		t.Errorf("Add = %v, then there are %d hooks, want a and c", err, len(engine.Specs("")))
	}
}

type panicky struct{ grapnel.Hook }

func (panicky) Check() error { panic("no") }

// reader is a Hook and a Matcher that reads the ID of its event.
type reader struct{ ids *[]string }

func (reader) ReadsID() {}

func (r reader) Match(ev *grapnel.Event, _ *grapnel.Verdict) (bool, error) {
	*r.ids = append(*r.ids, ev.ID)
	return true, nil
}

func (r reader) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	*r.ids = append(*r.ids, ev.ID)
	return grapnel.Outcome{}, nil
}

// wrapped is a hook that wraps another one.
type wrapped struct{ grapnel.Hook }

func (w wrapped) Unwrap() grapnel.Hook { return w.Hook }

func TestIDReader(t *testing.T) {
	t.Parallel()
	var ids []string
	tests := map[string]struct {
		spec  grapnel.Spec
		given string
		want  bool // the event has an ID
	}{
		"hook":    {step("h", reader{&ids}), "", true},
		"wrapped": {step("h", wrapped{wrapped{reader{&ids}}}), "", true},
		"matcher": {grapnel.Spec{Name: "h", Hook: returns(grapnel.Outcome{}), Match: reader{&ids}}, "", true},
		"given":   {step("h", reader{&ids}), "mine", true},
		"nobody": {step("h", grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			ids = append(ids, ev.ID)
			return grapnel.Outcome{}, nil
		})), "", false},
	}
	for name, tt := range tests {
		ids = nil
		ev := toolEvent("x")
		ev.ID = tt.given
		// A second round follows: the same firing has the same ID.
		engine := newEngine(t, nil, tt.spec, at(200, step("change", returns(setCommand("y")))))
		for range 2 {
			engine.Fire(t.Context(), ev)
		}
		if ev.ID != tt.given {
			t.Errorf("%s: the caller's event has the ID %q now", name, ev.ID)
		}
		if got := !slices.Contains(ids, ""); got != tt.want || len(ids) < 2 {
			t.Errorf("%s: IDs %q, want some: %t", name, ids, tt.want)
		}
		if again := ids[0] == ids[len(ids)-1]; tt.given == "" && tt.want && again {
			t.Errorf("%s: two firings have the ID %q", name, ids[0])
		}
		if tt.given != "" && ids[0] != tt.given {
			t.Errorf("%s: ID %q, want that of the event", name, ids[0])
		}
	}
}

// TestSessionNeverWeakens checks that an event that is blocked without a session is also blocked
// with every kind of session.
//
// Proves: FL-36
func TestSessionNeverWeakens(t *testing.T) {
	t.Parallel()
	guard := grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		if ev.Tool.Commands[0] == "rm -rf /" {
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}, nil
		}
		return grapnel.Outcome{Decision: grapnel.Allow}, nil
	})
	guards := map[string]grapnel.Spec{
		"step": step("guard", guard), "rule": rule("guard", guard), "managed": scoped("guard", grapnel.ScopeManaged, 100, guard),
		"broken": {Name: "guard", Hook: fails(errors.New("broken")), OnError: grapnel.OnErrorClosed},
	}
	sessions := map[string]grapnel.Spec{
		"allow":        step("s", decides(grapnel.Allow, "fine")),
		"same name":    step("guard", decides(grapnel.Allow, "fine")),
		"rule":         rule("s", decides(grapnel.Allow, "fine")),
		"halt":         step("s", returns(grapnel.Outcome{Halt: "stop"})),
		"panic":        step("s", grapnel.Guard(func(*grapnel.Event) string { panic("no") })),
		"observe":      {Name: "guard", Hook: guard, Observe: true},
		"managed":      scoped("s", grapnel.ScopeManaged, -1, decides(grapnel.Allow, "fine")),
		"of a session": scoped("s", grapnel.ScopeSession, 1000, decides(grapnel.Allow, "fine")),
		"late":         phase(grapnel.PhaseObserve, "s", decides(grapnel.Allow, "fine")),
	}
	for _, preset := range allPresets() {
		for guarded, spec := range guards {
			for name, own := range sessions {
				spec.Key, own.Key = "same", "same"
				engine := newEngine(t, &grapnel.Options{Preset: preset}, spec)
				for _, other := range allPresets() {
					session := newEngine(t, &grapnel.Options{Preset: other}, own)
					in := engine.In(grapnel.NewContext(t.Context(), session))
					if v := in.Fire(t.Context(), toolEvent("rm -rf /")); v.Decision != grapnel.Block {
						t.Errorf("%s, %s, with a session's %s (%s): %v, want block", preset.String(), guarded, name, other.String(), v.Decision)
					}
				}
				with, err := engine.With(own)
				if err != nil {
					t.Fatal(err)
				}
				if v := with.Fire(t.Context(), toolEvent("rm -rf /")); v.Decision != grapnel.Block {
					t.Errorf("%s, %s, with %s: %v, want block", preset.String(), guarded, name, v.Decision)
				}
			}
		}
	}
}

// TestSessionChangesAfterGuard checks that a guard judges again after a session's hook changed
// the event, and that an Allow for the old input is ignored.
func TestSessionChangesAfterGuard(t *testing.T) {
	t.Parallel()
	guard := at(10, step("guard", grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		if ev.Tool.Commands[0] == "rm -rf /" {
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}, nil
		}
		return grapnel.Outcome{Decision: grapnel.Allow}, nil
	})))
	engine := newEngine(t, nil, guard)
	for name, tt := range map[string]struct {
		scope   grapnel.Scope
		command string
		want    grapnel.Decision
	}{
		"guard asked again":    {grapnel.ScopeSession, "rm -rf /", grapnel.Block},
		"allowed again":        {grapnel.ScopeSession, "ls -l", grapnel.Allow},
		"equal scope, expired": {grapnel.ScopeUser, "ls -l", grapnel.None},
	} {
		with, err := engine.With(scoped("s", tt.scope, 100, returns(setCommand(tt.command))))
		if err != nil {
			t.Fatal(err)
		}
		if v := with.Fire(t.Context(), toolEvent("ls")); v.Decision != tt.want {
			t.Errorf("%s: %v, want %v", name, v.Decision, tt.want)
		}
	}
}

// TestSessionsAreForgotten checks that an engine does not keep references to the sessions that
// used it.
func TestSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	engine := newEngine(t, nil, step("e", returns(grapnel.Outcome{})))
	run := func() []weak.Pointer[grapnel.Engine] {
		with, err := engine.With(step("w", returns(grapnel.Outcome{})))
		if err != nil {
			t.Fatal(err)
		}
		session := newEngine(t, nil, step("s", returns(grapnel.Outcome{})))
		in := engine.In(grapnel.NewContext(context.Background(), session))
		for _, e := range []*grapnel.Engine{with, in} {
			e.Fire(t.Context(), toolEvent("x"))
			_, _ = allruns.Fire(t.Context(), e, toolEvent("x"))
		}
		return []weak.Pointer[grapnel.Engine]{weak.Make(with), weak.Make(session), weak.Make(in)}
	}
	made := run()
	for range 10 {
		runtime.GC()
	}
	for i, p := range made {
		if p.Value() != nil {
			t.Errorf("engine %d is still there", i)
		}
	}
	runtime.KeepAlive(engine)
}

// TestLayersWhileFiring makes all kinds of changes at once. Run with -race.
func TestLayersWhileFiring(t *testing.T) {
	t.Parallel()
	var observed keeper
	engine := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{&observed}}, rule("guard", decides(grapnel.Block, "no")))
	session := newEngine(t, nil, step("s", decides(grapnel.Allow, "")))
	ctx := grapnel.NewContext(t.Context(), session)
	in := engine.In(ctx)
	const rounds, workers = 60, 3
	var firings, changes sync.WaitGroup
	for range workers {
		firings.Go(func() {
			for n := range rounds {
				with, err := in.With(phaseOf("w", grapnel.PhaseObserve))
				if err != nil {
					t.Error(err)
					return
				}
				for i, e := range []*grapnel.Engine{in, with, engine.In(ctx), engine} {
					var v grapnel.Verdict
					switch (n + i) % 2 {
					case 0:
						v = e.Fire(ctx, toolEvent("x"))
					default:
						v, _ = allruns.Fire(ctx, e, toolEvent("x")) // the channel is not read
					}
					if v.Decision != grapnel.Block {
						t.Errorf("decision %v: the guard was not there for a moment", v.Decision)
					}
				}
				if err := with.Close(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range workers {
		changes.Go(func() {
			source := fmt.Sprint("source ", i)
			for n := range rounds {
				session.Enable(n%2 == 0)
				remove := session.AddObserver(&keeper{})
				for _, e := range []*grapnel.Engine{session, engine, in} {
					if err := e.Add(phaseOf(source, grapnel.PhaseObserve)); err != nil {
						t.Error(err)
					}
					_, _, _ = e.Specs(grapnel.ToolBefore), heard(e, grapnel.ToolBefore), e.Plan(toolEvent("x"))
					if e.Remove(sourceIs(source)) != 1 {
						t.Errorf("the hook of %s was gone", source)
					}
				}
				remove()
				remove()
			}
		})
	}
	changes.Go(func() {
		for range rounds {
			_ = session.Close(t.Context())
		}
	})
	firings.Wait()
	changes.Wait()
	if err := errors.Join(session.Close(t.Context()), engine.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if want := workers * rounds * 4; observed.n != want {
		t.Errorf("the engine's Observer heard of %d firings, want %d: each once", observed.n, want)
	}
}
