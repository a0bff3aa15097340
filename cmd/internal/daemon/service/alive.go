package service

import (
	"context"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/forwarding"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/machines"
)

// alive stores a heartbeat at once and then regularly, until ctx is done, while Records are forwarded. It
// also reads the targets again: with managed policies, this daemon may get no event that loads them.
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
			d.readTargets()
		}
	}
}

// readTargets reads which targets the policies list. If a policy cannot be read, the last ones stay.
func (d *daemon) readTargets() {
	targets, err := forwarding.Targets(d.place)
	if err != nil {
		d.log.Warn("changed targets of Records are not used until the policies can be read", "error", err)
		return
	}
	d.forward.Set(targets)
}
