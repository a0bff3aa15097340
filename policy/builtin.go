package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// defaultFile returns the name of the output file of a hook that does not set one.
func defaultFile(builtin string) string {
	if builtin == policyfile.BuiltinAudit {
		return "audit.jsonl"
	}
	return "logging.log"
}

// builtin parses a `builtin:` action into a hook.
func (p *fileParser) builtin(h *policyfile.Hook, n *yaml.Node) {
	b := &policyfile.Builtin{}
	var run *policyfile.Command
	var env []string
	name := func(n *yaml.Node) {
		b.Name = p.oneOf(n, policyfile.BuiltinAudit, policyfile.BuiltinLogging, policyfile.BuiltinSummary)
	}
	if n.Kind == yaml.Map {
		p.mapping(n, "builtin", []key{
			{"name", name},
			{"file", func(n *yaml.Node) { b.File = p.text(n) }},
			{"run", func(n *yaml.Node) { run = p.command(n) }},
			{"env", func(n *yaml.Node) { env = p.texts(n) }},
			{"into", func(n *yaml.Node) { b.Into = p.text(n) }},
		})
		if n.Get("name") == nil {
			p.fail(n, "for example {name: audit, file: audit.jsonl}", "the builtin has no name")
		}
	} else {
		name(n)
	}
	switch summary := b.Name == policyfile.BuiltinSummary; {
	case summary && b.File != "":
		p.fail(n, "name a directory: `into`", "a session summary has no `file`")
	case summary && run == nil:
		p.fail(n, "for example {name: session-summary, run: claude -p}", "a session summary needs `run`, the program that writes it")
	case !summary && (run != nil || env != nil || b.Into != ""):
		p.fail(n, "", "`run`, `env` and `into` need the builtin session-summary")
	}
	h.Builtin = b
	if run != nil {
		run.Env, run.Asked, h.Run = env, true, run
	}
}

// builtinOptions rejects `async`, `speaks` and `env`.
func (p *fileParser) builtinOptions(h *policyfile.Hook, o *options) {
	if h.Run != nil {
		h.Run.Name = h.Name
	}
	if o.async != nil || o.speaks != "" || o.env != nil {
		p.fail(o.hook, "", "hook %q: `async`, `speaks` and `env` need `run`, and cannot be used with a builtin", h.Name)
	}
}

// defaultEvents returns the events of a built-in hook that does not set `on:`; nil = all events.
func defaultEvents(b *policyfile.Builtin) []grapnel.Kind {
	if b.Name == policyfile.BuiltinSummary {
		return []grapnel.Kind{grapnel.SessionEnd}
	}
	return nil
}

// buildBuiltin builds the hook of a `builtin:` action. All built-in hooks only observe.
func (b *Builder) buildBuiltin(h *policyfile.Hook, spec *grapnel.Spec) error {
	spec.Phase = grapnel.PhaseObserve
	if h.Builtin.Name == policyfile.BuiltinSummary {
		spec.Timeout = policyfile.FirstDuration(h.Timeout, policyfile.Duration(builtin.SummaryTimeout))
		return summaryOf(h, spec, b.Command)
	}
	write, err := b.linesOf(h.Builtin, spec.Source)
	if err != nil {
		return err
	}
	switch h.Builtin.Name {
	case policyfile.BuiltinAudit:
		spec.Hook = builtin.LineWriter(builtin.Audit(spec.FullName(), write).Hook)
	case policyfile.BuiltinLogging:
		spec.Hook = builtin.LineWriter(grapnel.Func(func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			log := builtin.Logging{Write: func(tag string) error { return write(logLine(ev, tag)) }}
			return log.Handle(ctx, ev)
		}))
	default:
		return fmt.Errorf("unknown builtin %q", h.Builtin.Name)
	}
	return nil
}

