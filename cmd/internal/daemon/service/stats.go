package service

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/forwarding"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/telemetry"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// scopeOf returns the scope of a loaded policy file.
func (d *daemon) scopeOf(file string) (grapnel.Scope, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.loaded {
		if d.loaded[i].File == file {
			for scope := grapnel.ScopeManaged; scope <= grapnel.ScopeSession; scope++ {
				if scope.String() == d.loaded[i].Scope {
					return scope, true
				}
			}
		}
	}
	return 0, false
}

func (d *daemon) storeStats(ctx context.Context) (telemetry.StoreStats, error) {
	size, err := d.records.Size(ctx)
	if err != nil {
		return telemetry.StoreStats{}, err
	}
	lag, err := d.records.Lag(ctx)
	if err != nil {
		return telemetry.StoreStats{}, err
	}
	stats := telemetry.StoreStats{Records: size.Records, Bytes: size.Bytes, Behind: lag.Bytes, Others: d.others.Load()}
	if !lag.Since.IsZero() {
		stats.Lag = time.Since(lag.Since)
	}
	return stats, nil
}

func (d *daemon) deliveryStats(ctx context.Context) (telemetry.DeliveryStats, error) {
	targets, err := d.queue.Targets(ctx)
	stats := telemetry.DeliveryStats{}
	for _, t := range targets {
		one := telemetry.TargetStats{Target: t.Name, Off: t.Off, Jobs: map[string]int{
			string(delivery.Waiting): t.Waiting, string(delivery.Dead): t.Dead, string(delivery.Delivered): t.Delivered,
		}}
		if !t.Oldest.IsZero() {
			one.Oldest = map[string]time.Duration{string(delivery.Waiting): time.Since(t.Oldest)}
		}
		stats.Targets = append(stats.Targets, one)
	}
	return stats, err
}

func (d *daemon) forwardStats(ctx context.Context) ([]telemetry.ForwardStats, error) {
	reports, err := forwarding.Reports(ctx, d.place)
	list := make([]telemetry.ForwardStats, len(reports))
	for i := range reports {
		r := &reports[i]
		list[i] = telemetry.ForwardStats{Target: r.To, Behind: r.Behind, Lag: r.Lag(time.Now()), Failing: r.Error != "", Missed: r.Missed}
	}
	return list, err
}

func (d *daemon) policyLoaded(set *load.Set) {
	select {
	case d.loads <- struct{}{}:
	default:
	}
	d.mu.Lock()
	d.loaded = set.Files
	changed := d.keep != set.Retention
	d.keep = set.Retention
	d.mu.Unlock()
	if changed {
		select {
		case d.retireNow <- struct{}{}:
		default:
		}
	}
	if !set.Records.Unknown {
		d.forward.Set(set.Forward)
	}
	d.metrics.Expect(set.Specs)
	var broken error
	for i := range set.Files {
		if errs := set.Files[i].Errors; len(errs) > 0 && broken == nil {
			broken = errs[0]
		}
	}
	d.metrics.PolicyLoaded(time.Now(), broken)
	for i := range set.Files {
		if f := &set.Files[i]; len(f.Errors) > 0 {
			d.log.Warn("invalid policy", "file", f.File, "state", f.State, "error", f.Errors[0])
		}
	}
}

// policy writes the policies that were loaded last, as JSON.
func (d *daemon) policy(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	loaded := append([]load.Loaded{}, d.loaded...)
	d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(loaded)
}
