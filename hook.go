package grapnel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"time"

	"github.com/grapnel-dev/grapnel/internal/presets"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// A Hook answers one event. It must be safe for concurrent use and should return soon after ctx is
// done. With a non-nil error the Spec's OnError decides, or the Outcome if it is stricter.
//
// A Hook may also have Check() error, to refuse the Spec; Grace() time.Duration, to clean up after the
// deadline; and Unwrap() Hook.
type Hook interface {
	Handle(ctx context.Context, ev *Event) (Outcome, error)
}

// Func adapts an ordinary function to a Hook.
type Func func(ctx context.Context, ev *Event) (Outcome, error)

// Handle calls f.
func (f Func) Handle(ctx context.Context, ev *Event) (Outcome, error) { return f(ctx, ev) }

// Guard adapts a function that returns a reason to block, or "", to a Hook.
type Guard func(ev *Event) (reason string)

// Handle calls g.
func (g Guard) Handle(_ context.Context, ev *Event) (Outcome, error) {
	if reason := g(ev); reason != "" {
		return Outcome{Decision: Block, Reason: reason}, nil
	}
	return Outcome{}, nil
}

// Watch adapts a function that only observes to a Hook.
type Watch func(ctx context.Context, ev *Event)

// Handle calls w.
func (w Watch) Handle(ctx context.Context, ev *Event) (Outcome, error) {
	w(ctx, ev)
	return Outcome{}, nil
}

// Replace returns an Outcome that replaces field by value, encoded as JSON.
func Replace(field Field, value any) (Outcome, error) {
	raw, err := rawjson.Marshal(value)
	if err != nil {
		return Outcome{}, fmt.Errorf("cannot write %s: %w", field, err)
	}
	return Outcome{Set: map[Field]json.RawMessage{field: raw}}, nil
}

// A Matcher decides whether a Spec listens to an event, in addition to its kinds and tools, and
// again whenever the event has changed, each time with a new Event. v is nil until the Verdict is
// final. An error is an error of the hook, which runs if it wraps [ErrUndecided]. Match must be
// quick, pure and safe for concurrent use.
type Matcher interface {
	Match(ev *Event, v *Verdict) (bool, error)
}

// marker and explainer are the seams of this engine; see package seam.
type (
	marker    = seam.Marker[Event, Verdict]
	explainer = seam.Explainer[Event, Verdict]
)

func isMarker(h Hook) bool {
	_, marks := h.(marker)
	return marks
}

// Phase is the part of a firing in which a hook runs.
type Phase uint8

// The phases. Rewrites run in process, each on the result of the one before. Rules
// then judge that. Steps run by priority. Observers run after the Verdict.
const (
	PhaseStep Phase = iota
	PhaseRewrite
	PhaseRule
	PhaseObserve
)

var phaseNames = [...]string{PhaseStep: "step", PhaseRewrite: "rewrite", PhaseRule: "rule", PhaseObserve: "observe"}

// String returns step, rewrite, rule or observe.
func (p Phase) String() string { return nameOf(phaseNames[:], int(p), "phase") }

// MarshalText returns the phase's name.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// nameOf returns the name of constant i. Without a name it returns the type and the number, for
// example phase(9).
func nameOf(names []string, i int, what string) string {
	if i >= 0 && i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", what, i)
}

// OnError decides for a hook that fails, where the Contract does not fail open.
type OnError uint8

// The failure modes. The default is closed for rewrites, rules and managed sources, and open for
// observing hooks. For steps it is the Preset's, if that has one; otherwise closed where a Block
// prevents an action, and open elsewhere.
const (
	OnErrorDefault OnError = iota
	OnErrorOpen            // no opinion: the action continues, and the failure is recorded and shown
	OnErrorClosed          // a Block
	OnErrorAsk             // an Ask, or a Block on events where the agent cannot ask a person
)

var onErrorNames = [...]string{OnErrorDefault: "default", OnErrorOpen: "open", OnErrorClosed: "closed", OnErrorAsk: "ask"}

// String returns default, open, closed or ask.
func (o OnError) String() string { return nameOf(onErrorNames[:], int(o), "on_error") }

// MarshalText returns the failure mode's name.
func (o OnError) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Scope is the origin of a Source, strongest first. A weaker scope adds to the decisions of a
// stronger one and never weakens them.
type Scope int8

// The scopes. Hooks of a Go program have ScopeUser.
const (
	ScopeManaged Scope = iota - 1
	ScopeUser
	ScopeProject
	ScopePlugin
	ScopeSession
)

var scopeNames = [...]string{"managed", "user", "project", "plugin", "session"}

// String returns the scope's name.
func (s Scope) String() string {
	if s < ScopeManaged || s > ScopeSession {
		return fmt.Sprintf("scope(%d)", int8(s))
	}
	return scopeNames[s-ScopeManaged]
}

// mayAllow reports whether an Allow from this scope is valid without a grant. A project or a
// plugin is part of the agent's workspace and must not give consent for the user.
func (s Scope) mayAllow() bool { return s != ScopeProject && s != ScopePlugin }

// MarshalText returns the scope's name.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Source is the origin of a hook. Name identifies the source: [Engine.Remove] removes hooks by
// it, and hook names are unique within it.
type Source struct {
	Name   string `json:"name"`
	Scope  Scope  `json:"scope"`
	File   string `json:"file,omitempty"`
	Digest string `json:"digest,omitempty"` // SHA-256 of the content, in hex
}

