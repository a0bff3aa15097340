package grapnel_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/allruns"
)

func TestOutputObject(t *testing.T) {
	t.Parallel()
	for stdout, want := range map[string]string{
		"":                           "null",
		"text":                       "null",
		"[1]":                        "null",
		"null":                       "null",
		"{} and text":                "null",
		`{"a":`:                      "null",
		"{}":                         "{}",
		" {\"a\": 9007199254740993}": `{"a":9007199254740993}`,
	} {
		out := &grapnel.Output{Stdout: []byte(stdout)}
		if got, err := json.Marshal(out.Object()); err != nil || string(got) != want {
			t.Errorf("Object of %q = %s, %v, want %s", stdout, got, err, want)
		}
	}
	if (*grapnel.Output)(nil).Object() != nil {
		t.Error("a nil Output has an object")
	}
}

// FL-03: observers get the Output of each hook, also if it has no opinion, failed, was late, or
// only observes. No Record contains it.
func TestOutputOfHookRuns(t *testing.T) {
	t.Parallel()
	const secret = "ghp_0123456789"
	prints := func(text string, err error) grapnel.Hook {
		return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Output: &grapnel.Output{Exit: 3, Stdout: []byte(text + " " + secret)}}, err
		})
	}
	var rec *grapnel.Record
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "silent", Hook: prints("silent", nil)},
		{Name: "fails", Hook: prints("fails", errors.New("broken"))},
		{Name: "go", Hook: decides(grapnel.Block, "no")},
		{Name: "observes", Phase: grapnel.PhaseObserve, Hook: prints("observes", nil)},
	}, &grapnel.Options{Preset: namedPreset(t, "flyto"), Observers: []grapnel.Observer{
		grapnel.ObserverFunc(func(_ context.Context, r *grapnel.Record) { rec = r }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	v, late := allruns.Fire(t.Context(), engine, toolEvent("ls"))
	runs := rec.Hooks[:3]
	for run := range late {
		runs = append(runs, run)
	}
	for i, want := range []string{"silent", "fails", "", "observes"} {
		run := &runs[i]
		switch {
		case want == "" && run.Output != nil:
			t.Errorf("%s: Output %q, want none", run.Name, run.Output.Stdout)
		case want != "" && (run.Output == nil || string(run.Output.Stdout) != want+" "+secret || run.Output.Exit != 3):
			t.Errorf("%s: Output %+v, want that of %s", run.Name, run.Output, want)
		case want != "" && run.Outcome != nil:
			t.Errorf("%s: Outcome %+v, want no opinion", run.Name, run.Outcome)
		}
	}
	line, err := json.Marshal(struct {
		Record  *grapnel.Record
		Verdict *grapnel.Verdict
		Runs    []grapnel.HookRun
	}{rec, &v, runs})
	if err != nil || strings.Contains(string(line), secret) {
		t.Errorf("the output is in the Record or the Verdict: %s, %v", line, err)
	}
}
