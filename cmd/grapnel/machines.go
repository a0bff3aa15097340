package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/forwarding"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/machines"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
)

// silentAfter is how long a machine may send nothing before it is called silent, if no flag sets another time.
const silentAfter = 24 * time.Hour

// database are the flags that name a database of Records.
type database struct{ url, credentials, ca string }

func (d *database) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.url, "records", "", "read the Records of all machines from this `URL`, such as postgres://HOST/DATABASE")
	cmd.Flags().StringVar(&d.credentials, "credentials", "", "a password `FILE` of PostgreSQL; without it PGPASSFILE or ~/.pgpass")
	cmd.Flags().StringVar(&d.ca, "ca", "", "a PEM `FILE` with the certificate authorities of the database")
}

// options returns the database of the flags. Without --records it is the one of the policies.
func (d *database) options(c *console) (postgres.Options, error) {
	o := postgres.Options{URL: d.url, Credentials: d.credentials, CA: d.ca}
	if d.url != "" {
		if err := checkTyped(d.url); err != nil {
			return o, err
		}
		if !forwarding.IsPostgres(d.url) {
			return o, cli.Usage(cli.WithHint(fmt.Errorf("--records %s: only a PostgreSQL database can be read", d.url), "write postgres://HOST/DATABASE"))
		}
		return o, nil
	}
	place, err := c.Place()
	if err != nil {
		return o, err
	}
	targets, err := forwarding.Targets(place)
	if err != nil {
		return o, err
	}
	for _, t := range targets {
		if forwarding.IsPostgres(t.To.Text) {
			o.URL, o.CA = t.To.Text, cmp.Or(d.ca, t.CA)
			return o, nil
		}
	}
	return o, cli.WithHint(errors.New("no database is known"), "write --records postgres://HOST/DATABASE")
}

func newMachines(c *console) *cobra.Command {
	var db database
	silent := silentAfter
	cmd := &cobra.Command{
		Use:   "machines",
		Short: "List the machines whose Records meet in a database, and their problems",
		Long: `List the machines that send Records to a PostgreSQL database: when they were last seen, their
version, the revision of their policy, their agents, and their problems. Machines with problems
come first. The login needs the role grapnel_reader.

A machine is a state directory: two users of a computer are two machines.`,
		Example: "  grapnel machines --records postgres://reader@db.example.com/grapnel\n  grapnel machines --silent-after 7d --json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := db.options(c)
			if err != nil {
				return err
			}
			db, err := postgres.OpenReader(cmd.Context(), o)
			if err != nil {
				return err
			}
			defer db.Close()
			rows, err := db.Machines(cmd.Context())
			if err != nil {
				return err
			}
			list := machines.List(rows, silent, time.Now())
			if c.JSON {
				return c.PrintJSON(list)
			}
			return c.printMachines(list)
		},
	}
	db.flags(cmd)
	cli.DurationVar(cmd.Flags(), &silent, "silent-after", silent, "call a machine silent that sent nothing for this `DURATION`")
	return c.jsonFlag(cmd)
}

func (c *console) printMachines(list []machines.Machine) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(c.Out, "No machine has sent a Record to this database.")
		return err
	}
	ill := 0
	for i := range list {
		m := &list[i]
		fmt.Fprintf(c.Out, "%s  %s\n", c.Paint(typeset.Bold, printable.Line(m.User+"@"+m.Host)), m.ID[:min(8, len(m.ID))])
		parts := []string{"seen " + m.Seen.Local().Format("2006-01-02 15:04")}
		if m.Version != "" {
			parts = append(parts, "Grapnel "+m.Version)
		}
		if m.Revision != "" {
			parts = append(parts, "policy "+m.Revision)
		}
		if names := m.AgentNames(); names != "" {
			parts = append(parts, names)
		}
		c.Wrap("  "+printable.Text(strings.Join(parts, ", ")), "  ")
		for _, p := range m.Problems {
			c.Wrap("  problem: "+printable.Text(p), "    ")
		}
		if len(m.Problems) > 0 {
			ill++
		}
	}
	_, err := fmt.Fprintf(c.Out, "%s, %d with problems\n", printable.Count(len(list), "machine"), ill)
	return err
}
