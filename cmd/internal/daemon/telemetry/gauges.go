package telemetry

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StoreStats say how the store is.
type StoreStats struct {
	Records    int64
	Bytes      int64         // on disk
	Lag        time.Duration // how long the oldest line of the spool has waited to be taken in; 0 = none waits
	SpoolBytes int64         // that are yet to be taken in
	TakenIn    uint64        // Records that came from the spool, since the daemon was started
}

// Losses count what happened to Records since the daemon was started.
type Losses struct {
	Failing  bool  // Records cannot be stored now
	Restored int64 // times that the database was restored after somebody removed it
	Rows     int64 // of the log that could not be restored
	Answers  int64 // without a Record
}

// DeliveryStats say how the deliveries are.
type DeliveryStats struct {
	Targets []TargetStats
}

// TargetStats are the jobs of one target.
type TargetStats struct {
	Target string                   // the full name of the hook: source::name
	Jobs   map[string]int           // by state
	Oldest map[string]time.Duration // by state: how long the oldest has been there
	Off    bool                     // it wants no more
}

// states are those of a job, and what is asked about their age.
var (
	states  = []string{"waiting", "delivered", "dead"}
	waiting = states[0]
)

type gaugeDescs struct {
	records, bytes, lag, spoolBytes, taken *prometheus.Desc
	failing, restored, rows, answers       *prometheus.Desc
	jobs, oldest, off, depth               *prometheus.Desc
}

func newGaugeDescs() gaugeDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return gaugeDescs{
		records:    desc("grapnel_store_records", "Records in the store."),
		bytes:      desc("grapnel_store_size_bytes", "Size of the store on disk."),
		lag:        desc("grapnel_spool_intake_lag_seconds", "How long the oldest line of the spool has waited to be taken in."),
		spoolBytes: desc("grapnel_spool_pending_bytes", "Bytes of the spool that are yet to be taken in."),
		taken:      desc("grapnel_spool_taken_records_total", "Records that were taken in from the spool."),
		failing:    desc("grapnel_store_failing", "Whether Records cannot be stored now."),
		restored:   desc("grapnel_store_restores_total", "Times that the database was restored after it was removed, replaced or truncated."),
		rows:       desc("grapnel_store_lost_rows_total", "Rows of the log that could not be restored, or were missing at the start."),
		answers:    desc("grapnel_unrecorded_answers_total", "Answers of which neither the store nor the spool could keep a Record."),
		jobs:       desc("grapnel_deliveries", "Deliveries in the outbox.", "target", "state"),
		oldest:     desc("grapnel_delivery_oldest_waiting_seconds", "Age of the oldest delivery that waits.", "target"),
		off:        desc("grapnel_delivery_target_off", "Whether a target was switched off because it wants no more.", "target"),
		depth:      desc("grapnel_queue_depth", "Things that wait in a queue of the daemon.", "queue"),
	}
}

// gauges is what is asked for at each scrape.
type gauges struct{ *Metrics }

// Describe says what may come, so that nothing else is given one of these names.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	d := &g.descs
	for _, desc := range []*prometheus.Desc{d.records, d.bytes, d.lag, d.spoolBytes, d.taken, d.failing, d.restored, d.rows, d.answers, d.jobs, d.oldest, d.off, d.depth} {
		ch <- desc
	}
}

// Collect asks the store and the deliveries. A part that does not say is left out, not
// shown as 0, and counted.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), askTimeout, fmt.Errorf("a scrape waits for %v", askTimeout))
	defer cancel()
	set := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	if g.opts.Losses != nil {
		l := g.opts.Losses()
		failing := 0.0
		if l.Failing {
			failing = 1
		}
		set(g.descs.failing, failing)
		for desc, n := range map[*prometheus.Desc]int64{g.descs.restored: l.Restored, g.descs.rows: l.Rows, g.descs.answers: l.Answers} {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n))
		}
	}
	if s, ok := ask(ctx, g.Metrics, "store", g.opts.Store); ok {
		set(g.descs.records, float64(s.Records))
		set(g.descs.bytes, float64(s.Bytes))
		set(g.descs.lag, max(s.Lag, 0).Seconds())
		set(g.descs.spoolBytes, float64(s.SpoolBytes))
		ch <- prometheus.MustNewConstMetric(g.descs.taken, prometheus.CounterValue, float64(s.TakenIn))
	}
	if s, ok := ask(ctx, g.Metrics, "deliver", g.opts.Deliver); ok {
		for _, t := range g.targets(s.Targets) {
			for _, state := range states {
				set(g.descs.jobs, float64(t.Jobs[state]), t.Target, state)
			}
			set(g.descs.oldest, max(t.Oldest[waiting], 0).Seconds(), t.Target)
			off := 0.0
			if t.Off {
				off = 1
			}
			set(g.descs.off, off, t.Target)
		}
	}
	g.mu.RLock()
	queues := maps.Clone(g.queues)
	g.mu.RUnlock()
	for name, depth := range queues { // not while mu is held: nobody knows what depth does
		if n, ok := ask(ctx, g.Metrics, "queue", func(context.Context) (int, error) { return depth(), nil }); ok {
			set(g.descs.depth, float64(n), name)
		}
	}
}

// ask asks a part of the daemon how it is.
func ask[T any](ctx context.Context, m *Metrics, part string, f func(context.Context) (T, error)) (stats T, ok bool) {
	if f == nil {
		return stats, false
	}
	defer func() {
		if r := recover(); r != nil { // a scrape must not end the daemon
			ok = false
		}
		if !ok {
			m.askErrors.WithLabelValues(part).Inc()
		}
	}()
	stats, err := f(ctx)
	return stats, err == nil
}

// targets adds up what has the same label: names of targets hold those of their sources,
// which are paths.
func (g *gauges) targets(all []TargetStats) []*TargetStats {
	var list []*TargetStats
	known := map[string]*TargetStats{}
	g.mu.RLock()
	defer g.mu.RUnlock()
	for i := range all {
		label := targetLabel(all[i].Target, g.scopeOf)
		t := known[label]
		if t == nil && len(list) >= maxTargets {
			label = other
			t = known[label]
		}
		if t == nil {
			t = &TargetStats{Target: label, Jobs: map[string]int{}, Oldest: map[string]time.Duration{}}
			known[label] = t
			list = append(list, t)
		}
		for state, n := range all[i].Jobs {
			t.Jobs[state] += n
		}
		for state, age := range all[i].Oldest {
			t.Oldest[state] = max(t.Oldest[state], age)
		}
		t.Off = t.Off || all[i].Off
	}
	return list
}
