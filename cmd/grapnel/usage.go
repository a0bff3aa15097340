package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnel-dev/grapnel/dialect"
)

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

// hintOf is the way out of an error, and where a command line is wrong and nothing better
// is known, the command's help.
func hintOf(err error, cmd *cobra.Command) string {
	if hint, ok := errors.AsType[hintError](err); ok {
		return hint.hint
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return fmt.Sprintf("run %q", cmd.CommandPath()+" --help")
	}
	return ""
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

// usageArgs makes a wrong number of arguments a usage error that says what is wanted.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		_, wanted, _ := strings.Cut(cmd.Use, " ")
		switch {
		case cmd.HasAvailableSubCommands() && len(args) > 0:
			return unknownCommand(cmd, args[0])
		case wanted == "":
			return usageError{fmt.Errorf("%s takes no arguments, and there is %q", cmd.CommandPath(), args[0])}
		case len(args) == 0:
			return usageError{fmt.Errorf("%s wants %s", cmd.CommandPath(), wanted)}
		}
		return usageError{fmt.Errorf("%s wants %s, and there is %q", cmd.CommandPath(), wanted, strings.Join(args, " "))}
	}
}

func unknownCommand(parent *cobra.Command, name string) error {
	var known []string
	for _, sub := range parent.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	err := fmt.Errorf("unknown command %q for %q", name, parent.CommandPath())
	return usageError{withNear(err, name, known, fmt.Sprintf("run %q", parent.CommandPath()+" --help"))}
}

func unknownAgent(name string) error {
	known := dialect.Names()
	return usageError{withNear(fmt.Errorf("unknown agent %q", name), name, known, "known are "+strings.Join(known, ", "))}
}

// withNear hints at the word that a mistyped one is likely to be, or else gives another hint.
func withNear(err error, word string, known []string, other string) error {
	if near := similar(word, known); len(near) > 0 {
		return withHint(err, fmt.Sprintf("did you mean %q?", near[0]))
	}
	return withHint(err, other)
}

// strict makes what cobra brings along, which shows help for any word, want the right ones.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			show := cmd.Run
			cmd.Run = nil
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				of, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return unknownCommand(of, rest[0])
				}
				show(cmd, args)
				return nil
			}
		case "completion":
			cmd.Args = usageArgs(cobra.NoArgs)
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}
