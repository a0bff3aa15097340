package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/explain"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/local"
)

// explaining has the flags of "grapnel explain".
type explaining struct {
	event  string // file of a payload
	short  short  // or the event as flags
	record string // or the ID of a Record with the event
	explain.Options
}

func newExplain(c *console) *cobra.Command {
	var e explaining
	cmd := &cobra.Command{
		Use:   "explain [AGENT | last | ID] [--event FILE | --command LINE | --tool NAME | ...]",
		Short: "Show how an event would be decided, and why",
		Long: `Show the hooks that match an event and why, what each hook received and returned, how the
outcomes were merged into one verdict, and the reply that the agent would get. Hooks that
almost matched are listed below, with the condition that failed.

The event is the masked event of a Record (its ID, or "last" for the newest one), the input of
an agent (--event, or standard input), or a short description (--command, --tool, --path,
--prompt ...).

Nothing is recorded. Programs and servers are only named; --run runs and calls them, and
shows the output of programs. --why NAME explains why one hook did or did not act.`,
		Example: `  grapnel explain --command 'git push -f origin main'
  grapnel explain --tool write --path deploy/prod/app.yaml --why keep-out-of-prod
  grapnel explain gemini-cli --prompt 'my key is sk-...'
  grapnel explain claude-code --event event.json --all
  grapnel explain last
  grapnel explain 01a2004139 --json
  grapnel explain < event.json`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var named *dialect.Dialect
			if len(args) > 0 {
				var ok bool
				switch named, ok = dialect.FindAgent(args[0]); {
				case !ok && records.Names(args[0]):
					e.record = args[0]
				case !ok:
					return cli.UnknownAgent(args[0])
				}
			}
			e.short.read(cmd.Flags())
			place, err := c.Place()
			if err != nil {
				return err
			}
			subject, err := c.subject(cmd.Context(), place, named, &e)
			if err != nil {
				return err
			}
			x, err := explain.New(cmd.Context(), place, subject, &e.Options)
			if err != nil {
				return err
			}
			switch {
			case c.JSON:
				return c.PrintJSON(x)
			case e.Why != "":
				x.PrintWhy(&c.Console)
			default:
				x.Print(&c.Console)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&e.event, "event", "-", "`FILE` with the event as the agent sends it; - is standard input")
	e.short.flags(flags)
	flags.StringArrayVar(&e.Policies, "policy", nil, "another policy `FILE`; repeatable")
	flags.StringVar(&e.Why, "why", "", "explain why the hook with this `NAME` did or did not act")
	flags.BoolVar(&e.All, "all", false, "show all hooks, including those that do not match")
	flags.BoolVar(&e.Run, "run", false, "run the programs of hooks and call their servers")
	return c.jsonFlag(cmd)
}

// subject returns the event to explain.
func (c *console) subject(ctx context.Context, place local.Place, named *dialect.Dialect, e *explaining) (*explain.Subject, error) {
	ways := 0
	for _, given := range []bool{e.event != "-", e.record != "", e.short.given()} {
		if given {
			ways++
		}
	}
	switch {
	case ways > 1:
		return nil, cli.Usage(cli.WithHint(errors.New("more than one event"), "name only one of a record, --event, --command and the like"))
	case e.record != "":
		return explain.RecordedSubject(ctx, records.Log(place), e.record)
	case e.short.given():
		return e.short.subject(cmp.Or(named, dialect.ClaudeCode()))
	}
	payload, err := c.readEvent(e.event)
	if err != nil {
		return nil, err
	}
	d := named
	if d == nil {
		d = cmp.Or(dialect.Detect(payload), dialect.ClaudeCode())
	}
	got := dialect.Receive(d, dialect.Input{Payload: payload})
	return explain.NewSubject(got), nil
}

func (c *console) readEvent(name string) ([]byte, error) {
	if name != "-" {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("cannot read the event: %w", err)
		}
		return data, nil
	}
	if cli.Terminal(c.In) {
		fmt.Fprintln(c.Err, "grapnel: reading the event from standard input")
	}
	return io.ReadAll(io.LimitReader(c.In, dialect.MaxPayload+1))
}
