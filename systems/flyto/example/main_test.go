//go:build system && unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/readme"
	"github.com/grapnel-dev/grapnel/process"
)

// Proves: FL-01, FL-05, FL-06, FL-07, FL-08, FL-09, FL-10, FL-11, FL-14, FL-16, FL-20, FL-21, FL-24
// Proves: FL-25, FL-31, FL-32, FL-33, FL-34, FL-36, FL-37
// Proves: FL-40, FL-41, FL-42, FL-43, FL-44, FL-45, FL-46, FL-47
func TestReadme(t *testing.T) {
	t.Parallel()
	readme.Shows(t, filepath.Join("..", "..", "..", "docs", "systems", "flyto.md"), run)
}

// fire registers one hook for a type, fires its event, and returns the Verdict and the run.
func fire(t *testing.T, hookType string, def hookDef, ev *grapnel.Event) (grapnel.Verdict, grapnel.HookRun) {
	t.Helper()
	var runs []grapnel.HookRun
	m, err := newManager(grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { runs = rec.Hooks }))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.register(hookType, def); err != nil {
		t.Fatal(err)
	}
	v := m.Fire(t.Context(), ev)
	if len(runs) != 1 {
		t.Fatalf("%d hooks ran", len(runs))
	}
	return v, runs[0]
}

// Every program gets the variables of the machine and the project. Of a large input it gets the
// beginning, and zero bytes do not prevent its start.
//
// Proves: FL-40, FL-48, FL-49
func TestEveryProgramStarts(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	content := strings.Repeat("a\x00b", 1<<17)
	input, err := json.Marshal(map[string]string{"content": content})
	if err != nil {
		t.Fatal(err)
	}
	ev := call("Write", string(input))
	ev.Session = grapnel.Session{Root: dir, CWD: dir}
	const line = `echo "$PLATFORM $ARCH $PROJECT_ROOT $CWD $(pwd) ${#TOOL_INPUT}" >&2; exit 2`
	v, run := fire(t, "pre_tool_use", hookDef{command: line}, ev)
	got := strings.Fields(v.Reason())
	want := []string{runtime.GOOS, runtime.GOARCH, dir, dir, dir}
	if v.Decision != grapnel.Block || len(got) != 6 || !slices.Equal(got[:5], want) || len(got[5]) < 5 {
		t.Errorf("%s %q (%s), want %q and a length of more than 10,000", v.Decision, got, run.Error, want)
	}
}

// A program that is missing or too slow is a result with an error, and blocks nothing.
//
// Proves: FL-13, FL-19, FL-20
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		def     hookDef
		timeout bool
	}{
		"missing":  {def: hookDef{command: "/nowhere/hook"}},
		"exit 3":   {def: hookDef{command: "exit 3"}},
		"too slow": {def: hookDef{command: "sleep 60", timeout: 50 * time.Millisecond}, timeout: true},
		"panics":   {def: hookDef{handler: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { panic("boom") })}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, run := fire(t, "pre_tool_use", tt.def, call("Fetch", `{}`))
			if v.Decision != grapnel.None || run.Err == nil || errors.Is(run.Err, grapnel.ErrTimeout) != tt.timeout {
				t.Errorf("verdict %s, run %+v", v.Decision, run)
			}
		})
	}
	m, err := newManager()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.register("stop", hookDef{command: "true"}); err != nil {
		t.Fatal(err)
	}
	if limit := m.Specs()[0].Timeout; limit != 30*time.Second {
		t.Errorf("the default timeout is %s", limit)
	}
}

// All notices of Flyto's types are fired in the background, and the agent does not wait.
//
// Proves: FL-24, FL-28
func TestNotices(t *testing.T) {
	t.Parallel()
	for _, hookType := range []string{"notification", "session_end", "task_completed", "config_change"} {
		m, err := newManager()
		if err != nil {
			t.Fatal(err)
		}
		release, ran := make(chan struct{}), make(chan string, 1)
		err = m.register(hookType, hookDef{handler: grapnel.Watch(func(_ context.Context, ev *grapnel.Event) {
			<-release
			ran <- string(ev.Kind)
		})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		results := m.Start(ctx, eventOf(hookType)) // returns although the hook waits
		cancel()
		close(release)
		<-results
		if got := <-ran; got != string(eventOf(hookType).Kind) {
			t.Errorf("%s ran for %s", hookType, got)
		}
	}
}

// An Executor keeps what each program printed: Flyto's results, in order, with the helpers that
// search them.
//
// Proves: FL-03, FL-04, FL-22, FL-23
func TestResults(t *testing.T) {
	t.Parallel()
	var results dialect.FlytoResults
	keep := process.ExecutorFunc(func(ctx context.Context, p *process.Program) (*process.Ending, error) {
		end, err := process.System.Run(ctx, p)
		if err == nil {
			out := dialect.Output{Exit: end.Exit, Stdout: end.Stdout.Head, Stderr: end.Stderr.Head}
			results = append(results, dialect.NewFlytoResult(out, end.Stopped))
		}
		return end, err
	})
	m, err := newManager()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"echo text", `echo '{"ticket":42}'; echo warn >&2`, `echo '{"ticket":43}'; exit 1`, "echo '[1]'"} {
		d := dialect.Flyto()
		if err := m.register("pre_tool_use", hookDef{handler: &process.Command{Name: line, Line: line, Dialect: d, Vars: d.HookEnv, Executor: keep}}); err != nil {
			t.Fatal(err)
		}
	}
	m.Fire(t.Context(), call("Fetch", `{}`))
	if len(results) != 4 {
		t.Fatalf("%d results, want 4", len(results))
	}
	for i, want := range []struct {
		success, json  bool
		stdout, stderr string
	}{{true, false, "text\n", ""}, {true, true, "{\"ticket\":42}\n", "warn\n"}, {false, true, "{\"ticket\":43}\n", ""}, {true, false, "[1]\n", ""}} {
		r := results[i]
		if r.Success() != want.success || (r.JSON != nil) != want.json || string(r.Stdout) != want.stdout || string(r.Stderr) != want.stderr {
			t.Errorf("result %d: %+v, want %+v", i, r, want)
		}
	}
	if value, found := results.FindJSON("ticket"); !found || string(value) != "42" {
		t.Errorf("the first ticket is %s, found %v", value, found)
	}
	if i, failed := results.FirstError(), results.HasErrors(); i != 2 || !failed {
		t.Errorf("the first error is of result %d, errors %v", i, failed)
	}
}
