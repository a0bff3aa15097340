package policytest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Options are the options of a run. The zero value and nil are the defaults.
type Options struct {
	Agents   []string      // run tests in these agents only; empty = in all agents of each test
	Parallel int           // number of parallel tests; 0 = number of processors
	Timeout  time.Duration // per test; 0 = DefaultTimeout
	Max      int           // stop after so many failures; 0 = never
	Bench    time.Duration // fire the event of each test repeatedly for this time and measure a decision; 0 = once

	// Policy is a policy file to test instead of the policies that the tests name; empty = those
	// policies.
	Policy string

	// Load loads the policies; nil = load.Policies. It is called once for each goroutine that runs
	// tests of a policy, and may change its result.
	Load func(load.Request) load.Set

	// Cover records coverage. It must know the policies of the tests; nil = no coverage.
	Cover *Cover

	// Done is called with each result, in the order of the tests, as soon as it is known. Calls
	// do not overlap. nil = no calls.
	Done func(*Result)
}

// DefaultTimeout is the default time limit of a test.
const DefaultTimeout = 30 * time.Second

// Status is the result of a test.
type Status string

// The results of a test.
const (
	Passed  Status = "pass"
	Failed  Status = "fail"
	Broken  Status = "error" // it could not run
	Skipped Status = "skip"
)

// Result is the result of one test in one agent.
type Result struct {
	Test       *Test
	Agent      string
	Policy     string // the policy file under test; empty = a pack
	Status     Status
	Error      error      // for a test that could not run
	Mismatches []Mismatch // for a test that failed
	Firings    []Firing   // for each of its events; the last is the one that is checked
	Took       time.Duration
	Bench      *Bench
}

// Bench is the measured cost of a decision.
type Bench struct {
	N      int           `json:"n"`
	Fast   time.Duration `json:"fastest_ns"`
	Median time.Duration `json:"median_ns"`
	Bytes  uint64        `json:"bytes"`  // allocated bytes per decision
	Allocs uint64        `json:"allocs"` // allocations per decision
}

// Run runs tests, each in each of its agents, and returns the results in the order of the tests.
// Tests that did not run, because ctx was done or too many earlier tests had failed, are left
// out. It returns an error if no test could run at all.
func Run(ctx context.Context, tests []*Test, opts *Options) ([]Result, error) {
	if opts == nil {
		opts = &Options{}
	}
	dir, err := os.MkdirTemp("", "grapnel-test-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &runner{Options: opts, dir: dir, idle: map[stageKey][]*stage{}}
	for _, t := range tests {
		for _, agent := range t.In(opts.Agents...) {
			r.results = append(r.results, &Result{Test: t, Agent: agent})
		}
	}
	r.done = make([]bool, len(r.results))
	n := opts.Parallel
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	if opts.Bench > 0 {
		n = 1 // parallel tests would disturb each other's measurements
	}
	var all sync.WaitGroup
	for range min(n, len(r.results)) {
		all.Go(func() {
			for {
				i := r.next(ctx)
				if i < 0 {
					return
				}
				r.run(ctx, r.results[i])
				r.finish(i)
			}
		})
	}
	all.Wait()
	results := make([]Result, r.reported)
	for i := range results {
		results[i] = *r.results[i]
	}
	return results, nil
}

// runner is the state of one call of Run.
type runner struct {
	*Options
	dir string

	mu       sync.Mutex
	idle     map[stageKey][]*stage
	stages   int
	results  []*Result
	begun    int
	done     []bool
	reported int // number of results passed to Done
	failed   int
}

// next returns the index of the next test to start, or -1.
func (r *runner) next(ctx context.Context) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun == len(r.results) || ctx.Err() != nil || r.enough() {
		return -1
	}
	r.begun++
	return r.begun - 1
}

// enough reports whether the limit of failed tests is reached.
func (r *runner) enough() bool { return r.Max > 0 && r.failed >= r.Max }

