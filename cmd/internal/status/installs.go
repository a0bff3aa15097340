package status

import (
	"context"
	"fmt"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/local"
)

// askOverHTTP completes the state of an installation that asks the daemon over HTTP: it checks
// whether the daemon answers at the address in the agent's settings.
func (s *Install) askOverHTTP(ctx context.Context, place local.Place, rec *installation.Record) {
	addresses, err := install.ReadAddresses(place.State)
	if _, asks := addresses.Guests[rec.ID]; err != nil || !asks {
		return // grapnel doctor reports more
	}
	s.Via = string(install.ViaHTTP)
	var health struct {
		HTTP *server.HTTPHealth `json:"http"`
	}
	err = server.Health(ctx, client.Socket(place.State), &health)
	switch {
	case s.Problem != "":
	case err != nil:
		s.Problem = fmt.Sprintf("it sends events to the daemon over HTTP, but no daemon answers: %v; run \"grapnel serve\"", err)
	case health.HTTP == nil || health.HTTP.Address != addresses.Host():
		s.Problem = fmt.Sprintf("it sends events to the daemon over HTTP, but the daemon does not listen on %s: run \"grapnel doctor\"", addresses.Host())
	}
}
