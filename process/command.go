// Package process runs hooks that are programs.
//
// A [Command] is a [grapnel.Hook]: for each event it starts a program and writes the event to
// standard input as one line of JSON. It reads the answer from the exit code and the output, in
// the format of a [dialect.Dialect].
//
//	hook := &process.Command{Name: "check", Line: `./check.py --strict`, Executor: process.System}
//	spec := grapnel.Spec{Name: "check", On: kinds, Hook: hook, Timeout: 10 * time.Second}
//
// A [Worker] keeps its program running and sends it one event after the other.
//
// The deadline is the Spec's Timeout. Without one, only the context of Engine.Fire ends the program; a
// policy file gives its programs 10 s. At the deadline, the program and all processes in its
// process group are interrupted, and killed soon after. If a program exits by itself, its
// background children keep running, so that a hook can start a server; they cannot delay the
// answer. A Worker that misses a deadline gets a cancel message instead, and is ended only if it
// keeps missing deadlines.
//
// With [System], a program runs with the rights of the user, and only [Inherit] restricts its
// environment. On Linux, a [Sandbox] restricts the program to the listed files and network
// access. Another [Executor] can implement a different sandbox.
package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// Errors for errors.Is. A program that was ended at its deadline returns [grapnel.ErrTimeout], or
// the cause of the context.
var (
	ErrStart  = errors.New("cannot start")        // the program did not run, or the shell did not find it
	ErrSignal = errors.New("was ended by signal") // and not by Grapnel
	ErrOutput = errors.New("answer larger than")  // its JSON does not fit into MaxOutput
)

// DefaultMaxOutput is the output limit of a Command if its MaxOutput is 0.
const DefaultMaxOutput = 1 << 20

// A Command is a hook that starts a program once for each event. It is safe for concurrent use,
// and must not be modified after its first use.
//
// The program gets the event on standard input and does not have to read it. It also gets
// environment variables: GRAPNEL_EVENT, _AGENT, _SESSION, _CWD, _ROOT, _TOOL, _TOOL_CLASS,
// _COMMAND (one shell line per line), _PATH (the first path), _HOOK and _DEPTH. They are for
// convenience only: long values are cut and contain a notice, because a single variable of 128
// KiB would make every start fail.
//
// It runs in the event's working directory. If that does not exist, it runs in the first existing
// one of the session's root, Dir and the home directory. With InDir it runs only in Dir.
type Command struct {
	Name string   // the hook's name, also GRAPNEL_HOOK
	Line string   // a command line for /bin/sh -c, on Windows for cmd /C
	Args []string // a program and its arguments, instead of Line

	Title string // the program in error messages; empty = its command line

	// Executor runs the program. It is required: a forgotten field must not run a program without
	// a sandbox.
	Executor Executor

	// Dialect is the program's protocol; nil = dialect.Plain().
	Dialect *dialect.Dialect

	// Vars returns additional variables of an event, NAME=value, that programs of this dialect
	// expect. They are cut only at the limits of the operating system, because hooks of some
	// systems do not read standard input and decide by these variables. nil = none.
	Vars func(ev *grapnel.Event) []string

	// CommandDir returns the value of GRAPNEL_COMMAND_DIR: the directory in which the command of the
	// event works. Empty = not known; nil = always the directory of the session.
	CommandDir func(ev *grapnel.Event) string

	Dir       string   // the working directory if the event has no existing one
	InDir     bool     // always use Dir as the working directory
	Env       []string // additional variables, NAME=value
	Inherit   Inherit  // which variables of this process the program gets
	Allow     []string // variable names that InheritAll passes although they look like secrets
	MaxOutput int      // limit in bytes for stdout and for stderr each; 0 = DefaultMaxOutput
}

// Check returns an error if the Command has no Executor. An engine calls it when the Command is
// added.
func (c *Command) Check() error {
	if c.Executor == nil {
		return fmt.Errorf("%s has no Executor: set Command.Executor (process.System runs it on this machine)", c.title())
	}
	return nil
}

// Grace returns the grace period of the Executor, or 0 if it has none.
func (c *Command) Grace() time.Duration {
	if g, ok := c.Executor.(seam.Graceful); ok {
		return g.Grace()
	}
	return 0
}

// plain is the default dialect of programs.
var plain = dialect.Plain()

// Handle runs the program. If the program fails but also returns an answer, Handle returns both.
// The Outcome has the program's Output, unless the program did not start.
func (c *Command) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	if err := c.Check(); err != nil {
		return grapnel.Outcome{}, fmt.Errorf("%w: %w", ErrStart, err)
	}
	d := c.Dialect
	if d == nil {
		d = plain
	}
	if d.WriteEvent == nil || d.ReadOutcome == nil {
		return grapnel.Outcome{}, fmt.Errorf("%w %s: the dialect %q has no hook programs", ErrStart, c.title(), d.Name)
	}
	payload, err := d.WriteEvent(ev)
	if err != nil {
		return grapnel.Outcome{}, fmt.Errorf("%w %s: cannot encode the event: %w", ErrStart, c.title(), err)
	}
	if len(payload) > 0 && !bytes.HasSuffix(payload, []byte("\n")) {
		payload = append(payload, '\n')
	}
	about := ev
	if d.IsOnce() {
		about = nil // the same start parameters as for a worker
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
		err = errors.New("the Executor returned no result")
	}
	if err != nil {
		return grapnel.Outcome{}, fmt.Errorf("%w %s: %w", ErrStart, c.title(), err)
	}
	return c.read(d, ev, end, limit)
}

