package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/allow"
	"github.com/grapnel-dev/grapnel/local"
)

// verifiedLog is the output of "grapnel log verify --json".
type verifiedLog struct {
	OK bool `json:"ok"`
	store.Report
	Waiting  int      `json:"waiting"`            // lines of the spool that are not yet in the store
	Unlogged []string `json:"unlogged,omitempty"` // grants without a Record
}

func newLogVerify(c *console) *cobra.Command {
	var heads []string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the log for changed or missing rows",
		Long: `Read the store of the daemon from its first row to its last. Each row contains the hash of the
row before, and a file next to the database names the end of the log. So the check finds rows
that were changed, removed or inserted, and an end that was cut off. Removal by retention is a
row of the log too, and is checked. So are the grants of "grapnel allow": each has a Record.

A process of the same user could rebuild the whole log. To detect that, keep the head that this
command prints where no such process can write, on another machine or in a ticket, and pass it
to --head later.

Exit code 0: no problem; 1: there is one, and the rows are listed.`,
		Example: "  grapnel log verify\n  grapnel log verify --head 4711:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var known []store.Head
			for _, text := range heads {
				head, err := store.ParseHead(text)
				if err != nil {
					return cli.Usage(cli.WithHint(err, "pass the head that \"grapnel log verify\" printed"))
				}
				known = append(known, head)
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			report, err := c.verifyStore(cmd.Context(), place, known)
			if errors.Is(err, store.ErrNothing) {
				return cli.WithHint(fmt.Errorf("no store in %s: %w", place.Store(), err), "\"grapnel serve\" creates it; files of the spool cannot be verified")
			}
			if err != nil {
				return err
			}
			v := verifiedLog{Report: report, OK: report.OK() && len(report.Unknown) == 0}
			if v.Unlogged, err = allow.Unlogged(cmd.Context(), place, time.Time{}, len(report.Removed) > 0); err != nil {
				return err
			}
			v.OK = v.OK && len(v.Unlogged) == 0
			if v.Waiting, err = records.Log(place).Waiting(cmd.Context()); err != nil {
				c.Warn(err)
			}
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
	cmd.Flags().StringArrayVar(&heads, "head", nil, "earlier head, as `SEQ:HASH`; repeatable")
	return c.jsonFlag(cmd)
}

// verifyStore verifies a store. It also works if the database file was removed.
func (c *console) verifyStore(ctx context.Context, place local.Place, heads []store.Head) (store.Report, error) {
	r, err := store.OpenReader(place.Store())
	if errors.Is(err, fs.ErrNotExist) {
		return store.VerifyAbsent(place.Store(), heads...)
	}
	if err != nil {
		return store.Report{}, err
	}
	defer r.Close()
	limits, err := records.Limits(place)
	if err != nil {
		c.Warn(err)
	}
	r.SetLimits(limits)
	return r.Verify(ctx, heads...)
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
		fmt.Fprintf(c.Out, "%s\n", c.Paint(typeset.Yellow, fmt.Sprintf("row %d: retention removed it, so it cannot be compared with --head", h.Seq)))
	}
	for _, l := range v.Limits {
		fmt.Fprintf(c.Out, "row %d: retention was set to %v on %s\n", l.Seq, l.Limits, l.Time.Local().Format(time.DateTime))
	}
	if n := len(v.Removed); n > 0 {
		fmt.Fprintf(c.Out, "retention removed the rows up to %d, the last on %s\n", v.Removed[n-1].Last, v.Removed[n-1].Time.Local().Format(time.DateTime))
	}
	switch {
	case !v.Report.OK():
		fmt.Fprintf(c.Out, "%d rows read; the log was changed\n", v.Rows)
	case v.Rows == 0:
		fmt.Fprintln(c.Out, "0 rows: the store is empty")
	default:
		fmt.Fprintf(c.Out, "%d rows, %d to %d: no row was changed or is missing\n", v.Rows, v.First, v.Head.Seq)
	}
	if v.Waiting > 0 {
		fmt.Fprintf(c.Out, "%d lines of the spool are not in the store yet and were not checked\n", v.Waiting)
	}
	if v.OK && v.Head.Seq > 0 {
		fmt.Fprintf(c.Out, "head %v\n", v.Head)
		if heads == 0 {
			fmt.Fprintln(c.Out, "A process of this user could have rebuilt the whole log. Keep the head where no such process\ncan write, and pass it to --head later.")
		}
	}
}
