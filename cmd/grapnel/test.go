package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/check"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/glob"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// tester is one run of "grapnel test".
type tester struct {
	*console
	paths []string

	run                    string
	agents, ignore         []string
	policy, junit          string
	verbose, list, schema  bool
	bench, watch           bool
	failFast               bool
	failEmpty, failSkipped bool
	parallel, count, max   int
	timeout                time.Duration
	quality                quality
	pattern                *regexp.Regexp

	last        string          // last printed reason of a test that could not run
	seen        map[string]bool // test files of the last round of a watch
	lookupError string          // last error while looking for test files
	begun       time.Time
	progress    time.Time // time of the last progress update
}

func newTest(c *console) *cobra.Command {
	t := &tester{console: c}
	cmd := &cobra.Command{
		Use:   "test [FILE|DIR...]",
		Short: "Test policies",
		Long: `Run the tests of policies: files NAME_test.yaml, each of which tests the policy NAME.yaml in
the same directory unless it names another one. Without arguments, the command searches the
working directory and its subdirectories.

Nothing is installed or recorded, and no server is called. Programs of hooks run in a temporary
directory, unless the test contains their answers.

Exit code 0: all tests passed; 1: some failed, or a file of tests is invalid.`,
		Example: `  grapnel test
  grapnel test --run 'force push' -v policies/
  grapnel test --agent gemini-cli --junit report.xml
  grapnel test --watch
  grapnel test --cover --threshold 90      # list parts that no test reaches
  grapnel test --mutate                    # list changes that no test detects
  grapnel test --policy new.yaml grapnel_test.yaml     # test another policy`,
		RunE: func(_ *cobra.Command, args []string) error {
			t.paths = args
			return t.main()
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&t.run, "run", "", "only tests with names that match this `REGEXP`; -run works too")
	flags.BoolVarP(&t.verbose, "verbose", "v", false, "also describe tests that passed")
	flags.BoolVar(&t.list, "list", false, "list the tests without running them")
	flags.StringVar(&t.junit, "junit", "", "also write JUnit XML to a `FILE`")
	flags.StringArrayVar(&t.agents, "agent", nil, "run tests only for this `AGENT`; repeatable")
	flags.StringVar(&t.policy, "policy", "", "test this `FILE` instead of the policies in the test files")
	flags.StringArrayVar(&t.ignore, "ignore", nil, "skip files and directories that match this `GLOB`; repeatable")
	flags.BoolVar(&t.watch, "watch", false, "rerun affected tests after each file change, until interrupted")
	flags.BoolVar(&t.bench, "bench", false, "measure the duration and allocations of a decision")
	flags.IntVar(&t.count, "count", 1, "run each test `N` times")
	flags.IntVar(&t.parallel, "parallel", 0, "run `N` tests at once (default: number of processors)")
	cli.DurationVar(flags, &t.timeout, "timeout", policytest.DefaultTimeout, "timeout of a test")
	flags.BoolVar(&t.failFast, "fail-fast", false, "stop at the first failure")
	flags.IntVar(&t.max, "max-errors", 0, "stop after `N` failures")
	flags.BoolVar(&t.failEmpty, "fail-on-empty", false, "fail if no test found")
	flags.BoolVar(&t.schema, "schema", false, "print the JSON Schema of test files, for editors")
	flags.BoolVar(&t.failSkipped, "fail-on-skipped", false, "fail if a test is skipped")
	t.quality.flags(flags)
	return c.jsonFlag(cmd)
}

// goStyle accepts flags with one dash, such as -run, as in "go test".
func goStyle(args []string) []string {
	out := slices.Clone(args)
	if !slices.Contains(args, "test") {
		return out
	}
	for i, arg := range out {
		if arg == "--" {
			break
		}
		if arg == "-run" || strings.HasPrefix(arg, "-run=") {
			out[i] = "-" + arg
		}
	}
	return out
}

// check returns an error for invalid flags.
func (t *tester) check() error {
	var err error
	if t.pattern, err = regexp.Compile(t.run); err != nil {
		return cli.Usage(cli.WithHint(fmt.Errorf("--run: %w", err), "the syntax is RE2"))
	}
	for i, name := range t.agents {
		d, ok := dialect.FindAgent(name)
		if !ok {
			return cli.UnknownAgent(name)
		}
		t.agents[i] = d.Name
	}
	switch {
	case t.count < 1:
		return cli.Usage(fmt.Errorf("--count %d: want 1 or more", t.count))
	case t.timeout <= 0:
		return cli.Usage(fmt.Errorf("--timeout %v: must be more than 0", t.timeout))
	case t.parallel < 0 || t.max < 0:
		return cli.Usage(fmt.Errorf("--parallel and --max-errors must not be negative"))
	case t.watch && (t.list || t.junit != ""):
		return cli.Usage(fmt.Errorf("--watch cannot be used with --list or --junit"))
	case t.list && t.junit != "":
		return cli.Usage(fmt.Errorf("--junit cannot be used with --list, which runs no tests"))
	case policytest.IsTest(t.junit):
		return cli.Usage(cli.WithHint(fmt.Errorf("--junit %s: this file contains tests and would be overwritten", printable.Line(t.junit)), "--junit report.xml"))
	}
	for _, pattern := range t.ignore {
		if !glob.Valid(pattern) {
			return cli.Usage(cli.WithHint(fmt.Errorf("--ignore %s is not a pattern", printable.Line(pattern)), "for example --ignore vendor, or --ignore '**/old_*'"))
		}
	}
	if err := t.checkQuality(); err != nil {
		return err
	}
	if t.policy != "" {
		if _, err := os.Stat(t.policy); err != nil {
			return cli.Usage(fmt.Errorf("--policy: %w", err))
		}
	}
	if t.failFast {
		t.max = 1
	}
	if len(t.paths) == 0 {
		t.paths = []string{"."}
	}
	return nil
}

func (t *tester) main() error {
	if t.schema {
		_, err := fmt.Fprint(t.Out, policytest.Schema())
		return err
	}
	if err := t.check(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if t.watch {
		return t.again(ctx)
	}
	tests, errs, err := t.find()
	if err != nil {
		return err
	}
	if t.list {
		return t.printTests(tests, errs)
	}
	return t.play(ctx, tests, errs)
}

// find reads the tests to run.
func (t *tester) find() ([]*policytest.Test, []*policyfile.Error, error) {
	files, err := policytest.Find(t.paths, t.ignore)
	if err != nil {
		return nil, nil, cli.Usage(cli.WithHint(fmt.Errorf("cannot find tests: %w", err), "name files NAME"+policytest.Suffix+", or pass their directories"))
	}
	var tests []*policytest.Test
	var errs []*policyfile.Error
	for _, name := range files {
		file, wrong := policytest.Read(name)
		if len(wrong) > 0 {
			errs = append(errs, wrong...)
			continue
		}
		for _, test := range file.Tests {
			if t.pattern.MatchString(test.Name) && len(test.In(t.agents...)) > 0 {
				tests = append(tests, test)
			}
		}
	}
	return tests, errs, nil
}

func (t *tester) printTests(tests []*policytest.Test, errs []*policyfile.Error) error {
	for _, test := range tests {
		if t.JSON {
			line := policytest.Line{File: test.File.Path, Line: test.Line, Col: test.Col, Name: test.Name, Skip: test.Skip, Policy: test.File.Policy, Pack: test.File.Pack}
			for _, line.Agent = range test.In(t.agents...) {
				if err := t.PrintLine(line); err != nil {
					return err
				}
			}
			continue
		}
		fmt.Fprintf(t.Out, "%s:%d: %s (%s)\n", printable.Line(test.File.Path), test.Line, printable.Line(test.Name), strings.Join(test.In(t.agents...), ", "))
	}
	return t.printBroken(errs)
}

// printBroken prints the errors in test files.
func (t *tester) printBroken(errs []*policyfile.Error) error {
	for _, err := range errs {
		if t.JSON {
			if err := t.PrintLine(policytest.Line{File: err.File, Line: err.Line, Col: err.Col, Status: policytest.Broken, Error: err}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(t.Out, t.located(check.BadPolicy(err), typeset.Red))
	}
	if len(errs) > 0 {
		return cli.ErrFailed
	}
	return nil
}

// play runs tests and prints the results.
func (t *tester) play(ctx context.Context, tests []*policytest.Test, errs []*policyfile.Error) error {
	t.begun = time.Now()
	failed := t.printBroken(errs)
	total := 0
	for _, test := range tests {
		total += len(test.In(t.agents...)) * t.count
	}
	var all []*policytest.Test
	for range t.count {
		all = append(all, tests...)
	}
	cover, blind := t.newCover(tests) // if a policy cannot be read, its tests report that first
	junit, err := t.openJUnit()
	if err != nil {
		return err
	}
	heard := 0
	opts := &policytest.Options{Agents: t.agents, Parallel: t.parallel, Timeout: t.timeout, Max: t.max, Policy: t.policy, Cover: cover, Done: func(r *policytest.Result) {
		heard++
		t.report(r)
		t.showProgress(heard, total)
	}}
	if t.bench {
		opts.Bench = 50 * time.Millisecond
	}
	results, err := policytest.Run(ctx, all, opts)
	t.showProgress(0, 0)
	if err != nil {
		return err
	}
	passed, skipped, bad := counted(results)
	if !t.JSON {
		t.summary(results, total, errs)
	}
	if err := t.writeJUnit(junit, results, errs); err != nil {
		return err
	}
	switch {
	case failed != nil:
		return failed
	case bad > 0 || len(results) < total, t.failSkipped && skipped > 0:
		return cli.ErrFailed
	case t.failEmpty && passed+skipped == 0:
		fmt.Fprintln(t.Err, "grapnel: error: no test found")
		fmt.Fprintf(t.Err, "grapnel: hint: test files are named NAME%s; --list lists the tests\n", policytest.Suffix)
		return cli.ErrFailed
	}
	if blind != nil {
		return blind
	}
	return t.reportQuality(ctx, cover, tests, opts)
}

func counted(results []policytest.Result) (passed, skipped, failed int) {
	for i := range results {
		switch results[i].Status {
		case policytest.Passed:
			passed++
		case policytest.Skipped:
			skipped++
		default:
			failed++
		}
	}
	return passed, skipped, failed
}

// report prints the result of one test.
func (t *tester) report(r *policytest.Result) {
	if t.JSON {
		_ = t.PrintLine(r.Report())
		return
	}
	name := printable.Line(r.String())
	switch r.Status {
	case policytest.Skipped:
		t.showProgress(0, 0)
		fmt.Fprintf(t.Out, "%s %s: %s\n", t.Paint(typeset.Yellow, "skip"), name, printable.Line(r.Test.Skip))
	case policytest.Passed:
		switch {
		case t.bench:
			b := r.Bench
			fmt.Fprintf(t.Out, "%s %s\n     %d times, fastest %v, median %v, %d bytes in %d allocations\n", t.Paint(typeset.Green, "pass"), name, b.N, b.Fast, b.Median, b.Bytes, b.Allocs)
		case t.verbose:
			fmt.Fprintf(t.Out, "%s %s\n%s\n", t.Paint(typeset.Green, "pass"), name, cli.Indent(r.Details(), ""))
		}
	default:
		t.showProgress(0, 0)
		details := cli.Indent(r.Details(), "")
		if r.Status == policytest.Broken && details == t.last {
			details = "	error    see above"
		} else {
			t.last = details
		}
		fmt.Fprintf(t.Out, "%s %s\n%s\n", t.Paint(typeset.Red, string(r.Status)), name, details)
	}
}

// showProgress draws the progress on a terminal. With 0 of 0 it clears the line.
func (t *tester) showProgress(done, total int) {
	if t.JSON || !cli.Terminal(t.Err) {
		return
	}
	switch now := time.Now(); {
	case total == 0 && !t.progress.IsZero():
		fmt.Fprint(t.Err, "\r\x1b[K")
		t.progress = time.Time{}
	case total > 0 && now.Sub(t.begun) > time.Second && now.Sub(t.progress) > 100*time.Millisecond:
		fmt.Fprintf(t.Err, "\r\x1b[K%d of %d tests", done, total)
		t.progress = now
	}
}

// summary prints the number of passed tests, per file and in total.
func (t *tester) summary(results []policytest.Result, total int, errs []*policyfile.Error) {
	passed, skipped, failed := counted(results)
	if len(results)+len(errs) == 0 {
		fmt.Fprintln(t.Out, "no tests")
		return
	}
	word := t.Paint(typeset.Green, "ok")
	if failed+len(errs) > 0 {
		word = t.Paint(typeset.Red, "FAIL")
	}
	text := fmt.Sprintf("%s %d passed", word, passed)
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	if skipped > 0 {
		text += fmt.Sprintf(", %d skipped", skipped)
	}
	if left := total - len(results); left > 0 {
		text += fmt.Sprintf(", %d not run", left)
	}
	files := map[string]bool{}
	for i := range results {
		files[results[i].Test.File.Path] = true
	}
	in := printable.Count(len(files), "file")
	wrong := map[string]bool{}
	for _, err := range errs {
		wrong[err.File] = true
	}
	switch {
	case len(wrong) == 1:
		in += ", 1 file has errors"
	case len(wrong) > 1:
		in += fmt.Sprintf(", %d files have errors", len(wrong))
	}
	fmt.Fprintf(t.Out, "%s in %s, %v\n", text, in, time.Since(t.begun).Round(time.Millisecond))
}

// openJUnit opens the report before the tests run, so an error is known early. It returns nil
// if no report is wanted.
func (t *tester) openJUnit() (*os.File, error) {
	if t.junit == "" {
		return nil, nil
	}
	f, err := os.Create(t.junit)
	if err != nil {
		return nil, cli.WithHint(fmt.Errorf("cannot write JUnit: %w", err), "the directory of the --junit file must exist")
	}
	return f, nil
}

func (t *tester) writeJUnit(f *os.File, results []policytest.Result, errs []*policyfile.Error) error {
	if f == nil {
		return nil
	}
	if err := policytest.WriteJUnit(f, results, errs); err != nil {
		_ = f.Close()
		return fmt.Errorf("cannot write JUnit %s: %w", t.junit, err)
	}
	return f.Close()
}
