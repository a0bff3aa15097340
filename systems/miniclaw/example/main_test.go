//go:build system && unix

package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/readme"
	"github.com/grapnel-dev/grapnel/process"
)

// Proves: MC-01, MC-02, MC-03, MC-04, MC-05, MC-06, MC-07, MC-08, MC-09, MC-10, MC-11, MC-13, MC-14
// Proves: MC-16, MC-17, MC-18, MC-19
func TestReadme(t *testing.T) {
	t.Parallel()
	readme.Shows(t, "output.txt", run)
}

// The chapter says both that the last change wins and that changes accumulate. The preset does the
// first, and an engine without it the second.
//
// Proves: MC-08, MC-26
func TestBothReadings(t *testing.T) {
	t.Parallel()
	for preset, want := range map[string][]string{"miniclaw": {"a sees x", "b sees x", "xb"}, "grapnel": {"a sees x", "b sees xa", "xab"}} {
		var got []string
		adds := func(name string) grapnel.Spec {
			return grapnel.Spec{Name: name, On: []grapnel.Kind{grapnel.ToolBefore}, Sequential: true, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				var text string
				if err := json.Unmarshal(ev.Tool.Input, &text); err != nil {
					return grapnel.Outcome{}, err
				}
				got = append(got, name+" sees "+text)
				return grapnel.Replace(grapnel.FieldInput, text+name)
			})}
		}
		p, _ := grapnel.FindPreset(preset)
		engine, err := grapnel.New([]grapnel.Spec{adds("a"), adds("b")}, &grapnel.Options{Preset: p})
		if err != nil {
			t.Fatal(err)
		}
		v := engine.Fire(t.Context(), &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "build", Input: json.RawMessage(`"x"`)}})
		var text string
		if err := json.Unmarshal(v.Changes[grapnel.FieldInput], &text); err != nil {
			t.Fatal(err)
		}
		if got = append(got, text); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", preset, got, want)
		}
	}
}

// The other variant of the shell hook has a list of events, a time limit that blocks, and two
// variables. After a call it only observes.
//
// Proves: MC-22
func TestHookRunner(t *testing.T) {
	t.Parallel()
	command := func(line string) grapnel.Hook {
		d := dialect.Miniclaw()
		return &process.Command{Name: "runner", Line: line, Executor: process.System, Dialect: d, Vars: d.HookEnv}
	}
	const names = `echo "$HOOK_EVENT $HOOK_TOOL_NAME" >&2; exit 1`
	before, after := []grapnel.Kind{grapnel.ToolBefore}, []grapnel.Kind{grapnel.ToolAfter}
	start := []grapnel.Kind{grapnel.AgentBefore}
	for name, tt := range map[string]struct {
		spec   grapnel.Spec
		kind   grapnel.Kind
		block  bool
		reason string
	}{
		"variables":    {grapnel.Spec{On: before, Hook: command(names)}, grapnel.ToolBefore, true, "pre_tool_call build"},
		"other event":  {grapnel.Spec{On: start, Hook: command(names)}, grapnel.ToolBefore, false, ""},
		"too slow":     {grapnel.Spec{On: before, Hook: command("sleep 60"), Timeout: 50 * time.Millisecond}, grapnel.ToolBefore, true, "hook failed"},
		"after a call": {grapnel.Spec{On: after, Hook: command(names), Phase: grapnel.PhaseObserve}, grapnel.ToolAfter, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := tt.spec
			spec.Name = "runner"
			var ran []grapnel.HookRun
			preset, _ := grapnel.FindPreset("miniclaw")
			engine, err := grapnel.New([]grapnel.Spec{preset.Defaults(spec)}, &grapnel.Options{Preset: preset})
			if err != nil {
				t.Fatal(err)
			}
			defer engine.AddObserver(grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { ran = append(ran, rec.Hooks...) }))()
			v := engine.Fire(t.Context(), &grapnel.Event{Kind: tt.kind, Tool: &grapnel.Tool{Name: "build", Input: json.RawMessage(`{}`)}})
			if (v.Decision == grapnel.Block) != tt.block || !strings.Contains(v.Reason(), tt.reason) {
				t.Errorf("%s %q, want block %v %q", v.Decision, v.Reason(), tt.block, tt.reason)
			}
			if err := engine.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if (len(ran) > 0) != (tt.kind == tt.spec.On[0]) {
				t.Errorf("ran %+v", ran)
			}
		})
	}
}
