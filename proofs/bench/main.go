// Bench prints the cost of a hook next to its budget and its floor:
//
//	go run ./proofs/bench                             # 200 interleaved runs, about 4 minutes
//	go run ./proofs/bench -quick                      # fewer runs, about 2 minutes
//	go run ./proofs/bench -run 'hook|durable'         # some groups
//	go run ./proofs/bench -against HEAD~3             # compare with another commit
//	BENCH_JSON=rows.json go run ./proofs/bench -gate  # exit status 1 if a row fails
//
// It builds grapnel, grapnel-hook and a minimal Go program, proofs/bench/static, which decodes
// and answers the same event. It runs them in turn and compares the minima: a ratio of minima is
// valid on other machines and under other load. Other rows have a budget in a unit, for example
// nanoseconds.
//
// The floor is the cost of a program that does only the unavoidable work of the path, in the
// same run. It shows that a budget can be met.
//
// With -gate, a row fails above its budget plus 15 %, even after it was measured again. This is
// for a quiet machine: on shared machines ratios move by up to 20 %, so continuous integration
// only runs every path once and judges nothing. A row that does not meet its budget yet has a
// ceiling, the ratio of today, and fails above that in the same way. For a rate of the whole
// machine the ceiling is a multiple of the floor, so that it holds while other programs run.
//
// -against COMMIT judges a change: it builds that commit next to this one, runs both in turn and
// compares their minima. A row is worse if its minimum is more than 5 % higher. Budgets do not count.
//
// The benchmark does not measure agents, models, or hooks that users write. For time inside
// one function use "go test -bench" in its package.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The amounts of measuring with and without -quick.
var (
	full  = plan{runs: 200, fewest: 20, slice: 15 * time.Second, retries: 2}
	quick = plan{runs: 40, fewest: 10, slice: 5 * time.Second, retries: 2}
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Getenv("BENCH_JSON"), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the parsed command line.
type options struct {
	gate, quick, dialects, child bool
	against                      string // commit; "" = judge by the budgets
	plan                         plan
	groups                       []group
}

// parse returns the exit status if it cannot run the command line, and -1 otherwise.
func parse(args []string, stderr io.Writer) (o options, code int) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.gate, "gate", false, "exit 1 if a row fails")
	flags.BoolVar(&o.quick, "quick", false, "measure less, for continuous integration")
	flags.BoolVar(&o.dialects, "dialects", false, "show the rows of all agents, not only the worst")
	flags.BoolVar(&o.child, "child", false, "measure what the bench of another commit asks for on standard input")
	flags.StringVar(&o.against, "against", "", "compare with another `commit`, run in turn with this one")
	limit := flags.Float64("limit", 1.15, "a row fails above this `multiple` of its budget")
	n := flags.Int("n", 0, "interleaved `runs` of each program (default 200, with -quick 40)")
	which := flags.String("run", "", "measure only the groups that match this `regexp`")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return o, 0
	case err != nil:
		return o, 64
	case flags.NArg() > 0 || *n < 0 || *limit < 1:
		fmt.Fprintf(stderr, "bench: want no arguments, a limit of at least 1 and a positive -n, got %q, %g and %d\n", flags.Args(), *limit, *n)
		return o, 64
	}
	match, err := regexp.Compile(*which)
	if err != nil {
		fmt.Fprintf(stderr, "bench: -run: %v\n", err)
		return o, 64
	}
	o.groups = slices.DeleteFunc(groups(), func(g group) bool { return !match.MatchString(g.name) })
	if len(o.groups) == 0 {
		fmt.Fprintf(stderr, "bench: no group matches %q\n", *which)
		return o, 64
	}
	o.plan = full
	if o.quick {
		o.plan = quick
	}
	if *n > 0 {
		o.plan.runs = *n
		o.plan.fewest = min(o.plan.fewest, *n)
	}
	o.plan.limit = *limit
	return o, -1
}

// run returns the exit status: 0 good, 1 a row failed the gate or has no result, 64 usage.
func run(ctx context.Context, args []string, jsonFile string, stdout, stderr io.Writer) int {
	o, code := parse(args, stderr)
	if code >= 0 {
		return code
	}
	var failed bool
	var err error
	switch {
	case o.child:
		err = o.serve(ctx, os.Stdin, stdout, stderr)
	case o.against != "":
		failed, err = o.compare(ctx, jsonFile, stdout, stderr)
	default:
		failed, err = o.judge(ctx, jsonFile, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: error: %v\n", err)
		return 1
	}
	if o.gate && failed {
		return 1
	}
	return 0
}

// judge measures all groups and judges them by their budgets. It reports whether a row failed.
func (o *options) judge(ctx context.Context, jsonFile string, stdout, stderr io.Writer) (failed bool, err error) {
	begin := time.Now()
	rows, notes, err := o.measure(ctx, stderr)
	if err == nil {
		err = o.print(stdout, rows, notes, time.Since(begin))
	}
	if err == nil && jsonFile != "" {
		err = writeJSON(jsonFile, rows)
	}
	if bad := names(rows, func(r *row) bool { return r.Error != "" }); err == nil && len(bad) > 0 {
		err = fmt.Errorf("no result for %s", strings.Join(bad, "; "))
	}
	return slices.ContainsFunc(rows, func(r row) bool { return r.failed }), err
}

func (o *options) measure(ctx context.Context, stderr io.Writer) (rows []row, notes []string, err error) {
	b, err := newBench(ctx, o.quick, stderr)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	rows, err = b.all(ctx, o.plan, o.groups)
	return rows, b.notes, err
}

func (o *options) print(w io.Writer, rows []row, notes []string, took time.Duration) error {
	fmt.Fprintf(w, "minima of %d interleaved runs, %s/%s, %d CPUs, %s, %.0f s\n\n",
		o.plan.runs, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), took.Seconds())
	if err := printTable(w, rows, o.dialects); err != nil {
		return err
	}
	fmt.Fprint(w, "\nratio: to proofs/bench/static with the same event; a new session: to a later event; 8 at once: to 8 in turn; 5 guards: to one\n"+
		"floor: a program that does only the unavoidable work; no ratio: the budget has a unit\n")
	for _, note := range notes {
		fmt.Fprintln(w, note)
	}
	for _, list := range []struct {
		title string
		keep  func(*row) bool
	}{
		{"fewer runs than planned, for lack of time", func(r *row) bool { return r.cut }},
		{fmt.Sprintf("FAILED, above %.2f times the budget or without a result", o.plan.limit), func(r *row) bool { return r.failed }},
	} {
		if found := names(rows, list.keep); len(found) > 0 {
			fmt.Fprintf(w, "%s: %s\n", list.title, strings.Join(found, "; "))
		}
	}
	return nil
}
