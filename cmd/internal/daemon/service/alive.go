package service

import (
	"context"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/machines"
)

// alive stores a heartbeat at once and then regularly, until ctx is done, while Records are forwarded.
func (d *daemon) alive(ctx context.Context) error {
	tick := time.NewTicker(machines.Every)
	defer tick.Stop()
	for {
		if d.forward.Any() {
			if err := machines.Beat(ctx, d.place); err != nil && ctx.Err() == nil {
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
