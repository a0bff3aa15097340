package load

import (
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/internal/shell"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A compiled policy is a policy with an index of its hooks. A process that answers one event reads
// only the hooks that may match the event. The layout is:
//
//	policy without hooks
//	lists of events, and of tools, that rows refer to by number
//	blocks of at most shell.MaxLists hooks:
//	    index of the commands of the block, see shell.Begins
//	    a row for each hook: what an event must have to match, then the hook itself
type compiledWriter struct {
	codecWriter
	events [][]grapnel.Kind
	tools  []string
}

// rowFlags is the first part of a row.
type rowFlags uint64

const (
	rowAlways  rowFlags = 1 << iota // the hook is read for each event
	rowPaths                        // the hook reports an error for calls with too many paths
	rowProgram                      // this flag and the following ones are as in match.Needs
	rowLine
	rowUnknown
	rowURL
	rowSecret
)

func (w *compiledWriter) policy(p *policyfile.Policy) {
	head := *p
	head.Hooks = nil
	w.policyValue(&head)
	var rows codecWriter
	w.rows(&rows, p.Hooks)
	w.count(len(w.events))
	for _, kinds := range w.events {
		w.count(len(kinds))
		for _, k := range kinds {
			w.text(string(k))
		}
	}
	w.count(len(w.tools))
	for _, tools := range w.tools {
		w.text(tools)
	}
	w.count(len(p.Hooks))
	w.b = append(w.b, rows.b...)
}

// rows writes all blocks, and collects the event and tool lists that rows refer to.
func (w *compiledWriter) rows(to *codecWriter, hooks []policyfile.Hook) {
	for block := range slices.Chunk(hooks, shell.MaxLists) {
		var rows codecWriter
		commands := make([][]*shell.Pattern, len(block))
		for i := range block {
			h := &block[i]
			flags, needs := rowAlways, match.Needs{}
			if pure(h) {
				flags, needs, commands[i] = needsOf(h)
			}
			rows.uint(uint64(flags))
			rows.count(w.list(h.On))
			rows.count(w.toolList(needs.Tools))
			var row codecWriter
			for _, text := range []string{needs.Paths, needs.Text, needs.Content, needs.Code, needs.Prompt} {
				row.text(text)
			}
			row.hookValue(h)
			rows.text(string(row.b))
		}
		to.text(shell.Begins(commands))
		to.b = append(to.b, rows.b...)
	}
}

// pure reports whether the hook depends only on its event: it starts no program, sends no request,
// and keeps no state.
func pure(h *policyfile.Hook) bool {
	return h.Program() == nil && h.HTTP == nil && h.Builtin == nil && h.Limit == nil && h.After == nil
}

// needsOf returns the properties that an event must have to match a pure hook.
func needsOf(h *policyfile.Hook) (rowFlags, match.Needs, []*shell.Pattern) {
	spec, err := policy.BuildRule(h, grapnel.Source{}, &match.FactCache{})
	if err != nil {
		return rowAlways, match.Needs{}, nil
	}
	m, _ := spec.Match.(*match.Matcher)
	needs, commands := match.NeedsOf(m)
	flags := rowFlags(0)
	for flag, set := range map[rowFlags]bool{
		rowPaths: m.LooksAtPaths(), rowProgram: needs.Program, rowLine: needs.Line,
		rowUnknown: needs.Unknown, rowURL: needs.URL, rowSecret: needs.Secret,
	} {
		if set {
			flags |= flag
		}
	}
	return flags, needs, commands
}

func (w *compiledWriter) list(kinds []grapnel.Kind) int {
	i := slices.IndexFunc(w.events, func(other []grapnel.Kind) bool { return slices.Equal(kinds, other) })
	if i < 0 {
		i = len(w.events)
		w.events = append(w.events, kinds)
	}
	return i
}

func (w *compiledWriter) toolList(tools string) int {
	i := slices.Index(w.tools, tools)
	if i < 0 {
		i = len(w.tools)
		w.tools = append(w.tools, tools)
	}
	return i
}

// loadedPolicy is a decoded policy, possibly without hooks that cannot match the event.
type loadedPolicy struct {
	*policyfile.Policy
	skipped   int  // number of hooks that were not read
	unsettled bool // the file was just changed: it is still the last content, or the first one
}

// seesCommands reports whether the policy may have rules about commands.
func (p *loadedPolicy) seesCommands() bool {
	return p.skipped > 0 || len(p.Use) > 0 || slices.ContainsFunc(p.Hooks, func(h policyfile.Hook) bool { return h.Match != nil && len(h.Match.Command)+len(h.Match.Deletes) > 0 })
}

// compiledPolicy decodes a policy. If facts is not nil, it skips hooks that the event cannot match
// in its current form. An event that another hook changes can match them.
func (r *codecReader) compiledPolicy(facts *match.Facts) loadedPolicy {
	p := loadedPolicy{Policy: &policyfile.Policy{}}
	r.policyValue(p.Policy)
	s := rowSelection{codecReader: r, facts: facts}
	if facts != nil {
		s.ev = facts.Event
		s.all = facts.ShellBytes() > match.MaxShellBytes // the hooks report this as an error
	}
	s.lists()
	hooks := r.count()
	if facts == nil && hooks > 0 {
		p.Hooks = make([]policyfile.Hook, 0, hooks)
	}
	for from := 0; from < hooks && !r.bad; from += shell.MaxLists {
		s.block(min(hooks-from, shell.MaxLists), p.Policy)
	}
	p.skipped = hooks - len(p.Hooks)
	return p
}

// rowSelection selects the hooks that may match an event.
type rowSelection struct {
	*codecReader
	facts  *match.Facts   // nil = select all hooks
	ev     *grapnel.Event // the event of facts
	all    bool           // select all hooks for this kind of event
	listen []bool
	tools  []toolChoice
}

// toolChoice caches whether the event's tool is in a list.
type toolChoice struct {
	names        string
	known, among bool
}

func (s *rowSelection) lists() {
	s.listen = make([]bool, s.count())
	for i := range s.listen {
		n := s.count()
		s.listen[i] = n == 0
		for range n {
			kind := s.text()
			s.listen[i] = s.listen[i] || s.ev != nil && kind == string(s.ev.Kind)
		}
	}
	s.tools = make([]toolChoice, s.count())
	for i := range s.tools {
		s.tools[i].names = s.text()
	}
}

// block reads a block of n rows, and adds the selected hooks to the policy.
func (s *rowSelection) block(n int, p *policyfile.Policy) {
	commands := s.text()
	i := 0
	programs := func() bool { return s.facts.NearPrograms(commands, n)[i] }
	for ; i < n; i++ {
		flags, on, tools, row := rowFlags(s.uint()), s.uint(), s.uint(), s.text()
		if on >= uint64(len(s.listen)) || tools >= uint64(len(s.tools)) {
			s.fail()
			return
		}
		selecting := s.ev != nil && flags&rowAlways == 0
		if selecting && !s.listen[on] {
			continue
		}
		r := codecReader{left: row}
		needs := match.Needs{Paths: r.text(), Text: r.text(), Content: r.text(), Code: r.text(), Prompt: r.text()}
		if selecting && !s.all && !s.chosen(flags, &s.tools[tools], &needs, programs) {
			continue
		}
		p.Hooks = append(p.Hooks, policyfile.Hook{})
		if r.hookValue(&p.Hooks[len(p.Hooks)-1]); r.bad {
			s.fail()
			return
		}
	}
}

// chosen reports whether the hook of a row may match the event.
func (s *rowSelection) chosen(flags rowFlags, tools *toolChoice, needs *match.Needs, programs func() bool) bool {
	if flags&rowPaths != 0 && s.facts.TooManyPaths() {
		return true
	}
	if t := s.ev.Tool; t != nil && tools.names != "" {
		if !tools.known {
			tools.known, tools.among = true, s.facts.ToolAmong(tools.names)
		}
		if !tools.among {
			return false
		}
	} else {
		needs.Tools = tools.names
	}
	needs.Program, needs.Line = flags&rowProgram != 0, flags&rowLine != 0
	needs.Unknown, needs.URL, needs.Secret = flags&rowUnknown != 0, flags&rowURL != 0, flags&rowSecret != 0
	return needs.Met(s.facts, programs)
}

// changesEvent reports whether one of the Specs matches the event and may change it.
func changesEvent(specs []grapnel.Spec, ev *grapnel.Event) bool {
	return slices.ContainsFunc(specs, func(s grapnel.Spec) bool {
		if s.Phase != grapnel.PhaseRewrite && s.Phase != grapnel.PhaseStep || len(s.On) > 0 && !slices.Contains(s.On, ev.Kind) {
			return false
		}
		if _, remembers := s.Match.(state.Sequence); remembers || s.Match == nil {
			return true
		}
		matches, err := s.Match.Match(ev, nil)
		return matches || err != nil
	})
}
