// Package process runs hooks that are programs.
//
// A [Command] is a [grapnel.Hook]: it starts a program for each event, writes the
// event to its standard input as one line of JSON, and reads the answer from its
// exit code and its output, in the words of a [dialect.Dialect].
//
//	hook := &process.Command{Name: "check", Line: `./check.py --strict`}
//	spec := grapnel.Spec{Name: "check", On: kinds, Hook: hook, Timeout: 10 * time.Second}
//
// The deadline is the Spec's Timeout. When it passes, the program and everything
// in its process group is asked to end, and killed soon after. A program that ends
// by itself may leave children behind in the background: they are not touched, so
// that a hook can start a server, and they cannot hold the answer up.
//
// The package is no sandbox. A program runs with the rights of the user, and what
// it may see of the environment is all that [Inherit] bounds.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// Errors that callers may ask for. A program that was ended at its deadline gives
// [grapnel.ErrTimeout], or the cause of the context.
var (
	ErrStart  = errors.New("cannot start")        // the program did not run, or the shell did not find it
	ErrSignal = errors.New("was ended by signal") // and not by ours
	ErrOutput = errors.New("answer larger than")  // its JSON does not fit into MaxOutput
)

// DefaultMaxOutput is the MaxOutput of a Command that names none.
const DefaultMaxOutput = 1 << 20

const (
	// interruptGrace is how long a program may clean up after it was asked to end.
	interruptGrace = 200 * time.Millisecond

	// outputGrace is how long output is awaited from children of a program that
	// has ended: long enough for the tee of "exec > >(tee log)", short enough for
	// a child that keeps the pipe for ever. What the program itself had written is
	// always read.
	outputGrace = 100 * time.Millisecond
)

// A Command is a hook that is a program, started once for each event. It must not
// be changed once it is in use; it is safe for concurrent use.
//
// The program gets the event on standard input and may leave it unread. Beside it
// there are small variables: GRAPNEL_EVENT, _AGENT, _SESSION, _CWD, _ROOT, _TOOL,
// _TOOL_CLASS, _COMMAND (one shell line per line), _PATH (the first path), _HOOK
// and _DEPTH. They are for convenience: long values are cut and say so, because
// one variable of 128 KiB would make every start fail.
//
// It runs in the event's working directory. If that is gone, it runs in the
// session's root, in Dir, or in the home directory, whichever is there first. With
// InDir it runs in Dir or not at all.
type Command struct {
	Name string   // the hook's name: GRAPNEL_HOOK
	Line string   // a line for /bin/sh -c, on Windows for cmd /C
	Args []string // a program and its arguments, in place of Line

	// Dialect is what the program speaks; nil = dialect.Plain.
	Dialect *dialect.Dialect

	// Vars returns further variables of an event, NAME=value, that programs of
	// this dialect expect. They are cut too, but only at what systems bear: hooks that
	// know no standard input judge by them. nil = none.
	Vars func(ev *grapnel.Event) []string

	Dir       string   // the working directory when the event names none that is there
	InDir     bool     // Dir is the working directory, wherever the agent works
	Env       []string // further variables, NAME=value
	Inherit   Inherit  // what the program sees of our own environment
	Allow     []string // names that InheritAll lets through although they look like secrets
	MaxOutput int      // bytes kept of stdout, and of stderr; 0 = DefaultMaxOutput
}

// Grace is how long it takes at most to end a program after its deadline.
func (c *Command) Grace() time.Duration { return interruptGrace + outputGrace + 200*time.Millisecond }

// Handle runs the program. What it said beside an error is returned with it.
func (c *Command) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	d := c.Dialect
	if d == nil {
		d = dialect.Plain
	}
	if d.WriteEvent == nil || d.ReadOutcome == nil {
		return grapnel.Outcome{}, fmt.Errorf("%w %s: there are no hook programs that speak %q", ErrStart, c.title(), d.Name)
	}
	payload, err := d.WriteEvent(ev)
	if err != nil {
		return grapnel.Outcome{}, fmt.Errorf("%w %s: cannot write the event for it: %w", ErrStart, c.title(), err)
	}
	if len(payload) > 0 && !bytes.HasSuffix(payload, []byte("\n")) {
		payload = append(payload, '\n')
	}
	end, err := c.run(ctx, ev, payload)
	if err != nil {
		return grapnel.Outcome{}, err
	}
	return c.read(d, ev, end)
}

// An ending is how a program ended, and what it had said by then.
type ending struct {
	exit    int    // -1 = by a signal
	signal  string // which, in words
	stopped error  // not nil: why we ended it
	stdout  head
	stderr  head
}

