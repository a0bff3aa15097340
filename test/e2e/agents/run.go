package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/test/e2e/model"
)

// Deadline is how long an agent or another program may take. On a busy machine
// the slow ones need half of it.
const Deadline = 60 * time.Second

// grace is how long a program that was asked to end may still take.
const grace = 2 * time.Second

// slots bounds how many agents run at once in this process: each of them keeps
// more than one core busy, and with too many of them deadlines mean nothing.
var slots = make(chan struct{}, 2)

// A Result is what came of running an agent.
type Result struct {
	Exit   int // exit status; -1 when a signal ended it
	Stdout string
	Stderr string
	Took   time.Duration

	Answer   string            // the agent's final words, "" when it had none
	Shown    string            // all that it printed for a person
	Requests model.Log         // what reached the model during this run
	Files    map[string]string // the project after the run: slash-separated name to content
}

// An Output is what came of running another program.
type Output struct {
	Exit   int // exit status; -1 when a signal ended it
	Stdout string
	Stderr string
}

// ran is one line of a world's report.
type ran struct {
	argv     []string
	output   Output
	took     time.Duration
	requests model.Log
	err      error
}

// Run starts the agent with this prompt, lets the model play the steps, and waits
// until the agent ends. It fails the test at once when the agent does not start
// or does not end before the Deadline, and marks it failed when the model was
// asked something unknown. Any exit status is fine: agents exit 0 or not for
// reasons of their own.
func (w *World) Run(t testing.TB, prompt string, steps ...model.Step) Result {
	t.Helper()
	cache, err := CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	argv, err := w.Agent.command(w.Agent.prefix(cache), w.Agent.args(w, model.Prompt(prompt, steps...))...)
	if err != nil {
		t.Fatal(err)
	}
	slots <- struct{}{}
	defer func() { <-slots }()

	before := len(w.Model.Log())
	r := w.run(t.Context(), Deadline, argv)
	r.requests = w.Model.Log()[before:]
	w.runs = append(w.runs, r)
	if r.err != nil {
		t.Fatalf("run %s: %v", w.Agent.ID, r.err)
	}
	for _, req := range r.requests.Unknown() {
		t.Errorf("%s sent a request that the fake model does not know: %s", w.Agent.ID, req)
	}
	files, err := w.files()
	if err != nil {
		t.Fatal(err)
	}
	shown := r.output.Stdout
	if w.Agent.shown != nil {
		shown = w.Agent.shown(shown)
	}
	return Result{
		Shown: shown + r.output.Stderr,
		Exit:  r.output.Exit, Stdout: r.output.Stdout, Stderr: r.output.Stderr, Took: r.took,
		Answer: w.Agent.answer(r.output.Stdout), Requests: r.requests, Files: files,
	}
}

// Exec runs another program in the project, in the agent's environment. It fails
// the test when the program does not start or end; the exit status is returned.
func (w *World) Exec(t testing.TB, program string, args ...string) Output {
	t.Helper()
	r := w.run(context.WithoutCancel(t.Context()), Deadline, append([]string{program}, args...)) // also while t cleans up
	w.runs = append(w.runs, r)
	if r.err != nil {
		t.Fatalf("run %s: %v", strings.Join(r.argv, " "), r.err)
	}
	return r.output
}

// run runs argv in a process group of its own and leaves nothing of that group
// behind. An error means that it could not be started or had to be ended.
func (w *World) run(ctx context.Context, deadline time.Duration, argv []string) ran {
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, fmt.Errorf("still running after %v", deadline))
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = w.Project, w.Env()
	cmd.Stdin = nil // some agents wait for an open one
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	ownGroup(cmd)
	cmd.WaitDelay = grace

	start := time.Now()
	err := cmd.Run()
	r := ran{argv: argv, took: time.Since(start)}
	if cmd.Process != nil {
		killGroup(cmd)
	}
	r.output = Output{Exit: -1, Stdout: stdout.String(), Stderr: stderr.String()}
	if cmd.ProcessState != nil {
		r.output.Exit = cmd.ProcessState.ExitCode()
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		r.err = context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay):
		r.err = errors.New("it ended, but something it started still held its output open")
	case err != nil && !errors.As(err, &exit):
		r.err = err
	}
	return r
}

// report tells what ran in this world, for the log of a failed test.
func (w *World) report() string {
	var b strings.Builder
	for _, r := range w.runs {
		fmt.Fprintf(&b, "ran %q\nexit %d after %v", r.argv, r.output.Exit, r.took.Round(time.Millisecond))
		if r.err != nil {
			fmt.Fprintf(&b, ": %v", r.err)
		}
		for _, part := range []struct{ name, text string }{
			{"requests", r.requests.Transcript()},
			{"end of stdout", lastLines(r.output.Stdout, 3)},
			{"end of stderr", lastLines(r.output.Stderr, 20)},
		} {
			if part.text != "" {
				fmt.Fprintf(&b, "\n%s:\n\t%s", part.name, strings.ReplaceAll(part.text, "\n", "\n\t"))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
