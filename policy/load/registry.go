package load

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/digest"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/packindex"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/internal/readfile"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/internal/shell"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// ReadRegistry reads the packs NAME.yaml of a directory, and skips their tests NAME_test.yaml. It
// returns all errors in these files.
func ReadRegistry(dir fs.FS) (packindex.Registry, []*policyfile.Error) {
	files, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return packindex.Registry{}, []*policyfile.Error{{File: "*.yaml", Msg: err.Error()}}
	}
	var all []packindex.Pack
	var errs []*policyfile.Error
	for _, file := range files {
		if strings.HasSuffix(file, "_test.yaml") {
			continue
		}
		pack, wrong := readPack(dir, file)
		all, errs = append(all, pack), append(errs, wrong...)
	}
	return packindex.New(all), errs
}

func readPack(dir fs.FS, file string) (packindex.Pack, []*policyfile.Error) {
	pack := packindex.Pack{Name: strings.TrimSuffix(path.Base(file), ".yaml")}
	data, err := fs.ReadFile(dir, file)
	if err != nil {
		return pack, []*policyfile.Error{{File: file, Msg: readfile.Reason(err)}}
	}
	p, errs := policy.Parse(file, data)
	if len(errs) > 0 {
		return pack, errs
	}
	if p.Pack == nil {
		return pack, []*policyfile.Error{{File: file, Line: 1, Col: 1, Msg: "it is not a pack", Hint: "write `pack: {version: 1}`"}}
	}
	if len(p.Hooks) > shell.MaxLists {
		return pack, []*policyfile.Error{{File: file, Line: p.Hooks[shell.MaxLists].Line, Col: 1, Msg: fmt.Sprintf("a pack can have at most %d hooks", shell.MaxLists), Hint: "write two packs"}}
	}
	pack.Version, pack.Digest = p.Pack.Version, digest.Of(data)
	var commands [][]*shell.Pattern
	for i := range p.Hooks {
		h, patterns, err := toRegistryHook(&p.Hooks[i])
		if err != nil {
			return pack, []*policyfile.Error{{File: file, Line: p.Hooks[i].Line, Col: 1, Msg: fmt.Sprintf("hook %q: %v", h.Name, err)}}
		}
		pack.Hooks, commands = append(pack.Hooks, h), append(commands, patterns)
	}
	pack.Begins = shell.Begins(commands)
	return pack, nil
}

// toRegistryHook returns the registry entry of a hook, and the command patterns of the hook.
func toRegistryHook(h *policyfile.Hook) (packindex.Hook, []*shell.Pattern, error) {
	spec, err := policy.BuildRule(h, grapnel.Source{}, &match.FactCache{})
	if err != nil {
		return packindex.Hook{Name: h.Name}, nil, err
	}
	var commands []*shell.Pattern
	s := packindex.Hook{
		Name: h.Name, On: h.On, Phase: spec.Phase, OnError: spec.OnError, Priority: spec.Priority, Mode: h.Mode,
	}
	if h.Limit != nil {
		s.Counts = &packindex.Counts{}
	}
	if d, ok := spec.Hook.(state.Decider); ok {
		s.Decide = d.Always()
	}
	m, _ := spec.Match.(*match.Matcher)
	if f, ok := spec.Match.(*state.After); ok {
		m, s.Counts = f.Matcher, &packindex.Counts{Marks: f.Kinds(), Begins: f.Begins()}
	}
	s.Needs, commands = match.NeedsOf(m)
	s.Needs.Secret = s.Needs.Secret || h.Mask != nil
	kept := *h
	kept.Name, kept.On, kept.Mode, kept.Line, kept.Incident = "", nil, "", 0, "" // Line comes from the file that uses the pack; Incident is only for readers
	if h.Match != nil && s.Needs != (match.Needs{}) {
		m := *h.Match
		if s.Needs.Paths != "" {
			m.Path, m.Reads, m.Writes = nil, nil, nil
		}
		m.Text, m.Content, m.Prompt = match.WithoutPrefilter(m.Text), match.WithoutPrefilter(m.Content), match.WithoutPrefilter(m.Prompt)
		m.Code = match.WithoutPrefilter(m.Code)
		kept.Match = &m
	}
	w := &codecWriter{}
	w.hookValue(&kept)
	s.Hook = string(w.b)
	return s, commands, nil
}

// hookOf decodes the Hook that s was made of.
func hookOf(s *packindex.Hook) (*policyfile.Hook, error) {
	h := policyfile.Hook{}
	r := codecReader{left: s.Hook}
	if r.hookValue(&h); r.bad {
		return nil, fmt.Errorf("the hook %q of a pack is damaged", s.Name)
	}
	h.Name, h.On, h.Mode = s.Name, s.On, s.Mode
	if h.Match == nil || s.Needs == (match.Needs{}) {
		return &h, nil
	}
	n := &s.Needs
	if n.Paths != "" {
		paths, more, _ := strings.Cut(n.Paths, prefilter.NextSet)
		reads, writes, _ := strings.Cut(more, prefilter.NextSet)
		h.Match.Path, h.Match.Reads, h.Match.Writes = match.SplitLines(paths), match.SplitLines(reads), match.SplitLines(writes)
	}
	match.RestorePrefilter(h.Match.Text, n.Text)
	match.RestorePrefilter(h.Match.Content, n.Content)
	match.RestorePrefilter(h.Match.Code, n.Code)
	match.RestorePrefilter(h.Match.Prompt, n.Prompt)
	return &h, nil
}

