// Package conformance checks that the engine supports the behavior that the hooks of other
// systems rely on. A case is data: hooks with a fixed behavior, an event, and the expected
// result under one system's [grapnel.Preset].
//
//	cases, err := conformance.Load("proofs/conformance/vectors")
//	results := conformance.Run(ctx, cases, &conformance.Options{Gaps: gaps})
//
// The command in cmd/vectors does the same from a shell. Vectors of the Agent Hooks Specification
// run here, too: package agenthooks makes cases of them.
//
// A file is an array of cases, or an object with a list of cases under "cases". Each case has
// an id, a dialect (its system; a file that names no dialect is a suite), a kind (the action,
// see kinds.go) and an expect (the expected result). Other members depend on the kind. An
// unknown member or word fails the case, because it could be an expectation that Grapnel does
// not check. Anywhere in a case, {"$repeat": "x", "$times": 3} is replaced by "xxx", and
// {"$error": "why"} is a value that cannot be read.
//
// The result becomes a view in the terms of the case's family, and is compared member by
// member; see compare.go. An answer in accept_alternatives passes too. A case with a law
// describes a deliberate difference of Grapnel: it passes by an alternative, and its [Result]
// names the law.
//
// If a system has a public package with its own names, such as systems/flyto, its cases run on the
// engine and again through that package; see alsoThrough.
//
// The package runs programs through the shell. Run only cases that you trust like code.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Options configure a run of cases. The zero value and nil mean the defaults.
type Options struct {
	Gaps     []Gap          // known missing features
	Only     *regexp.Regexp // cases to run, matched by id; nil = all
	Deadline time.Duration  // time limit for one case; 0 = 60 s
	Workers  int            // number of concurrent cases; 0 = four per processor
}

// Status is the result of one case: passed, failed or skipped.
type Status string

// The values of Status.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped" // it failed, and a Gap covers it; or it cannot run here
)

// A Skip is the error of Case.Play for a case that cannot run here. Its text is the reason.
type Skip string

func (s Skip) Error() string { return string(s) }

// A Result is the result of one case.
type Result struct {
	ID         string `json:"id"`
	Name       string `json:"name,omitempty"`
	Dialect    string `json:"dialect"`
	Kind       string `json:"kind"`
	Status     Status `json:"status"`
	Law        string `json:"law,omitempty"`         // if passed: why Grapnel differs on purpose
	EngineOnly bool   `json:"engine_only,omitempty"` // if passed: the public package of its system cannot express it
	Gap        string `json:"gap,omitempty"`         // if skipped: the reason
	Error      string `json:"error,omitempty"`       // if failed: why there is nothing to compare
	Diffs      []Diff `json:"diffs,omitempty"`       // if failed: the differences
	File       string `json:"file,omitempty"`
	MS         int64  `json:"ms"`
}

// String formats a result for people. It is empty for a case that passed without a law, and
// lists every difference of a failed case.
func (r *Result) String() string {
	switch {
	case r.Status == Skipped:
		return fmt.Sprintf("skipped: %s: %s\n", r.ID, r.Gap)
	case r.Status == Passed && r.Law != "":
		return fmt.Sprintf("deliberate difference: %s: %s\n", r.ID, r.Law)
	case r.Status == Passed:
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "FAILED: %s: %s (%s)\n", r.ID, r.Name, r.File)
	if r.Error != "" {
		fmt.Fprintf(&b, "    %s\n", r.Error)
	}
	for _, d := range r.Diffs {
		fmt.Fprintf(&b, "    %s\n        want %s\n        got  %s\n", d.Key, rawjson.Must(d.Want), rawjson.Must(d.Got))
	}
	return b.String()
}

// A Gap is a known missing feature of Grapnel. It covers the cases of a dialect and a kind, or
// only those with a certain kind of hook. If a case passes although a gap covers it, the gap is
// stale and the case fails.
type Gap struct {
	Dialect string `json:"dialect"`
	Kind    string `json:"kind"`
	Hook    string `json:"hook,omitempty"` // kind of hook, such as webhook; empty = any
	Reason  string `json:"reason"`
}

