package service

import (
	"context"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/forwarding"
	"github.com/grapnel-dev/grapnel/cmd/internal/machines"
)

// newGroup returns what forwards the Records of a daemon.
func newGroup(d *daemon) *forwarding.Group {
	g := forwarding.NewGroup(d.place, d.store, d.log)
	targets, err := forwarding.Targets(d.place)
	if err != nil {
		d.log.Warn("Records are not forwarded until the policies can be read", "error", err)
	}
	g.Set(targets)
	return g
}

// alive stores a heartbeat at once and then regularly, until ctx is done, while Records are forwarded.
func (d *daemon) alive(ctx context.Context) error {
	tick := time.NewTicker(machines.Every)
	defer tick.Stop()
	for {
		if d.forward.Any() {
			if _, err := machines.Beat(ctx, d.place); err != nil && ctx.Err() == nil {
				d.log.Warn("the heartbeat of this machine is incomplete", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