// packHook is a hook of a pack. It builds its Matcher and Hook on the first event that may match.
type packHook struct {
	*packindex.Hook
	pack    *packindex.Pack
	number  int // index in the pack
	use     *policyfile.Use
	source  *grapnel.Source
	facts   *match.FactCache
	secrets *secret.Rules
	counter state.Counter // Counter of a packSequence

	once sync.Once
	spec grapnel.Spec
	err  error
}

// toSpec returns the Spec of the hook. The Matcher and the Hook are built lazily, except for a hook
// with a limit.
func (s *packHook) toSpec(use *policyfile.Use) (grapnel.Spec, error) {
	spec := grapnel.Spec{
		Name: s.Name, Source: *s.source, Line: use.Pack.Line, On: s.On, Phase: s.Phase, OnError: s.OnError, Priority: s.Priority, Match: s, Hook: s,
	}
	switch {
	case s.Counts == nil:
	case s.Counts.Marks != nil:
		spec.Match = packSequence{s}
	default:
		made, err := s.made()
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
		spec.Observe = true
	}
	return spec, nil
}

func (s *packHook) made() (*grapnel.Spec, error) {
	s.once.Do(func() {
		var h *policyfile.Hook
		if h, s.err = hookOf(s.Hook); s.err == nil {
			h.Except = permitted(s.use, h)
			s.spec, s.err = policy.BuildRule(h, *s.source, match.LateFacts(s.facts, s.secrets))
		}
		if f, ok := s.spec.Match.(*state.After); ok {
			f.CountIn(s.counter)
		}
	})
	return &s.spec, s.err
}

// concerns reports whether the hook may match an event in its current form.
func (s *packHook) concerns(f *match.Facts) bool {
	if s.Counts != nil {
		return true // it also records other events
	}
	return (len(s.On) == 0 || slices.Contains(s.On, f.Event.Kind)) && s.near(f)
}

// near reports whether the event may have the properties that the hook needs. It can be wrong only
// by returning true.
func (s *packHook) near(f *match.Facts) bool {
	if !s.Needs.Met(f, func() bool { return f.NearPrograms(s.pack.Begins, len(s.pack.Hooks))[s.number] }) {
		return false
	}
	// Such a line is longer than any system accepts for a shell. Hooks of packs that a policy uses
	// report an error for it. Packs that are always in force ignore it, so it is not blocked on
	// machines without a policy.
	if s.source.File == notice.OwnFile && f.ShellBytes() > match.MaxShellBytes {
		return false
	}
	return !s.Needs.Secret || s.secrets != nil || len(f.Event.Calls) > 0 || f.NearSecret()
}

// Match builds the hook only if the event has the properties that the hook needs.
func (s *packHook) Match(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	if !s.near(s.facts.Of(ev)) {
		return false, nil
	}
	spec, err := s.made()
	if err != nil || spec.Match == nil {
		return err == nil, err
	}
	return spec.Match.Match(ev, v)
}

// Explain returns the explanation of the built Matcher, or "".
func (s *packHook) Explain(ev *grapnel.Event, v *grapnel.Verdict) string {
	if spec, err := s.made(); err == nil {
		if x, ok := spec.Match.(seam.Explainer[grapnel.Event, grapnel.Verdict]); ok {
			return x.Explain(ev, v)
		}
	}
	return ""
}

// Always implements state.Decider.
func (s *packHook) Always() grapnel.Decision { return s.Decide }

// Handle builds the hook if necessary and runs it.
func (s *packHook) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	spec, err := s.made()
	if err != nil {
		return grapnel.Outcome{}, err
	}
	return spec.Hook.Handle(ctx, ev)
}

// packSequence is a packHook with an `after:` key.
type packSequence struct{ *packHook }

// Made implements state.Sequence.
func (s packSequence) Made() (*state.After, error) {
	spec, err := s.packHook.made()
	if err != nil {
		return nil, err
	}
	return spec.Match.(*state.After), nil
}

// Kinds implements state.Sequence.
func (s packSequence) Kinds() []grapnel.Kind { return s.Counts.Marks }

// MayMark reports whether an event may begin or cancel a step, without building the hook. It can be
// wrong only by returning true.
func (s packSequence) MayMark(ev *grapnel.Event, v *grapnel.Verdict) bool {
	if s.Counts.Begins == "" || len(ev.Calls) > 0 || v != nil && v.Event != nil && v.Event != ev {
		return true
	}
	f := s.facts.Of(ev)
	return f.ShellBytes() > match.MaxShellBytes || f.NearPrograms(s.Counts.Begins, 1)[0]
}

// CountIn implements state.Sequence.
func (s packSequence) CountIn(c state.Counter) { s.counter = c }

// ReadsID marks that the Matcher reads the event's ID, as in state.After.
func (s packSequence) ReadsID() {}