// logLine returns a log line with the time and the tag. It replaces control characters, so a tool
// name cannot start a new line.
func logLine(ev *grapnel.Event, tag string) []byte {
	at := ev.Time
	if at.IsZero() {
		at = time.Now()
	}
	tag = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, tag)
	return []byte(at.UTC().Format(time.RFC3339) + " " + tag + "\n")
}

// linesOf returns the function that writes a line of an audit or log hook.
func (b *Builder) linesOf(hook *policyfile.Builtin, source grapnel.Source) (func([]byte) error, error) {
	dir, name := b.State, defaultFile(hook.Name)
	switch {
	case hook.File != "":
		var err error
		if dir, name, err = named(hook.File, source); err != nil {
			return nil, err
		}
		if name == "" {
			dir, name = filepath.Split(dir)
		}
	case policyfile.OfProject(source.Scope):
		return nil, errors.New("in a project, name the `file` for the lines")
	case dir == "":
		return func([]byte) error { return errors.New("the file for the lines is missing: name a `file`") }, nil
	}
	write := builtin.Lines(dir, name)
	return func(line []byte) error {
		if err := provide(dir, source); err != nil {
			return err
		}
		return write(line)
	}, nil
}

// named splits a file name of a policy into a base directory and a name below it. The name is
// relative to the policy file. A project's file must stay below the directory of the policy, and
// symlinks cannot leave it. A user's file can be anywhere; it is returned as dir, and below is
// empty.
func named(name string, source grapnel.Source) (dir, below string, err error) {
	base := filepath.Dir(source.File)
	if !policyfile.OfProject(source.Scope) {
		return home.Absolute(name, base), "", nil
	}
	if !filepath.IsLocal(name) {
		return "", "", fmt.Errorf("%s is not below the directory of the policy, and hooks of a project may write only there", name)
	}
	return base, filepath.ToSlash(name), nil
}

// provide creates the directory that a user's policy names.
func provide(dir string, source grapnel.Source) error {
	if policyfile.OfProject(source.Scope) {
		return nil // the directory of the policy, which exists
	}
	return os.MkdirAll(dir, 0o700)
}

// summaryOf builds a session summary hook. It reads the transcript that the event names and passes
// it to the program that the policy names.
func summaryOf(h *policyfile.Hook, spec *grapnel.Spec, newCommand func(policyfile.Command) grapnel.Hook) error {
	cmd := *h.Run
	cmd.Dir, cmd.Scope = filepath.Dir(spec.Source.File), spec.Source.Scope
	program := newCommand(cmd)
	ask := func(ctx context.Context, ev *grapnel.Event, q builtin.Question) (string, error) {
		about := *ev
		about.Prompt = &grapnel.Prompt{Text: q.Prompt + "\n\n" + q.Transcript}
		out, err := program.Handle(ctx, &about)
		return strings.Join(out.Context, "\n"), err
	}
	var into, below string
	if h.Builtin.Into != "" {
		var err error
		if into, below, err = named(h.Builtin.Into, spec.Source); err != nil {
			return err
		}
	}
	write := func(ctx context.Context, ev *grapnel.Event, file, text string) error {
		if into == "" {
			return builtin.InDir(cmp.Or(ev.Session.Root, ev.Session.CWD))(ctx, ev, file, text)
		}
		if err := provide(into, spec.Source); err != nil {
			return err
		}
		return builtin.InDir(into)(ctx, ev, path.Join(below, file), text)
	}
	spec.Hook = builtin.SessionSummary(builtin.Conversations{Newest: builtin.Transcript}, ask, write).Hook
	return nil
}

// asked returns the dialect of a session summary program: the program reads a prompt from stdin and
// prints the answer.
func asked() *dialect.Dialect {
	return &dialect.Dialect{
		Name:        dialect.Plain().Name,
		WriteEvent:  func(ev *grapnel.Event) ([]byte, error) { return []byte(ev.Prompt.Text), nil },
		ReadOutcome: readContext,
	}
}
