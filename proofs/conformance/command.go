package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

// Main is the main function of a command that runs cases. run prints the results and reports
// whether a case failed. Its error means that the command line is wrong or nothing can run. The
// exit code is 0 if nothing failed, 1 if something failed, and 2 after an error.
func Main(name string, run func(ctx context.Context, args []string) (failed bool, err error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	failed, err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: error: %v\n", name, err)
		os.Exit(2)
	case failed:
		os.Exit(1)
	}
}

// A Count is the number of results of each Status.
type Count struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// CountOf counts results.
func CountOf(results []Result) Count {
	var c Count
	for i := range results {
		switch results[i].Status {
		case Passed:
			c.Passed++
		case Skipped:
			c.Skipped++
		case Failed:
			c.Failed++
		}
	}
	return c
}

// String is the last line of a report.
func (c Count) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.Passed, c.Failed, c.Skipped)
}
