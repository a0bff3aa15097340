package main

import (
	"io"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/service"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/remote"
	"github.com/grapnel-dev/grapnel/local"
)

// hook runs "grapnel hook": grapnel-hook with an outbox and a check of webhooks.
func hook(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return hookcmd.Program{
		Outbox:  func(place local.Place) late.Outbox { return service.NewOutbox(place) },
		Webhook: remote.LookWebhook,
	}.Main(args, stdin, stdout, stderr)
}
