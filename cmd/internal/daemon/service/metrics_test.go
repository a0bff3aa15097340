package service

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/telemetry"
)

func TestMetricsAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"9464": "127.0.0.1:9464", ":9464": "127.0.0.1:9464", "0": "127.0.0.1:0", "0.0.0.0:9464": "0.0.0.0:9464", "[::1]:9464": "[::1]:9464", "localhost:1": "localhost:1",
		"": "", ":": "", "x": "", "65536": "", "-1": "", "1:2:3": "", "http://a:1": "", "127.0.0.1:": "", "127.0.0.1:http": "",
	} {
		if got, err := MetricsAddress(text); got != want || (err == nil) == (want == "") {
			t.Errorf("MetricsAddress(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

// The port serves the metrics and nothing else: it is open to every program of the machine.
func TestServeMetrics(t *testing.T) {
	t.Parallel()
	logged, log := io.Pipe()
	d := &daemon{opts: Options{Metrics: "127.0.0.1:0"}, metrics: telemetry.NewMetrics(telemetry.MetricsOptions{}), log: slog.New(slog.NewTextHandler(log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.serveMetrics(ctx) }()
	line := make([]byte, 1<<10)
	n, err := logged.Read(line)
	url := regexp.MustCompile(`http://[^ \n"]*`).FindString(string(line[:n]))
	if err != nil || url == "" {
		t.Fatalf("%s, %v", line[:n], err)
	}
	base := strings.TrimSuffix(url, "/metrics")
	for request, want := range map[string]int{
		"GET /metrics": http.StatusOK, "POST /metrics": http.StatusMethodNotAllowed,
		"GET /": http.StatusNotFound, "GET /v1/health": http.StatusNotFound, "POST /v1/answer": http.StatusNotFound, "GET /ui": http.StatusNotFound, "GET /metrics/x": http.StatusNotFound, "GET /debug/pprof/": http.StatusNotFound,
	} {
		method, path, _ := strings.Cut(request, " ")
		req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || strings.Contains(string(body), "grapnel_build_info") != (want == http.StatusOK) {
			t.Errorf("%s: status %d, want %d", request, resp.StatusCode, want)
		}
	}
	busy := &daemon{opts: Options{Metrics: strings.TrimPrefix(base, "http://")}, metrics: d.metrics, log: d.log}
	if err := busy.serveMetrics(ctx); err == nil || !strings.Contains(err.Error(), "cannot listen for metrics") {
		t.Errorf("on a port in use: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
