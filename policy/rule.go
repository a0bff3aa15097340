package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// Build turns a policy into Specs of one source. newCommand makes the hook behind a
// `run:`; nil leaves programs out. A policy that uses packs has more than one
// source: only [Load] builds it.
func (p *Policy) Build(source grapnel.Source, newCommand func(Command) grapnel.Hook) ([]grapnel.Spec, error) {
	if len(p.Use) > 0 {
		at := p.Use[0].Pack
		return nil, &Error{File: source.File, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf("uses the pack %q, which only Load can look up", at.Text)}
	}
	return p.build(source, &factCache{}, newCommand)
}

func (p *Policy) build(source grapnel.Source, cache *factCache, newCommand func(Command) grapnel.Hook) ([]grapnel.Spec, error) {
	var specs []grapnel.Spec
	for i := range p.Hooks {
		h := &p.Hooks[i]
		if h.Run != nil && newCommand == nil {
			continue
		}
		spec, err := p.spec(h, source, cache, newCommand)
		if err != nil {
			return nil, &Error{File: source.File, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q: %v", h.Name, err)}
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

func (p *Policy) spec(h *Hook, source grapnel.Source, cache *factCache, newCommand func(Command) grapnel.Hook) (grapnel.Spec, error) {
	spec := grapnel.Spec{
		Name: h.Name, Source: source, Line: h.Line, On: h.On, Priority: h.Priority, OnError: onError(h.OnError),
	}
	if h.Mode == "observe" {
		spec.Mode = grapnel.Observe
	}
	if h.Match != nil || h.Except != nil || h.When != "" {
		as := reading{allow: h.Decide == "allow"}
		m := &matcher{allow: as.allow, facts: cache}
		var err error
		if m.match, err = cache.compile(h.Match, as); err != nil {
			return spec, err
		}
		for i := range h.Except {
			e, err := cache.compile(&h.Except[i], as.not())
			if err != nil {
				return spec, err
			}
			m.except = append(m.except, e)
		}
		m.paths = m.match.looksAtPaths() || slices.ContainsFunc(m.except, (*compiled).looksAtPaths)
		m.lines = m.match.looksAtLines() || slices.ContainsFunc(m.except, (*compiled).looksAtLines)
		if h.When != "" {
			m.when = newWhen(h.When)
		}
		spec.Match = m
	}
	dir := filepath.Dir(source.File)
	switch {
	case h.Decide != "":
		d := decide{Reason: h.Reason, Message: h.Message}
		if err := d.Decision.UnmarshalText([]byte(h.Decide)); err != nil {
			return spec, err
		}
		spec.Phase, spec.Hook = grapnel.PhaseRule, d
	case h.Context != nil:
		spec.Phase, spec.Hook = grapnel.PhaseRule, &addContext{what: *h.Context, dir: dir, message: h.Message}
		if spec.OnError == grapnel.OnErrorDefault {
			spec.OnError = grapnel.OnErrorOpen // it informs and guards nothing
		}
	case h.Replace != nil:
		spec.Phase, spec.Hook = grapnel.PhaseRewrite, newReplace(h)
	case h.Set != nil:
		spec.Phase, spec.Hook = grapnel.PhaseRewrite, set{values: h.Set, message: h.Message}
	case h.Run != nil:
		cmd := *h.Run
		cmd.Dir, cmd.Scope = dir, source.Scope
		spec.Hook = newCommand(cmd)
		spec.Timeout = firstDuration(h.Timeout, p.Defaults.Timeout, Duration(DefaultTimeout))
		if spec.OnError == grapnel.OnErrorDefault {
			spec.OnError = onError(p.Defaults.OnError)
		}
		if spec.OnError == grapnel.OnErrorDefault && p.Strict {
			spec.OnError = grapnel.OnErrorClosed
		}
		if d, ok := dialect.Find(cmd.Speaks); ok && spec.OnError == grapnel.OnErrorDefault {
			spec.OnError = d.OnError
		}
		if cmd.Async {
			spec.Phase = grapnel.PhaseObserve
		}
	default:
		return spec, fmt.Errorf("it does nothing")
	}
	return spec, nil
}

func onError(word string) grapnel.OnError {
	switch word {
	case "open":
		return grapnel.OnErrorOpen
	case "closed":
		return grapnel.OnErrorClosed
	case "ask":
		return grapnel.OnErrorAsk
	default:
		return grapnel.OnErrorDefault
	}
}

func firstDuration(ds ...Duration) time.Duration {
	for _, d := range ds {
		if d > 0 {
			return time.Duration(d)
		}
	}
	return 0
}

// decide is `block:`, `ask:` and `allow:`.
type decide grapnel.Outcome

// Handle gives the same answer to every event: the Matcher chose them.
func (d decide) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome(d), nil
}

// addContext is `context:`.
type addContext struct {
	what    Context
	dir     string
	message string
}

// maxContextFile is how much of a context file the model gets to see.
const maxContextFile = 64 << 10

// Handle reads the file anew each time, so that an edit of it counts at once.
func (c *addContext) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	text := c.what.Text
	if c.what.File != "" {
		name := expandHome(c.what.File)
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.dir, name)
		}
		data, err := readFile(name, maxContextFile+1)
		if err != nil {
			return grapnel.Outcome{}, fmt.Errorf("context: %s: %w", name, err)
		}
		text = string(data)
		if len(data) > maxContextFile {
			text = strings.ToValidUTF8(text[:maxContextFile], "") + fmt.Sprintf("\n… [grapnel: only the first %d bytes of %s]", maxContextFile, c.what.File)
		}
	}
	return grapnel.Outcome{Context: []string{text}, Message: c.message}, nil
}

// replace is `replace:`: patterns over the decoded texts of an event's fields.
type replace struct {
	parts   []replacePart
	fields  []grapnel.Field
	message string
}

type replacePart struct {
	lazyRegexp
	with string
}

func newReplace(h *Hook) *replace {
	r := &replace{fields: h.Fields, message: h.Message, parts: make([]replacePart, len(h.Replace))}
	for i, part := range h.Replace {
		r.parts[i].source, r.parts[i].literal, r.parts[i].with = part.Pattern, part.Literal, part.With
	}
	return r
}

// Handle answers with the fields in which something was replaced.
func (r *replace) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	var out grapnel.Outcome
	fields := r.fields
	if len(fields) == 0 {
		fields = ev.TextFields()
	}
	c := contractOf(ev.Kind)
	for _, field := range fields {
		if !c.Permits(field) {
			continue
		}
		if value, changed := ev.MapText(field, r.apply); changed {
			if out.Set == nil {
				out.Set = map[grapnel.Field]json.RawMessage{}
				out.Message = r.message
			}
			out.Set[field] = value
		}
	}
	return out, nil
}

func (r *replace) apply(text string) string {
	for i := range r.parts {
		if part := &r.parts[i]; part.near(text) {
			text = part.get().ReplaceAllString(text, part.with)
		}
	}
	return text
}

// set is `set:`.
type set struct {
	values  map[grapnel.Field]json.RawMessage
	message string
}

// Handle sets what this event permits and has a place for.
func (s set) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	out := grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{}, Message: s.message}
	for field, value := range s.values {
		if old, has := ev.Get(field); !has || !slices.Equal(old, value) {
			out.Set[field] = value
		}
	}
	return out, nil
}