// A Spec defines when and how a hook runs.
type Spec struct {
	Name     string
	Source   Source
	Line     int      // line in Source.File; 0 = unknown
	On       []Kind   // kinds of events; empty = all
	Tools    []string // classes, names or path.Match globs of tools; empty = all
	Match    Matcher  // further condition; nil = none
	Phase    Phase    // part of the firing in which the hook runs
	Hook     Hook     // answers the event
	Priority int      // lower runs first, and may be negative; steps of equal priority run together, see Timeout
	OnError  OnError
	Observe  bool // the answer has no effect; the Record has the decision that the hook would have made

	// Timeout limits the hook: later, it has failed with ErrTimeout, and the engine continues. Steps
	// of equal priority that have one run at the same time. 0 = no limit: the hook runs in the
	// goroutine of Fire; a hook of PhaseObserve then has five minutes.
	Timeout time.Duration

	MayAllow   bool   // an Allow is valid although the source is a project or a plugin: a user granted it
	Sequential bool   // all hooks of the step run one after the other, if this one listens to the event
	Key        string // of hooks that do the same work: some Presets run only the first; empty = unique
	Unite      string // group of hooks of one source's scope whose lists are united before they narrow the event's list
}

// FullName returns "source::name", unique among an engine's own hooks.
func (s *Spec) FullName() string {
	if s.Source.Name == "" {
		return s.Name
	}
	return s.Source.Name + "::" + s.Name
}

// onError returns OnError with the default resolved. action reports whether a Block of the event
// prevents an action.
func (s *Spec) onError(r *presets.Row, action bool) OnError {
	switch {
	case s.OnError != OnErrorDefault:
		return s.OnError
	case s.Phase == PhaseRewrite, s.Phase == PhaseRule, s.Source.Scope == ScopeManaged:
		return OnErrorClosed
	case r.Failed != presets.FailedDefault:
		return onErrorOf(r)
	case s.Phase == PhaseStep && action:
		return OnErrorClosed
	default:
		return OnErrorOpen
	}
}

// check returns an error if the Spec is invalid.
func (s *Spec) check() error {
	switch {
	case s.Name == "":
		return errors.New("hook without a name: set Spec.Name")
	case isNil(s.Hook):
		return fmt.Errorf("hook %q: no Hook: set Spec.Hook", s.Name)
	case s.Timeout < 0:
		return fmt.Errorf("hook %q: timeout %v is negative", s.Name, s.Timeout)
	case int(s.Phase) >= len(phaseNames):
		return fmt.Errorf("hook %q: unknown value %v", s.Name, s.Phase)
	case int(s.OnError) >= len(onErrorNames):
		return fmt.Errorf("hook %q: unknown value %v", s.Name, s.OnError)
	case s.Source.Scope < ScopeManaged || s.Source.Scope > ScopeSession:
		return fmt.Errorf("hook %q: unknown value %v", s.Name, s.Source.Scope)
	}
	if c, ok := seam.As[seam.Checker](s.Hook); ok {
		if err := c.Check(); err != nil {
			return fmt.Errorf("hook %q: %w", s.Name, err)
		}
	}
	for _, k := range s.On {
		if !k.Known() && !k.Native() {
			return fmt.Errorf("hook %q: %w", s.Name, unknownKind(k))
		}
	}
	for _, t := range s.Tools {
		if _, err := path.Match(t, ""); err != nil {
			return fmt.Errorf("hook %q: tool pattern %q: %w", s.Name, t, err)
		}
	}
	return nil
}

// isNil reports whether a Hook is nil, or an interface that holds a nil function or pointer.
func isNil(h Hook) bool {
	if h == nil {
		return true
	}
	v := reflect.ValueOf(h)
	switch v.Kind() {
	case reflect.Func, reflect.Pointer:
		return v.IsNil()
	default:
		return false
	}
}

// listens reports whether the Spec listens to this event. It returns an error if the Matcher
// panics.
func (s *Spec) listens(ev *Event, v *Verdict) (ok bool, err error) {
	defer caught(&err)
	return s.matches(ev, v)
}

func (s *Spec) matches(ev *Event, v *Verdict) (bool, error) {
	if len(s.Tools) > 0 && !ev.Tool.Matches(s.Tools) {
		return false, nil
	}
	if s.Match == nil {
		return true, nil
	}
	return s.Match.Match(ev, v)
}

// Matches reports whether any pattern matches the tool: by class, by the agent's tool name, or by
// a path.Match glob over the name or over mcp__server__tool. It reports false if t is nil.
func (t *Tool) Matches(patterns []string) bool {
	if t == nil {
		return false
	}
	for _, p := range patterns {
		if p == string(t.Class) || glob(p, t.Name) || t.MCP != nil && glob(p, t.CanonicalName()) {
			return true
		}
	}
	return false
}

// glob is path.Match with a fast path for patterns that start with a literal prefix.
func glob(pattern, name string) bool {
	for i := range len(pattern) {
		switch c := pattern[i]; {
		case c == '*' || c == '?' || c == '[' || c == '\\':
			ok, _ := path.Match(pattern, name)
			return ok
		case i >= len(name) || name[i] != c:
			return false
		}
	}
	return pattern == name
}
