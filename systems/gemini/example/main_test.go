//go:build system && unix

package main

import (
	"context"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/readme"
)

// Proves: GC-04, GC-10, GC-11, GC-12, GC-13, GC-14, GC-15, GC-16
func TestReadme(t *testing.T) {
	t.Parallel()
	readme.Shows(t, "output.txt", run)
}

// The advice of the document to authors of hooks is built in: a hook without a timeout has one, a
// hook with a narrow matcher does not start for other tools, a decision has a reason, and the
// Record of a call has the exit code and the duration of each hook.
//
// Proves: GC-12, GC-17
func TestAdvice(t *testing.T) {
	t.Parallel()
	var runs []grapnel.HookRun
	engine, warnings, err := newEngine([]byte(`{"hooks": {"BeforeTool": [
		{"matcher": "^write_file$", "hooks": [
			{"type": "command", "name": "guard", "command": "exit 2"},
			{"type": "command", "name": "broken", "command": "exit 1"}]},
		{"matcher": "read_file", "hooks": [{"type": "command", "name": "reads", "command": "exit 2"}]}]}}`),
		func(_ context.Context, rec *grapnel.Record) { runs = rec.Hooks })
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	for _, s := range engine.Specs("") {
		if s.Timeout != 60*time.Second {
			t.Errorf("%s has the timeout %s", s.Name, s.Timeout)
		}
	}
	if v := engine.Fire(t.Context(), call("write_file")); v.Decision != grapnel.Block || v.Reason() == "" {
		t.Errorf("%s, reason %q", v.Decision, v.Reason())
	}
	if len(runs) != 2 || runs[0].MS <= 0 || runs[1].MS <= 0 {
		t.Fatalf("Record %+v, want two hooks with their duration", runs)
	}
	for _, run := range runs {
		if want := run.Name == "broken"; (run.Error != "") != want {
			t.Errorf("%s: error %q", run.Name, run.Error)
		}
	}
}

// The end of a session has a reason, which matchers see and which the program gets.
//
// Proves: GC-03
func TestSessionEnd(t *testing.T) {
	t.Parallel()
	var runs []grapnel.HookRun
	engine, _, err := newEngine([]byte(`{"hooks": {"SessionEnd": [
		{"matcher": "exit", "hooks": [{"type": "command", "name": "left", "command": "grep -q '\"reason\":\"exit\"'"}]},
		{"matcher": "logout", "hooks": [{"type": "command", "name": "out", "command": "grep -q '\"reason\":\"exit\"'"}]}]}}`),
		func(_ context.Context, rec *grapnel.Record) { runs = rec.Hooks })
	if err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[string]string{"exit": "left", "clear": "", "logout": "out failed"} {
		runs = nil
		engine.Fire(t.Context(), &grapnel.Event{Kind: grapnel.SessionEnd, Cause: reason})
		got := ""
		for _, run := range runs {
			if got = run.Name; run.Error != "" {
				got += " failed"
			}
		}
		if got != want {
			t.Errorf("reason %s: %q, want %q", reason, got, want)
		}
	}
}
