//go:build unix

package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/process"
)

// The programs of a Flyto agent, run by a Go agent with the preset "flyto". Each program runs, in
// order, whatever the previous one answered. Only exit code 2 blocks. If a program fails, the
// Record contains the error and its cause.
//
// Proves: GC-12, GC-13, FL-19, FL-20, FL-21, FL-22
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

// An Observer gets what each program printed and its exit code, and Flyto's helpers work on these
// runs. Stored Records do not contain them.
//
// Proves: FL-03, FL-04, FL-22, FL-23
func TestFlytoResultsOfPrograms(t *testing.T) {
	t.Parallel()
	preset, _ := grapnel.FindPreset("flyto")
	var rec *grapnel.Record
	engine, err := grapnel.New(nil, &grapnel.Options{Preset: preset, Observers: []grapnel.Observer{
		grapnel.ObserverFunc(func(_ context.Context, r *grapnel.Record) { rec = r }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	const kept = 1000
	for name, c := range []process.Command{
		{Line: `echo '{"ticket":42,"decision":"allow"}'; echo warn >&2`},
		{Line: `echo '{"ticket":43}'; echo broken >&2; exit 3`},
		{Line: `echo "not here" >&2; exit 2`},
		{Line: `head -c 5000 /dev/zero | tr '\0' x; echo secret >&2`, MaxOutput: kept},
		{Args: []string{"/no/such/program"}},
	} {
		c.Name, c.Dialect, c.Vars, c.Executor = fmt.Sprint(name), dialect.Flyto(), dialect.Flyto().HookEnv, process.System
		if err := engine.Add(preset.Defaults(grapnel.Spec{Name: c.Name, Hook: &c})); err != nil {
			t.Fatal(err)
		}
	}
	if err := engine.Add(grapnel.Spec{Name: "go", Hook: grapnel.Guard(func(*grapnel.Event) string { return "a function" })}); err != nil {
		t.Fatal(err)
	}
	engine.Fire(t.Context(), event(t))
	first := rec.Hooks[0]
	if first.Outcome != nil || first.Output == nil || string(first.Output.Object()["ticket"]) != "42" || string(first.Output.Stderr) != "warn\n" {
		t.Errorf("the run of the first program: %+v, its Output %+v", first, first.Output)
	}
	results := dialect.NewFlytoResults(rec.Hooks)
	if len(results) != 6 {
		t.Fatalf("%d results, want 6: %+v", len(results), results)
	}
	for i, want := range []struct {
		exit           int
		stdout, stderr string
		success        bool
	}{
		{0, "{\"ticket\":42,\"decision\":\"allow\"}\n", "warn\n", true},
		{3, "{\"ticket\":43}\n", "broken\n", false},
		{2, "", "not here\n", false},
		{0, strings.Repeat("x", kept) + "… [grapnel: 4000 more bytes cut]", "secret\n", true},
		{0, "", "", false},
		{2, "", "a function", false},
	} {
		r := results[i]
		if r.Exit != want.exit || string(r.Stdout) != want.stdout || string(r.Stderr) != want.stderr || r.Success() != want.success || r.Hook != rec.Hooks[i].Name {
			t.Errorf("result %d: %s exit %d, stdout %q, stderr %q, success %v, error %v; want %+v", i, r.Hook, r.Exit, r.Stdout, r.Stderr, r.Success(), r.Err, want)
		}
	}
	if results[3].Cut != 4000 || results[0].Took <= 0 || !errors.Is(results[4].Err, process.ErrStart) {
		t.Errorf("%d bytes cut, took %v, error %v", results[3].Cut, results[0].Took, results[4].Err)
	}
	if ticket, ok := results.FindJSON("ticket"); string(ticket) != "42" || !ok || results.FirstError() != 1 {
		t.Errorf("FindJSON = %s, %v; FirstError = %d", ticket, ok, results.FirstError())
	}
	line, err := json.Marshal(rec)
	if err != nil || strings.Contains(string(line), "warn") || strings.Contains(string(line), "secret") {
		t.Errorf("the Record contains the output of programs: %s, %v", line, err)
	}
}

// The context carries the caller's metadata to the Executor. Errors of different types can be
// distinguished.
//
// Proves: IC-07, IC-08
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
