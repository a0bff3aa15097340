// Grapnel is the program for people: it sets up agents, checks and explains policies, and shows
// recorded events. Agents run grapnel-hook.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/process"
)

// The exit codes. 2 is not used, because to several agents it means block.
const (
	exitFailure = 1
	exitUsage   = 64
)

// Commands and groups are listed in the order in which people need them.
func init() { cobra.EnableCommandSorting = false }

func main() {
	process.SandboxMain() // must be first: a sandboxed process runs its program here
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// exitCode is an error that sets the exit code. The command has already printed all messages.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "hook" { // before cobra, which has its own --help and --version
		return hook(args[1:], stdin, stdout, stderr)
	}
	out := &cli.Output{Writer: stdout}
	root := newRoot(&console{cli.Console{In: stdin, Out: out, Err: stderr}})
	root.SetArgs(goStyle(args))
	cmd, err := root.ExecuteC()
	if out.Failed() != nil {
		err = out.Failed()
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, cli.ErrFailed):
		return exitFailure
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	c := cli.Console{}
	c.WrapTo(stderr, fmt.Sprintf("grapnel: error: %v", err), "  ")
	if hint := hintOf(err, cmd); hint != "" {
		c.WrapTo(stderr, "grapnel: hint: "+hint, "  ")
	}
	if cli.IsUsage(err) {
		return exitUsage
	}
	return exitFailure
}

// console has the input and output of a command.
type console struct{ cli.Console }

func newRoot(c *console) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "grapnel",
		Short: "One policy for every AI agent",
		Long: `Grapnel applies one policy to every AI agent on this machine. Its hooks block, ask, change,
add context and log what agents do.

Start with "grapnel init", then "grapnel install".

Exit code 0: success; 1: failure, as each command describes; 64: the command line is wrong.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				_, err := fmt.Fprintln(c.Out, thisBuild())
				return err
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the version and the commit")
	root.SetUsageFunc(usage)
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	root.PersistentFlags().StringVar(&c.Root, "root", "", "use this `DIR` for policy and state")
	root.SetFlagErrorFunc(flagError)
	const other = "Other:"
	for _, group := range []struct {
		title    string
		commands []func(*console) *cobra.Command
	}{
		{"Set up:", []func(*console) *cobra.Command{
			newInit, newEnforce, newInstall, newUninstall, newVerify, newDoctor, newStatus, newAllow, newPending, newPause,
		}},
		{"Policies:", []func(*console) *cobra.Command{
			newHooks, newCheck, newFmt, newTest, newExplain, newReplay, newSuggest, newRecord, newTrust, newUntrust, newBundle, newImport, newSchema,
		}},
		{"What happened:", []func(*console) *cobra.Command{
			newUI, newLog, newWatch, newStats, newDeliveries, newMachines,
		}},
		{"The daemon:", []func(*console) *cobra.Command{
			newDaemon, newServe, newDrain, newForward,
		}},
		{other, []func(*console) *cobra.Command{
			newHook, newMan, newVersion,
		}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, command := range group.commands {
			cmd := command(c)
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newDeliver(c))
	root.SetHelpCommandGroupID(other)
	root.SetCompletionCommandGroupID(other)
	strict(root)
	c.complete(root)
	return root
}

func (c *console) jsonFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&c.JSON, "json", false, "print JSON")
	return cmd
}

func newHook(c *console) *cobra.Command {
	return &cobra.Command{
		Use:                "hook [AGENT [EVENT]] [--id T | --root DIR] [--policy FILE]...",
		Short:              "Reply to one event of an agent, like grapnel-hook",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { // for global flags before the command: grapnel --root DIR hook
			return exitCode(hook(args, c.In, c.Out, c.Err))
		},
	}
}
