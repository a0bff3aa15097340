package main

import (
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func newLog(c *console) *cobra.Command {
	var asked logQuery
	var follow, all bool
	cmd := &cobra.Command{
		Use:   "log",
		Short: "List recorded events",
		Long: `Print one line per recorded event, oldest first. The command needs no daemon. Without --all, it
leaves out events that are no tool call and that no hook decided, changed or failed at; a flag
that selects events lists all that match.

Each line begins with a short ID of the Record: "grapnel log show ID" shows all of it. On a
terminal, lines are cut at its width.

Hooks in observe mode stop nothing. --would lists the events that they would have blocked or
asked about.

--text finds Records that contain all the words: in reasons, errors, names of tools and
hooks, and the event. "Words in quotes" must be next to each other. beg* finds words that
start with beg.`,
		Example: "  grapnel log --since 1h --decision block\n  grapnel log --text 'terraform destr*'\n  grapnel log show 019f8d2b1c\n  grapnel log --would --since 7d\n  grapnel log -f --json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := asked.query(cmd)
			if err != nil {
				return err
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			entries := records.Log(place).Read
			if follow {
				entries = records.Log(place).Follow
			}
			selects := asked.selects(cmd)
			lines, others := logLines{console: c, ctx: ctx}, 0
			if !c.JSON {
				lines.ids = records.Log(place).IDs(ctx)
				defer lines.ids.Close()
			}
			for k, err := range entries(ctx, query) {
				if err != nil {
					c.Warn(err)
					continue
				}
				if err := k.Event(); err != nil {
					c.Warn(err)
				}
				switch {
				case c.JSON:
					err = c.printRecord(&k.Entry)
				case all || selects || matters(&k.Entry):
					err = lines.print(&k.Entry)
				default:
					others++
				}
				if err != nil {
					return err
				}
			}
			if others > 0 && c.Columns() > 0 {
				c.Wrap(printable.Count(others, "other event")+": grapnel log --all", "")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also print events at which nothing happened")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing new events")
	asked.flags(cmd)
	cmd.AddCommand(newLogShow(c), newLogVerify(c))
	return c.jsonFlag(cmd)
}

// matters reports whether a Record is of a tool call, or has a result of hooks that a person may look for.
func matters(e *spool.Entry) bool {
	failed := slices.ContainsFunc(e.Hooks, func(h grapnel.HookRun) bool { return h.Error != "" })
	return e.Event == grapnel.ToolBefore || e.Decision > grapnel.None || e.Would > grapnel.None || e.Halt != "" || len(e.Changed)+len(e.Unsupported) > 0 ||
		e.Error != "" || failed || strings.HasPrefix(string(e.Event), records.Own)
}

// wantedFlags are the flags that select Records.
type wantedFlags struct {
	since, agent, session, hook string
	events, decisions           []string
	would                       bool
}

func (w *wantedFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.since, "since", w.since, "only events of the last `DURATION`, such as 1h")
	cmd.Flags().StringVar(&w.agent, "agent", "", "only events of this `AGENT`")
	cmd.Flags().StringVar(&w.session, "session", "", "only events of the session with this `ID`")
	cmd.Flags().StringArrayVar(&w.events, "event", nil, "only events of this `EVENT`; repeatable")
	cmd.Flags().StringArrayVar(&w.decisions, "decision", nil, "only events with this `DECISION`: none, allow, ask or block; repeatable")
	cmd.Flags().BoolVar(&w.would, "would", false, "only events that hooks in observe mode would have stopped")
	cmd.Flags().StringVar(&w.hook, "hook", "", "only events that the hook with this `NAME` handled")
}

// filter returns the filter of the flags. An invalid flag is a usage error.
func (w *wantedFlags) filter() (spool.Filter, error) {
	filter := spool.Filter{Session: w.session, Hook: w.hook, Would: w.would}
	if w.agent != "" {
		d, ok := dialect.FindAgent(w.agent)
		if !ok {
			return filter, cli.UnknownAgent(w.agent)
		}
		filter.Agent = d.Name
	}
	if w.since != "" {
		var err error
		if filter.Since, err = ago(w.since); err != nil {
			return filter, err
		}
	}
	for _, name := range w.events {
		kinds := policy.Kinds(name)
		if kinds == nil {
			return filter, cli.Usage(cli.WithNear(fmt.Errorf("unknown event %q", name), name, eventNames(), `"grapnel schema event" lists them`))
		}
		filter.Events = append(filter.Events, kinds...)
	}
	for _, name := range w.decisions {
		var d grapnel.Decision
		if err := d.UnmarshalText([]byte(name)); err != nil {
			return filter, cli.Usage(err)
		}
		filter.Decisions = append(filter.Decisions, d)
	}
	return filter, nil
}

// logQuery are the flags that select the Records of a log.
type logQuery struct {
	wantedFlags
	text string
}

func (l *logQuery) flags(cmd *cobra.Command) {
	l.add(cmd)
	cmd.Flags().StringVar(&l.text, "text", "", "only records that contain these `WORDS`")
}

// selects reports whether a flag of cmd selects events by their kind, text or decision.
func (l *logQuery) selects(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"event", "decision", "would", "hook", "text"}, cmd.Flags().Changed)
}

// query returns the query of the flags of cmd. All errors are usage errors.
func (l *logQuery) query(cmd *cobra.Command) (index.Query, error) {
	if cmd.Flags().Changed("text") {
		if err := index.ValidText(l.text); err != nil {
			return index.Query{}, cli.Usage(cli.WithHint(err, cmd.CommandPath()+" --text 'rm node_modules'"))
		}
	}
	filter, err := l.filter()
	return index.Query{Filter: filter, Text: l.text}, err
}

// ago returns the start of the --since duration.
func ago(since string) (time.Time, error) {
	d, err := policyfile.ParseDuration(since)
	if err != nil || d < 0 {
		return time.Time{}, cli.Usage(cli.WithHint(fmt.Errorf("--since %q is not a duration", since), "write a number with a unit: 30m, 1h, 7d"))
	}
	return time.Now().Add(-d), nil
}
