// Command vectors runs conformance cases and reports which of Grapnel's promises hold.
//
//	go run ./conformance/cmd/vectors [--json] [--run RE] [--gaps FILE] DIR...
//
// It reads all *.json files below the directories, and prints failures with the expected and
// the actual values. With --json each case is a line of JSON. The last line is always "N
// passed, N failed, N skipped". The exit code is 0 if nothing failed, 1 if something failed,
// and 2 if the command line is wrong or there is nothing to run.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"

	"github.com/grapnel-dev/grapnel/internal/conformance"
)

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // many cases have hooks that fail
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	failed, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "vectors: error: %v\n", err)
		os.Exit(2)
	case failed:
		os.Exit(1)
	}
}

// run runs the cases that the arguments name. It returns an error if the arguments are wrong or
// the results cannot be printed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (failed bool, err error) {
	var opts conformance.Options
	flags := flag.NewFlagSet("vectors", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: vectors [--json] [--run RE] [--gaps FILE] DIR...")
		flags.PrintDefaults()
	}
	asJSON := flags.Bool("json", false, "print each result as one line of JSON")
	gaps := flags.String("gaps", "", "a `FILE` that lists known gaps: [{dialect, kind, hook, reason}]")
	flags.Func("run", "run only cases with an id that matches this `RE`", func(pattern string) (err error) {
		opts.Only, err = regexp.Compile(pattern)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return false, errors.New("no directory given")
	}
	if *gaps != "" {
		if opts.Gaps, err = conformance.LoadGaps(*gaps); err != nil {
			return false, err
		}
	}
	cases, err := conformance.Load(flags.Args()...)
	if err != nil {
		return false, err
	}
	results := conformance.Run(ctx, cases, &opts)
	if len(results) == 0 {
		return false, fmt.Errorf("no matching case in %q", flags.Args())
	}
	write := writeText
	if *asJSON {
		write = writeJSON
	}
	count := map[conformance.Status]int{}
	for i := range results {
		count[results[i].Status]++
		if err := write(stdout, &results[i]); err != nil {
			return false, fmt.Errorf("cannot print the results: %w", err)
		}
	}
	_, err = fmt.Fprintf(stdout, "%d passed, %d failed, %d skipped\n", count[conformance.Passed], count[conformance.Failed], count[conformance.Skipped])
	return count[conformance.Failed] > 0, err
}

func writeJSON(w io.Writer, r *conformance.Result) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

func writeText(w io.Writer, r *conformance.Result) error {
	_, err := io.WriteString(w, r.String())
	return err
}
