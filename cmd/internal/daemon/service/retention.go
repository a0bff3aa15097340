package service

import (
	"context"
	"errors"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

const (
	pruneEvery = time.Hour

	// pruneAgain is how long retention waits after its first failure, such as a full disk. Each further
	// failure doubles the time, up to pruneEvery.
	pruneAgain = time.Minute

	// maxClockOff is how far the clock may be changed while the daemon runs. After a larger
	// change, retention stops for doubtTime: rows that a wrong clock makes look old would be lost
	// for good.
	maxClockOff = time.Hour
	doubtTime   = 24 * time.Hour

	// longPause is how old the newest Record may be when the daemon starts. If it is older, the
	// machine was off for long or its clock is wrong, and retention waits for doubtTime so that
	// it can be corrected.
	longPause = 30 * 24 * time.Hour
)

// A moment is a time by the wall clock, which can be changed, and by the uptime of the machine.
type moment struct {
	clock time.Time
	up    time.Duration
}

func rightNow() moment { return moment{clock: time.Now().Round(0), up: uptime()} }

// A clockwatch detects changes of the wall clock. Sleep of the machine is not a
// change.
type clockwatch struct {
	base  moment
	doubt time.Duration // the clock is not trusted before this uptime
}

// look returns how far the clock was changed since the last look; 0 = not changed.
func (c *clockwatch) look(now moment) (by time.Duration) {
	by = now.clock.Sub(c.base.clock) - (now.up - c.base.up)
	if by.Abs() <= maxClockOff {
		return 0
	}
	c.base, c.doubt = now, now.up+doubtTime
	return by
}

// start checks the newest Record when the daemon starts. It reports whether the clock is trusted.
func (c *clockwatch) start(newest time.Time) bool {
	if newest.IsZero() || c.base.clock.Sub(newest) <= longPause {
		return true
	}
	c.doubt = c.base.up + doubtTime
	return false
}

// believed reports whether the last clock change was long enough ago.
func (c *clockwatch) believed(now moment) bool { return now.up >= c.doubt }

// retention removes old Records regularly until ctx is done.
func (d *daemon) retention(ctx context.Context) error {
	watch := &clockwatch{base: rightNow()}
	for row, err := range d.records.Records(ctx, index.Query{Limit: 1, Lean: true}) {
		if err == nil && !watch.start(row.Time) {
			d.log.Info("retention paused for a day: the newest record is old, so the clock may be wrong", "newest", row.Time)
		}
	}
	for failures := 0; ; {
		if d.retire(ctx, watch, rightNow()) {
			failures = 0
		} else {
			failures++
		}
		timer := time.NewTimer(pruneAfter(failures))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-d.retireNow:
			timer.Stop()
		}
	}
}

// pruneAfter returns the time until the next removal of Records after some failures in a row.
func pruneAfter(failures int) time.Duration {
	if failures == 0 || failures > 6 {
		return pruneEvery
	}
	return pruneAgain << (failures - 1)
}

// retire seals the closed segments of the log. If the clock is trusted and the limits are known, it removes the
// segments that are above a limit at a moment, and the deliveries that ended before the age. It logs a failure,
// and returns false, also if another process seals segments now.
func (d *daemon) retire(ctx context.Context, watch *clockwatch, now moment) bool {
	if by := watch.look(now); by != 0 {
		d.log.Warn("retention paused for a day: the clock was changed while the daemon was running", "by", by)
	}
	sp, err := spool.Open(d.place.State, nil)
	if err != nil {
		d.log.Warn("cannot remove old records", "error", err)
		return false
	}
	limits, err := records.Limits(d.place)
	switch {
	case err != nil: // the default limits could remove Records that a policy keeps
		d.log.Warn("retention paused", "error", err)
		err = sp.Seal()
	case !watch.believed(now):
		err = sp.Seal()
	default:
		_, err = sp.Retire(limits, now.clock)
		err = errors.Join(err, d.queue.Prune(ctx, now.clock.Add(-limits.Age())))
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, journal.ErrBusy) {
		d.log.Warn("cannot seal or remove old records and deliveries", "error", err)
	}
	return err == nil
}

// headEvery is how often the head of the log is saved.
const headEvery = time.Minute

// saveHead saves the head of the log regularly until ctx is done, and at the end.
func (d *daemon) saveHead(ctx context.Context) error {
	keeper := &journal.HeadKeeper{Dir: d.place.Journal()}
	var reported string
	save := func() {
		text := ""
		if err := keeper.Save(); err != nil && !errors.Is(err, journal.ErrBusy) {
			text = err.Error()
		}
		if text != "" && text != reported {
			d.log.Warn("cannot save the head of the log", "error", text)
		}
		reported = text
	}
	tick := time.NewTicker(fault.Less(headEvery))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			save()
			return nil
		case <-tick.C:
			save()
		}
	}
}
