package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/allow"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// allowing has the flags of "grapnel allow".
type allowing struct {
	allow.Terms
	length string
	list   bool
	deny   bool
	always bool
	revoke string
}

func newAllow(c *console) *cobra.Command {
	var a allowing
	cmd := &cobra.Command{
		Use:   "allow [last | ID] [--for DURATION | --session | --always | --deny]",
		Short: "Let one stopped call pass",
		Long: `Show a call that hooks stopped, and let it pass after your confirmation: once, within ten
minutes. The same agent must make exactly the same call in the same session and directory again.
Without an argument, it is the newest call that waits for a person, or else the newest stopped
call. An ID is the beginning of a record's ID, or of a request's ID from "grapnel pending". You
see all that you allow: if the record contains only a part of the call, the command refuses.

A call that waits (see approve: in the documentation of policies) continues at once. With --deny,
it ends, and the model reads the --reason. With --always, your policy gets an exception for this
command, in its own hook or at the pack: you see the change and its test first.

You can answer a question of a hook, also if the agent cannot ask and it became a block. You can
also pass the rules of your own policy and of its packs. Blocks by programs, by managed, project
and plugin policies, and by Grapnel's self-protection stay.

The command needs a terminal and refuses below the process of an agent, because a person should
decide. --list shows the grants that are not used yet, and --revoke ends one.`,
		Example: "  grapnel allow\n  grapnel allow --deny --reason 'not on a Friday'\n  grapnel allow 01a2004139ad --for 1h --reason 'cleaning up the branch'\n  grapnel allow --session\n  grapnel allow --list\n  grapnel allow --revoke 5f0c",
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
				return c.revokeGrant(place, a.revoke)
			}
			return c.allow(cmd.Context(), place, cmp.Or(strings.Join(args, ""), "last"), &a)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&a.length, "for", "", "let the call pass any number of times for a `DURATION`, at most 24h")
	flags.BoolVar(&a.Session, "session", false, "let the call pass any number of times in this session of the agent")
	flags.BoolVar(&a.always, "always", false, "also let this command pass in the future, by an exception in your policy")
	flags.BoolVar(&a.deny, "deny", false, "deny a call that waits for a person")
	flags.StringVar(&a.Reason, "reason", "", "why you allow the call, for the log, or why you deny it, for the model: a `TEXT`")
	flags.BoolVar(&a.list, "list", false, "list the open grants")
	flags.StringVar(&a.revoke, "revoke", "", "end the grant with this `ID`")
	return c.jsonFlag(cmd)
}

