//go:build unix

package process_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/process"
)

// FL-19, FL-20, FL-21, FL-22, GC-12, GC-13: the programs of a Flyto agent, run by a Go agent with
// the preset "flyto". Each program runs, in order, whatever the previous one answered. Only exit
// code 2 blocks. If a program fails, the Record contains the error and its cause.
func TestFlytoPrograms(t *testing.T) {
	t.Parallel()
	preset, ok := grapnel.FindPreset("flyto")
	if !ok {
		t.Fatal("there is no preset flyto")
	}
	var rec *grapnel.Record
	engine, err := grapnel.New(nil, &grapnel.Options{Preset: preset, Observers: []grapnel.Observer{
		grapnel.ObserverFunc(func(_ context.Context, r *grapnel.Record) { rec = r }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	programs := []struct {
		name, line string
		timeout    time.Duration
		decision   grapnel.Decision
		cause      grapnel.Cause
		wantErr    string // part of the error; empty = no error
	}{
		{"block", `echo "not this one" >&2; exit 2`, 0, grapnel.Block, grapnel.CauseDecision, ""},
		{"fine", `echo '{"note":"json"}'`, 0, grapnel.None, "", ""},
		{"text", `echo text`, 0, grapnel.None, "", ""},
		{"broken", `exit 1`, 0, grapnel.None, grapnel.CauseError, "exit code 1"},
		{"broken too", `exit 3`, 0, grapnel.None, grapnel.CauseError, "exit code 3"},
		{"not found", `no-such-program-at-all`, 0, grapnel.None, grapnel.CauseError, "did not find it"},
		{"slow", `sleep 60`, 100 * time.Millisecond, grapnel.None, grapnel.CauseTimeout, "took longer than its timeout of 100ms"},
		{"block too", `echo '{"decision":"block","reason":"nor this"}'; exit 2`, 0, grapnel.Block, grapnel.CauseDecision, ""},
	}
	for _, p := range programs {
		hook := &process.Command{Name: p.name, Line: p.line, Dialect: dialect.Flyto(), Vars: dialect.Flyto().HookEnv, Executor: process.System}
		spec := preset.Defaults(grapnel.Spec{Name: p.name, On: []grapnel.Kind{grapnel.ToolBefore}, Hook: hook, Timeout: p.timeout})
		if p.timeout == 0 && spec.Timeout != 30*time.Second {
			t.Errorf("%s: timeout %v, want that of the preset", p.name, spec.Timeout)
		}
		if err := engine.Add(spec); err != nil {
			t.Fatal(err)
		}
	}
	v := engine.Fire(t.Context(), event(t))
	if v.Decision != grapnel.Block || v.Reason() != "not this one" {
		t.Errorf("Verdict %v %q, want the first block's", v.Decision, v.Reason())
	}
	if len(rec.Hooks) != len(programs) {
		t.Fatalf("%d results of %d programs: %+v", len(rec.Hooks), len(programs), rec.Hooks)
	}
	for i, p := range programs {
		got := rec.Hooks[i]
		if got.Name != p.name || got.Decision != p.decision || got.Cause != p.cause || (got.Error == "") != (p.wantErr == "") || !strings.Contains(got.Error, p.wantErr) {
			t.Errorf("result %d: %+v, want %+v", i, got, p)
		}
	}
}

// IC-07, IC-08: the context carries the caller's metadata to the Executor. Errors of different
// types can be distinguished.
func TestErrorsOfEachSort(t *testing.T) {
	t.Parallel()
	type metadata struct{}
	ctx := context.WithValue(t.Context(), metadata{}, "turn 7")
	seen := ""
	c := &process.Command{Line: "exit 2", Executor: process.ExecutorFunc(func(ctx context.Context, p *process.Program) (*process.Ending, error) {
		seen, _ = ctx.Value(metadata{}).(string)
		return process.System.Run(ctx, p)
	})}
	if out, err := c.Handle(ctx, event(t)); err != nil || out.Decision != grapnel.Block || seen != "turn 7" {
		t.Errorf("Handle = %+v, %v, and the Executor saw %q", out, err, seen)
	}
	c.Line = "exit 1"
	if out, err := c.Handle(ctx, event(t)); err == nil || errors.Is(err, grapnel.ErrTimeout) || out.Decision != grapnel.None {
		t.Errorf("Handle = %+v, %v, want an error that is no timeout", out, err)
	}
	ended, cancel := context.WithTimeout(ctx, 0)
	defer cancel()
	if _, err := c.Handle(ended, event(t)); !errors.Is(err, grapnel.ErrTimeout) || !errors.Is(err, process.ErrStart) {
		t.Errorf("Handle = %v, want that it was not started because its time was up", err)
	}
}
