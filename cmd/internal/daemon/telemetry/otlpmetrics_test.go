package telemetry

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/local"
)

// A collector gets the values of all metrics of Grapnel, also those of the last minute before the
// daemon ends, and with the name of the machine.
func TestMetricsOverOTLP(t *testing.T) {
	t.Parallel()
	m := NewMetrics(MetricsOptions{Version: "1.2.3", Origin: local.Identity{Host: "laptop-7", Machine: "m1"}})
	m.Observe(t.Context(), blocked())
	m.Observe(t.Context(), blocked())
	c := newCollector(t, nil)
	_, end := exporting(t, c, func(o *ExportOptions) {
		o.Traces, o.Logs, o.Series, o.Metrics, o.Every = "", "", c.URL+"/v1/metrics", m, time.Hour
		o.Origin = local.Identity{Host: "laptop-7", User: "ana", Machine: "m1"}
	})
	end()
	if c.res["service.instance.id"] != "m1" || c.res["host.id"] != "m1" || c.res["user.name"] != "ana" {
		t.Errorf("resource %v", c.res)
	}
	for family := range scrape(t, m) {
		if _, sent := c.metrics[family]; sent != strings.HasPrefix(family, "grapnel_") {
			t.Errorf("%s is sent: %v", family, sent)
		}
	}
	firings := c.metrics["grapnel_firings_total"]
	if firings.Sum == nil || !firings.Sum.Monotonic || firings.Sum.Temporality != 2 || firings.Gauge != nil || firings.Histogram != nil {
		t.Fatalf("%+v", firings)
	}
	found := false
	for _, p := range firings.Sum.DataPoints {
		attrs := c.attrs(p.Attributes)
		if attrs["decision"] == "block" && attrs["event"] == "tool.before" {
			found = p.AsDouble == "2"
		}
		start, err1 := strconv.ParseInt(p.Start, 10, 64)
		at, err2 := strconv.ParseInt(p.Time, 10, 64)
		if err1 != nil || err2 != nil || start <= 0 || start > at {
			t.Errorf("a point from %q to %q", p.Start, p.Time)
		}
	}
	if !found {
		t.Errorf("no two blocks in %+v", firings.Sum.DataPoints)
	}
	for _, p := range c.metrics["grapnel_firing_duration_seconds"].Histogram.DataPoints {
		sum := 0
		for _, b := range p.BucketCounts {
			n, err := strconv.Atoi(b)
			if err != nil || n < 0 {
				t.Errorf("bucket %q", b)
			}
			sum += n
		}
		if len(p.BucketCounts) != len(p.ExplicitBounds)+1 || p.Count != strconv.Itoa(sum) || sum != 2 || p.Sum != "0.24" {
			t.Errorf("histogram %+v", p)
		}
	}
	info := c.metrics["grapnel_build_info"]
	if info.Gauge == nil || len(info.Gauge.DataPoints) != 1 || info.Gauge.DataPoints[0].AsDouble != "1" || info.Gauge.DataPoints[0].Start != "" {
		t.Fatalf("%+v", info)
	}
	if attrs := c.attrs(info.Gauge.DataPoints[0].Attributes); attrs["host"] != "laptop-7" || attrs["machine"] != "m1" {
		t.Errorf("build info %v", attrs)
	}
}

// A collector with a private authority gets data only if its authority is trusted.
func TestCollectorWithPrivateAuthority(t *testing.T) {
	t.Parallel()
	got := make(chan string, 4)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	for _, trusted := range []*x509.CertPool{nil, roots} {
		c := &collector{Server: s, t: t}
		_, end := exporting(t, c, func(o *ExportOptions) {
			o.Traces, o.Logs, o.Series, o.Metrics, o.RootCAs = "", "", s.URL+"/v1/metrics", NewMetrics(MetricsOptions{}), trusted
		})
		end()
		if sent := len(got) > 0; sent != (trusted != nil) {
			t.Errorf("with the authority trusted %v: data is sent %v", trusted != nil, sent)
		}
	}
}
