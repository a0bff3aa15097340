package main

import (
	"fmt"
	"iter"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/spool"
)

func newLog(c *console) *cobra.Command {
	var since, agent, session, hook string
	var events, decisions []string
	var follow bool
	cmd := &cobra.Command{
		Use:     "log",
		Short:   "Show what happened",
		Long:    "Prints one line per event that was answered, oldest first.",
		Example: "  grapnel log --since 1h --decision block\n  grapnel log -f --json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter := spool.Filter{Session: session, Hook: hook}
			if agent != "" {
				d, ok := dialect.FindAgent(agent)
				if !ok {
					return usageError{withHint(fmt.Errorf("unknown agent %q", agent), "known are "+strings.Join(dialect.Names(), ", "))}
				}
				filter.Agent = d.Name
			}
			if since != "" {
				d, err := time.ParseDuration(since)
				if err != nil || d < 0 {
					return usageError{withHint(fmt.Errorf("--since %q is no duration", since), "write a number with a unit: 30m, 1h, 24h")}
				}
				filter.Since = time.Now().Add(-d)
			}
			for _, name := range events {
				kinds := policy.Kinds(name)
				if kinds == nil {
					return usageError{fmt.Errorf("unknown event %q", name)}
				}
				filter.Events = append(filter.Events, kinds...)
			}
			for _, name := range decisions {
				var d grapnel.Decision
				if err := d.UnmarshalText([]byte(name)); err != nil {
					return usageError{err}
				}
				filter.Decisions = append(filter.Decisions, d)
			}
			place, err := c.place()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			var entries iter.Seq2[spool.Entry, error]
			if follow {
				entries = spool.Follow(ctx, place.Spool(), filter)
			} else {
				entries = spool.Read(place.Spool(), filter)
			}
			for entry, err := range entries {
				if err != nil {
					fmt.Fprintf(c.err, "grapnel: warning: %v\n", err)
					continue
				}
				if err := c.printEntry(&entry); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more")
	cmd.Flags().StringVar(&since, "since", "", "only the last `DURATION`, such as 1h")
	cmd.Flags().StringVar(&agent, "agent", "", "only this agent")
	cmd.Flags().StringVar(&session, "session", "", "only this session")
	cmd.Flags().StringArrayVar(&events, "event", nil, "only this event; may be repeated")
	cmd.Flags().StringArrayVar(&decisions, "decision", nil, "only none, allow, ask or block; may be repeated")
	cmd.Flags().StringVar(&hook, "hook", "", "only where this hook had a part")
	return c.jsonFlag(cmd)
}

func (c *console) printEntry(e *spool.Entry) error {
	if c.json {
		return c.printLine(e)
	}
	var by []string
	oneLine := func(text string) string { return plain(strings.Join(strings.Fields(text), " ")) }
	for _, h := range e.Hooks {
		text := oneLine(h.Name)
		h.Error = oneLine(h.Error)
		switch {
		case h.Error != "" && h.FailOpen:
			text += c.paint(yellow, " failed open: "+h.Error)
		case h.Error != "":
			text += c.paint(red, " failed: "+h.Error)
		case h.Observed && h.Decision > grapnel.None:
			text += " would " + h.Decision.String()
		case h.Decision == grapnel.None && !e.Late && !h.Halt && len(h.Changed) == 0:
			continue
		}
		by = append(by, text)
	}
	word := e.Decision.String()
	switch {
	case e.Late:
		word = "late"
	case e.Halt != "":
		word = "halt"
	case e.Decision == grapnel.None && len(e.Changed) > 0:
		word = "change"
	}
	for _, lost := range e.Lost {
		by = append(by, c.paint(yellow, "lost "+oneLine(lost)))
	}
	if strings.HasPrefix(string(e.Event), pauseEvents) {
		for _, r := range e.Reasons {
			by = append(by, c.paint(yellow, oneLine(r.Text)))
		}
	}
	if e.Error != "" {
		by = append(by, c.paint(red, oneLine(e.Error)))
	}
	_, err := fmt.Fprintf(c.out, "%s  %-11s %-17s %-18s %s  %6.1f ms  %s\n",
		e.Time.Local().Format("01-02 15:04:05"), oneLine(e.Agent), oneLine(string(e.Event)), oneLine(e.Tool), c.decision(fmt.Sprintf("%-6s", word)), e.MS, strings.Join(by, ", "))
	return err
}
