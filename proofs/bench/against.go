package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// worseAbove is the share by which a minimum may exceed the minimum of the other commit.
const worseAbove = 0.05

// againstRetries is how often a row that looks worse is measured again. Minima only fall, so more
// runs bring two equal programs together, and keep two different ones apart.
const againstRetries = 6

// A compared is a row of a comparison with another commit.
type compared struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Before float64 `json:"before"` // minimum of the other commit, in Unit
	After  float64 `json:"after"`  // minimum of this checkout
	Change float64 `json:"change"` // After over Before, minus 1
	Runs   int     `json:"runs"`   // of each
	Worse  bool    `json:"worse"`
	Error  string  `json:"error,omitempty"`

	before, after *series
}

// compare measures this checkout and another commit in turn, and prints how the rows differ. It
// reports whether a row is worse.
func (o *options) compare(ctx context.Context, jsonFile string, stdout, stderr io.Writer) (worse bool, err error) {
	begin := time.Now()
	other, err := checkOut(ctx, o.against, stderr)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, other.remove()) }()
	here, err := os.Executable()
	if err != nil {
		return false, err
	}
	var sides [2]*side // before, after
	for i, from := range []struct{ exe, dir string }{{other.exe, other.tree}, {here, other.root}} {
		if sides[i], err = startSide(ctx, from.exe, from.dir, o, stderr); err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, sides[i].close()) }()
	}
	var rows []*compared
	for i, g := range o.groups {
		fmt.Fprintf(stderr, "bench: %3.0f s: %d/%d %s\n", time.Since(begin).Seconds(), i+1, len(o.groups), g.name)
		p := o.plan
		if g.runs > 0 {
			p.runs = min(p.runs, g.runs)
			p.fewest = min(p.fewest, p.runs)
		}
		more, err := p.compareGroup(ctx, g.name, sides)
		if err != nil {
			return false, err
		}
		rows = append(rows, more...)
	}
	fmt.Fprintf(stdout, "minima of %d runs in turn, %s and this checkout, %.0f s\n\n", o.plan.runs, other.commit, time.Since(begin).Seconds())
	if err := printCompared(stdout, other.commit, rows); err != nil {
		return false, err
	}
	if jsonFile != "" {
		err = writeJSON(jsonFile, rows)
	}
	if err == nil && slices.ContainsFunc(rows, func(r *compared) bool { return r.Error != "" }) {
		err = errors.New("some rows have no result")
	}
	return slices.ContainsFunc(rows, func(r *compared) bool { return r.Worse }), err
}

