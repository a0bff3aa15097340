package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// A question is a model request with a custom type.
type question struct {
	Model string   `json:"model"`
	Words []string `json:"words,omitempty"`
}

// Hooks get request and response as JSON, and their changes are used.
//
// Proves: GC-05, GC-06
func TestModelTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil,
		hook("request", grapnel.ModelBefore, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			if got := string(ev.Model.Request); got != `{"model":"m","words":["<a>"]}` {
				t.Errorf("request %s", got)
			}
			return grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{grapnel.FieldRequest: json.RawMessage(`{"words":null}`)}}, nil
		})),
		hook("response", grapnel.ModelAfter, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			if got := string(ev.Model.Request) + string(ev.Model.Response); got != `{"model":"m"}["m",0]` {
				t.Errorf("request and response %s", got)
			}
			return grapnel.Replace(grapnel.FieldResponse, []any{"better"})
		})))
	got, err := host.Model(w.ctx, question{"m", []string{"<a>"}}, func(_ context.Context, q question) ([]any, error) {
		return []any{q.Model, len(q.Words)}, nil // nothing of the old request remains
	})
	if err != nil || fmt.Sprint(got) != "[better]" {
		t.Errorf("Model = %v, %v", got, err)
	}
}

// A value that cannot be shown to hooks, or cannot be read after their changes, is an error and
// not a Refusal. Without hooks the value is not even encoded.
func TestModelUnreadable(t *testing.T) {
	t.Parallel()
	ask := func(w *world, q any, answer int) (int, error) {
		return host.Model(w.ctx, q, func(context.Context, any) (int, error) { return answer, nil })
	}
	if got, err := ask(newWorld(t, nil), func() {}, 1); got != 1 || err != nil {
		t.Errorf("without hooks: %d, %v", got, err)
	}
	w := newWorld(t, nil, returning("h", grapnel.ModelBefore, grapnel.Outcome{}))
	if _, err := ask(w, func() {}, 1); err == nil || host.Refused(err) != nil || !strings.Contains(err.Error(), "cannot encode the request") {
		t.Errorf("a request that is no JSON: %v", err)
	}
	w = newWorld(t, nil, sets(grapnel.ModelAfter, grapnel.FieldResponse, `"x"`))
	if _, err := ask(w, 1, 1); err == nil || host.Refused(err) != nil || !strings.Contains(err.Error(), "that hooks changed") {
		t.Errorf("a response of another type: %v", err)
	}
	w = newWorld(t, nil, sets(grapnel.ModelBefore, grapnel.FieldResponse, `"x"`))
	if _, err := ask(w, 1, 1); err == nil || host.Refused(err) != nil {
		t.Errorf("an answer of another type in the model's place: %v", err)
	}
	w = newWorld(t, nil, sets(grapnel.ModelBefore, grapnel.FieldRequest, `"x"`))
	if _, err := host.Model(w.ctx, 1, func(context.Context, int) (int, error) { t.Error("the model was asked"); return 0, nil }); err == nil {
		t.Error("a request of another type was taken")
	}
	failing := func(context.Context, int) (int, error) { return 0, errBroken }
	for _, w := range []*world{newWorld(t, nil), newWorld(t, nil, returning("h", grapnel.ModelAfter, grapnel.Outcome{}))} {
		w.watch(grapnel.ModelAfter)
		if _, err := host.Model(w.ctx, 1, failing); !errors.Is(err, errBroken) || len(w.events) != 0 {
			t.Errorf("the model fails: %v, %v", err, w.kinds())
		}
	}
}

// streamed calls a model with an answer in three pieces, and returns the released text, the
// number of read pieces, and the whole.
func streamed(w *world) (released []string, read int, whole string, err error) {
	whole, err = host.Stream(w.ctx, "q", func(_ context.Context, _ string, yield func(string) error) (string, error) {
		for _, soFar := range []string{"a", "ab", "abc"} {
			read++
			if err := yield(soFar); err != nil {
				return "", err
			}
		}
		return "abcd", nil
	}, func(soFar string) error {
		released = append(released, soFar)
		return nil
	})
	return released, read, whole, err
}

