package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/allow"
	"github.com/grapnel-dev/grapnel/internal/journal"
)

// verifiedLog is the output of "grapnel log verify --json".
type verifiedLog struct {
	OK bool `json:"ok"`
	journal.Report
	Unlogged []string `json:"unlogged,omitempty"` // grants without a Record
}

func newLogVerify(c *console) *cobra.Command {
	var heads []string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the log for changed or missing Records",
		Long: `Read the journal from its first segment to its last. Its manifest has the SHA-256 of each closed
segment, and each line of the manifest contains the hash of the line before. So the check finds
changed, removed and inserted bytes, and with a saved head an end that was cut off. A daemon saves
the head once a minute. Removal by retention is a line of the manifest, and is checked, too. So
are the grants of "grapnel allow": each has a Record.

A process of the same user could rebuild the whole log. To detect that, keep the head that this
command prints where no such process can write, on another machine or in a ticket, and pass it
to --head later.

Exit code 0: no problem; 1: there is one, and the segments are listed.`,
		Example: "  grapnel log verify\n  grapnel log verify --head 12:4711:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var known []journal.Head
			for _, text := range heads {
				head, err := journal.ParseHead(text)
				if err != nil {
					return cli.Usage(cli.WithHint(err, "pass the head that \"grapnel log verify\" printed"))
				}
				known = append(known, head)
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			limits, err := records.Limits(place)
			if err != nil {
				c.Warn(err)
			}
			if _, err := journal.Seal(place.Journal()); err != nil && !errors.Is(err, journal.ErrBusy) {
				c.Warn(err) // the report is about what is sealed
			}
			report, err := journal.Verify(cmd.Context(), place.Journal(), journal.VerifyOptions{Heads: known, Limits: limits})
			if errors.Is(err, journal.ErrNothing) {
				return cli.WithHint(fmt.Errorf("no Records in %s: %w", place.Journal(), err), "the first event of an agent begins the log")
			}
			if err != nil {
				return err
			}
			v := verifiedLog{Report: report, OK: report.OK() && len(report.Unknown) == 0}
			if v.Unlogged, err = allow.Unlogged(cmd.Context(), place, time.Time{}, len(report.Removed) > 0); err != nil {
				return err
			}
			v.OK = v.OK && len(v.Unlogged) == 0
			if c.JSON {
				err = c.PrintJSON(v)
			} else {
				c.printVerified(&v, len(known))
			}
			if err == nil && !v.OK {
				err = cli.ErrFailed
			}
			return err
		},
	}
	cmd.Flags().StringArrayVar(&heads, "head", nil, "earlier head, as `SEGMENT:OFFSET:HASH`; repeatable")
	return c.jsonFlag(cmd)
}

func (c *console) printVerified(v *verifiedLog, heads int) {
	for _, f := range v.Findings {
		fmt.Fprintln(c.Out, c.Paint(typeset.Red, printable.Text(f.String())))
	}
	for _, what := range v.Unlogged {
		fmt.Fprintln(c.Out, c.Paint(typeset.Red, what))
	}
	if v.More > 0 {
		fmt.Fprintf(c.Out, "and %d more\n", v.More)
	}
	for _, h := range v.Unknown {
		fmt.Fprintf(c.Out, "%s\n", c.Paint(typeset.Yellow, fmt.Sprintf("segment %d: retention removed it, so it cannot be compared with --head", h.Segment)))
	}
	for _, l := range v.Limits {
		fmt.Fprintf(c.Out, "retention was set to %v on %s\n", l.Limits, l.Time.Local().Format(time.DateTime))
	}
	if n := len(v.Removed); n > 0 {
		fmt.Fprintf(c.Out, "retention removed the segments up to %d, the last on %s\n", v.Removed[n-1].Last, v.Removed[n-1].Time.Local().Format(time.DateTime))
	}
	if v.Torn > 0 {
		fmt.Fprintf(c.Out, "%s cannot be read: a process was killed, or a disk was full, while it wrote\n", printable.Count(int(v.Torn), "line"))
	}
	count := printable.Count(int(v.Records), "Record") + " in " + printable.Count(v.Segments, "segment")
	if !v.Report.OK() {
		fmt.Fprintln(c.Out, count+" read; the log was changed")
		return
	}
	fmt.Fprintln(c.Out, count+": none was changed or is missing")
	if v.OK && v.Records > 0 {
		fmt.Fprintf(c.Out, "head %v\n", v.Head)
		if heads == 0 {
			fmt.Fprintln(c.Out, "A process of this user could have rebuilt the whole log. Keep the head where no such process\ncan write, and pass it to --head later.")
		}
	}
}