// finish reports finished results in order. Tests start in their order, so that the first
// failures are always the same.
func (r *runner) finish(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[i] = true
	for r.reported < len(r.done) && r.done[r.reported] && !r.enough() {
		res := r.results[r.reported]
		if r.reported++; res.Status == Failed || res.Status == Broken {
			r.failed++
		}
		if r.Done != nil {
			r.Done(res)
		}
	}
}

// stage returns an idle stage of a policy, or loads one.
func (r *runner) stage(key stageKey) (*stage, error) {
	r.mu.Lock()
	if list := r.idle[key]; len(list) > 0 {
		s := list[len(list)-1]
		r.idle[key] = list[:len(list)-1]
		r.mu.Unlock()
		return s, nil
	}
	r.stages++
	dir := filepath.Join(r.dir, fmt.Sprint(r.stages))
	r.mu.Unlock()
	s, err := newStage(dir, key, r.Load)
	if err == nil && r.Cover != nil {
		s.cover = r.Cover.all[key]
	}
	return s, err
}

func (r *runner) leave(key stageKey, s *stage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle[key] = append(r.idle[key], s)
}

func (r *runner) run(ctx context.Context, res *Result) {
	begun := time.Now()
	defer func() { res.Took = time.Since(begun) }()
	t := res.Test
	if t.Skip != "" {
		res.Status = Skipped
		return
	}
	fail := func(err error) { res.Status, res.Error = Broken, err }
	key := t.File.key(r.Policy)
	res.Policy = key.policy
	s, err := r.stage(key)
	if err != nil {
		fail(err)
		return
	}
	defer r.leave(key, s)
	if len(s.errs) > 0 {
		fail(fmt.Errorf("cannot load the policy: %w", s.errs[0]))
		return
	}
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the test took longer than %v", timeout))
	defer cancel()
	if err := s.unknownRule(t); err != nil {
		fail(err)
		return
	}
	if err := s.set(t); err != nil {
		fail(err)
		return
	}
	d, _ := dialect.FindAgent(res.Agent)
	res.Firings, err = s.play(ctx, t, d)
	if err == nil && r.Bench > 0 {
		res.Bench, err = s.bench(ctx, t, d, r.Bench)
	}
	err = errors.Join(err, s.sweep())
	if err != nil {
		fail(err)
		return
	}
	res.Status = Passed
	if res.Mismatches = t.Want.judge(&res.Firings[len(res.Firings)-1]); len(res.Mismatches) > 0 {
		res.Status = Failed
	}
}

// unknownRule returns an error for a hook that a test names and the policy does not have.
func (s *stage) unknownRule(t *Test) error {
	words := slices.Concat(t.Want.Rule, t.Want.Failed)
	if t.Want.Not != nil {
		words = append(words, t.Want.Not.Rule...)
	}
	for _, w := range words {
		if slices.Contains(s.names, w.Text) {
			continue
		}
		hint := didYouMean(w.Text, s.names)
		if hint == "" && len(s.names) <= 20 {
			hint = "valid values: " + strings.Join(s.names, ", ")
		}
		return &policyfile.Error{File: t.File.Path, Line: w.Line, Col: w.Col, Msg: fmt.Sprintf("%s has no hook %q", filepath.Base(s.file), w.Text), Hint: hint}
	}
	return nil
}

// bench runs a test repeatedly for some time.
func (s *stage) bench(ctx context.Context, t *Test, d *dialect.Dialect, long time.Duration) (*Bench, error) {
	s.measure = true
	defer func() { s.measure = false }()
	var took []time.Duration
	var b Bench
	for begun := time.Now(); time.Since(begun) < long || b.N == 0; b.N++ {
		s.counts.Reset()
		firings, err := s.play(ctx, t, d)
		if err != nil {
			return nil, err
		}
		f := firings[len(firings)-1]
		took = append(took, f.Took)
		if b.N == 0 || f.allocs < b.Allocs { // the smallest value, because other goroutines may allocate too
			b.Bytes, b.Allocs = f.bytes, f.allocs
		}
	}
	slices.Sort(took)
	b.Fast, b.Median = took[0], took[len(took)/2]
	return &b, nil
}
