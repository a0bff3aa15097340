package telemetry

import (
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// The structs below are metrics of OTLP in JSON, see otlp.go.

type otlpMetrics struct {
	ResourceMetrics []otlpResourceMetrics `json:"resourceMetrics"`
}

type otlpResourceMetrics struct {
	Resource     otlpResource       `json:"resource"`
	ScopeMetrics []otlpScopeMetrics `json:"scopeMetrics"`
	SchemaURL    string             `json:"schemaUrl,omitempty"`
}

type otlpScopeMetrics struct {
	Scope   otlpScope    `json:"scope"`
	Metrics []otlpMetric `json:"metrics"`
}

// otlpMetric has exactly one member with points.
type otlpMetric struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitempty"`
	Sum         *otlpPoints `json:"sum,omitempty"`
	Gauge       *otlpPoints `json:"gauge,omitempty"`
	Histogram   *otlpPoints `json:"histogram,omitempty"`
}

type otlpPoints struct {
	Points      []otlpPoint `json:"dataPoints"`
	Temporality int         `json:"aggregationTemporality,omitempty"`
	Monotonic   bool        `json:"isMonotonic,omitempty"`
}

// cumulative means that points count from the start of the daemon.
const cumulative = 2

// otlpPoint is a point of a sum or a gauge, which has only Double, or of a histogram.
type otlpPoint struct {
	Attributes []otlpAttribute `json:"attributes,omitempty"`
	Start      string          `json:"startTimeUnixNano,omitempty"`
	Time       string          `json:"timeUnixNano"`
	Double     any             `json:"asDouble,omitempty"`
	Count      string          `json:"count,omitempty"`
	Sum        any             `json:"sum,omitempty"`
	Buckets    []string        `json:"bucketCounts,omitempty"`
	Bounds     []float64       `json:"explicitBounds,omitempty"`
}

// A snapshot has the values of all metrics at a time.
type snapshot struct {
	at       time.Time
	families []*dto.MetricFamily
}

// measure queues a snapshot for the collector. Parts that cannot report their state are missing in it,
// and grapnel_scrape_errors_total counts them.
func (e *Export) measure() {
	if e.series == nil {
		return
	}
	families, _ := e.opts.Metrics.registry.Gather()
	e.series.put(snapshot{time.Now(), families})
}

// encodeMetrics encodes Grapnel's own metrics, which count from begun.
func encodeMetrics(resource []otlpAttribute, begun time.Time, snapshots []snapshot) ([]byte, error) {
	sm := otlpScopeMetrics{Scope: otlpScope{Name: scopeName}}
	for _, s := range snapshots {
		for _, family := range s.families {
			if strings.HasPrefix(family.GetName(), "grapnel_") {
				sm.Metrics = append(sm.Metrics, metricOf(family, nano(begun), nano(s.at)))
			}
		}
	}
	return rawjson.Line(otlpMetrics{[]otlpResourceMetrics{{Resource: otlpResource{resource}, ScopeMetrics: []otlpScopeMetrics{sm}, SchemaURL: schemaURL}}})
}

func metricOf(family *dto.MetricFamily, begun, at string) otlpMetric {
	m, points := otlpMetric{Name: family.GetName(), Description: family.GetHelp()}, &otlpPoints{}
	switch family.GetType() {
	case dto.MetricType_COUNTER:
		m.Sum, points.Temporality, points.Monotonic = points, cumulative, true
	case dto.MetricType_HISTOGRAM:
		m.Histogram, points.Temporality = points, cumulative
	default:
		m.Gauge, begun = points, ""
	}
	for _, metric := range family.GetMetric() {
		p := otlpPoint{Start: begun, Time: at}
		for _, label := range metric.GetLabel() {
			p.Attributes = append(p.Attributes, otlpAttribute{label.GetName(), textValue(label.GetValue())})
		}
		switch {
		case m.Sum != nil:
			p.Double = doubleValue(metric.GetCounter().GetValue()).Double
		case m.Gauge != nil:
			p.Double = doubleValue(metric.GetGauge().GetValue()).Double
		default:
			p.histogram(metric.GetHistogram())
		}
		points.Points = append(points.Points, p)
	}
	return m
}

// histogram sets the values of a histogram. Prometheus adds up its buckets, OTLP does not.
func (p *otlpPoint) histogram(h *dto.Histogram) {
	text := func(n uint64) string { return strconv.FormatUint(n, 10) }
	below := uint64(0)
	for _, b := range h.GetBucket() {
		p.Bounds = append(p.Bounds, b.GetUpperBound())
		p.Buckets = append(p.Buckets, text(b.GetCumulativeCount()-below))
		below = b.GetCumulativeCount()
	}
	p.Buckets = append(p.Buckets, text(h.GetSampleCount()-below))
	p.Count, p.Sum = text(h.GetSampleCount()), doubleValue(h.GetSampleSum()).Double
}
