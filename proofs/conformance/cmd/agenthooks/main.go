// Command agenthooks runs conformance vectors of the Agent Hooks Specification through
// Grapnel's own agent loop, with only the model and the tools scripted.
//
//	go run ./proofs/conformance/cmd/agenthooks [--json] [--run RE] [--posture continue|terminate] [--caps LIST] DIR
//
// DIR holds the vectors (AH-CTK-*.json); identities in DIR/../golden/identity.json are compared
// too. The command prints a table of the parts, all failures with the actual and the expected
// values, and all skipped vectors with the reason. With --json it prints the declaration and
// then each part as a line of JSON. The last line is always "N passed, N failed, N skipped".
// The exit code is 0 if nothing failed, 1 if something failed, and 2 if the command line is
// wrong or there is nothing to run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"

	adapter "github.com/grapnel-dev/grapnel/bridge/agenthooks"
	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance/agenthooks"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

func main() { conformance.Main("agenthooks", run) }

// run runs the vectors that the arguments name. It returns an error if the arguments are wrong
// or the results cannot be printed.
func run(ctx context.Context, args []string) (failed bool, err error) {
	var opts agenthooks.Options
	var only *regexp.Regexp
	flags := flag.NewFlagSet("agenthooks", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: agenthooks [--json] [--run RE] [--posture continue|terminate] [--caps LIST] DIR")
		flags.PrintDefaults()
	}
	asJSON := flags.Bool("json", false, "print the declaration and each part as one line of JSON")
	flags.Func("run", "run only vectors with an id that matches this `RE`", func(pattern string) (err error) {
		only, err = regexp.Compile(pattern)
		return err
	})
	flags.Func("posture", "declare this `posture` for host failures at a tool: continue (default) or terminate", func(text string) error {
		opts.Posture = adapter.Posture(text)
		if opts.Posture != adapter.Continue && opts.Posture != adapter.Terminate {
			return errors.New("want continue or terminate")
		}
		return nil
	})
	flags.Func("caps", "declare only these capabilities, a comma-separated `LIST`", func(list string) error {
		opts.Capabilities = strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' })
		if opts.Capabilities == nil {
			opts.Capabilities = []string{}
		}
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return false, fmt.Errorf("want one directory, got %d", flags.NArg())
	}
	cases, err := agenthooks.Load(flags.Arg(0), &opts)
	if err != nil {
		return false, err
	}
	results := conformance.Run(ctx, cases, &conformance.Options{Only: only})
	if len(results) == 0 {
		return false, fmt.Errorf("no matching vector in %s", flags.Arg(0))
	}
	write := writeText
	if *asJSON {
		write = writeJSON
	}
	if err := write(os.Stdout, agenthooks.Parts(results), agenthooks.Declare(&opts)); err != nil {
		return false, fmt.Errorf("cannot print the results: %w", err)
	}
	count := conformance.CountOf(results)
	_, err = fmt.Println(count)
	return count.Failed > 0, err
}

func writeJSON(w io.Writer, parts []agenthooks.Part, declared agenthooks.Declaration) error {
	values := []any{map[string]any{"declared": declared}}
	for i := range parts {
		values = append(values, &parts[i])
	}
	for _, v := range values {
		line, err := rawjson.Line(v)
		if err == nil {
			_, err = w.Write(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func writeText(w io.Writer, parts []agenthooks.Part, _ agenthooks.Declaration) error {
	for i := range parts {
		for j := range parts[i].Results {
			if _, err := io.WriteString(w, parts[i].Results[j].String()); err != nil {
				return err
			}
		}
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "part\tpassed\tfailed\tskipped")
	for _, p := range parts {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\n", p.Part, p.Passed, p.Failed, p.Skipped)
	}
	return table.Flush()
}
