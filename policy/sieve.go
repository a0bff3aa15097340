package policy

import (
	"sync"

	"github.com/grapnel-dev/grapnel"
)

// A sieve tells of all rules of a policy at once which an event may concern, by its tool
// and the programs of its shell lines: one bit each. An agent's event comes when other
// programs have just had the memory to themselves, so that to look at each of a thousand
// rules takes longer than all else that is done with the event.
type sieve struct {
	rules []*matcher // in the order of their numbers; complete before the first event

	once     sync.Once
	any      ruleSet   // those that no program tells from others
	programs []ruleSet // by the number of the program

	mu    sync.Mutex
	tools [8]toolRules // that were asked for last
	next  int          // of these to be forgotten
}

// A ruleSet has one bit for each rule.
type ruleSet []uint64

func (b ruleSet) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b ruleSet) set(i int)      { b[i/64] |= 1 << (i % 64) }

// toolRules are the rules that a tool may concern.
type toolRules struct {
	there     bool // there is a tool
	class     grapnel.Class
	name, mcp string // what patterns of tools look at
	fit       ruleSet
}

// minRules is for how many rules it is worth its making.
const minRules = 64

// add gives a rule its number, from 1.
func (s *sieve) add(m *matcher) {
	s.rules = append(s.rules, m)
	m.number = len(s.rules)
}

// firm reports whether what a rule wants of tools and programs decides about it. Where it
// looks at paths, it also says that there are too many of them.
func (m *matcher) firm() bool { return m.match != nil && !m.paths }

func (s *sieve) prepare(programs int) {
	s.any, s.programs = s.none(), make([]ruleSet, programs)
	for i := range s.programs {
		s.programs[i] = s.none()
	}
	for i, m := range s.rules {
		if !m.firm() || len(m.match.command) == 0 {
			s.any.set(i)
			continue
		}
		for _, c := range m.match.command {
			if c.program < 0 {
				s.any.set(i)
				break
			}
			s.programs[c.program].set(i)
		}
	}
}

func (s *sieve) none() ruleSet { return make(ruleSet, (len(s.rules)+63)/64) }

// pass returns the rules that an event may concern, nil for all of them.
func (s *sieve) pass(f *facts) ruleSet {
	if f.shellBytes() > maxShellBytes { // then they say so
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
	for i, word := range s.ofTool(f.ev.Tool) {
		left[i] &= word
	}
	return left
}

// ofTool returns the rules that a tool may concern.
func (s *sieve) ofTool(t *grapnel.Tool) ruleSet {
	var want toolRules
	if t != nil {
		want = toolRules{there: true, class: t.Class, name: t.Name}
		if t.MCP != nil {
			want.mcp = t.CanonicalName()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.tools {
		if k := &s.tools[i]; k.fit != nil && k.there == want.there && k.class == want.class && k.name == want.name && k.mcp == want.mcp {
			return k.fit
		}
	}
	want.fit = s.none()
	for i, m := range s.rules {
		if !m.firm() || len(m.match.tool) == 0 || matchTool(m.match.tool, t) {
			want.fit.set(i)
		}
	}
	s.tools[s.next%len(s.tools)] = want
	s.next++
	return want.fit
}
