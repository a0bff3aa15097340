package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// quality has the flags of "grapnel test" for coverage and mutation testing.
type quality struct {
	cover           bool
	coverJSON       string
	threshold       float64
	mutate          bool
	mutateThreshold float64
}

func (w *quality) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&w.cover, "cover", false, "also list parts of the policies that no test reaches")
	flags.StringVar(&w.coverJSON, "cover-json", "", "also write the coverage as JSON to a `FILE`")
	flags.Float64Var(&w.threshold, "threshold", 0, "fail if the tests reach less than this `PERCENT`")
	flags.BoolVar(&w.mutate, "mutate", false, "list small changes of the policies that no test detects")
	flags.Float64Var(&w.mutateThreshold, "mutate-threshold", 0, "fail if the tests detect less than this `PERCENT`")
}

// checkQuality returns an error for invalid flags, and turns on the measurements that they
// imply.
func (t *tester) checkQuality() error {
	w := &t.quality
	w.cover = w.cover || w.coverJSON != "" || w.threshold > 0
	w.mutate = w.mutate || w.mutateThreshold > 0
	switch {
	case w.threshold < 0 || w.threshold > 100 || w.mutateThreshold < 0 || w.mutateThreshold > 100:
		return cli.Usage(errors.New("--threshold and --mutate-threshold need a percentage from 0 to 100"))
	case (w.cover || w.mutate) && (t.watch || t.list || t.bench):
		return cli.Usage(errors.New("--cover and --mutate cannot be used with --watch, --list or --bench"))
	}
	return nil
}

// newCover returns a recorder for the coverage of the tests, or nil without --cover.
func (t *tester) newCover(tests []*policytest.Test) (*policytest.Cover, error) {
	if !t.quality.cover || len(tests) == 0 {
		return nil, nil
	}
	return policytest.NewCover(tests, t.policy)
}

// reportQuality prints coverage and mutation results for tests that passed.
func (t *tester) reportQuality(ctx context.Context, cover *policytest.Cover, tests []*policytest.Test, opts *policytest.Options) error {
	err := t.reportCoverage(cover)
	if err != nil && !errors.Is(err, cli.ErrFailed) {
		return err
	}
	return cmp.Or(t.reportMutation(ctx, tests, opts), err)
}

// reportCoverage prints the coverage of the tests.
func (t *tester) reportCoverage(cover *policytest.Cover) error {
	if cover == nil {
		return nil
	}
	c := cover.Coverage()
	if t.quality.coverJSON != "" {
		data, err := json.MarshalIndent(c, "", "  ")
		if err == nil {
			err = os.WriteFile(t.quality.coverJSON, append(data, '\n'), 0o644) //nolint:security // a report, for other users to read
		}
		if err != nil {
			return fmt.Errorf("cannot write the coverage: %w", err)
		}
	}
	if t.JSON {
		if err := t.PrintLine(map[string]any{"coverage": c}); err != nil {
			return err
		}
	} else {
		for i := range c.Policies {
			p := &c.Policies[i]
			for _, line := range p.Missing() {
				fmt.Fprintln(t.Out, printable.Line(line))
			}
			fmt.Fprintf(t.Out, "%s %s: %s\n", t.Paint(typeset.Bold, "coverage"), printable.Line(p.Policy), p.Total)
		}
		if len(c.Policies) > 1 {
			fmt.Fprintf(t.Out, "%s of all: %s\n", t.Paint(typeset.Bold, "coverage"), c.Total)
		}
	}
	return t.checkThreshold("the coverage", c.Total.All().Percent(), t.quality.threshold)
}

// checkThreshold fails if a value is below its threshold.
func (t *tester) checkThreshold(what string, got, want float64) error {
	if got >= want {
		return nil
	}
	fmt.Fprintf(t.Err, "grapnel: error: %s is %.1f %%, want at least %g %%\n", what, got, want)
	return cli.ErrFailed
}

// reportMutation prints which changes of the policies the tests detect.
func (t *tester) reportMutation(ctx context.Context, tests []*policytest.Test, opts *policytest.Options) error {
	if !t.quality.mutate || len(tests) == 0 {
		return nil
	}
	var last time.Time
	m, err := policytest.Mutate(ctx, tests, opts, func(done, all int) {
		if now := time.Now(); !t.JSON && cli.Terminal(t.Err) && now.Sub(last) > 100*time.Millisecond {
			fmt.Fprintf(t.Err, "\r\x1b[K%s %d of %d changes", bar(done, all), done, all)
			last = now
		}
	})
	if !last.IsZero() {
		fmt.Fprint(t.Err, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	if t.JSON {
		if err := t.PrintLine(map[string]any{"mutation": m}); err != nil {
			return err
		}
	} else {
		t.printMutation(m)
	}
	return t.checkThreshold("the share of detected changes", m.Score(), t.quality.mutateThreshold)
}

// bar returns a progress bar of 20 characters.
func bar(done, all int) string {
	const width = 20
	full := 0
	if all > 0 {
		full = width * done / all
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

func (t *tester) printMutation(m *policytest.Mutation) {
	for _, p := range m.Policies {
		for _, mu := range p.Mutants {
			switch {
			case mu.Status == policytest.Survived:
				fmt.Fprintf(t.Out, "%s:%d:%d: %s\n", printable.Line(p.Policy), mu.Line, mu.Col, printable.Line(ofPlace(mu.Hook, mu.At, "no test detects that "+mu.What)))
				fmt.Fprintf(t.Out, "\ttest %s\n", printable.Line(mu.Test))
			case t.verbose && mu.Status == policytest.Killed:
				fmt.Fprintf(t.Out, "%s:%d:%d: %s\n", printable.Line(p.Policy), mu.Line, mu.Col, printable.Line(ofPlace(mu.Hook, mu.At, mu.What+": detected by "+mu.By)))
			case t.verbose:
				fmt.Fprintf(t.Out, "%s:%d:%d: %s\n", printable.Line(p.Policy), mu.Line, mu.Col, printable.Line(ofPlace(mu.Hook, mu.At, mu.What+": no event shows a difference, because "+mu.Same)))
			}
		}
	}
	text := fmt.Sprintf("%.1f %%: %d of %d changes are detected", m.Score(), m.Killed, m.Killed+m.Survived)
	if m.Same > 0 {
		text += fmt.Sprintf("; %d more make no difference to any event", m.Same)
	}
	fmt.Fprintf(t.Out, "%s %s\n", t.Paint(typeset.Bold, "mutation"), text)
}

// ofPlace prefixes a text with a hook and a place in it.
func ofPlace(hook, at, text string) string {
	for _, part := range []string{at, hook} {
		if part != "" {
			text = part + ": " + text
		}
	}
	return text
}
