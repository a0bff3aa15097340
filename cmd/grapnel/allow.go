package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/allow"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/watch"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// allowing has the flags of "grapnel allow".
type allowing struct {
	allow.Terms
	length string
	list   bool
	revoke string
}

func newAllow(c *console) *cobra.Command {
	var a allowing
	cmd := &cobra.Command{
		Use:   "allow [last | ID] [--for DURATION | --session]",
		Short: "Let one stopped call pass",
		Long: `Show a call that hooks stopped, and let it pass after your confirmation: once, within ten
minutes. The same agent must make exactly the same call in the same directory again. Without an
argument, it is the newest stopped call. An ID is the beginning of a record's ID. You see all that
you allow: if the record contains only a part of the call, the command refuses.

You can answer a question of a hook, also if the agent cannot ask and it became a block. You can
also pass the rules of your own policy and of its packs. Blocks by programs, by managed, project
and plugin policies, and by Grapnel's self-protection stay.

The command needs a terminal and refuses below the process of an agent, because a person should
decide. --list shows the grants that are not used yet, and --revoke ends one.`,
		Example: "  grapnel allow\n  grapnel allow 01a2004139ad --for 1h --reason 'cleaning up the branch'\n  grapnel allow --session\n  grapnel allow --list\n  grapnel allow --revoke 5f0c",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.check(c, cmd, args); err != nil {
				return err
			}
			place, err := c.Place()
			switch {
			case err != nil:
				return err
			case a.list:
				return c.listGrants(place)
			case cmd.Flags().Changed("revoke"):
				return c.revokeGrant(cmd.Context(), place, a.revoke)
			}
			return c.allow(cmd.Context(), place, cmp.Or(strings.Join(args, ""), "last"), &a)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&a.length, "for", "", "let the call pass any number of times for a `DURATION`, at most 24h")
	flags.BoolVar(&a.Session, "session", false, "let the call pass any number of times in this session of the agent")
	flags.StringVar(&a.Reason, "reason", "", "why you allow the call: a `TEXT` for the log")
	flags.BoolVar(&a.list, "list", false, "list the open grants")
	flags.StringVar(&a.revoke, "revoke", "", "end the grant with this `ID`")
	return c.jsonFlag(cmd)
}

