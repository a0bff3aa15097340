//go:build unix

package process_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/process"
)

// Without an Executor no program runs, neither when an engine is built nor when a hook is called
// directly.
//
// Proves: FL-17
func TestNoExecutorNoFallback(t *testing.T) {
	t.Parallel()
	ev := event(t)
	c := &process.Command{Name: "h", Line: "echo ran > ran"}
	const want = `"echo ran > ran" has no Executor: set Command.Executor (process.System runs it on this machine)`
	if out, err := c.Handle(t.Context(), ev); !errors.Is(err, process.ErrStart) || !strings.Contains(err.Error(), want) || !cmp.Equal(out, grapnel.Outcome{}, answerOnly) {
		t.Errorf("Handle = %+v, %v, want ErrStart with %q", out, err, want)
	}
	spec := grapnel.Spec{Name: "h", Hook: c}
	if _, err := grapnel.New([]grapnel.Spec{spec}, nil); err == nil || err.Error() != `hook "h": `+want {
		t.Errorf("New = %v, want %q", err, want)
	}
	engine, err := grapnel.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Add(spec); err == nil || len(engine.Specs("")) != 0 {
		t.Errorf("Add = %v, and %d hooks, want an error and none", err, len(engine.Specs("")))
	}
	if grace := c.Grace(); grace != 0 {
		t.Errorf("Grace = %v of nobody", grace)
	}
	if _, err := os.Stat(filepath.Join(ev.Session.CWD, "ran")); err == nil {
		t.Error("it ran all the same")
	}
}

// An Executor gets the program, its hook, its event and its level of trust, and the Executor's
// result is final. It can treat programs of a project differently from programs of the user.
//
// Proves: FL-17, FL-49
func TestExecutorDecides(t *testing.T) {
	t.Parallel()
	ev := event(t)
	var seen []process.Program
	sandbox := process.ExecutorFunc(func(ctx context.Context, p *process.Program) (*process.Ending, error) {
		seen = append(seen, *p)
		if p.Inherit == process.InheritMinimal {
			return &process.Ending{Exit: 2, Stderr: process.Output{Head: []byte("not here")}}, nil
		}
		p.Args = append([]string{"env", "-i", "SANDBOX=yes"}, p.Args...)
		return process.System.Run(ctx, p)
	})
	ask := func(c *process.Command) grapnel.Outcome {
		t.Helper()
		c.Executor = sandbox
		out, err := c.Handle(t.Context(), ev)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	line := `printf '{"reason":"%s|%s"}' "$SANDBOX" "$GRAPNEL_HOOK"`
	if out := ask(&process.Command{Name: "own", Line: line}); out.Reason != "yes|" {
		t.Errorf("the user's: %+v", out)
	}
	args := []string{"./check", "x"}
	if out := ask(&process.Command{Name: "strange", Args: args, Inherit: process.InheritMinimal}); out.Decision != grapnel.Block || out.Reason != "not here" {
		t.Errorf("a stranger's: %+v", out)
	}
	if got := seen[0]; !slices.Equal(got.Args, []string{"/bin/sh", "-c", line}) || got.Hook != "own" || got.Event != ev || got.Dir != ev.Session.CWD ||
		got.MaxOutput != process.DefaultMaxOutput || !strings.HasSuffix(string(got.Stdin), "}\n") || !slices.Contains(got.Env, "GRAPNEL_HOOK=own") {
		t.Errorf("the Executor saw %+v", got)
	}
	if got := seen[1].Args; !slices.Equal(got, args) {
		t.Errorf("the Executor saw the arguments %q, want %q: what they name may only be there where it runs them", got, args)
	}
	if args[0] != "./check" {
		t.Errorf("the Command's own arguments are now %q", args)
	}
}

// If an Executor fails or returns an incomplete result, the hook returns an error and no answer.
func TestExecutorFails(t *testing.T) {
	t.Parallel()
	ev := event(t)
	down := errors.New("the sandbox is down")
	for name, tt := range map[string]struct {
		end     *process.Ending
		err     error
		is      error
		wantErr string
	}{
		"not started": {nil, down, down, `cannot start "x": the sandbox is down`},
		"nothing":     {nil, nil, process.ErrStart, "the Executor returned no result"},
		"stopped":     {&process.Ending{Exit: -1, Stopped: grapnel.ErrTimeout}, nil, grapnel.ErrTimeout, `"x" took longer`},
		"signal":      {&process.Ending{Exit: -1, Signal: "SIGSYS"}, nil, process.ErrSignal, "SIGSYS"},
		"cut":         {&process.Ending{Stdout: process.Output{Head: []byte(`{"decision":`), Cut: 9}}, nil, process.ErrOutput, "12 bytes"},
	} {
		c := &process.Command{Line: "x", MaxOutput: 12, Executor: process.ExecutorFunc(func(context.Context, *process.Program) (*process.Ending, error) {
			return tt.end, tt.err
		})}
		if _, err := c.Handle(t.Context(), ev); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.wantErr) {
			t.Errorf("%s: error %v, want %v with %q", name, err, tt.is, tt.wantErr)
		}
	}
	if _, err := process.System.Run(t.Context(), &process.Program{}); err == nil {
		t.Error("System ran a program without a name")
	}
}

// An ExecutorFunc has the grace time of System, because it may be a sandbox around System. An
// Executor without a method Grace has none.
func TestGraceOfExecutors(t *testing.T) {
	t.Parallel()
	wrapped := process.ExecutorFunc(process.System.Run)
	for name, e := range map[string]process.Executor{"system": process.System, "func": wrapped} {
		if grace := (&process.Command{Executor: e}).Grace(); grace < 100*time.Millisecond || grace > 2*time.Second {
			t.Errorf("%s: Grace = %v", name, grace)
		}
	}
	plain := struct{ process.Executor }{process.System}
	if grace := (&process.Command{Executor: plain}).Grace(); grace != 0 {
		t.Errorf("Grace = %v of an Executor that needs none", grace)
	}
}

// TestOnlyTheSpecLimitsACommand checks that a Command adds no deadline of its own: a Spec without a
// Timeout lets its program run until the context of the caller is done.
func TestOnlyTheSpecLimitsACommand(t *testing.T) {
	t.Parallel()
	for timeout, limited := range map[time.Duration]bool{0: false, time.Hour: true} {
		var deadline bool
		engine, err := grapnel.New([]grapnel.Spec{{Name: "h", Timeout: timeout, Hook: &process.Command{
			Line: "true",
			Executor: process.ExecutorFunc(func(ctx context.Context, _ *process.Program) (*process.Ending, error) {
				_, deadline = ctx.Deadline()
				return &process.Ending{}, nil
			}),
		}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if engine.Fire(t.Context(), event(t)); deadline != limited {
			t.Errorf("timeout %v: the program has a deadline: %t, want %t", timeout, deadline, limited)
		}
	}
}
