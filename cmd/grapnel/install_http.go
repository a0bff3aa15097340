package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/local"
)

// printCosts prints the disadvantages of HTTP hooks before the user is asked.
func printCosts(w io.Writer, res *install.Result) {
	if len(res.Costs) == 0 {
		return
	}
	fmt.Fprintln(w, "Disadvantages of HTTP hooks:")
	for _, cost := range res.Costs {
		fmt.Fprintf(w, "  - %s\n", cost)
	}
	fmt.Fprintln(w)
}

// warnWithoutDaemon warns if an agent uses HTTP hooks but no daemon is running to answer it. It
// reports whether it did.
func (c *console) warnWithoutDaemon(ctx context.Context, place local.Place, res *install.Result) bool {
	overHTTP := slices.ContainsFunc(res.Files, func(f install.FileResult) bool { return f.Via == install.ViaHTTP })
	if !overHTTP || !res.Applied || c.JSON {
		return false
	}
	var health any
	err := server.Health(ctx, client.Socket(place.State), &health)
	if err != nil {
		fmt.Fprintln(c.Out, "no daemon is running, so HTTP hooks guard nothing: run \"grapnel serve\"")
	}
	return err != nil
}
