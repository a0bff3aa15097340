package service

import (
	"context"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
)

const (
	pruneEvery = time.Hour

	// maxClockOff is how far a clock may have been set while the daemon ran, and doubtTime how
	// long it is not believed after that. What a wrong clock takes for old is gone for good.
	maxClockOff = time.Hour
	doubtTime   = 24 * time.Hour

	// longPause is how old the newest Record may be when the daemon starts. Beyond that the
	// machine was off for long, or its clock is wrong, and it has doubtTime to correct it.
	longPause = 30 * 24 * time.Hour
)

// A moment is one by the clock, which can be set, and by the time that the machine has run.
type moment struct {
	clock time.Time
	up    time.Duration
}

func rightNow() moment { return moment{clock: time.Now().Round(0), up: uptime()} }

// A clockwatch notices that the clock is set. A machine that sleeps is none of its business.
type clockwatch struct {
	base  moment
	doubt time.Duration // the clock is not believed until the machine has run for so long
}

// look returns how far the clock was set since the last look; 0 = it was not.
func (c *clockwatch) look(now moment) (by time.Duration) {
	by = now.clock.Sub(c.base.clock) - (now.up - c.base.up)
	if by.Abs() <= maxClockOff {
		return 0
	}
	c.base, c.doubt = now, now.up+doubtTime
	return by
}

// start looks at the newest Record when the daemon starts. It reports whether the clock is
// believed.
func (c *clockwatch) start(newest time.Time) bool {
	if newest.IsZero() || c.base.clock.Sub(newest) <= longPause {
		return true
	}
	c.doubt = c.base.up + doubtTime
	return false
}

// believed reports whether the clock has not been set for long enough.
func (c *clockwatch) believed(now moment) bool { return now.up >= c.doubt }

// retention removes what is old.
func (d *daemon) retention(ctx context.Context) error {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	watch := &clockwatch{base: rightNow()}
	for row, err := range d.store.Records(ctx, store.Query{Limit: 1, Lean: true}) {
		if err == nil && !watch.start(row.Time) {
			d.log.Info("retention waits for a day: the newest record is old, so the clock may be wrong", "newest", row.Time)
		}
	}
	for {
		d.prune(ctx, watch, rightNow())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// prune removes what is old at a moment, if the clock is believed.
func (d *daemon) prune(ctx context.Context, watch *clockwatch, now moment) {
	if by := watch.look(now); by != 0 {
		d.log.Warn("nothing is removed from the store for a day: the clock was set while the daemon ran", "by", by)
	}
	if !watch.believed(now) {
		return
	}
	if err := d.store.Prune(ctx, now.clock); err != nil && ctx.Err() == nil {
		d.log.Warn("what is old was not removed from the store", "error", err)
	}
}