// compareGroup sets a group up on both sides and measures the paths that both have. The other commit
// need not have the group.
func (p plan) compareGroup(ctx context.Context, group string, sides [2]*side) ([]*compared, error) {
	var opened [2]reply
	for i, side := range sides {
		var err error
		if opened[i], err = side.ask(request{Open: group}); err != nil {
			switch {
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case i == 0 && strings.Contains(err.Error(), unknownGroup):
				return nil, nil
			}
			return []*compared{{Name: group, Error: fmt.Sprintf("%s: %v", []string{"before", "after"}[i], err)}}, nil
		}
	}
	var rows []*compared
	for after, name := range opened[1].Paths {
		before := slices.Index(opened[0].Paths, name)
		if name == "" || before < 0 {
			continue // only one side has it
		}
		measured := func(side *side, i int) *series {
			return newSeries(name, func() (float64, error) {
				r, err := side.ask(request{Run: i})
				return r.Cost, err
			})
		}
		rows = append(rows, &compared{Name: name, Unit: opened[1].Units[after], before: measured(sides[0], before), after: measured(sides[1], after)})
	}
	p.slice *= 2
	for again := rows; len(again) > 0; {
		if err := p.inTurn(ctx, again); err != nil {
			return nil, err
		}
		again = slices.DeleteFunc(slices.Clone(again), func(r *compared) bool {
			r.judge()
			return !r.Worse || r.Runs > againstRetries*p.runs
		})
		if len(again) == 0 {
			break
		}
		if err := errors.Join(sides[0].renew(group), sides[1].renew(group)); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// inTurn runs the rows as planned: both sides of a row one after the other, in changing order.
func (p plan) inTurn(ctx context.Context, rows []*compared) error {
	var all []*series
	for _, r := range rows {
		all = append(all, r.before, r.after)
	}
	begin, one := time.Now(), plan{runs: 1}
	for i := range p.runs {
		if i >= p.fewest && p.slice > 0 && time.Since(begin) > p.slice {
			break
		}
		if err := one.interleave(ctx, all); err != nil {
			return err
		}
		slices.Reverse(all)
	}
	return nil
}

// judge computes the figures of a row from the minima of its sides.
func (r *compared) judge() {
	if err := errors.Join(r.before.err, r.after.err); err != nil {
		r.Error = err.Error()
		return
	}
	r.Before, r.After, r.Runs = r.before.min, r.after.min, min(r.before.runs, r.after.runs)
	r.Change = 0
	if r.Before > 0 {
		r.Change = round(r.After/r.Before - 1)
	}
	r.Worse = r.After > r.Before*(1+worseAbove)
}

func (r *compared) state() string {
	switch {
	case r.Error != "":
		return "ERROR"
	case r.Worse:
		return "WORSE"
	case r.Change < -worseAbove:
		return "better"
	}
	return "same"
}

func printCompared(w io.Writer, commit string, rows []*compared) error {
	lines := [][]string{{"path", commit, "here", "change", "runs", ""}}
	var bad []string
	for _, r := range rows {
		line := []string{r.Name, "-", "-", "-", "-", r.state()}
		if r.Error == "" {
			figure := func(x float64) string { return fmt.Sprintf("%.4g %s", x, r.Unit) }
			line = []string{r.Name, figure(r.Before), figure(r.After), fmt.Sprintf("%+.1f %%", 100*r.Change), fmt.Sprint(r.Runs), r.state()}
		}
		lines = append(lines, line)
		if r.Worse || r.Error != "" {
			bad = append(bad, strings.TrimSpace(r.Name+" "+r.Error))
		}
	}
	text := aligned(lines)
	if bad == nil {
		text += "\nno row is worse\n"
	} else {
		text += fmt.Sprintf("\nworse by more than %.0f %%, or without a result: %s\n", 100*worseAbove, strings.Join(bad, "; "))
	}
	_, err := io.WriteString(w, text)
	return err
}

// A checkout is another commit of this repository, with its bench.
type checkout struct {
	commit     string // short name
	root, tree string // of this checkout and of the other one
	dir, exe   string // a temporary directory and the bench in it
}

// checkOut checks a commit out beside this one and builds its bench.
func checkOut(ctx context.Context, commit string, progress io.Writer) (_ *checkout, err error) {
	c, err := newCheckout(ctx, commit)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.remove())
		}
	}()
	fmt.Fprintf(progress, "bench: building %s\n", c.commit)
	if _, err := output(ctx, c.root, "git", "worktree", "add", "--quiet", "--detach", c.tree, c.commit); err != nil {
		return nil, err
	}
	const bench = "proofs/bench"
	where := bench
	if _, err := os.Stat(filepath.Join(c.tree, "proofs")); err != nil {
		where = "cmd/test/bench" // the place in older commits
	}
	own := filepath.Join(c.tree, where)
	if _, err := os.Stat(filepath.Join(own, "child.go")); err != nil {
		// The bench of this commit cannot be driven yet, so the bench of today measures its code.
		if err := errors.Join(os.RemoveAll(own), os.CopyFS(own, os.DirFS(filepath.Join(c.root, bench)))); err != nil {
			return nil, err
		}
	}
	if _, err := output(ctx, c.tree, "go", "build", "-buildvcs=false", "-o", c.exe, "./"+where); err != nil {
		return nil, fmt.Errorf("cannot measure %s: %w", c.commit, err)
	}
	return c, nil
}

func newCheckout(ctx context.Context, commit string) (*checkout, error) {
	root, err := output(ctx, "", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	short, err := output(ctx, root, "git", "rev-parse", "--short", "--verify", commit+"^{commit}")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "grapnel-bench-")
	return &checkout{commit: short, root: root, dir: dir, tree: filepath.Join(dir, "tree"), exe: filepath.Join(dir, "bench")}, err
}

// remove removes the checkout. It must also work after an interrupt.
func (c *checkout) remove() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	err := os.RemoveAll(c.dir)
	_, pruned := output(ctx, c.root, "git", "worktree", "prune")
	return errors.Join(err, pruned)
}

// output runs a program in a directory and returns its output, without the line end.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var diag strings.Builder
	cmd.Stderr = &diag
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, diag.String())
	}
	return strings.TrimSpace(string(out)), err
}
