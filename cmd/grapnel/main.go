// Grapnel is the program that people type: it sets up agents, checks and explains
// policies, and shows what happened. The program that agents run is grapnel-hook.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/grapnel-dev/grapnel/cmd/internal/answer"
	_ "github.com/grapnel-dev/grapnel/policy/foreign" // hook files of other systems
	"github.com/grapnel-dev/grapnel/process"
)

// Exit codes. 2 is not among them: to several agents it means block.
const (
	exitFailure = 1
	exitUsage   = 64
)

func main() {
	process.SandboxMain() // where this is to become a hook's program, before anything else
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// exitCode ends a command with a code after it has said all there is to say.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// errFailed ends a command with exit code 1 after it has said all there is to say.
var errFailed = errors.New("failed")

// usageError ends a command with exit code 64.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// hintError carries the way out.
type hintError struct {
	error
	hint string
}

func (e hintError) Unwrap() error { return e.error }

func withHint(err error, hint string) error { return hintError{err, hint} }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "hook" { // before cobra looks, which has a --help and a --version of its own
		return hook(args[1:], stdin, stdout, stderr)
	}
	root := newRoot(&console{in: stdin, out: stdout, err: stderr})
	root.SetArgs(goStyle(args))
	err := root.Execute()
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFailed):
		return exitFailure
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	fmt.Fprintf(stderr, "grapnel: error: %v\n", err)
	if hint, ok := errors.AsType[hintError](err); ok {
		fmt.Fprintf(stderr, "grapnel: hint: %s\n", hint.hint)
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailure
}

// console is where a command reads and writes.
type console struct {
	in       io.Reader
	out, err io.Writer
	root     string // --root
	json     bool   // --json
}

// place finds policy and state for a person.
func (c *console) place() (answer.Place, error) {
	place, err := answer.Locate(c.root, "")
	if err != nil {
		return place, usageError{err}
	}
	return place, nil
}

// terminal reports whether a stream is one that a person looks at.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// paint colours a text where a person looks at it and did not ask for none.
func (c *console) paint(code, text string) string {
	if !terminal(c.out) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// decisionColour is the colour that a decision is told in.
func decisionColour(word string) string {
	return map[string]string{"block": red, "halt": red, "ask": yellow, "allow": green}[strings.TrimSpace(word)]
}

func (c *console) decision(word string) string {
	return c.paint(decisionColour(word), word)
}

func newRoot(c *console) *cobra.Command {
	root := &cobra.Command{
		Use:           "grapnel",
		Short:         "One policy for every AI agent",
		Long:          "Grapnel puts one policy in front of every AI agent on this machine:\nit blocks, asks, rewrites, informs and logs what they do.\n\nStart with \"grapnel init\", then \"grapnel install\".",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.PersistentFlags().StringVar(&c.root, "root", "", "keep policy and state below this directory")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{withHint(flagError(err), fmt.Sprintf("run %q", cmd.CommandPath()+" --help"))}
	})
	for _, group := range []struct {
		title    string
		commands []func(*console) *cobra.Command
	}{
		{"Set up:", []func(*console) *cobra.Command{
			newInit, newInstall, newUninstall, newVerify, newDoctor, newStatus, newPause,
		}},
		{"Policies:", []func(*console) *cobra.Command{
			newCheck, newFmt, newTest, newExplain, newReplay, newSuggest, newRecord, newTrust, newUntrust, newImport, newSchema,
		}},
		{"What happened:", []func(*console) *cobra.Command{
			newLog, newWatch, newStats, newDeliveries,
		}},
		{"The daemon:", []func(*console) *cobra.Command{
			newDaemon, newServe, newDrain,
		}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, command := range group.commands {
			cmd := command(c)
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newVersion(c), newDeliver(c), newMan(c))
	root.AddCommand(&cobra.Command{
		Use:                "hook [AGENT [EVENT]] [--id T | --root DIR] [--policy FILE]...",
		Short:              "Answer one event of an agent, as grapnel-hook does",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { // also after flags: grapnel --root DIR hook
			return exitCode(hook(args, c.in, c.out, c.err))
		},
	})
	c.complete(root)
	return root
}

// flagError says what a flag wants, where its type says so, and not which function of Go
// could not read it.
func flagError(err error) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	want, ok := map[string]string{
		"int": "a whole number", "uint64": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a number with a unit, such as 30s or 10m",
	}[bad.GetFlag().Value.Type()]
	if !ok {
		return err
	}
	return fmt.Errorf("--%s %q: want %s", bad.GetFlag().Name, bad.GetValue(), want)
}

// usageArgs makes a wrong number of arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{withHint(err, fmt.Sprintf("run %q", cmd.CommandPath()+" --help"))}
		}
		return nil
	}
}

// one wants one argument, and says which.
func one(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want %q, and not %d arguments", cmd.CommandPath()+strings.TrimPrefix(cmd.Use, cmd.Name()), len(args))
	}
	return nil
}

func (c *console) jsonFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON")
	return cmd
}

func newVersion(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if c.json {
				return c.printJSON(map[string]string{"version": answer.Version})
			}
			_, err := fmt.Fprintf(c.out, "grapnel %s\n", answer.Version)
			return err
		},
	})
}