// check returns an error if the flags are invalid. All errors are usage errors.
func (a *allowing) check(c *console, cmd *cobra.Command, args []string) error {
	grants := len(args) > 0
	for _, name := range []string{"for", "session", "reason", "always", "deny"} {
		grants = grants || cmd.Flags().Changed(name)
	}
	revokes := cmd.Flags().Changed("revoke")
	switch {
	case a.list && (grants || revokes), revokes && grants:
		return cli.Usage(errors.New("--list and --revoke cannot be used with an ID or other flags"))
	case a.deny && (a.length != "" || a.Session || a.always), a.always && (a.length != "" || a.Session):
		return cli.Usage(errors.New("only one of --for, --session, --always and --deny can be used"))
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
	if a.deny {
		return c.deny(place, call, a.Reason)
	}
	if err := call.Allowable(); err != nil {
		return err
	}
	if a.always {
		return c.makeRule(ctx, place, call, a.Reason)
	}
	g, err := call.Grant(place, a.Terms)
	if err != nil {
		return err
	}
	what := "the same call"
	if size := call.Size(); size != "" {
		what += " (" + size + ")"
	}
	fmt.Fprintf(c.Out, "%s\n  %s of %s in %s, %v\n", c.Paint(typeset.Bold, "to allow"), what, printable.Line(call.Agent), printable.Line(cmp.Or(call.Dir, "any directory")), g)
	if err := c.byPerson("allow a call", "", c.In, c.Out); err != nil {
		return err
	}
	if !c.Ask("allow this call?") {
		return errors.New("the call was not allowed")
	}
	if r := call.Request; r != nil && a.For == 0 {
		return c.decide(place, r, allow.Decision{Yes: true, Session: a.Session, Reason: a.Reason})
	}
	if err := call.Allow(place, g); err != nil {
		return err
	}
	c.printAllowed(g)
	return nil
}

// deny ends a call that waits for a person.
func (c *console) deny(place local.Place, call *allow.Call, reason string) error {
	if call.Request == nil {
		return cli.WithHint(errors.New("this call does not wait for a person: it was stopped"), `"grapnel pending" lists the calls that wait`)
	}
	if err := c.byPerson("deny a call", "", c.In, c.Out); err != nil {
		return err
	}
	return c.decide(place, call.Request, allow.Decision{Reason: reason})
}

// makeRule shows the change of the user's policy that lets a call pass, and writes it if the person
// confirms. A call that waits continues.
func (c *console) makeRule(ctx context.Context, place local.Place, call *allow.Call, reason string) error {
	rule, err := allow.Propose(ctx, place, call.Entry)
	if err != nil {
		return err
	}
	for _, f := range rule.Files {
		fmt.Fprintln(c.Out, printable.Dense(f.Diff))
	}
	if err := c.byPerson("change the policy", "", c.In, c.Out); err != nil {
		return err
	}
	if !c.Ask("make this rule?") {
		return errors.New("the rule was not made, and the call was not allowed")
	}
	if call.Request != nil { // first, because a yes to a question of older policies is refused
		if err := c.decide(place, call.Request, allow.Decision{Yes: true, Reason: reason}); err != nil {
			return err
		}
		allow.AwaitUse(ctx, place, call.Request)
	}
	if err := rule.Write(place); err != nil {
		if call.Request != nil {
			err = fmt.Errorf("the call was allowed once, but the rule was not made: %w", err)
		}
		return err
	}
	fmt.Fprintf(c.Out, "%s no longer stops this command\n", printable.Line(strings.Join(rule.Hooks, ", ")))
	rule.Settle(place)
	if call.Request == nil {
		fmt.Fprintln(c.Out, "tell the agent to try again")
	}
	return nil
}

// decide answers a request and prints the answer in force.
func (c *console) decide(place local.Place, r *approval.Request, d allow.Decision) error {
	a, first, err := allow.Decide(place, r.ID, d)
	switch {
	case err != nil:
		return err
	case !first:
		return fmt.Errorf("nothing has changed: the request was %v", a)
	case a.State == approval.Denied:
		fmt.Fprintln(c.Out, "denied: the agent does not run the call")
	case a.Waited:
		fmt.Fprintln(c.Out, "approved: the agent continues")
	default:
		c.printAllowed(a.Grant)
	}
	return nil
}

// printAllowed prints that the agent's next try passes.
func (c *console) printAllowed(g *approval.Grant) {
	fmt.Fprintf(c.Out, "allowed %v; tell the agent to try again; \"grapnel allow --revoke %s\" ends it\n", g, g.ID)
}

func (c *console) printCall(call *allow.Call) {
	doing := strings.TrimSpace(call.Agent + " " + call.Tool)
	fmt.Fprintf(c.Out, "%s in %s, %s\nrecord %s\n", c.Paint(typeset.Bold, printable.Line(doing)), printable.Line(cmp.Or(call.Dir, "an unknown directory")), call.Time.Local().Format("2006-01-02 15:04:05"), printable.Line(call.ID))
	if size := call.Size(); size != "" {
		fmt.Fprintf(c.Out, "  %s\n", c.Paint(typeset.Yellow, size+"; read to the end before you answer"))
	}
	fmt.Fprintln(c.Out, cli.Indent(printable.Dense(cmp.Or(call.Text, string(call.Event))), "  "))
	if call.Masked {
		fmt.Fprintf(c.Out, "  %s\n", c.Paint(typeset.Yellow, "parts of this call are masked (***) or replaced here: they are allowed too"))
	}
	if call.Changed {
		fmt.Fprintf(c.Out, "  %s\n", c.Paint(typeset.Yellow, "hooks changed this call before it was stopped: the changed call is allowed"))
	}
	if r := call.Request; r != nil {
		fmt.Fprintf(c.Out, "%s (request %s, until %s)\n", c.Paint(typeset.Bold, "asked by"), r.ID, r.Until.Local().Format("15:04:05"))
	} else {
		fmt.Fprintln(c.Out, c.Paint(typeset.Bold, "stopped by"))
	}
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
		fmt.Fprintln(c.Out, c.Paint(typeset.Bold, "also stopped in the ten minutes before"))
	}
	for i := range call.Others {
		e := &call.Others[i]
		fmt.Fprintf(c.Out, "  %s  %s  %s\n", printable.Line(e.ID), c.Decision(e.Decision.String()), printable.Line(strings.TrimSpace(e.Agent+" "+e.Tool+" "+recordview.About(e, maxAllowedText))))
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
	fmt.Fprintf(c.Out, "%s%s  %s\n", indent, c.Paint(typeset.Bold, g.ID), printable.Line(strings.TrimSpace(g.Scope.Agent+" "+g.Scope.Tool+" "+g.Call)))
	fmt.Fprintf(c.Out, "%s  in %s, %v%s\n", indent, printable.Line(g.Scope.Dir), g, printable.Line(reason))
}

func (c *console) revokeGrant(place local.Place, id string) error {
	g, err := allow.Select(place, id)
	if err != nil {
		return err
	}
	err = allow.Revoke(place, g)
	if err == nil {
		fmt.Fprintf(c.Out, "grant %s is revoked: the call is stopped again\n", g.ID)
	}
	return err
}

// maxAllowedText is the maximum number of bytes of a command, path or text in a list.
const maxAllowedText = 80
