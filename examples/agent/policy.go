package main

import (
	"context"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// openGuards opens the policies of this machine and the policies on the command line. The client
// sends webhooks and HTTP hooks; close it after the engine.
func openGuards(ctx context.Context, opts *local.Options) (*local.Engine, *outbound.Client, error) {
	place, err := local.Locate(opts.Root, "")
	if err != nil {
		return nil, nil, err
	}
	networks, err := outbound.ParseNetworks(place.Networks())
	if err != nil {
		return nil, nil, err
	}
	client := outbound.NewClient(&outbound.Options{Guard: outbound.Guard{Networks: networks}})
	opts.Webhook = func(w policyfile.Webhook) (grapnel.Hook, error) { return client.PolicyWebhook(w) }
	opts.HTTP = func(h policyfile.HTTP) (grapnel.Hook, error) {
		h, err := h.Resolve()
		if err != nil {
			return nil, err
		}
		h.Name = h.FullName()
		return client.PolicyHook(h)
	}
	engine, err := local.Open(ctx, opts)
	return engine, client, err
}