// LoadGaps reads a list of gaps. A gap without a dialect, a kind or a reason is an error.
func LoadGaps(file string) ([]Gap, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read gaps: %w", err)
	}
	var gaps []Gap
	if err := strict(content, &gaps); err != nil {
		return nil, fmt.Errorf("gaps %s: %w", file, err)
	}
	for i, g := range gaps {
		if g.Dialect == "" || g.Kind == "" || g.Reason == "" {
			return nil, fmt.Errorf("gaps %s: the %d. gap needs a dialect, a kind and a reason", file, i+1)
		}
	}
	return gaps, nil
}

// Covers reports whether the gap covers the case.
func (g *Gap) Covers(c *Case) bool {
	return g.Dialect == c.Dialect && g.Kind == c.Kind && (g.Hook == "" || c.hasHook(g.Hook))
}

// Run runs cases and returns one Result for each, in the order of cases. Most cases run
// concurrently. Cases that measure or change the whole process run alone, after the others. A
// case that was too slow while others ran runs again alone.
func Run(ctx context.Context, cases []Case, opts *Options) []Result {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Deadline <= 0 {
		o.Deadline = time.Minute
	}
	if o.Workers <= 0 {
		o.Workers = 4 * runtime.NumCPU()
	}
	if o.Only != nil {
		cases = slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return !o.Only.MatchString(c.ID) })
	}
	results := make([]Result, len(cases))
	free := make(chan struct{}, o.Workers)
	var running sync.WaitGroup
	for i := range cases {
		if cases[i].serial() {
			continue
		}
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			results[i] = o.run(ctx, &cases[i])
		})
	}
	running.Wait()
	for i := range cases {
		if cases[i].serial() || results[i].tooSlow() {
			results[i] = o.run(ctx, &cases[i])
		}
	}
	return results
}

// run runs one case and sets the status of its Result.
func (o *Options) run(ctx context.Context, c *Case) Result {
	r := Result{ID: c.ID, Name: c.Name, Dialect: c.Dialect, Kind: c.Kind, File: c.File, Status: Passed}
	begun := time.Now()
	diffs, err := o.try(ctx, c)
	if errors.Is(err, errNotExpressible) {
		r.EngineOnly, err = true, nil
	}
	r.MS = time.Since(begun).Milliseconds()
	if skip, ok := errors.AsType[Skip](err); ok {
		r.Status, r.Gap = Skipped, string(skip)
		return r
	}
	passed := err == nil && len(diffs) == 0
	gap := slices.IndexFunc(o.Gaps, func(g Gap) bool { return g.Covers(c) })
	switch {
	case gap >= 0 && passed:
		r.Status, r.Error = Failed, fmt.Sprintf("the gap %q is stale: this case passes; remove the gap, or narrow it", o.Gaps[gap].Reason)
	case gap >= 0:
		r.Status, r.Gap = Skipped, o.Gaps[gap].Reason
	case passed:
		r.Law = c.Law
	default:
		r.Status, r.Diffs = Failed, diffs
		if err != nil {
			r.Error = err.Error()
		}
	}
	return r
}

// tooSlow reports whether the case exceeded its time limit. Its other differences may be a
// consequence.
func (r *Result) tooSlow() bool {
	return r.Status == Failed && slices.ContainsFunc(r.Diffs, func(d Diff) bool { return strings.HasSuffix(d.Key, "max_ms") })
}

// try runs a case and compares the result. It abandons a case that hangs or panics.
func (o *Options) try(ctx context.Context, c *Case) ([]Diff, error) {
	if c.err != nil {
		return nil, c.err
	}
	run := c.Play
	if run == nil {
		handler := handlerOf(c.Dialect, c.Kind)
		if handler == nil {
			return nil, fmt.Errorf("unknown kind %q of dialect %q", c.Kind, c.Dialect)
		}
		run = func(ctx context.Context) ([]Diff, error) { return handler(ctx, c) }
	}
	ctx, cancel := context.WithTimeout(ctx, o.Deadline)
	defer cancel()
	type ending struct {
		diffs []Diff
		err   error
	}
	done := make(chan ending, 1)
	go func() {
		end := ending{err: errors.New("it ended its goroutine")}
		defer func() {
			if r := recover(); r != nil {
				end.err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
			done <- end
		}()
		end.diffs, end.err = run(ctx)
	}()
	select {
	case end := <-done:
		return end.diffs, end.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer within %v: %w", o.Deadline, context.Cause(ctx))
	}
}
