package telemetry

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StoreStats describe the state of the log.
type StoreStats struct {
	Records int64
	Bytes   int64         // on disk
	Lag     time.Duration // age of the oldest line that the index does not have; 0 = it has all
	Behind  int64         // bytes of the log that the index does not have
	Others  uint64        // Records that other processes have appended since the daemon started
}

// Losses count problems with Records since the daemon started.
type Losses struct {
	Failing  bool  // Records cannot be stored at the moment
	Segments int64 // segments of the log that another program removed, replaced or truncated
	Answers  int64 // replies without a Record
}

// DeliveryStats describe the state of the deliveries.
type DeliveryStats struct {
	Targets []TargetStats
}

// TargetStats describe the jobs of one target.
type TargetStats struct {
	Target string                   // the full name of the hook: source::name
	Jobs   map[string]int           // by state
	Oldest map[string]time.Duration // by state: age of the oldest job
	Off    bool                     // deliveries to the target are disabled
}

// ForwardStats describe a target of records.forward.
type ForwardStats struct {
	Target  string        // its URL, which has no password
	Behind  int64         // Records that it does not have yet
	Lag     time.Duration // age of the oldest of them
	Failing bool          // the last attempt failed
	Missed  int64         // Records that retention removed before they were sent
}

// states lists the states of a job. The age is reported only for waiting.
var (
	states  = []string{"waiting", "delivered", "dead"}
	waiting = states[0]
)

type gaugeDescs struct {
	records, bytes, lag, indexed, others *prometheus.Desc
	failing, segments, answers           *prometheus.Desc
	jobs, oldest, off, depth             *prometheus.Desc
	behind, age, away, missed            *prometheus.Desc
}

func newGaugeDescs() gaugeDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return gaugeDescs{
		records:  desc("grapnel_log_records", "Records in the log."),
		bytes:    desc("grapnel_log_size_bytes", "Size of the log and its index on disk."),
		lag:      desc("grapnel_index_lag_seconds", "Age of the oldest Record that the index does not have yet."),
		indexed:  desc("grapnel_index_behind_bytes", "Bytes of the log that the index does not have yet."),
		others:   desc("grapnel_log_other_records_total", "Records that other processes appended to the log."),
		failing:  desc("grapnel_log_failing", "Whether the daemon currently cannot store Records."),
		segments: desc("grapnel_log_lost_segments_total", "Segments of the log that another program removed, replaced or truncated."),
		answers:  desc("grapnel_unrecorded_answers_total", "Replies without a Record, because none could be saved."),
		jobs:     desc("grapnel_deliveries", "Deliveries in the outbox.", "target", "state"),
		oldest:   desc("grapnel_delivery_oldest_waiting_seconds", "Age of the oldest pending delivery.", "target"),
		off:      desc("grapnel_delivery_target_off", "Whether deliveries to a target are disabled because it answered 410 (gone).", "target"),
		behind:   desc("grapnel_forward_behind_records", "Records that a target of records.forward does not have yet.", "target"),
		age:      desc("grapnel_forward_lag_seconds", "Age of the oldest Record that a target does not have yet.", "target"),
		away:     desc("grapnel_forward_failing", "Whether the last attempt to send Records to a target failed.", "target"),
		missed:   desc("grapnel_forward_missed_records_total", "Records that retention removed before a target had them.", "target"),
		depth:    desc("grapnel_queue_depth", "Number of items in a queue of the daemon.", "queue"),
	}
}

// gauges collects values at each scrape.
type gauges struct{ *Metrics }

// Describe lists all metrics of the collector, so that no other metric can use one of their names.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	d := &g.descs
	for _, desc := range []*prometheus.Desc{d.records, d.bytes, d.lag, d.indexed, d.others, d.failing, d.segments, d.answers, d.jobs, d.oldest, d.off, d.behind, d.age, d.away, d.missed, d.depth} {
		ch <- desc
	}
}

// Collect reads the state of the log and of the deliveries. If a part returns an error, Collect
// omits its metrics instead of showing 0, and counts the error.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), askTimeout, fmt.Errorf("the scrape did not finish within %v", askTimeout))
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
		for desc, n := range map[*prometheus.Desc]int64{g.descs.segments: l.Segments, g.descs.answers: l.Answers} {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n))
		}
	}
	if s, ok := ask(ctx, g.Metrics, "store", g.opts.Store); ok {
		set(g.descs.records, float64(s.Records))
		set(g.descs.bytes, float64(s.Bytes))
		set(g.descs.lag, max(s.Lag, 0).Seconds())
		set(g.descs.indexed, float64(s.Behind))
		ch <- prometheus.MustNewConstMetric(g.descs.others, prometheus.CounterValue, float64(s.Others))
	}
	if list, ok := ask(ctx, g.Metrics, "forward", g.opts.Forward); ok {
		for _, f := range list {
			away := 0.0
			if f.Failing {
				away = 1
			}
			set(g.descs.behind, float64(f.Behind), f.Target)
			set(g.descs.age, max(f.Lag, 0).Seconds(), f.Target)
			set(g.descs.away, away, f.Target)
			ch <- prometheus.MustNewConstMetric(g.descs.missed, prometheus.CounterValue, float64(f.Missed), f.Target)
		}
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
	for name, depth := range queues { // without holding mu, because depth may call any code
		if n, ok := ask(ctx, g.Metrics, "queue", func(context.Context) (int, error) { return depth(), nil }); ok {
			set(g.descs.depth, float64(n), name)
		}
	}
}

// ask gets the state of one part of the daemon, and counts a failure.
func ask[T any](ctx context.Context, m *Metrics, part string, f func(context.Context) (T, error)) (stats T, ok bool) {
	if f == nil {
		return stats, false
	}
	defer func() {
		if r := recover(); r != nil { // a panic in a scrape must not end the daemon
			ok = false
		}
		if !ok {
			m.askErrors.WithLabelValues(part).Inc()
		}
	}()
	stats, err := f(ctx)
	return stats, err == nil
}

// targets adds up targets with the same label. Full names of targets contain the paths of their
// sources, and labels do not.
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
