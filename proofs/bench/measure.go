package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// A series is a measurement that is repeated. run does the work once and returns its cost.
type series struct {
	name string
	run  func() (float64, error)
	min  float64 // of all runs so far; +Inf before the first
	runs int
	err  error // the first failure; a series that failed does not run again
}

func newSeries(name string, run func() (float64, error)) *series {
	return &series{name: name, run: run, min: math.Inf(1)}
}

// A path is one row of the table before it is measured. Its setup fills in the series.
type path struct {
	target

	subject   *series
	reference *series // the ratio is subject over reference; nil = the cost itself

	// floor does only the unavoidable work. It is compared with floorReference, or with
	// reference if that is nil.
	floor, floorReference *series

	err      error  // the setup failed
	notYet   string // why the path cannot be measured yet
	detail   string // shown behind the name
	screened bool   // one of several candidates for one row
}

// ratio compares minima, not means: on a shared machine, every disturbance makes a run longer and
// none makes it shorter.
func ratio(subject, reference *series) (float64, error) {
	if subject == nil {
		return 0, errors.New("nothing was measured")
	}
	for _, s := range []*series{subject, reference} {
		switch {
		case s == nil:
		case s.err != nil:
			return 0, s.err
		case s.runs == 0:
			return 0, fmt.Errorf("%s did not run", s.name)
		case s == reference && s.min <= 0:
			return 0, fmt.Errorf("%s cost %g, cannot compare with it", s.name, s.min)
		}
	}
	if reference == nil {
		return subject.min, nil
	}
	return subject.min / reference.min, nil
}

// series returns the series that must run for the path.
func (p *path) series() []*series {
	if p.err != nil {
		return nil
	}
	var all []*series
	for _, s := range []*series{p.reference, p.subject, p.floorReference, p.floor} {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}

// A plan sets the amount of measuring.
type plan struct {
	runs    int           // of each series
	fewest  int           // runs that a minimum needs even if the slice is over
	slice   time.Duration // for one round of measuring; 0 = no limit
	retries int           // how often a row that would fail is measured again
	limit   float64       // share of the budget at which a row fails
}

// interleave runs every series as often as planned, round robin, so that load on the
// machine affects all alike. A series that is given twice runs once per round. It returns
// an error only if ctx ends.
func (p plan) interleave(ctx context.Context, all []*series) error {
	var once []*series
	seen := map[*series]bool{}
	for _, s := range all {
		if !seen[s] {
			seen[s] = true
			once = append(once, s)
		}
	}
	begin := time.Now()
	for i := range p.runs {
		if i >= p.fewest && p.slice > 0 && time.Since(begin) > p.slice {
			break
		}
		for _, s := range once {
			if err := context.Cause(ctx); err != nil {
				return fmt.Errorf("measure %s: %w", s.name, err)
			}
			if s.err != nil {
				continue
			}
			cost, err := s.run()
			if err != nil {
				s.err = fmt.Errorf("measure %s: %w", s.name, err)
				continue
			}
			s.min = min(s.min, cost)
			s.runs++
		}
	}
	return nil
}

// measure runs the paths of a group and returns one row for each. It measures a row again if the
// row would fail, and each series keeps its minimum, so that a burst of load does not look like a
// regression. The series in beside run in turn with the paths.
func (p plan) measure(ctx context.Context, paths []*path, screening int, beside ...*series) ([]row, error) {
	first := p
	if screening > 0 {
		first.runs = min(p.runs, screening)
	}
	all := slices.Clone(beside)
	for _, c := range paths {
		all = append(all, c.series()...)
	}
	if err := first.interleave(ctx, all); err != nil {
		return nil, err
	}
	if screening > 0 {
		if err := p.rerunWorst(ctx, paths); err != nil {
			return nil, err
		}
	}
	for range p.retries {
		var again []*series
		for _, r := range judge(paths, p.limit) {
			if r.failed {
				again = append(again, r.path.series()...)
			}
		}
		if len(again) == 0 {
			break
		}
		if err := p.interleave(ctx, again); err != nil {
			return nil, err
		}
	}
	rows := judge(paths, p.limit)
	for i := range rows {
		rows[i].cut = rows[i].Runs > 0 && rows[i].Runs < p.runs && !rows[i].hidden
	}
	return rows, nil
}

// rerunWorst runs the worst path as often as planned, then the one that is worst now, until
// the worst has run that often. More runs only make a minimum smaller, so a path that ran
// less often cannot look better than it is.
func (p plan) rerunWorst(ctx context.Context, paths []*path) error {
	begin := time.Now()
	for range paths {
		worst := worstOf(paths)
		if worst == nil || worst.subject.runs >= p.runs || p.slice > 0 && time.Since(begin) > p.slice {
			return nil
		}
		more := p
		more.runs -= worst.subject.runs
		if err := more.interleave(ctx, worst.series()); err != nil {
			return err
		}
	}
	return nil
}

// worstOf returns the path with the highest ratio; nil if none was measured.
func worstOf(paths []*path) (worst *path) {
	highest := 0.0
	for _, c := range paths {
		if c.err != nil {
			continue
		}
		if x, err := ratio(c.subject, c.reference); err == nil && x > highest {
			worst, highest = c, x
		}
	}
	return worst
}
