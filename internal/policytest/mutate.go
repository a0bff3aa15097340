package policytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/mutate"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Mutation is the result of mutation testing: which changes of policies their tests notice.
type Mutation struct {
	Policies []PolicyMutated `json:"policies"`
	Killed   int             `json:"killed"`   // changes that a test noticed
	Survived int             `json:"survived"` // changes that no test noticed
	Same     int             `json:"same"`     // changes that have no effect on any event
}

// PolicyMutated is the result for one policy.
type PolicyMutated struct {
	Policy  string   `json:"policy"` // the file, or "pack NAME"
	Mutants []Mutant `json:"mutants"`
}

// A Mutant is one change of a policy, with its result.
type Mutant struct {
	Hook   string       `json:"hook,omitempty"` // empty = the change is in the policy itself
	At     string       `json:"at,omitempty"`   // see [policy.Mutant]
	Line   int          `json:"line"`
	Col    int          `json:"col"`
	What   string       `json:"what"` // the change
	More   bool         `json:"more"` // the hook has more effect than before, for example without an exception; false = less
	Status MutantStatus `json:"status"`

	Tests int    `json:"tests"`             // number of tests that could notice
	By    string `json:"by,omitempty"`      // for a killed mutant: the test that noticed, with its position
	Same  string `json:"same,omitempty"`    // the reason why no event can show the difference
	Test  string `json:"example,omitempty"` // for a survivor: a test that would notice, as YAML or as a description
}

// MutantStatus is the result for a Mutant.
type MutantStatus string

// The results for a Mutant.
const (
	Killed   MutantStatus = "killed"   // a test noticed
	Survived MutantStatus = "survived" // no test noticed
	Same     MutantStatus = "same"     // no test can notice
)

// Score returns the percentage of killed changes among those that tests can notice.
func (m *Mutation) Score() float64 { return Share{m.Killed, m.Killed + m.Survived}.Percent() }

// Progress is called with the number of tested changes and the number of all changes.
type Progress func(done, all int)

// ErrNotPassed is the error for a test that fails without any change.
var ErrNotPassed = errors.New("does not pass with the unchanged policy")

// Mutate applies one change at a time to the policies of tests, and checks whether a test that
// passed then fails. It does not change hooks of packs that a policy uses, or of hook files of
// other systems, because these have separate tests. It does change which packs a policy uses. All
// tests must pass before; skipped tests are left out. progress may be nil.
func Mutate(ctx context.Context, tests []*Test, opts *Options, progress Progress) (*Mutation, error) {
	if opts == nil {
		opts = &Options{}
	}
	keys, subjects, err := subjects(tests, opts.Policy)
	if err != nil {
		return nil, err
	}
	plain := *opts
	plain.Cover, plain.Done, plain.Bench, plain.Max = nil, nil, 0, 0
	results, err := Run(ctx, tests, &plain)
	if err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "grapnel-mutate-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	m := &mutation{runner: runner{Options: &plain, dir: dir, idle: map[stageKey][]*stage{}}, progress: progress}
	var policies []*mutating
	for _, key := range keys {
		p := &mutating{subject: subjects[key], key: key}
		p.changes()
		policies = append(policies, p)
		m.all += len(p.mutants)
	}
	for i := range results {
		r := &results[i]
		switch r.Status {
		case Skipped:
			continue
		case Passed:
		default:
			why := r.Error
			if len(r.Mismatches) > 0 {
				why = errors.New(r.Mismatches[0].String())
			}
			return nil, fmt.Errorf("%s:%d: %s %w: %w", r.Test.File.Path, r.Test.Line, r.Test.Name, ErrNotPassed, why)
		}
		of := slices.Index(keys, r.Test.File.key(opts.Policy))
		policies[of].tests = append(policies[of].tests, r)
	}
	all := &Mutation{}
	for _, p := range policies {
		if err := m.policy(ctx, p); err != nil {
			return nil, err
		}
		of := PolicyMutated{Policy: p.name, Mutants: []Mutant{}}
		for i := range p.mutants {
			mu := &p.mutants[i].Mutant
			switch mu.Status {
			case Killed:
				all.Killed++
			case Survived:
				all.Survived++
			case Same:
				all.Same++
			}
			of.Mutants = append(of.Mutants, *mu)
		}
		all.Policies = append(all.Policies, of)
	}
	return all, nil
}

// mutation is the state of one call of Mutate.
type mutation struct {
	runner
	progress Progress
	all      int

	progressMu sync.Mutex
	done       int
}

func (m *mutation) step(n int) {
	m.progressMu.Lock()
	defer m.progressMu.Unlock()
	m.done += n
	if m.progress != nil {
		m.progress(m.done, m.all)
	}
}

