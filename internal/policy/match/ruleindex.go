package match

import (
	"sync"

	"github.com/grapnel-dev/grapnel"
)

// A ruleIndex finds the rules that may match an event by its tool and by the programs of its shell
// lines. Sets of rules are bitsets. Without it, an event with a thousand rules would spend most of
// its time on loading each rule into the processor's cache.
type ruleIndex struct {
	rules []*Matcher // ordered by number; complete before the first event

	once     sync.Once
	any      ruleSet   // rules for any program
	programs []ruleSet // rules for one program, by the program's index

	mu    sync.Mutex
	tools [8]toolRules // a cache
	next  int          // the entry of the cache to replace
}

// A ruleSet has one bit for each rule.
type ruleSet []uint64

func (b ruleSet) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b ruleSet) set(i int)      { b[i/64] |= 1 << (i % 64) }

// toolRules is a cache entry: the rules that may match a tool.
type toolRules struct {
	there bool // the event has a tool
	class grapnel.Class
	name  string // values that tool patterns are compared with
	mcp   string
	agent string // decides which further names the tool may have
	fit   ruleSet
}

// minRules is the number of rules from which the index is faster than testing each rule.
const minRules = 64

// add assigns the next number to a rule, beginning with 1.
func (s *ruleIndex) add(m *Matcher) {
	s.rules = append(s.rules, m)
	m.number = len(s.rules)
}

// firm reports whether the index can exclude the rule by tool and program. A rule that evaluates
// paths cannot be excluded, because it must report an error if there are too many paths.
func (m *Matcher) firm() bool { return m.match != nil && !m.paths }

func (s *ruleIndex) prepare(programs int) {
	s.any, s.programs = s.none(), make([]ruleSet, programs)
	for i := range s.programs {
		s.programs[i] = s.none()
	}
	for i, m := range s.rules {
		if !m.firm() || len(m.match.Command) == 0 {
			s.any.set(i)
			continue
		}
		for _, c := range m.match.Command {
			if c.program < 0 {
				s.any.set(i)
				break
			}
			s.programs[c.program].set(i)
		}
	}
}

func (s *ruleIndex) none() ruleSet { return make(ruleSet, (len(s.rules)+63)/64) }

// pass returns the rules that may match an event, or nil for all rules.
func (s *ruleIndex) pass(f *Facts) ruleSet {
	if f.ShellBytes() > MaxShellBytes { // the rules report this as an error
		return nil
	}
	s.once.Do(func() { s.prepare(len(f.programs)) })
	left := s.none()
	copy(left, s.any)
	for program, may := range f.gate() {
		if may {
			for i, word := range s.programs[program] {
				left[i] |= word
			}
		}
	}
	for i, word := range s.ofTool(f) {
		left[i] &= word
	}
	return left
}

// ofTool returns the rules that may match the tool of a call.
func (s *ruleIndex) ofTool(f *Facts) ruleSet {
	var want toolRules
	if t := f.Event.Tool; t != nil {
		want = toolRules{there: true, class: t.Class, name: t.Name}
		if t.MCP != nil {
			want.mcp, want.agent = t.CanonicalName(), f.Event.Agent.Name
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.tools {
		if k := &s.tools[i]; k.fit != nil && k.there == want.there && k.class == want.class && k.name == want.name && k.mcp == want.mcp && k.agent == want.agent {
			return k.fit
		}
	}
	want.fit = s.none()
	for i, m := range s.rules {
		if !m.firm() || len(m.match.tool) == 0 || f.matchAnyName(m.match.tool) {
			want.fit.set(i)
		}
	}
	s.tools[s.next%len(s.tools)] = want
	s.next++
	return want.fit
}
