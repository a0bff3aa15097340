// Command vectors runs conformance cases and reports which of Grapnel's promises hold.
//
//	go run ./proofs/conformance/cmd/vectors [--json] [--run RE] [--gaps FILE] DIR...
//
// It reads all *.json files below the directories, and prints failures with the expected and
// the actual values. With --json each case is a line of JSON. The last line is always "N
// passed, N failed, N skipped". The exit code is 0 if nothing failed, 1 if something failed,
// and 2 if the command line is wrong or there is nothing to run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"

	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // many cases have hooks that fail
	conformance.Main("vectors", run)
}

// run runs the cases that the arguments name. It returns an error if the arguments are wrong or
// the results cannot be printed.
func run(ctx context.Context, args []string) (failed bool, err error) {
	var opts conformance.Options
	flags := flag.NewFlagSet("vectors", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: vectors [--json] [--run RE] [--gaps FILE] DIR...")
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
	for i := range results {
		if err := write(os.Stdout, &results[i]); err != nil {
			return false, fmt.Errorf("cannot print the results: %w", err)
		}
	}
	count := conformance.CountOf(results)
	_, err = fmt.Println(count)
	return count.Failed > 0, err
}

func writeJSON(w io.Writer, r *conformance.Result) error {
	line, err := rawjson.Line(r)
	if err == nil {
		_, err = w.Write(line)
	}
	return err
}

func writeText(w io.Writer, r *conformance.Result) error {
	_, err := io.WriteString(w, r.String())
	return err
}