// mutating is the state for one policy.
type mutating struct {
	*subject
	key     stageKey
	tests   []*Result
	mutants []mutant

	before []*grapnel.Spec // by hook: the Spec without the `after:` conditions
	widest []*grapnel.Spec // by hook: the same, also without exceptions; nil = the hook has none
	after  []*grapnel.Spec // by mutant: the changed Spec; nil = it matches as before
}

// A mutant is a Mutant with its working state.
type mutant struct {
	Mutant
	hook int              // index of the changed hook, or -1 if the change removes a pack
	pack string           // the removed pack
	to   *policyfile.Hook // the changed hook; nil = it is removed

	tests []*Result // tests that can notice, the most likely first
}

// changes builds the list of mutants.
func (p *mutating) changes() {
	for i := range p.hooks {
		h := &p.hooks[i]
		for _, c := range mutate.All(h) {
			mu := mutant{Mutant: Mutant{Hook: h.Name, At: c.At, What: c.What, More: c.More, Same: c.Same, Status: Survived}, hook: i, to: c.Hook}
			if mu.Line, mu.Col = p.place(h.Name, c.At); c.Same != "" {
				mu.Status = Same
			}
			p.mutants = append(p.mutants, mu)
		}
	}
	for _, use := range p.uses {
		w := use.Pack
		p.mutants = append(p.mutants, mutant{Mutant: Mutant{At: "use", Line: w.Line, Col: w.Col, What: fmt.Sprintf("without the pack %q", w.Text), Status: Survived}, hook: -1, pack: "#" + w.Text})
	}
}

// swapped returns the Specs of a stage with the change applied.
func (p *mutating) swapped(mu *mutant, s *stage) ([]grapnel.Spec, error) {
	return load.Replaced(s.loaded.Specs, func(spec *grapnel.Spec) (*policyfile.Hook, bool) {
		if mu.hook < 0 {
			return nil, strings.HasSuffix(spec.Source.Name, mu.pack) && spec.Source.Name == spec.Source.File+mu.pack
		}
		return mu.to, p.hook(spec) == mu.hook
	}, &s.counts)
}

// policy tests the changes of one policy.
func (m *mutation) policy(ctx context.Context, p *mutating) error {
	s, err := m.stage(p.key)
	if err != nil {
		return err
	}
	if len(s.errs) > 0 {
		return s.errs[0]
	}
	if err := m.choose(ctx, p, s); err != nil {
		return err
	}
	m.leave(p.key, s)
	return m.each(len(p.mutants), func(i int) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		defer m.step(1)
		mu := &p.mutants[i]
		if mu.Status == Same {
			return nil
		}
		s, err := m.stage(p.key)
		if err != nil {
			return err
		}
		defer m.leave(p.key, s)
		return m.judge(ctx, p, i, s)
	})
}

// each calls work for the numbers below n, several at a time, and returns the first error.
func (m *mutation) each(n int, work func(int) error) error {
	workers := m.Parallel
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var first error
	next := 0
	for range min(workers, n) {
		all.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= n || first != nil
				mu.Unlock()
				if stop {
					return
				}
				if err := work(i); err != nil {
					mu.Lock()
					first = cmp.Or(first, err)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return first
}

// judge checks whether a test notices a change.
func (m *mutation) judge(ctx context.Context, p *mutating, i int, s *stage) error {
	mu := &p.mutants[i]
	defer func() {
		if mu.Status == Survived {
			mu.Test = p.example(i)
		}
	}()
	if len(mu.tests) == 0 {
		return nil
	}
	specs, err := p.swapped(mu, s)
	if err != nil {
		return fmt.Errorf("%s:%d: %s: %w", p.name, mu.Line, mu.What, err)
	}
	if err := s.engine.Update(func([]grapnel.Spec) []grapnel.Spec { return specs }); err != nil {
		return err
	}
	for _, r := range mu.tests {
		noticed, err := m.notices(ctx, r, s)
		if err != nil {
			return err
		}
		if noticed {
			mu.Status, mu.By = Killed, fmt.Sprintf("%s:%d: %s", filepath.Base(r.Test.File.Path), r.Test.Line, r.Test.Name)
			return nil
		}
	}
	return nil
}

// notices runs a test against the current hooks of a stage and reports whether it fails.
func (m *mutation) notices(ctx context.Context, r *Result, s *stage) (bool, error) {
	if err := s.set(r.Test); err != nil {
		return false, err
	}
	timeout := cmp.Or(m.Timeout, DefaultTimeout)
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d, _ := dialect.FindAgent(r.Agent)
	firings, err := s.play(within, r.Test, d)
	if cause := context.Cause(ctx); cause != nil {
		return false, cause
	}
	noticed := err != nil || len(r.Test.Want.judge(&firings[len(firings)-1])) > 0
	return noticed, s.sweep()
}
