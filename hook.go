package grapnel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A Hook answers one event. It must be safe for concurrent use and should return
// soon after ctx is done. A non-nil error means the hook could not decide; the
// Spec's OnError says what that counts as. What it says beside an error counts too,
// and the stricter of both wins.
type Hook interface {
	Handle(ctx context.Context, ev *Event) (Outcome, error)
}

// Func lets an ordinary function be a Hook.
type Func func(ctx context.Context, ev *Event) (Outcome, error)

// Handle calls f.
func (f Func) Handle(ctx context.Context, ev *Event) (Outcome, error) { return f(ctx, ev) }

// Guard lets a function that finds reasons be a Hook: where it gives one, that blocks.
type Guard func(ev *Event) (reason string)

// Handle calls g.
func (g Guard) Handle(_ context.Context, ev *Event) (Outcome, error) {
	if reason := g(ev); reason != "" {
		return Outcome{Decision: Block, Reason: reason}, nil
	}
	return Outcome{}, nil
}

// Watch lets a function that only looks be a Hook. It never has an opinion.
type Watch func(ctx context.Context, ev *Event)

// Handle calls w.
func (w Watch) Handle(ctx context.Context, ev *Event) (Outcome, error) {
	w(ctx, ev)
	return Outcome{}, nil
}

// Replace is what a Hook returns to replace a field by a value, which is written as
// JSON.
func Replace(field Field, value any) (Outcome, error) {
	raw, err := rawjson.Marshal(value)
	if err != nil {
		return Outcome{}, fmt.Errorf("cannot write %s: %w", field, err)
	}
	return Outcome{Set: map[Field]json.RawMessage{field: raw}}, nil
}

// HookAs returns the first T among h and the hooks that it wraps. A Hook that wraps
// another one has the method Unwrap() Hook. The engine looks this way for [Checker],
// [Graceful] and [IDReader], so these facts about a hook survive each wrapper. It does not
// look so for [Marker]: a wrapper must handle each event itself.
func HookAs[T any](h Hook) (T, bool) {
	for h != nil {
		if found, ok := h.(T); ok {
			return found, true
		}
		wrapper, ok := h.(interface{ Unwrap() Hook })
		if !ok {
			break
		}
		h = wrapper.Unwrap()
	}
	var none T
	return none, false
}

// Checker is a Hook that can tell before it is used that it cannot work. The engine
// asks when it is given the hook, and does not take it if there is an error.
type Checker interface {
	Check() error
}

// Graceful is a Hook that needs time after its deadline to clean up, such as one
// that kills the program it started. The engine waits that much longer for it.
type Graceful interface {
	Grace() time.Duration
}

// A Matcher says whether a Spec listens to an event, beyond its kind and tool.
// The engine asks again whenever the event changed. v is nil until the Verdict is
// final, so only observers see one. An error means "could not tell" and counts as
// an error of the hook. Match must be quick, pure and safe for concurrent use. What
// it works out of an event it may keep by the event's address: the engine gives each
// version of an event one of its own.
type Matcher interface {
	Match(ev *Event, v *Verdict) (bool, error)
}

// IDReader is a Hook or a Matcher that reads [Event.ID]. Where one may listen, the
// event has an ID in every firing, and not only where a Record needs one.
type IDReader interface {
	ReadsID()
}

// Explainer is a Matcher that can say in a few words what matched.
type Explainer interface {
	Explain(ev *Event, v *Verdict) string
}

// A Marker is a Hook of [PhaseObserve] that keeps what has happened, so that later
// events can be judged by it. It is told of the Verdict before anybody else is, and
// Fire waits for it. Its error counts as OnError says, as that of a guard: where
// nobody could tell later that something happened, it may be blocked now.
//
// It is told of the event as it came, and so is its Matcher; v.Event is what the hooks
// have made of it. Mark is called in the place of Handle, once more with the stricter Verdict where
// another Marker's error made it so. It must be quick, and leave v as it is.
type Marker interface {
	Mark(ctx context.Context, ev *Event, v *Verdict) error
}

func isMarker(h Hook) bool {
	_, marks := h.(Marker)
	return marks
}

// Phase is the part of a firing in which a hook runs.
type Phase uint8

// The phases. In process, rewrites chain and rules judge their result, which they
// may not change; steps run by priority and may leave the process; observers come
// after the Verdict.
const (
	PhaseStep Phase = iota
	PhaseRewrite
	PhaseRule
	PhaseObserve
)

var phaseNames = [...]string{PhaseStep: "step", PhaseRewrite: "rewrite", PhaseRule: "rule", PhaseObserve: "observe"}

// String returns step, rewrite, rule or observe.
func (p Phase) String() string { return nameOf(phaseNames[:], int(p), "phase") }

// MarshalText writes the phase's name.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// nameOf returns the name of a constant, or what it is and its number.
func nameOf(names []string, i int, what string) string {
	if i >= 0 && i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", what, i)
}

// OnError says what a hook's failure counts as, where the event's Contract lets
// failures count at all.
type OnError uint8

// What a failure counts as. The default is closed for rewrites, rules and
// managed sources, and open for everything else.
const (
	OnErrorDefault OnError = iota
	OnErrorOpen            // no opinion: the action goes on, and the failure is recorded and shown
	OnErrorClosed          // a Block
	OnErrorAsk             // an Ask, or a Block where nobody can be asked
)

var onErrorNames = [...]string{OnErrorDefault: "default", OnErrorOpen: "open", OnErrorClosed: "closed", OnErrorAsk: "ask"}