// run starts the program and waits until it has ended. An error means that it did
// not run.
func (c *Command) run(ctx context.Context, ev *grapnel.Event, payload []byte) (*ending, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrStart, c.title(), reason(ctx))
	}
	limit := c.MaxOutput
	if limit <= 0 {
		limit = DefaultMaxOutput
	}
	end := &ending{stdout: head{limit: limit}, stderr: head{limit: limit}}
	dir := c.dir(ev)
	cmd, err := c.command(c.environ(ev, dir))
	if err != nil {
		return nil, c.startError(dir, err)
	}
	cmd.Dir = dir
	pipes, err := connect(cmd, payload, &end.stdout, &end.stderr)
	if err != nil {
		return nil, c.startError(dir, err)
	}
	group, err := startGroup(cmd)
	pipes.started()
	if err != nil {
		pipes.settle(0)
		return nil, c.startError(dir, err)
	}
	defer group.close()

	ended, stopped := make(chan struct{}), make(chan bool, 1)
	go func() { stopped <- stopLate(ctx, group, ended) }()
	// The exit code decides. The errors of Wait say no more than that.
	_ = cmd.Wait()
	pipes.settle(outputGrace)
	close(ended)
	if <-stopped {
		end.stopped = reason(ctx)
	}
	end.exit, end.signal = cmd.ProcessState.ExitCode(), signalOf(cmd.ProcessState)
	return end, nil
}

// stopLate ends the group when ctx is done before the program has ended, and
// reports whether it had to.
func stopLate(ctx context.Context, group *group, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return false
	case <-ctx.Done():
	}
	if !group.interrupt() {
		return false // it had ended by itself, and only its output was awaited
	}
	grace := time.NewTimer(interruptGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
	}
	group.kill() // also after the program itself has ended: its children may not have
	return true
}

// reason is why ctx is done. A bare deadline is a timeout like any other.
func reason(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) && !errors.Is(cause, grapnel.ErrTimeout) {
		return fmt.Errorf("%w: %w", grapnel.ErrTimeout, cause)
	}
	return cause
}

// read turns the end of a program into its answer.
func (c *Command) read(d *dialect.Dialect, ev *grapnel.Event, end *ending) (grapnel.Outcome, error) {
	stdout := bytes.TrimPrefix(end.stdout.text(), []byte("\xef\xbb\xbf"))
	isJSON := bytes.HasPrefix(bytes.TrimSpace(stdout), []byte("{"))
	if end.stdout.cut > 0 && !isJSON {
		stdout = fmt.Appendf(stdout, cutMark, end.stdout.cut)
	}
	out, err := d.ReadOutcome(ev, dialect.Output{Exit: end.exit, Stdout: stdout, Stderr: end.stderr.text()})
	switch said := end.stderr.last(); {
	case end.stopped != nil:
		return out, fmt.Errorf("%s %w%s", c.title(), end.stopped, said)
	case end.signal != "":
		return out, fmt.Errorf("%s %w %s%s", c.title(), ErrSignal, end.signal, said)
	case end.stdout.cut > 0 && isJSON:
		return out, fmt.Errorf("%s: %w %d bytes", c.title(), ErrOutput, end.stdout.limit)
	case err == nil:
		return out, nil
	case c.Args == nil && end.exit == 126:
		return out, fmt.Errorf("%w %s: the shell may not run it (exit code 126)%s (is the file executable, and not a directory?)", ErrStart, c.title(), said)
	case c.Args == nil && end.exit == 127:
		return out, fmt.Errorf("%w %s: the shell did not find it (exit code 127)%s (give its full path, or put its directory on PATH)", ErrStart, c.title(), said)
	default:
		return out, fmt.Errorf("%s: %w", c.title(), err)
	}
}

// title is what the user calls the program.
func (c *Command) title() string {
	text := c.Line
	if c.Args != nil {
		text = strings.Join(c.Args, " ")
	}
	text = strings.ToValidUTF8(text, "")
	if r := []rune(text); len(r) > 80 {
		text = string(r[:80]) + "…"
	}
	return fmt.Sprintf("%q", text)
}

// command makes what os/exec starts.
func (c *Command) command(env []string) (*exec.Cmd, error) {
	switch {
	case c.Args == nil && strings.TrimSpace(c.Line) == "":
		return nil, errors.New("there is no program: set Line or Args")
	case c.Args != nil && c.Line != "":
		return nil, errors.New("both Line and Args are set, and only one can run")
	case c.Args == nil:
		return shellCommand(c.Line, env), nil
	case len(c.Args) == 0 || c.Args[0] == "":
		return nil, errors.New("there is no program: Args is empty")
	}
	path, err := lookPath(c.Args[0], env)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: path, Args: c.Args, Env: env}, nil
}

// A head keeps the first bytes of what is written to it and counts the others.
type head struct {
	kept  []byte
	limit int
	cut   int
}

// Write never fails: a program that says too much is read to its end, or it would
// block on the pipe.
func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.limit-len(h.kept))
	h.kept = append(h.kept, p[:n]...)
	h.cut += len(p) - n
	return len(p), nil
}

// text is what was kept, as text that people and models can be shown.
func (h *head) text() []byte {
	kept := h.kept
	if h.cut > 0 { // not through the middle of a character
		for i := 1; i < utf8.UTFMax && i <= len(kept); i++ {
			if tail := kept[len(kept)-i:]; utf8.RuneStart(tail[0]) {
				if !utf8.FullRune(tail) {
					kept = kept[:len(kept)-i]
				}
				break
			}
		}
	}
	return bytes.ToValidUTF8(kept, []byte("\ufffd"))
}

// last is the end of what was kept, to be put behind an error.
func (h *head) last() string {
	const limit = 500
	text := strings.TrimSpace(string(h.text()))
	if text == "" {
		return ""
	}
	if len(text) > limit {
		text = "…" + strings.ToValidUTF8(text[len(text)-limit:], "")
	}
	return ": " + text
}
