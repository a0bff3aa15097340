// Package conformance shows that the engine does what other systems' hooks were
// written for. A case is data: hooks with a fixed behaviour, an event, and what must
// come out under one system's [grapnel.Preset].
//
//	cases, err := conformance.Load("conformance/vectors")
//	results := conformance.Run(ctx, cases, &conformance.Options{Gaps: gaps})
//
// The command in cmd/vectors does the same from a shell.
//
// A file is an array of cases, or an object with a list of them under "cases". Each
// has an id, a dialect (whose ways it is about; a file that names none is about a
// suite), a kind (what is to be done, see kinds.go) and an expect (what must come
// out); further members belong to the kind. A member or a word that nobody knows
// fails the case, because a promise that is not understood is not kept. Anywhere in
// a case {"$repeat": "x", "$times": 3} stands for "xxx", and {"$error": "why"} for a
// value that cannot be had.
//
// What comes out is made into a view, in the words of the case's family, and
// compared member by member; compare.go says how. An answer that accept_alternatives
// lists passes too. A case with a law describes something that Grapnel does otherwise
// on purpose: it passes by an alternative, and its [Result] names the law.
//
// The package runs programs through the shell, so cases are trusted as code is.
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
)

// Options are how cases are run. The zero value is the default, and nil is fine.
type Options struct {
	Gaps     []Gap          // what is known to be missing
	Only     *regexp.Regexp // which cases run, by id; nil = all
	Deadline time.Duration  // of one case; 0 = 60 s
	Workers  int            // how many cases run at once; 0 = four per processor
}

// Status is what became of a case.
type Status string

// What can become of a case.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped" // it failed, and a Gap says so
)

// A Result says what became of one case.
type Result struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Dialect string `json:"dialect"`
	Kind    string `json:"kind"`
	Status  Status `json:"status"`
	Law     string `json:"law,omitempty"`   // of a passed case: why Grapnel differs on purpose
	Gap     string `json:"gap,omitempty"`   // of a skipped case: the gap's reason
	Error   string `json:"error,omitempty"` // of a failed case: why there is nothing to compare
	Diffs   []Diff `json:"diffs,omitempty"` // of a failed case: what came out otherwise
	File    string `json:"file,omitempty"`
	MS      int64  `json:"ms"`
}

// String is what people are told: nothing of a case that passed without a law, and
// all that is wrong of one that failed.
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
		fmt.Fprintf(&b, "    %s\n        want %s\n        got  %s\n", d.Key, encode(d.Want), encode(d.Got))
	}
	return b.String()
}

// A Gap is something that Grapnel is known not to do yet. It covers cases of a
// dialect and a kind, or only those in which a hook of one kind stands. A case that
// passes although a gap covers it fails: the gap is stale.
type Gap struct {
	Dialect string `json:"dialect"`
	Kind    string `json:"kind"`
	Hook    string `json:"hook,omitempty"` // a kind of hook, such as webhook; empty = any
	Reason  string `json:"reason"`
}

// LoadGaps reads a list of gaps. One without a dialect, a kind or a reason is an error.
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

// Covers reports whether a case is about what the gap is about.
func (g *Gap) Covers(c *Case) bool {
	return g.Dialect == c.Dialect && g.Kind == c.Kind && (g.Hook == "" || c.hasHook(g.Hook))
}

// Run runs cases and returns one Result for each, in their order. Most run at the
// same time. Those that measure or change the whole process run alone, after the
// others, and so does once more what was too slow beside others.
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
		if cases[i].alone() {
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
		if cases[i].alone() || results[i].tooSlow() {
			results[i] = o.run(ctx, &cases[i])
		}
	}
	return results
}

// run runs one case and judges what came of it.
func (o *Options) run(ctx context.Context, c *Case) Result {
	r := Result{ID: c.ID, Name: c.Name, Dialect: c.Dialect, Kind: c.Kind, File: c.file, Status: Passed}
	begun := time.Now()
	diffs, err := o.try(ctx, c)
	r.MS = time.Since(begun).Milliseconds()
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

// tooSlow reports whether the case took longer than it may. Whatever else came out
// otherwise may come from that.
func (r *Result) tooSlow() bool {
	return r.Status == Failed && slices.ContainsFunc(r.Diffs, func(d Diff) bool { return strings.HasSuffix(d.Key, "max_ms") })
}

// try runs a case and compares. A case that hangs or panics is left behind.
func (o *Options) try(ctx context.Context, c *Case) ([]Diff, error) {
	if c.err != nil {
		return nil, c.err
	}
	run := handlerOf(c.Dialect, c.Kind)
	if run == nil {
		return nil, fmt.Errorf("nobody can run the kind %q of %q", c.Kind, c.Dialect)
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
		end.diffs, end.err = run(ctx, c)
	}()
	select {
	case end := <-done:
		return end.diffs, end.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer within %v: %w", o.Deadline, context.Cause(ctx))
	}
}
