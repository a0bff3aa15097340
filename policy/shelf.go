package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/secret"
	"github.com/grapnel-dev/grapnel/shell"
)

// A Shelf is the packs that `use:` may name. [ReadShelf] makes one of files. A program
// that starts for each event has it as data instead, which costs nothing before a hook
// may have something to say.
type Shelf []ShelvedPack

// ShelvedPack is a pack on a Shelf.
type ShelvedPack struct {
	Name    string
	Version int
	Digest  string // SHA-256 of its file, in hex
	Hooks   []ShelvedHook
}

// ShelvedHook is a hook of a pack that is made when an event comes that it may listen to.
type ShelvedHook struct {
	Name    string
	On      []grapnel.Kind
	Phase   grapnel.Phase
	OnError grapnel.OnError
	Mode    string           // as in [Hook]
	Decide  grapnel.Decision // what it says to every event that it listens to; None = that depends
	Counts  bool             // it looks at more than one event, and is made at once
	Needs   Needs
	Hook    string // a [Hook], as JSON
}

// Needs is what an event must have for a hook to listen to it, as far as that shows at a
// glance.
type Needs struct {
	Classes  []string // one of which the tool must be of; nil = any
	Programs []string // one of which a command of a shell line must begin with; nil = none
	Line     bool     // a shell line
	Path     bool     // the name of a file
	Secret   bool     // what looks like a secret
}

// Names lists the packs.
func (s Shelf) Names() []string {
	var names []string
	for i := range s {
		names = append(names, s[i].Name)
	}
	return names
}

func (s Shelf) find(name string) *ShelvedPack {
	for i := range s {
		if s[i].Name == name {
			return &s[i]
		}
	}
	return nil
}

// ReadShelf reads the packs of a directory, NAME.yaml each. The errors are all that is
// wrong with them.
func ReadShelf(dir fs.FS) (Shelf, []*Error) {
	files, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return nil, []*Error{{File: "*.yaml", Msg: err.Error()}}
	}
	var shelf Shelf
	var errs []*Error
	for _, file := range files {
		pack, wrong := readPack(dir, file)
		shelf, errs = append(shelf, pack), append(errs, wrong...)
	}
	return shelf, errs
}

func readPack(dir fs.FS, file string) (ShelvedPack, []*Error) {
	pack := ShelvedPack{Name: strings.TrimSuffix(path.Base(file), ".yaml")}
	data, err := fs.ReadFile(dir, file)
	if err != nil {
		return pack, []*Error{{File: file, Msg: reason(err)}}
	}
	p, errs := Parse(file, data)
	if len(errs) > 0 {
		return pack, errs
	}
	if p.Pack == nil {
		return pack, []*Error{{File: file, Line: 1, Col: 1, Msg: "it is no pack", Hint: "write `pack: {version: 1}`"}}
	}
	pack.Version, pack.Digest = p.Pack.Version, digestOf(data)
	for i := range p.Hooks {
		h, err := shelve(&p.Hooks[i])
		if err != nil {
			return pack, []*Error{{File: file, Line: p.Hooks[i].Line, Col: 1, Msg: fmt.Sprintf("hook %q: %v", h.Name, err)}}
		}
		pack.Hooks = append(pack.Hooks, h)
	}
	return pack, nil
}

func shelve(h *Hook) (ShelvedHook, error) {
	spec, err := (&Policy{}).spec(h, grapnel.Source{}, &factCache{}, nil)
	if err != nil {
		return ShelvedHook{Name: h.Name}, err
	}
	kept := *h
	kept.Line, kept.Incident = 0, "" // the one is that of who uses the pack, the other for people
	s := ShelvedHook{
		Name: h.Name, On: h.On, Phase: spec.Phase, OnError: spec.OnError, Mode: h.Mode,
		Counts: h.Limit != nil || h.After != nil, Hook: string(encode(&kept)),
	}
	if d, ok := spec.Hook.(decide); ok {
		s.Decide = d.Decision
	}
	if m, ok := spec.Match.(*matcher); ok && m.match != nil {
		s.Needs = m.match.needs()
	}
	s.Needs.Secret = s.Needs.Secret || h.Mask != nil
	return s, nil
}

