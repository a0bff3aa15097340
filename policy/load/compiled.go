package load

import (
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

// A compiled policy is a policy with an index of its hooks. A process that answers one event reads
// only the hooks that may match the event. Snapshots store policies in this form, and the program
// contains its packs in it. The layout of a snapshot is:
//
//	policy without hooks
//	lists of events, and of tools, that rows refer to by number
//	blocks of at most shell.MaxLists hooks:
//	    index of the commands of the block, see shell.Begins
//	    a row for each hook
type compiledWriter struct {
	codecWriter
	events [][]grapnel.Kind
	tools  []string
}

// A row is the stored form of a hook: the conditions of a matching event, the parts of a Spec before
// the hook is built, and the encoded hook.
type row struct {
	flags     rowFlags
	on, tools int // numbers of lists

	needs match.Needs

	name     string
	phase    grapnel.Phase
	onError  grapnel.OnError
	priority int
	decides  grapnel.Decision // for each event that it matches; none = it depends on the event
	marks    int              // number of the list of events that an `after:` records; -1 = it records none
	begins   string           // programs of the commands that its steps need, see shell.Begins; empty = not known

	hook string
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
	rowObserve // the hook only observes
)

func (w *compiledWriter) policy(p *policyfile.Policy) {
	head := *p
	head.Hooks = nil
	w.policyValue(&head)
	var blocks codecWriter
	for hooks := range slices.Chunk(p.Hooks, shell.MaxLists) {
		begins, rows := w.block(hooks)
		blocks.text(begins)
		for _, text := range rows {
			blocks.text(text)
		}
	}
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
	w.b = append(w.b, blocks.b...)
}

// block compiles at most shell.MaxLists hooks, and collects the lists that their rows refer to.
func (w *compiledWriter) block(hooks []policyfile.Hook) (begins string, rows []string) {
	commands := make([][]*shell.Pattern, len(hooks))
	for i := range hooks {
		var x row
		x, commands[i] = w.row(&hooks[i])
		rows = append(rows, x.encode(&hooks[i]))
	}
	return shell.Begins(commands), rows
}

// row returns the row of a hook, without the encoded hook, and the commands of its match.
func (w *compiledWriter) row(h *policyfile.Hook) (x row, commands []*shell.Pattern) {
	x = row{flags: rowAlways, name: h.Name, on: w.list(h.On), marks: -1}
	defer func() { x.tools = w.toolList(x.needs.Tools) }()
	if h.Program() != nil || h.HTTP != nil || h.Builtin != nil {
		return x, nil
	}
	spec, err := policy.BuildRule(h, grapnel.Source{}, &match.FactCache{Announced: true})
	if err != nil {
		return x, nil
	}
	x.phase, x.onError, x.priority = spec.Phase, spec.OnError, spec.Priority
	if d, ok := spec.Hook.(state.Decider); ok {
		x.decides = d.Always()
	}
	m, _ := spec.Match.(*match.Matcher)
	if f, ok := spec.Match.(*state.After); ok {
		m, x.marks, x.begins = f.Matcher, w.list(f.Kinds()), f.Begins()
	}
	if h.Limit == nil && h.After == nil { // these hooks count or record other events, too
		x.flags = 0
	}
	x.needs, commands = match.NeedsOf(m)
	x.needs.Secret = x.needs.Secret || h.Mask != nil
	for flag, set := range map[rowFlags]bool{
		rowPaths: m.LooksAtPaths(), rowProgram: x.needs.Program, rowLine: x.needs.Line,
		rowUnknown: x.needs.Unknown, rowURL: x.needs.URL, rowSecret: x.needs.Secret,
		rowObserve: spec.Observe,
	} {
		if set {
			x.flags |= flag
		}
	}
	return x, commands
}

func (x *row) encode(h *policyfile.Hook) string {
	var w codecWriter
	w.uint(uint64(x.flags))
	w.count(x.on)
	w.count(x.tools)
	for _, text := range []string{x.needs.Paths, x.needs.Text, x.needs.Content, x.needs.Code, x.needs.Prompt} {
		w.text(text)
	}
	w.text(x.name)
	w.int(int64(x.phase))
	w.int(int64(x.onError))
	w.int(int64(x.priority))
	w.int(int64(x.decides))
	w.int(int64(x.marks))
	w.text(x.begins)
	w.hookValue(h)
	return string(w.b)
}

// head reads the beginning of a row, which names the events for which the rest matters.
func (x *row) head(r *codecReader) {
	x.flags, x.on, x.tools = rowFlags(r.uint()), int(r.uint()), int(r.uint())
}

// texts reads the conditions for the texts of an event.
func (x *row) texts(r *codecReader) {
	x.needs = match.Needs{
		Paths: r.text(), Text: r.text(), Content: r.text(), Code: r.text(), Prompt: r.text(),
		Program: x.flags&rowProgram != 0, Line: x.flags&rowLine != 0, Unknown: x.flags&rowUnknown != 0, URL: x.flags&rowURL != 0, Secret: x.flags&rowSecret != 0,
	}
}

// rest reads the other parts. The encoded hook is not decoded.
func (x *row) rest(r *codecReader) {
	x.name = r.text()
	x.phase, x.onError, x.priority = grapnel.Phase(r.int()), grapnel.OnError(r.int()), int(r.int())
	x.decides, x.marks, x.begins = grapnel.Decision(r.int()), int(r.int()), r.text()
	x.hook = r.left
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
	return p.skipped > 0 || len(p.Use) > 0 || slices.ContainsFunc(p.Hooks, func(h policyfile.Hook) bool {
		return h.Match != nil && len(h.Match.Command)+len(h.Match.Deletes)+len(h.Match.Drops) > 0
	})
}

// compiledPolicy decodes a policy. If facts is not nil, it skips hooks that the event cannot match
// in its current form. An event that another hook changes can match them.
func (r *codecReader) compiledPolicy(facts *match.Facts) loadedPolicy {
	p := loadedPolicy{Policy: &policyfile.Policy{}}
	r.policyValue(p.Policy)
	s := newSelection(r, facts)
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
	all    bool           // select all hooks for this kind of event: they report a line that is too long
	listen []bool
	tools  []toolChoice
}

func newSelection(r *codecReader, facts *match.Facts) rowSelection {
	s := rowSelection{codecReader: r, facts: facts}
	if facts != nil {
		s.ev, s.all = facts.Event, facts.ShellBytes() > match.MaxShellBytes
	}
	return s
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
	var x row
	for ; i < n; i++ {
		r := codecReader{left: s.text()}
		if !s.selects(&x, &r, programs) {
			continue
		}
		x.rest(&r)
		p.Hooks = append(p.Hooks, policyfile.Hook{})
		if r.hookValue(&p.Hooks[len(p.Hooks)-1]); r.bad {
			s.fail()
			return
		}
	}
}

// selects reads the beginning of a row, and reports whether its hook may match the event. programs
// reports whether the event may run a program of the hook.
func (s *rowSelection) selects(x *row, r *codecReader, programs func() bool) bool {
	x.head(r)
	if x.on < 0 || x.on >= len(s.listen) || x.tools < 0 || x.tools >= len(s.tools) {
		s.fail()
		return false
	}
	selecting := s.ev != nil && x.flags&rowAlways == 0
	if selecting && !s.listen[x.on] {
		return false
	}
	if selecting && !s.all && x.flags&(rowProgram|rowPaths) == rowProgram && s.ev.Tool != nil && !programs() {
		return false // most rules are about programs, and this is known without their texts
	}
	x.texts(r)
	return !selecting || s.all || s.chosen(x, programs)
}

// chosen reports whether the hook of a row may match the event.
func (s *rowSelection) chosen(x *row, programs func() bool) bool {
	if x.flags&rowPaths != 0 && s.facts.TooManyPaths() {
		return true
	}
	if tools := &s.tools[x.tools]; s.ev.Tool != nil && tools.names != "" {
		if !tools.known {
			tools.known, tools.among = true, s.facts.ToolAmong(tools.names)
		}
		if !tools.among {
			return false
		}
	} else {
		x.needs.Tools = tools.names
	}
	return x.needs.Met(s.facts, programs)
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