// String returns default, open, closed or ask.
func (o OnError) String() string { return nameOf(onErrorNames[:], int(o), "on_error") }

// MarshalText writes the name.
func (o OnError) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Mode says whether a hook's answer counts.
type Mode uint8

// The modes. What an observing hook would have done is in the Record.
const (
	Enforce Mode = iota
	Observe
)

var modeNames = [...]string{Enforce: "enforce", Observe: "observe"}

// String returns enforce or observe.
func (m Mode) String() string { return nameOf(modeNames[:], int(m), "mode") }

// MarshalText writes the mode's name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Scope is where a Source comes from, strongest first. A weaker one adds to what
// a stronger one says and never takes away from it.
type Scope int8

// The scopes. The zero Scope is the user's, which is also that of a Go program.
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

// mayAllow reports whether an Allow from there counts by itself. A project or a plugin
// comes with the work an agent is given, and must not answer for the person.
func (s Scope) mayAllow() bool { return s != ScopeProject && s != ScopePlugin }

// MarshalText writes the scope's name.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Source is where a hook came from. Name identifies it: hooks are added and
// removed by it, and hook names are unique within it.
type Source struct {
	Name   string `json:"name"`
	Scope  Scope  `json:"scope"`
	File   string `json:"file,omitempty"`
	Digest string `json:"digest,omitempty"` // SHA-256 of the content, in hex
}

// DefaultPriority is the priority of a Spec that names none.
const DefaultPriority = 100

// A Spec says when and how a hook runs.
type Spec struct {
	Name     string
	Source   Source
	Line     int           // where it stands in Source.File; 0 = nowhere
	On       []Kind        // the events it listens to; empty = all
	Tools    []string      // classes, names or path.Match globs of tools; empty = all
	Match    Matcher       // what else must hold; nil = nothing
	Phase    Phase         // see Phase
	Hook     Hook          // who answers
	Priority *int          // lower first; steps with equal ones run together; nil = DefaultPriority
	Timeout  time.Duration // 0 = the hook runs inline and is never abandoned
	OnError  OnError
	Mode     Mode

	// MayAllow: an Allow counts although it comes from a project or a plugin, because
	// somebody who may say so granted it. The others' count without.
	MayAllow bool
	// Sequential: when it listens, the hooks that would run together with it run one
	// after the other.
	Sequential bool
	// Key tells hooks that do the same: under a Preset with Once only one of them
	// runs. Empty = it is like no other.
	Key string
}

// FullName is the Spec's name with its source, unique among the hooks that are an
// engine's own.
func (s *Spec) FullName() string {
	if s.Source.Name == "" {
		return s.Name
	}
	return s.Source.Name + "::" + s.Name
}

func (s *Spec) priority() int {
	if s.Priority == nil {
		return DefaultPriority
	}
	return *s.Priority
}

// onError resolves the default.
func (s *Spec) onError() OnError {
	switch {
	case s.OnError != OnErrorDefault:
		return s.OnError
	case s.Phase == PhaseRewrite, s.Phase == PhaseRule, s.Source.Scope == ScopeManaged:
		return OnErrorClosed
	default:
		return OnErrorOpen
	}
}

// check reports what is wrong with a Spec before it can do harm.
func (s *Spec) check() error {
	switch {
	case s.Name == "":
		return errors.New("hook without a name: set Spec.Name")
	case s.Hook == nil:
		return fmt.Errorf("hook %q: no Hook: set Spec.Hook", s.Name)
	case s.Timeout < 0:
		return fmt.Errorf("hook %q: timeout %v is negative", s.Name, s.Timeout)
	case int(s.Phase) >= len(phaseNames):
		return fmt.Errorf("hook %q: there is no %v", s.Name, s.Phase)
	case int(s.OnError) >= len(onErrorNames):
		return fmt.Errorf("hook %q: there is no %v", s.Name, s.OnError)
	case int(s.Mode) >= len(modeNames):
		return fmt.Errorf("hook %q: there is no %v", s.Name, s.Mode)
	case s.Source.Scope < ScopeManaged || s.Source.Scope > ScopeSession:
		return fmt.Errorf("hook %q: there is no %v", s.Name, s.Source.Scope)
	}
	if c, ok := HookAs[Checker](s.Hook); ok {
		if err := c.Check(); err != nil {
			return fmt.Errorf("hook %q: %w", s.Name, err)
		}
	}
	for _, k := range s.On {
		if !k.Known() && !k.Native() {
			return fmt.Errorf("hook %q: unknown event %q", s.Name, k)
		}
	}
	for _, t := range s.Tools {
		if _, err := path.Match(t, ""); err != nil {
			return fmt.Errorf("hook %q: tool pattern %q: %w", s.Name, t, err)
		}
	}
	return nil
}

// listens reports whether the Spec wants this event. A Matcher that panics cannot
// tell.
func (s *Spec) listens(ev *Event, v *Verdict) (ok bool, err error) {
	defer caught(&err)
	return s.matches(ev, v)
}

func (s *Spec) matches(ev *Event, v *Verdict) (bool, error) {
	if len(s.Tools) > 0 && !MatchTool(s.Tools, ev.Tool) {
		return false, nil
	}
	if s.Match == nil {
		return true, nil
	}
	return s.Match.Match(ev, v)
}

// MatchTool reports whether any pattern names the tool: by class, by the agent's
// name, or by a path.Match glob over the name or over mcp__server__tool.
func MatchTool(patterns []string, t *Tool) bool {
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

// glob is path.Match, quick where the pattern begins otherwise than the name.
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