// program returns the start parameters of the program for one event. If ev is nil, they are for a
// worker that handles many events.
func (c *Command) program(ev *grapnel.Event) (*Program, error) {
	args := c.Args
	switch {
	case c.Args == nil && strings.TrimSpace(c.Line) == "":
		return nil, errors.New("no program is set: set Line or Args")
	case c.Args != nil && c.Line != "":
		return nil, errors.New("both Line and Args are set: set only one")
	case c.Args == nil:
		args = shell(c.Line)
	case len(c.Args) == 0 || c.Args[0] == "":
		return nil, errors.New("no program is set: Args is empty")
	}
	dir := c.dir(ev)
	return &Program{
		Args: slices.Clone(args), Env: c.environ(ev, dir), Dir: dir, MaxOutput: c.limit(),
		Hook: c.Name, Inherit: c.Inherit,
	}, nil
}

// limit returns the output limit in bytes.
func (c *Command) limit() int {
	if c.MaxOutput > 0 {
		return c.MaxOutput
	}
	return DefaultMaxOutput
}

// read converts the end of a program into its answer.
func (c *Command) read(d *dialect.Dialect, ev *grapnel.Event, end *Ending, limit int) (grapnel.Outcome, error) {
	stdout := bytes.TrimPrefix(end.Stdout.text(), []byte("\xef\xbb\xbf"))
	isJSON := bytes.HasPrefix(bytes.TrimSpace(stdout), []byte("{"))
	if end.Stdout.Cut > 0 && !isJSON {
		stdout = fmt.Appendf(stdout, cutMark, end.Stdout.Cut)
	}
	result := &dialect.Output{Exit: end.Exit, Stdout: stdout, Stderr: end.Stderr.text(), Cut: end.Stdout.Cut + end.Stderr.Cut}
	out, err := d.ReadOutcome(ev, *result)
	out.Output = result
	if out.Decision == grapnel.Block && strings.HasSuffix(out.Reason, ": ") && !isJSON && end.Stderr.last() == "" {
		out.Reason += c.ended(end) // the program wrote nothing that would complete the reason
	}
	switch stderr := end.Stderr.last(); {
	case end.Stopped != nil:
		return out, fmt.Errorf("%s %w%s", c.title(), end.Stopped, stderr)
	case end.Signal != "":
		return out, fmt.Errorf("%s %w %s%s", c.title(), ErrSignal, end.Signal, stderr)
	case end.Stdout.Cut > 0 && isJSON:
		return out, fmt.Errorf("%s: %w %d bytes", c.title(), ErrOutput, limit)
	case err == nil:
		return out, nil
	case c.Args == nil && end.Exit == 126:
		return out, fmt.Errorf("%w %s: the shell cannot run it (exit code 126)%s (is the file executable, and not a directory%s?)", ErrStart, c.title(), stderr, c.orHidden())
	case c.Args == nil && end.Exit == 127:
		return out, fmt.Errorf("%w %s: the shell did not find it (exit code 127)%s (give its full path, or put its directory on PATH)", ErrStart, c.title(), stderr)
	default:
		return out, fmt.Errorf("%s: %w", c.title(), err)
	}
}

// ended returns words for the end of a program, for people.
func (c *Command) ended(end *Ending) string {
	switch {
	case end.Stopped != nil:
		return "no answer from " + c.shown()
	case end.Signal != "":
		return fmt.Sprintf("signal %s ended %s", end.Signal, c.shown())
	default:
		return fmt.Sprintf("exit status %d of %s", end.Exit, c.shown())
	}
}

// orHidden returns a further possible reason for exit code 126: the sandbox hides the file.
func (c *Command) orHidden() string {
	if _, ok := c.Executor.(*Sandbox); ok {
		return ", and can its sandbox read it"
	}
	return ""
}

// title returns the quoted Title or command line, at most 80 characters, for messages.
func (c *Command) title() string { return fmt.Sprintf("%q", c.shown()) }

// shown is title without the quotes.
func (c *Command) shown() string {
	text := cmp.Or(c.Title, c.Line)
	if text == "" {
		text = strings.Join(c.Args, " ")
	}
	text = strings.ToValidUTF8(text, "")
	if r := []rune(text); len(r) > 80 {
		text = string(r[:80]) + "…"
	}
	return text
}

// text returns the kept output as valid UTF-8 that can be shown to users and models.
func (o *Output) text() []byte {
	kept := o.Head
	if o.Cut > 0 { // do not cut through a character
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

// last returns the end of the kept output, to append to an error.
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
