// Package process runs hooks that are programs.
//
// A [Command] is a [grapnel.Hook]: it starts a program for each event, writes the
// event to its standard input as one line of JSON, and reads the answer from its
// exit code and its output, in the words of a [dialect.Dialect].
//
//	hook := &process.Command{Name: "check", Line: `./check.py --strict`, Executor: process.System}
//	spec := grapnel.Spec{Name: "check", On: kinds, Hook: hook, Timeout: 10 * time.Second}
//
// A [Worker] keeps its program running and asks it about one event after the other.
//
// The deadline is the Spec's Timeout. When it passes, the program and everything
// in its process group is asked to end, and killed soon after. A program that ends
// by itself may leave children behind in the background: they are not touched, so
// that a hook can start a server, and they cannot hold the answer up. A Worker that
// is late is told so instead, and is only ended if it stays away.
//
// With [System] a program runs with the rights of the user, and what it may see of the
// environment is all that [Inherit] bounds. A [Sandbox] holds it to what it lists, on
// Linux; another [Executor] can be a sandbox of another kind.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
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

	// Executor runs the program. It must be given: nothing runs outside of a sandbox
	// because somebody forgot to name one.
	Executor Executor

	// Dialect is what the program speaks; nil = dialect.Plain().
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

// Check reports whether there is anybody to run the program. That is asked when an
// engine is given the Command.
func (c *Command) Check() error {
	if c.Executor == nil {
		return fmt.Errorf("nobody runs %s: set Command.Executor (process.System runs it on this machine)", c.title())
	}
	return nil
}

// Grace is that of the Executor.
func (c *Command) Grace() time.Duration {
	if g, ok := c.Executor.(grapnel.Graceful); ok {
		return g.Grace()
	}
	return 0
}

// plain is what programs speak unless they say otherwise.
var plain = dialect.Plain()

// Handle runs the program. What it said beside an error is returned with it.
func (c *Command) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	if err := c.Check(); err != nil {
		return grapnel.Outcome{}, fmt.Errorf("%w: %w", ErrStart, err)
	}
	d := c.Dialect
	if d == nil {
		d = plain
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
	about := ev
	if d.IsOnce() {
		about = nil // a worker gets what it gets when it is kept running
	}
	p, err := c.program(about)
	if err == nil && ctx.Err() != nil {
		err = reason(ctx)
	}
	if err != nil {
		return grapnel.Outcome{}, fmt.Errorf("%w %s: %w", ErrStart, c.title(), err)
	}
	p.Stdin, p.Event = payload, ev
	limit := p.MaxOutput
	end, err := c.Executor.Run(ctx, p)
	if err == nil && end == nil {
		err = errors.New("its Executor does not say how it ended")
	}
	if err != nil {
		return grapnel.Outcome{}, fmt.Errorf("%w %s: %w", ErrStart, c.title(), err)
	}
	return c.read(d, ev, end, limit)
}

// program is the start of the program for one event, or, if that is nil, for many.
func (c *Command) program(ev *grapnel.Event) (*Program, error) {
	args := c.Args
	switch {
	case c.Args == nil && strings.TrimSpace(c.Line) == "":
		return nil, errors.New("there is no program: set Line or Args")
	case c.Args != nil && c.Line != "":
		return nil, errors.New("both Line and Args are set, and only one can run")
	case c.Args == nil:
		args = shell(c.Line)
	case len(c.Args) == 0 || c.Args[0] == "":
		return nil, errors.New("there is no program: Args is empty")
	}
	dir := c.dir(ev)
	return &Program{
		Args: slices.Clone(args), Env: c.environ(ev, dir), Dir: dir, MaxOutput: c.limit(),
		Hook: c.Name, Inherit: c.Inherit,
	}, nil
}

// limit is how much of its output is kept.
func (c *Command) limit() int {
	if c.MaxOutput > 0 {
		return c.MaxOutput
	}
	return DefaultMaxOutput
}

// read turns the end of a program into its answer.
func (c *Command) read(d *dialect.Dialect, ev *grapnel.Event, end *Ending, limit int) (grapnel.Outcome, error) {
	stdout := bytes.TrimPrefix(end.Stdout.text(), []byte("\xef\xbb\xbf"))
	isJSON := bytes.HasPrefix(bytes.TrimSpace(stdout), []byte("{"))
	if end.Stdout.Cut > 0 && !isJSON {
		stdout = fmt.Appendf(stdout, cutMark, end.Stdout.Cut)
	}
	out, err := d.ReadOutcome(ev, dialect.Output{Exit: end.Exit, Stdout: stdout, Stderr: end.Stderr.text()})
	switch said := end.Stderr.last(); {
	case end.Stopped != nil:
		return out, fmt.Errorf("%s %w%s", c.title(), end.Stopped, said)
	case end.Signal != "":
		return out, fmt.Errorf("%s %w %s%s", c.title(), ErrSignal, end.Signal, said)
	case end.Stdout.Cut > 0 && isJSON:
		return out, fmt.Errorf("%s: %w %d bytes", c.title(), ErrOutput, limit)
	case err == nil:
		return out, nil
	case c.Args == nil && end.Exit == 126:
		return out, fmt.Errorf("%w %s: the shell may not run it (exit code 126)%s (is the file executable, and not a directory%s?)", ErrStart, c.title(), said, c.orHidden())
	case c.Args == nil && end.Exit == 127:
		return out, fmt.Errorf("%w %s: the shell did not find it (exit code 127)%s (give its full path, or put its directory on PATH)", ErrStart, c.title(), said)
	default:
		return out, fmt.Errorf("%s: %w", c.title(), err)
	}
}

// orHidden is one more reason why something may not be run.
func (c *Command) orHidden() string {
	if _, ok := c.Executor.(*Sandbox); ok {
		return ", and may its sandbox read it"
	}
	return ""
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

// text is what was kept, as text that people and models can be shown.
func (o *Output) text() []byte {
	kept := o.Head
	if o.Cut > 0 { // not through the middle of a character
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
func (o *Output) last() string {
	const limit = 500
	text := strings.TrimSpace(string(o.text()))
	if text == "" {
		return ""
	}
	if len(text) > limit {
		text = "…" + strings.ToValidUTF8(text[len(text)-limit:], "")
	}
	return ": " + text
}