// classes are the words of `tool:` that stand for a class of tools alone.
var classes = []grapnel.Class{
	grapnel.ClassShell, grapnel.ClassRead, grapnel.ClassWrite, grapnel.ClassEdit, grapnel.ClassSearch, grapnel.ClassFetch, grapnel.ClassTask, grapnel.ClassMCP, grapnel.ClassOther,
}

// needs leaves out whatever costs more to find out than to make the hook.
func (c *compiled) needs() Needs {
	n := Needs{Line: c.shell, Path: len(c.path)+len(c.reads)+len(c.writes) > 0, Secret: c.secret != nil}
	for _, g := range c.tool {
		if !slices.Contains(classes, grapnel.Class(g.source)) {
			n.Classes = nil
			break
		}
		n.Classes = append(n.Classes, g.source)
	}
	for _, p := range c.command {
		if begin := p.Begin(); !slices.Contains(n.Programs, begin) {
			n.Programs = append(n.Programs, begin)
		}
	}
	return n
}

// met reports whether an event has what a hook needs.
func (n *Needs) met(f *facts) bool {
	t := f.ev.Tool
	if t == nil {
		return len(f.ev.Calls) > 0 || n.Classes == nil && n.Programs == nil && !n.Line && !n.Path
	}
	if n.Classes != nil && !slices.ContainsFunc(n.Classes, func(c string) bool { return c == string(t.Class) || strings.EqualFold(c, t.Name) }) {
		return false
	}
	if n.Line && len(t.Commands) == 0 {
		return false
	}
	if n.Programs == nil && !n.Path {
		return true
	}
	size := 0
	for _, line := range t.Commands {
		size += len(line)
	}
	if size > maxShellBytes {
		return true // the hook says so
	}
	if n.Path && len(f.pathNames()) == 0 {
		return false
	}
	return n.Programs == nil || slices.ContainsFunc(f.scripts(), func(s *shell.Script) bool { return slices.ContainsFunc(n.Programs, s.May) })
}

// shelved is a hook of a pack at work.
type shelved struct {
	*ShelvedHook
	source  grapnel.Source
	facts   *factCache
	secrets *secret.Rules

	once sync.Once
	spec grapnel.Spec
	err  error
}

// spec is the hook with nothing made yet, or, if it counts, made.
func (s *ShelvedHook) toSpec(use *Use, source grapnel.Source, cache *factCache) (grapnel.Spec, error) {
	hook := &shelved{ShelvedHook: s, source: source, facts: cache, secrets: cache.secrets}
	spec := grapnel.Spec{
		Name: s.Name, Source: source, Line: use.Pack.Line, On: s.On, Phase: s.Phase, OnError: s.OnError, Match: hook, Hook: hook,
	}
	if s.Counts {
		made, err := hook.made()
		if err != nil {
			return spec, err
		}
		spec.Match, spec.Hook = made.Match, made.Hook
	}
	mode := s.Mode
	if use.Mode != "" {
		mode = use.Mode
	}
	if mode == "observe" {
		spec.Mode = grapnel.Observe
	}
	return spec, nil
}

func (s *shelved) made() (*grapnel.Spec, error) {
	s.once.Do(func() {
		var h Hook
		if s.err = json.Unmarshal([]byte(s.ShelvedHook.Hook), &h); s.err == nil {
			s.spec, s.err = (&Policy{}).spec(&h, s.source, &factCache{first: s.facts, secrets: s.secrets}, nil)
		}
	})
	return &s.spec, s.err
}

// Match makes the hook only if the event has what it needs.
func (s *shelved) Match(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	f := s.facts.of(ev)
	if !s.Needs.met(f) {
		return false, nil
	}
	if s.Needs.Secret && s.secrets == nil && len(ev.Calls) == 0 && !f.nearSecret() {
		return false, nil
	}
	spec, err := s.made()
	if err != nil || spec.Match == nil {
		return err == nil, err
	}
	return spec.Match.Match(ev, v)
}

// Explain is that of the hook.
func (s *shelved) Explain(ev *grapnel.Event, v *grapnel.Verdict) string {
	if spec, err := s.made(); err == nil {
		if x, ok := spec.Match.(grapnel.Explainer); ok {
			return x.Explain(ev, v)
		}
	}
	return ""
}

// Handle is that of the hook.
func (s *shelved) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	spec, err := s.made()
	if err != nil {
		return grapnel.Outcome{}, err
	}
	return spec.Hook.Handle(ctx, ev)
}
