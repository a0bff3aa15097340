package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// grace is how long a program may take to end after it was asked to.
const grace = 2 * time.Second

// A Result is the result of running an agent.
type Result struct {
	Exit   int // exit status; -1 if a signal ended it
	Stdout string
	Stderr string
	Took   time.Duration

	Answer   string            // the agent's final message, "" if it had none
	Shown    string            // all output for the user
	Requests model.Log         // requests that reached the model during this run
	Files    map[string]string // the project after the run, without .git: slash-separated name to content
}

// An Output is the result of running another program.
type Output struct {
	Exit   int // exit status; -1 if a signal ended it
	Stdout string
	Stderr string
}

// ran is one entry of a world's report.
type ran struct {
	argv     []string
	output   Output
	took     time.Duration
	requests model.Log
	err      error
}

// Run starts the agent with this prompt, lets the model play the steps, and waits until the agent
// ends. It also ends the processes that the agent left in its process group. It returns an error if
// the agent did not start, did not end before the Deadline, or sent a request that the model does
// not know or that was for another host. The Result then contains everything that is known. A
// nonzero exit status is not an error, because agents use it for different reasons.
func (w *World) Run(ctx context.Context, prompt string, steps ...model.Step) (Result, error) {
	if w.Agent.prepare != nil {
		if err := w.Agent.prepare(ctx, w); err != nil {
			return Result{Exit: -1}, fmt.Errorf("prepare %s: %w", w.Agent.ID, err)
		}
	}
	text := model.Prompt(prompt, steps...)
	stdin := ""
	if w.Agent.stdin != nil {
		stdin = w.Agent.stdin(w, text)
	}
	before := len(w.Model.Log())
	r := w.run(ctx, stdin, slices.Concat(w.Program.Command, w.Agent.args(w, text)))
	r.requests = w.Model.Log()[before:]
	if r.err == nil && w.Agent.daemon != "" {
		r.err = w.endProcesses(w.Agent.daemon)
	}
	if unknown := w.Agent.unknown(r.requests); r.err == nil && len(unknown) > 0 {
		r.err = fmt.Errorf("it sent a request that the model server does not support: %s", unknown[0])
	}
	w.runs = append(w.runs, r)

	shown := r.output.Stdout
	if w.Agent.shown != nil {
		shown = w.Agent.shown(shown)
	}
	res := Result{
		Exit: r.output.Exit, Stdout: r.output.Stdout, Stderr: r.output.Stderr, Took: r.took,
		Answer: w.Agent.answer(r.output.Stdout), Shown: shown + r.output.Stderr, Requests: r.requests,
	}
	var err error
	if res.Files, err = w.projectFiles(); r.err == nil {
		r.err = err
	}
	if r.err != nil {
		return res, fmt.Errorf("run %s: %w", w.Agent.ID, r.err)
	}
	return res, nil
}

// unknown returns the requests that are errors.
func (a *Agent) unknown(l model.Log) model.Log {
	return slices.DeleteFunc(l.Unknown(), func(r model.Request) bool {
		return a.contacts != "" && r.Method == http.MethodConnect && strings.HasSuffix(r.Path, a.contacts)
	})
}

// Exec runs another program in the project, in the agent's environment. It returns an error if the
// program did not start or did not end; a nonzero exit status is not an error.
func (w *World) Exec(ctx context.Context, argv ...string) (Output, error) {
	r := w.run(ctx, "", argv)
	w.runs = append(w.runs, r)
	if r.err != nil {
		return r.output, fmt.Errorf("run %s: %w", strings.Join(argv, " "), r.err)
	}
	return r.output, nil
}

// run runs argv in a new process group and ends all processes of that group. An error means that
// the program could not be started or had to be ended.
func (w *World) run(ctx context.Context, stdin string, argv []string) ran {
	ctx, cancel := context.WithTimeoutCause(ctx, w.Deadline, fmt.Errorf("still running after %v", w.Deadline))
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = w.Project, w.Env()
	if stdin != "" { // some agents wait if the input is open
		cmd.Stdin = strings.NewReader(stdin)
	}
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
		r.err = errors.New("it ended, but a process that it started kept its output open")
	case err != nil && !errors.As(err, &exit):
		r.err = err
	}
	return r
}

// Report lists the programs that ran in this world, their output, and the requests to the model,
// for debugging.
func (w *World) Report() string {
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

// lastLines returns at most the last n lines of s, with long lines truncated: some agents print a
// page of JSON on each line.
func lastLines(s string, n int) string {
	const width = 400
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		if len(line) > width {
			lines[i] = strings.ToValidUTF8(line[:width], "") + "..."
		}
	}
	return strings.Join(lines, "\n")
}