// The released parts of a streamed answer and their time.
//
// Proves: FL-27
func TestStream(t *testing.T) {
	t.Parallel()
	// stops refuses text that contains a letter.
	stops := func(letter string) grapnel.Spec {
		return hook("stops", grapnel.ModelAfter, grapnel.Guard(func(ev *grapnel.Event) string {
			if strings.Contains(string(ev.Model.Response), letter) {
				return "no " + letter
			}
			return ""
		}))
	}
	upper := hook("upper", grapnel.ModelAfter, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Replace(grapnel.FieldResponse, strings.ToUpper(strings.Trim(string(ev.Model.Response), `"`)))
	}))
	ask := returning("h", grapnel.ModelBefore, grapnel.Outcome{})
	flyto, _ := host.FindManners("flyto")
	tests := map[string]struct {
		opts     host.Options
		spec     grapnel.Spec
		released []string
		read     int
		whole    string
		refused  string
		fired    int // number of model.after events
	}{
		"nobody listens":               {released: []string{"a", "ab", "abc", "abcd"}, read: 3, whole: "abcd"},
		"somebody before it":           {spec: ask, released: []string{"a", "ab", "abc", "abcd"}, read: 3, whole: "abcd"},
		"held":                         {spec: upper, released: []string{"ABCD"}, read: 3, whole: "ABCD", fired: 1},
		"held, refused":                {spec: stops("d"), read: 3, refused: "no d", fired: 1},
		"piece by piece":               {opts: host.Options{Incremental: true}, spec: upper, released: []string{"A", "AB", "ABC", "ABCD"}, read: 3, whole: "ABCD", fired: 4},
		"piece by piece, refused":      {opts: host.Options{Incremental: true}, spec: stops("b"), released: []string{"a"}, read: 2, refused: "no b", fired: 2},
		"piece by piece, the last":     {opts: host.Options{Incremental: true}, spec: stops("d"), released: []string{"a", "ab", "abc"}, read: 3, refused: "no d", fired: 4},
		"not waited for":               {opts: host.Options{Manners: flyto}, spec: stops("b"), released: []string{"a", "ab", "abc", "abcd"}, read: 3, whole: "abcd", fired: 1}, // FL-27
		"not waited for, incremental":  {opts: host.Options{Manners: flyto, Incremental: true}, spec: upper, released: []string{"a", "ab", "abc", "abcd"}, read: 3, whole: "abcd", fired: 1},
		"a hook answers":               {spec: sets(grapnel.ModelBefore, grapnel.FieldResponse, `"x"`), released: []string{"x"}, whole: "x"},
		"somebody fails":               {spec: fails(grapnel.ModelAfter, grapnel.OnErrorClosed), read: 3, refused: "could not answer", fired: 1},
		"somebody fails, counts as go": {spec: fails(grapnel.ModelAfter, grapnel.OnErrorOpen), released: []string{"abcd"}, read: 3, whole: "abcd", fired: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, &tt.opts)
			if tt.spec.Name != "" {
				w.add(tt.spec)
			}
			fired := 0
			if tt.fired > 0 {
				w.engine.AddObserver(grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
					if rec.Event == grapnel.ModelAfter {
						fired++
					}
				}))
			}
			released, read, whole, err := streamed(w)
			if err := w.host.Close(w.ctx); err != nil {
				t.Error(err)
			}
			no := host.Refused(err)
			if err != nil && no == nil || (no != nil) != (tt.refused != "") || no != nil && !strings.Contains(no.Reason, tt.refused) {
				t.Errorf("error %v, want that it was refused because of %q", err, tt.refused)
			}
			if !slices.Equal(released, tt.released) || read != tt.read || whole != tt.whole {
				t.Errorf("released %q, read %d, whole %q, want %q, %d, %q", released, read, whole, tt.released, tt.read, tt.whole)
			}
			if fired != tt.fired {
				t.Errorf("model.after was fired %d times, want %d", fired, tt.fired)
			}
		})
	}
}

// A refused answer stays refused, even if the reader ignores the error.
func TestStreamIgnoresRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &host.Options{Incremental: true}, hook("h", grapnel.ModelAfter, grapnel.Guard(func(ev *grapnel.Event) string {
		return map[string]string{"0": "no"}[string(ev.Model.Response)] // the whole answer would be permitted
	})))
	released := 0
	whole, err := host.Stream(w.ctx, 1, func(_ context.Context, _ int, yield func(int) error) (int, error) {
		for i := range 3 {
			_ = yield(i)
		}
		return 7, nil
	}, func(int) error { released++; return nil })
	if host.Refused(err) == nil || whole != 0 || released != 0 {
		t.Errorf("Stream = %d, %v, released %d", whole, err, released)
	}
}

// An error of the caller's release function ends the stream, with and without hooks.
func TestStreamReleaseFails(t *testing.T) {
	t.Parallel()
	for _, w := range []*world{newWorld(t, nil), newWorld(t, nil, returning("h", grapnel.ModelAfter, grapnel.Outcome{}))} {
		_, err := host.Stream(w.ctx, 1, func(_ context.Context, _ int, yield func(int) error) (int, error) { return 2, yield(1) },
			func(int) error { return errBroken })
		if !errors.Is(err, errBroken) {
			t.Errorf("Stream = %v, want %v", err, errBroken)
		}
	}
}

// Hooks that only observe hold nothing back: Observers, observing hooks, and hooks in observe
// mode. They still get the event, once.
func TestObserversHoldNothing(t *testing.T) {
	t.Parallel()
	for _, incremental := range []bool{false, true} {
		heard := 0
		looks := grapnel.Spec{Name: "looks", Phase: grapnel.PhaseObserve, Hook: grapnel.Watch(func(context.Context, *grapnel.Event) {})}
		tries := returning("tries", grapnel.ModelAfter, grapnel.Outcome{Decision: grapnel.Block})
		tries.Observe = true
		w := newWorld(t, &host.Options{Incremental: incremental}, looks, tries)
		w.engine.AddObserver(grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
			if rec.Event == grapnel.ModelAfter {
				heard++
			}
		}))
		released, _, _, err := streamed(w)
		if want := []string{"a", "ab", "abc", "abcd"}; err != nil || !slices.Equal(released, want) || heard != 1 {
			t.Errorf("incremental %t: released %q, %v, heard %d times, want %q, once", incremental, released, err, heard, want)
		}
		if !w.s.Listens(grapnel.ModelAfter) || w.s.Decides(grapnel.ModelAfter) {
			t.Error("somebody has a say who only looks")
		}
		w.add(returning("guard", grapnel.ModelAfter, grapnel.Outcome{}))
		if !w.s.Decides(grapnel.ModelAfter) || w.s.Decides(grapnel.ModelBefore) {
			t.Error("a guard has no say where it listens, or one where it does not")
		}
		if err := w.engine.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if s := host.SessionFromContext(t.Context()); s.Decides(grapnel.ModelAfter) {
		t.Error("somebody has a say in no session")
	}
	h := host.New(&fake{}, nil)
	if _, s, _, err := h.Start(t.Context(), grapnel.Session{}, ""); err != nil || !s.Decides(grapnel.ModelAfter) {
		t.Errorf("hooks of which nobody knows better have no say (%v)", err)
	}
}
