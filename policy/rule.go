package policy

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/redact"
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Build converts a policy into Specs with one source. newCommand builds the hook of a `run:` or
// `worker:`; if it is nil, these hooks are skipped. Build returns an error for a policy that uses
// packs or loads hook files, because it needs several sources; package load is for such policies. Limits
// count in memory, only for the returned Specs.
func Build(p *policyfile.Policy, source grapnel.Source, newCommand func(policyfile.Command) grapnel.Hook) ([]grapnel.Spec, error) {
	if len(p.Use) > 0 {
		at := p.Use[0].Pack
		return nil, &policyfile.Error{File: source.File, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf("uses the pack %q, which only load.Policies can look up", at.Text)}
	}
	if len(p.Load) > 0 {
		at := p.Load[0].Format
		return nil, &policyfile.Error{File: source.File, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf("loads %s hooks, which only load.Policies can find", at.Text)}
	}
	if s := p.Secrets; s != nil && len(s.Sums) != len(s.Files) {
		at := s.Files[0]
		return nil, &policyfile.Error{File: source.File, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf("names the rules for secrets in %s, which ReadRules has to read first", at.Text)}
	}
	specs, err := (&Builder{Policy: p, Facts: &match.FactCache{}, Runners: Runners{Command: newCommand}}).Build(source)
	if p.Redact != nil {
		redact.New([]*policyfile.Redact{p.Redact}).Guard(specs, SeesRedacted)
	}
	return state.Together(specs, nil), err
}

// reasonOf returns the reason of a decision, with the advice appended.
func reasonOf(h *policyfile.Hook) string {
	if len(h.Advice) == 0 {
		return h.Reason
	}
	return strings.TrimSpace(h.Reason + "\nInstead: " + strings.Join(h.Advice, "\nor: "))
}

// HookSpec returns a Spec with the events, the match and the options of a hook, but without its
// action.
func HookSpec(h *policyfile.Hook, source grapnel.Source, cache *match.FactCache) (grapnel.Spec, error) {
	spec := grapnel.Spec{
		Name: h.Name, Source: source, Line: h.Line, On: h.On, Priority: policyfile.SpecPriority(h.Priority), OnError: policyfile.ParseOnError(h.OnError),
	}
	if h.Mode == "observe" {
		spec.Observe = true
	}
	as := match.Reading{Allow: h.Decide == "allow"}
	if h.Match == nil && h.Except == nil && h.When == "" && h.After == nil {
		return spec, nil
	}
	m, err := cache.Matcher(h.Match, h.Except, h.When, as)
	if err != nil {
		return spec, err
	}
	spec.Match = m
	if h.After != nil {
		if spec.Match, err = state.NewAfter(h, source, m, as); err != nil {
			return spec, err
		}
	}
	return spec, nil
}

// decide is the hook of a `block:`, `ask:` or `allow:` action.
type decide grapnel.Outcome

// Always implements state.Decider.
func (d decide) Always() grapnel.Decision { return d.Decision }

// Handle returns the same outcome for every event, because the Matcher has already selected the
// event.
func (d decide) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome(d), nil
}

// doubting is a decide whose match asks for the branch of a checkout or a push. Its reason mentions it if
// the branch is not known, because then the rest of the reason may be wrong.
type doubting struct {
	decide

	match *match.Matcher
}

// Handle returns the outcome.
func (d *doubting) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	out := grapnel.Outcome(d.decide)
	if why := d.match.Doubt(ev); why != "" {
		out.Reason = strings.TrimSpace(out.Reason + "\n(Grapnel does not know the branch: " + why + ". Write the names of directories and branches without variables and conditions.)")
	}
	return out, nil
}

// asking is the hook of an `ask:` with `approve:`.
type asking struct {
	decide

	approve policyfile.Approve
}

// Approve returns how the question waits for a person; see package approval.
func (a *asking) Approve() *policyfile.Approve { return &a.approve }

// addContext is the hook of a `context:` action with a text or a file.
type addContext struct {
	what    policyfile.Context
	dir     string
	message string
}

// maxContext is the maximum number of bytes of a file or program output that the model gets.
const maxContext = 64 << 10

// capContext truncates a text above maxContext, and appends a note.
func capContext(text, of string) string {
	if len(text) <= maxContext {
		return text
	}
	return strings.ToValidUTF8(text[:maxContext], "") + fmt.Sprintf("\n… [grapnel: only the first %d bytes of %s]", maxContext, of)
}

// Handle reads the file at each event, so that edits take effect immediately.
func (c *addContext) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	text := c.what.Text
	if c.what.File != "" {
		name := home.Expand(c.what.File)
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.dir, name)
		}
		data, err := files.Read(name, maxContext+1)
		if err != nil {
			return grapnel.Outcome{}, fmt.Errorf("context: %s: %w", name, err)
		}
		text = capContext(string(data), c.what.File)
	}
	return grapnel.Outcome{Context: []string{text}, Message: c.message}, nil
}

// DialectOf returns the dialect of a program that is started for each event, which includes a
// worker outside the daemon; nil = plain.
func DialectOf(c *policyfile.Command) *dialect.Dialect {
	handlers := c.Speaks == "openclaw"
	switch {
	case c.Worker && handlers:
		return dialect.OnceOf(dialect.OpenClawHandlers(home.Known))
	case c.Worker:
		return dialect.Once()
	case c.Context:
		return informing()
	case c.Asked:
		return asked()
	case handlers:
		return dialect.OpenClawHandlers(home.Known)
	}
	d, _ := dialect.Find(c.Speaks)
	return d
}

// informing returns the dialect of a `context:` program: its whole output is context, and it makes
// no decision.
func informing() *dialect.Dialect {
	plain := dialect.Plain()
	return &dialect.Dialect{Name: plain.Name, WriteEvent: plain.WriteEvent, ReadOutcome: readContext}
}

func readContext(_ *grapnel.Event, out dialect.Output) (grapnel.Outcome, error) {
	if out.Exit != 0 {
		stderr := strings.TrimSpace(string(out.Stderr))
		if len(stderr) > 500 {
			stderr = "…" + strings.ToValidUTF8(stderr[len(stderr)-500:], "")
		}
		return grapnel.Outcome{}, fmt.Errorf("exit code %d: %s", out.Exit, cmp.Or(stderr, "it wrote nothing to stderr"))
	}
	text := strings.TrimRight(string(out.Stdout), "\r\n")
	if text == "" {
		return grapnel.Outcome{}, nil
	}
	return grapnel.Outcome{Context: []string{capContext(text, "its output")}}, nil
}

// SeesRedacted reports whether a hook comes from a project or plugin, and so must not see the data
// that `redact:` selects.
func SeesRedacted(s *grapnel.Spec) bool {
	_, marks := s.Hook.(*state.Marker)
	return !marks && (s.Source.Scope == grapnel.ScopeProject || s.Source.Scope == grapnel.ScopePlugin)
}

// Shared returns the part that the hook of a Spec of this package shares with the other hooks of its
// file; nil = it uses none.
func Shared(s *grapnel.Spec) (facts *match.FactCache, secrets *secret.Rules) {
	if mask, ok := s.Hook.(*masking); ok {
		secrets = mask.rules
	}
	if l, ok := s.Hook.(*state.Limit); ok {
		facts = l.Facts
	}
	matcher := s.Match
	if f, ok := matcher.(*state.After); ok {
		matcher = f.Matcher
	}
	if m, ok := matcher.(*match.Matcher); ok {
		facts = m.Facts
		if rules, ok := m.Secrets(); ok {
			secrets = rules
		}
	}
	return facts, secrets
}
