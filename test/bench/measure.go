package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// A side is one of the things that are compared. Run does it once and returns
// what it cost, in any unit that both sides of a contest share.
type side struct {
	name string
	run  func() (cost float64, err error)
	min  float64 // of all runs so far; +Inf before the first
	runs int
	all  []float64 // what each run cost
}

func newSide(name string, run func() (float64, error)) *side {
	return &side{name: name, run: run, min: math.Inf(1)}
}

// unrest is how much longer than the shortest half of the runs took: 1 on a machine that
// does nothing else, and whose own machine does nothing else.
func (s *side) unrest() float64 {
	if len(s.all) == 0 {
		return 1
	}
	sorted := slices.Sorted(slices.Values(s.all))
	return max(1, sorted[len(sorted)/2]/s.min)
}

// constant is a side that costs the same whenever one looks.
func constant(name string, cost float64) *side {
	return newSide(name, func() (float64, error) { return cost, nil })
}

// A contest is a row of the table before it is measured: what it costs to run
// subject, in multiples of what it costs to run reference.
type contest struct {
	name      string
	subject   *side
	reference *side
	less      *side                // what subject costs anyway, and is not counted; nil = nothing
	budget    float64              // ratio that subject should stay below
	exact     bool                 // both are the same each time, so the gate has no tolerance
	show      func(float64) string // prints a cost
}

// ratio compares the minima. Minima and not means: on a machine that others use
// too, everything that disturbs a run makes it longer and nothing makes it shorter.
func (c *contest) ratio() (float64, error) {
	if c.reference.min <= 0 || math.IsInf(c.reference.min, 0) || math.IsInf(c.subject.min, 0) {
		return 0, fmt.Errorf("%s: %g of %s against %g of %s is no ratio",
			c.name, c.subject.min, c.subject.name, c.reference.min, c.reference.name)
	}
	return c.cost() / c.reference.min, nil
}

// cost is what is compared.
func (c *contest) cost() float64 {
	if c.less == nil {
		return c.subject.min
	}
	return max(0, c.subject.min-c.less.min)
}

// sides are those that have to run.
func (c *contest) sides() []*side {
	if c.less == nil {
		return []*side{c.subject, c.reference}
	}
	return []*side{c.subject, c.less, c.reference}
}

func (c *contest) row() (row, error) {
	ratio, err := c.ratio()
	r := newRow(c.name, ratio, c.budget)
	if c.exact {
		r.OK = r.Margin >= 0
	}
	r.measured, r.unit = c.show(c.cost()), c.reference.name
	return r, err
}

// A group is what is measured in turn. The contests beside it have no budget and
// give no row: they show what the rows could reach on this machine.
type group struct {
	contests []*contest
	beside   []*contest

	// screening is how often each side runs at first, where the contests are many and only
	// the worst is shown; 0 = as often as planned, and all are shown.
	screening int

	runs int // of each side, where that is fewer than planned and enough; 0 = as planned
}

// A plan says how much is measured.
type plan struct {
	runs    int       // of each side
	retries int       // how often a row that would fail is measured again
	until   time.Time // when it has to be enough, on a machine that is very busy; zero = never
}

// fewest is how many runs a minimum wants, however late it is.
const fewest = 20

func (p plan) late() bool { return !p.until.IsZero() && time.Now().After(p.until) }

// interleave runs every side as often as planned, round robin, so that load on the
// machine falls on all alike. A side that is given twice runs once per round.
func interleave(ctx context.Context, p plan, sides ...*side) error {
	var once []*side
	seen := map[*side]bool{}
	for _, s := range sides {
		if !seen[s] {
			seen[s] = true
			once = append(once, s)
		}
	}
	for i := range p.runs {
		if i >= fewest && p.late() {
			break
		}
		for _, s := range once {
			if err := context.Cause(ctx); err != nil {
				return fmt.Errorf("measure %s: %w", s.name, err)
			}
			cost, err := s.run()
			if err != nil {
				return fmt.Errorf("measure %s: %w", s.name, err)
			}
			s.min = min(s.min, cost)
			s.all = append(s.all, cost)
			s.runs++
		}
	}
	return nil
}

// measure runs a group and returns one row for each contest. A row that would fail
// is measured again, and both sides keep the best they ever showed: a burst of load
// is no regression.
func measure(ctx context.Context, p plan, g group) ([]row, error) {
	if p.runs < 1 {
		return nil, errors.New("measure: need at least one run")
	}
	if g.runs > 0 {
		p.runs = min(p.runs, g.runs)
	}
	var sides []*side
	for _, c := range slices.Concat(g.contests, g.beside) {
		sides = append(sides, c.sides()...)
	}
	first := p
	if g.screening > 0 {
		first.runs = min(p.runs, g.screening)
	}
	if err := interleave(ctx, first, sides...); err != nil {
		return nil, err
	}
	worst, err := refine(ctx, p, g)
	if err != nil {
		return nil, err
	}
	rows := make([]row, 0, len(g.contests))
	for _, c := range g.contests {
		r, err := c.row()
		for range p.retries {
			if err != nil || r.OK || p.late() {
				break
			}
			if err = interleave(ctx, p, c.sides()...); err == nil {
				r, err = c.row()
			}
		}
		if err != nil {
			return nil, err
		}
		switch {
		case c == worst:
			r.worstOf = len(g.contests)
		case worst != nil:
			r.beneath = true
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// refinements is how many of a screening run as often as planned.
const refinements = 3

// refine runs the worst of a screening as often as planned, and then what is the worst now,
// until that is one that has. More runs only make a minimum smaller, so a row that had
// fewer is not too good. It returns the worst; nil = nothing was screened.
func refine(ctx context.Context, p plan, g group) (worst *contest, err error) {
	if g.screening == 0 {
		return nil, nil
	}
	for done := 0; ; done++ {
		highest := 0.0
		for _, c := range g.contests {
			ratio, err := c.ratio()
			if err != nil {
				return nil, err
			}
			if share := ratio / c.budget; share > highest {
				worst, highest = c, share
			}
		}
		if worst == nil || worst.subject.runs >= p.runs || done == refinements || p.late() {
			return worst, nil
		}
		more := p
		more.runs -= worst.subject.runs
		if err := interleave(ctx, more, worst.sides()...); err != nil {
			return nil, err
		}
	}
}
