package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

// policyPrograms lists, per agent, the events at which a hook of the policy starts a
// program, with the name of the first that does.
func policyPrograms(place local.Place) map[string]map[string]string {
	programs := map[string]bool{}
	set := policyOf(place, func(c policy.Command) {
		if !c.Worker { // the daemon keeps workers running
			programs[c.Name] = true
		}
	})
	events := map[string]map[string]string{}
	for i := range set.Specs {
		s := &set.Specs[i]
		if !programs[s.Name] {
			continue
		}
		for _, d := range dialect.All() {
			for j := range d.Events {
				row := &d.Events[j]
				if len(s.On) > 0 && !slices.ContainsFunc(s.On, func(k grapnel.Kind) bool { return k == row.Kind || k == row.Failed }) {
					continue
				}
				if events[d.Name] == nil {
					events[d.Name] = map[string]string{}
				}
				if events[d.Name][row.Native] == "" {
					events[d.Name][row.Native] = s.FullName()
				}
			}
		}
	}
	return events
}

// printCosts says what a person gives up, before they are asked.
func printCosts(w io.Writer, res *install.Result) {
	if len(res.Costs) == 0 {
		return
	}
	fmt.Fprintln(w, "What it costs to ask over http:")
	for _, cost := range res.Costs {
		fmt.Fprintf(w, "  - %s\n", cost)
	}
	fmt.Fprintln(w)
}

// sayHTTP says that nobody answers an agent that was told to ask over http.
func (c *console) sayHTTP(ctx context.Context, place local.Place, res *install.Result) {
	overHTTP := slices.ContainsFunc(res.Files, func(f install.FileResult) bool { return f.Via == install.ViaHTTP })
	if !overHTTP || !res.Applied || c.JSON {
		return
	}
	var said any
	if err := server.Health(ctx, client.Socket(place.State), &said); err != nil {
		fmt.Fprintln(c.Out, "no daemon is running, so nothing is guarded over http: run \"grapnel serve\"")
	}
}

// askOverHTTP says of an installation that asks the daemon whether one answers.
func (s *installState) askOverHTTP(ctx context.Context, place local.Place, rec *installation.Record) {
	addresses, err := install.ReadAddresses(place.State)
	if _, asks := addresses.Guests[rec.ID]; err != nil || !asks {
		return // grapnel doctor knows more
	}
	s.Via = string(install.ViaHTTP)
	var said struct {
		HTTP *server.HTTPHealth `json:"http"`
	}
	err = server.Health(ctx, client.Socket(place.State), &said)
	switch {
	case s.Problem != "":
	case err != nil:
		s.Problem = fmt.Sprintf("it asks the daemon over http, and no daemon answers: %v; run \"grapnel serve\"", err)
	case said.HTTP == nil || said.HTTP.Address != addresses.Host():
		s.Problem = fmt.Sprintf("it asks the daemon over http, and that does not listen on %s: run \"grapnel doctor\"", addresses.Host())
	}
}