// check returns an error if the flags are invalid. All errors are usage errors.
func (a *allowing) check(c *console, cmd *cobra.Command, args []string) error {
	grants := len(args) > 0
	for _, name := range []string{"for", "session", "reason"} {
		grants = grants || cmd.Flags().Changed(name)
	}
	revokes := cmd.Flags().Changed("revoke")
	switch {
	case a.list && (grants || revokes), revokes && grants:
		return cli.Usage(errors.New("--list and --revoke cannot be used with an ID or other flags"))
	case c.JSON && !a.list:
		return cli.Usage(cli.WithHint(errors.New("--json is only for --list"), "grapnel allow --list --json"))
	case a.length == "":
		return nil
	}
	length, err := policyfile.ParseDuration(a.length)
	if err != nil {
		return cli.Usage(cli.WithHint(fmt.Errorf("%q is not a duration", a.length), "write a number with a unit: 30s, 10m, 1h"))
	}
	a.For = length
	if err := (&approval.Grant{}).New(time.Now(), length); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// allow shows a stopped call, and lets it pass if the person confirms. It records the grant and
// then stores it. If the Record cannot be written, the call stays stopped.
func (c *console) allow(ctx context.Context, place local.Place, id string, a *allowing) error {
	call, err := allow.Find(ctx, place, id)
	if err != nil {
		return err
	}
	c.printCall(call)
	if err := call.Allowable(); err != nil {
		return err
	}
	g, err := call.Grant(place, a.Terms)
	if err != nil {
		return err
	}
	what := "the same call"
	if size := call.Size(); size != "" {
		what += " (" + size + ")"
	}
	fmt.Fprintf(c.Out, "%s\n  %s of %s in %s, %v\n", c.Paint(cli.Bold, "to allow"), what, printable.Line(call.Agent), printable.Line(cmp.Or(call.Dir, "any directory")), g)
	if err := c.byPerson("allow a call", "", c.In, c.Out); err != nil {
		return err
	}
	if !c.Ask("allow this call?") {
		return errors.New("the call was not allowed")
	}
	note := allow.Record(g)
	if g.Logged, err = record(place, allow.Granted, &note); err != nil {
		return fmt.Errorf("cannot allow the call without a record: %w", err)
	}
	if err := place.Approvals().Add(g); err != nil {
		return fmt.Errorf("cannot allow the call: %w", err)
	}
	fmt.Fprintf(c.Out, "allowed %v; tell the agent to try again; \"grapnel allow --revoke %s\" ends it\n", g, g.ID)
	return nil
}

func (c *console) printCall(call *allow.Call) {
	doing := strings.TrimSpace(call.Agent + " " + call.Tool)
	fmt.Fprintf(c.Out, "%s in %s, %s (record %s)\n", c.Paint(cli.Bold, printable.Line(doing)), printable.Line(cmp.Or(call.Dir, "an unknown directory")), call.Time.Local().Format("2006-01-02 15:04:05"), printable.Line(call.ID))
	if size := call.Size(); size != "" {
		fmt.Fprintf(c.Out, "  %s\n", c.Paint(cli.Yellow, size+"; read to the end before you answer"))
	}
	fmt.Fprintln(c.Out, cli.Indent(printable.Dense(cmp.Or(call.Text, string(call.Event))), "  "))
	if call.Masked {
		fmt.Fprintf(c.Out, "  %s\n", c.Paint(cli.Yellow, "parts of this call are masked (***) or replaced here: they are allowed too"))
	}
	if call.Changed {
		fmt.Fprintf(c.Out, "  %s\n", c.Paint(cli.Yellow, "hooks changed this call before it was stopped: the changed call is allowed"))
	}
	fmt.Fprintln(c.Out, c.Paint(cli.Bold, "stopped by"))
	for _, h := range call.Hooks {
		now := ""
		if h.Now {
			now = " (if the agent tries it again)"
		}
		fmt.Fprintf(c.Out, "  %s %s%s\n", c.Decision(h.Decision.String()), printable.Line(h.Name), now)
		if h.Reason != "" {
			fmt.Fprintln(c.Out, cli.Indent(h.Reason, "    "))
		}
	}
	if len(call.Others) > 0 {
		fmt.Fprintln(c.Out, c.Paint(cli.Bold, "also stopped in the ten minutes before"))
	}
	for i := range call.Others {
		e := &call.Others[i]
		fmt.Fprintf(c.Out, "  %s  %s  %s\n", printable.Line(e.ID), c.Decision(e.Decision.String()), printable.Line(strings.TrimSpace(e.Agent+" "+e.Tool+" "+watch.About(e, maxAllowedText))))
	}
}

func (c *console) listGrants(place local.Place) error {
	grants, err := place.Approvals().List(time.Now())
	if err != nil {
		return fmt.Errorf("cannot list the grants: %w", err)
	}
	if c.JSON {
		return c.PrintJSON(append([]approval.Grant{}, grants...))
	}
	if len(grants) == 0 {
		fmt.Fprintln(c.Out, "no call is allowed")
	}
	for i := range grants {
		c.printGrant(&grants[i], "")
	}
	return nil
}

// printGrant prints a grant in two lines.
func (c *console) printGrant(g *approval.Grant, indent string) {
	reason := ""
	if g.Reason != "" {
		reason = ": " + g.Reason
	}
	fmt.Fprintf(c.Out, "%s%s  %s\n", indent, c.Paint(cli.Bold, g.ID), printable.Line(strings.TrimSpace(g.Scope.Agent+" "+g.Scope.Tool+" "+g.Call)))
	fmt.Fprintf(c.Out, "%s  in %s, %v%s\n", indent, printable.Line(g.Scope.Dir), g, printable.Line(reason))
}

// revokeGrant ends a grant and then records that. It must work even if the Record cannot be
// written.
func (c *console) revokeGrant(ctx context.Context, place local.Place, id string) error {
	g, err := allow.Select(place, id)
	if err != nil {
		return err
	}
	if err := place.Approvals().Revoke(g); err != nil {
		return fmt.Errorf("cannot revoke the grant: %w", err)
	}
	fmt.Fprintf(c.Out, "grant %s is revoked: the call is stopped again\n", g.ID)
	return recordPause(place, "AllowOff", "grant "+g.ID+" was revoked")
}

// maxAllowedText is the maximum number of bytes of a command, path or text in a list.
const maxAllowedText = 80
