package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
)

// hintOf returns the hint of an error. A usage error without a hint refers to the command's
// help.
func hintOf(err error, cmd *cobra.Command) string {
	if hint := cli.HintOf(err); hint != "" {
		return hint
	}
	if cli.IsUsage(err) {
		return fmt.Sprintf("run %q", cmd.CommandPath()+" --help")
	}
	return ""
}

// usage prints the usage of a command like cobra, but with lines of at most 100 columns. Cobra's
// templates do the same, but they link text/template, which slows down every start.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:")
	if cmd.Runnable() {
		b.WriteString("\n  " + cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n  " + cmd.CommandPath() + " [command]")
	}
	b.WriteByte('\n')
	if cmd.HasExample() {
		b.WriteString("\nExamples:\n" + cmd.Example + "\n")
	}
	list := func(title, group string) {
		head := "\n" + title + "\n"
		for _, sub := range cmd.Commands() {
			if sub.GroupID == group && (sub.IsAvailableCommand() || sub.Name() == "help") {
				fmt.Fprintf(&b, "%s  %-*s %s\n", head, sub.NamePadding(), sub.Name(), sub.Short)
				head = ""
			}
		}
	}
	for _, group := range cmd.Groups() {
		list(group.Title, group.ID)
	}
	list("Available Commands:", "")
	for _, flags := range []struct {
		title string
		set   *pflag.FlagSet
	}{{"Flags:", cmd.LocalFlags()}, {"Global Flags:", cmd.InheritedFlags()}} {
		if flags.set.HasAvailableFlags() {
			b.WriteString("\n" + flags.title + "\n" + flags.set.FlagUsagesWrapped(100))
		}
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse %q for more information about a command.\n", cmd.CommandPath()+" [command] --help")
	}
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

// flagError returns a usage error for a flag that pflag refused. It names the value that the
// flag wants, or the flag that the user probably meant.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near := cli.Nearest(unknown.GetSpecifiedName(), known); len(near) > 0 {
			err = cli.WithHint(err, fmt.Sprintf("did you mean --%s?", near[0]))
		}
		return cli.Usage(err)
	}
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return cli.Usage(err)
	}
	want, ok := map[string]string{
		"int": "a whole number", "uint64": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a number with a unit, such as 30s or 10m",
	}[bad.GetFlag().Value.Type()]
	if !ok {
		return cli.Usage(err)
	}
	return cli.Usage(fmt.Errorf("--%s %q: want %s", bad.GetFlag().Name, bad.GetValue(), want))
}

// usageArgs turns a wrong number of arguments into a usage error that names the expected
// arguments.
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
			return cli.Usage(fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0]))
		case len(args) == 0:
			return cli.Usage(fmt.Errorf("%s needs %s", cmd.CommandPath(), wanted))
		}
		return cli.Usage(fmt.Errorf("%s needs %s, got %q", cmd.CommandPath(), wanted, strings.Join(args, " ")))
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
	return cli.Usage(cli.WithNear(err, name, known, fmt.Sprintf("run %q", parent.CommandPath()+" --help")))
}

// strict makes cobra's own commands check their arguments. By default they show help for any
// word.
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
