package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// small returns a firing that makes one span.
func small(i int) *grapnel.Record {
	return &grapnel.Record{ID: fmt.Sprint("r", i), Time: started, Agent: "codex", Event: grapnel.ToolBefore, MS: 1}
}

// A collector that hangs delays no firing. Data that does not fit is dropped and counted, and the
// end waits only for the set time.
func TestHangingCollector(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	c := newCollector(t, func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		return true
	})
	defer close(hang)
	m := NewMetrics(MetricsOptions{})
	e, end := exporting(t, c, func(o *ExportOptions) {
		o.Metrics, o.Queue, o.Batch = m, 50, 10
		o.Timeout, o.Flush = time.Hour, 100*time.Millisecond // a test that waits for a request would not end
	})
	log := slog.New(e.LogHandler(slog.LevelInfo))
	const n = 2000
	for i := range n {
		e.Observe(t.Context(), small(i))
		log.Info("line")
	}
	end()
	got := scrape(t, m)
	dropped := values(got, "grapnel_telemetry_dropped_total")
	for _, signal := range []string{signalTraces, signalLogs} {
		full, failed := dropped[`reason="full",signal="`+signal+`"`], dropped[`reason="failed",signal="`+signal+`"`]
		if full == 0 || failed == 0 || full+failed != n {
			t.Errorf("%s: %v found the queue full, %v were not taken, want %d together", signal, full, failed, n)
		}
	}
	if depth := values(got, "grapnel_queue_depth"); len(depth) != 3 {
		t.Errorf("queues: %v", depth)
	}
}

// Data from before the end arrives, exactly once.
func TestFlush(t *testing.T) {
	t.Parallel()
	c := newCollector(t, nil)
	e, end := exporting(t, c, func(o *ExportOptions) { o.Interval, o.Batch = time.Hour, 7 })
	const n = 500
	var wg sync.WaitGroup
	for g := range 5 {
		wg.Go(func() {
			for i := range n / 5 {
				e.Observe(context.Background(), small(g*n+i))
			}
		})
	}
	wg.Wait()
	end()
	ids := map[string]int{}
	for _, s := range c.spans {
		ids[s.trace]++
	}
	if len(c.spans) != n || len(ids) != n {
		t.Errorf("%d spans of %d firings, want %d", len(c.spans), len(ids), n)
	}
}

// An answer is the reply of a fake collector.
type answer struct {
	status int
	header string // Retry-After
	body   string
	err    error
	hang   bool
}

// answers is a transport that returns the answers in order. The last one is repeated.
type answers struct {
	mu    sync.Mutex
	list  []answer
	at    []time.Duration // time of each request
	sizes []int           // number of items in each request
	begun time.Time
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	now := a.list[0]
	if len(a.list) > 1 {
		a.list = a.list[1:]
	}
	a.at = append(a.at, time.Since(a.begun)) // fake clock
	a.sizes = append(a.sizes, bytes.Count(body, []byte(`"spanId"`)))
	a.mu.Unlock()
	if now.hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if now.err != nil {
		return nil, now.err
	}
	h := http.Header{}
	if now.header != "" {
		h.Set("Retry-After", now.header)
	}
	return &http.Response{StatusCode: now.status, Header: h, Body: io.NopCloser(strings.NewReader(now.body)), Request: r}, nil
}

func TestTriesAgain(t *testing.T) {
	t.Parallel()
	ok := answer{status: 200, body: `{}`}
	for name, tt := range map[string]struct {
		answers          []answer
		spans            int
		stop             time.Duration // the end of the daemon; 0 = after all data
		requests         []int         // number of spans in each request
		failed, rejected float64
		after            []time.Duration // minimum time between a request and the one before
		last             time.Duration   // latest time of the last request
	}{
		"taken":             {answers: []answer{ok}, spans: 3, requests: []int{3}},
		"busy, then taken":  {answers: []answer{{status: 503}, {status: 429}, ok}, spans: 2, requests: []int{2, 2, 2}, after: []time.Duration{500 * time.Millisecond, time.Second}},
		"asks for a pause":  {answers: []answer{{status: 429, header: "20"}, ok}, spans: 1, requests: []int{1, 1}, after: []time.Duration{20 * time.Second}},
		"asks for too long": {answers: []answer{{status: 503, header: "86400"}, ok}, spans: 1, requests: []int{1, 1}, after: []time.Duration{maxWait}},
		"connection lost":   {answers: []answer{{err: errors.New("connection reset")}, ok}, spans: 1, requests: []int{1, 1}},
		"hangs":             {answers: []answer{{hang: true}, ok}, spans: 1, requests: []int{1, 1}, after: []time.Duration{10 * time.Second}},
		"never takes it":    {answers: []answer{{status: 502}}, spans: 4, requests: []int{4, 4, 4, 4, 4, 4}, failed: 4, last: 2 * time.Minute},
		"does not want it":  {answers: []answer{{status: 400, body: "no"}, ok}, spans: 4, requests: []int{4}, rejected: 4},
		"wants a key":       {answers: []answer{{status: 401}}, spans: 1, requests: []int{1}, rejected: 1},
		"has moved":         {answers: []answer{{status: 307}}, spans: 1, requests: []int{1}, rejected: 1},
		"wants some":        {answers: []answer{{status: 200, body: `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}`}}, spans: 3, requests: []int{3}, rejected: 2},
		"a number":          {answers: []answer{{status: 200, body: `{"partialSuccess":{"rejectedSpans":1}}`}}, spans: 3, requests: []int{3}, rejected: 1},
		"says nonsense":     {answers: []answer{{status: 200, body: `<html>`}}, spans: 3, requests: []int{3}},
		"too large":         {answers: []answer{{status: 413}, ok, {status: 413}, ok, ok}, spans: 4, requests: []int{4, 2, 2, 1, 1}},
		"too large, single": {answers: []answer{{status: 413}}, spans: 2, requests: []int{2, 1, 1}, rejected: 2},
		"ends while it waits": {
			answers: []answer{{status: 503, header: "30"}, ok}, spans: 2, stop: 3 * time.Second, requests: []int{2, 2}, last: 4 * time.Second,
		},
		"ends and fails": {
			answers: []answer{{status: 503, header: "30"}}, spans: 2, stop: 3 * time.Second, requests: []int{2, 2}, failed: 2, last: 4 * time.Second,
		},
		"ends while it hangs": {
			answers: []answer{{hang: true}}, spans: 2, stop: 3 * time.Second, requests: []int{2}, failed: 2, last: 9 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := &answers{list: tt.answers, begun: time.Now()}
				m := NewMetrics(MetricsOptions{})
				e, err := NewExport(ExportOptions{Traces: "http://collector/v1/traces", Metrics: m, transport: a, Timeout: 10 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = e.Run(ctx)
				}()
				for i := range tt.spans {
					e.Observe(ctx, small(i))
				}
				if tt.stop > 0 {
					tt.stop += 5 * time.Second // the interval
				} else {
					tt.stop = 5 * time.Minute
				}
				time.Sleep(tt.stop)
				cancel()
				stopped := time.Now()
				<-done
				if took := time.Since(stopped); took > 5*time.Second {
					t.Errorf("the end took %v", took)
				}
				if name == "never takes it" { // the number is random
					if n := len(a.sizes); n < 4 || n > 10 {
						t.Errorf("%d requests within a minute", n)
					}
				} else if diff := cmp.Diff(tt.requests, a.sizes); diff != "" {
					t.Errorf("spans of each request (-want +got):\n%s", diff)
				}
				for i, want := range tt.after {
					if got := a.at[i+1] - a.at[i]; got < want {
						t.Errorf("request %d came after %v, want at least %v", i+1, got, want)
					}
				}
				if last := a.at[len(a.at)-1]; tt.last > 0 && last > 5*time.Second+tt.last {
					t.Errorf("the last request was made after %v, want %v at most", last, tt.last)
				}
				families, err := m.registry.Gather()
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range families {
					if f.GetName() != "grapnel_telemetry_dropped_total" {
						continue
					}
					for _, s := range f.GetMetric() {
						want := map[string]float64{dropFailed: tt.failed, dropRejected: tt.rejected, dropFull: 0}[s.GetLabel()[0].GetValue()]
						if got := s.GetCounter().GetValue(); got != want {
							t.Errorf("dropped because %s: %v, want %v", s.GetLabel()[0].GetValue(), got, want)
						}
					}
				}
			})
		})
	}
}

// The log has one line when the collector begins to fail, and one when it works again.
func TestLogsExportFailures(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	fail.Store(true)
	c := newCollector(t, func(w http.ResponseWriter, _ *http.Request) bool {
		if fail.Load() {
			http.Error(w, "no\nroom token=hunter2hunter2", http.StatusForbidden)
			return true
		}
		return false
	})
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	e, end := exporting(t, c, func(o *ExportOptions) { o.Log, o.Batch, o.Interval = log, 1, time.Hour })
	for i := range 3 {
		e.Observe(t.Context(), small(i))
	}
	await.Until(t, "three spans are dropped", func() bool { return e.spans.dropped.Load() >= 3 })
	fail.Store(false)
	e.Observe(t.Context(), small(3))
	e.Observe(t.Context(), small(4))
	end()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "signal=traces") || !strings.Contains(lines[0], "403") || !strings.Contains(lines[1], "dropped=3") {
		t.Errorf("the log:\n%s", &b)
	}
	if strings.Contains(b.String(), "hunter2") {
		t.Errorf("the log repeats what the collector said:\n%s", &b)
	}
}

// The credentials for a collector are sent only to that collector.
func TestNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := newCollector(t, nil)
	c := newCollector(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Api-Key") != "k1" {
			t.Errorf("headers %v", r.Header)
		}
		http.Redirect(w, r, elsewhere.URL+"/v1/traces", http.StatusPermanentRedirect)
		return true
	})
	e, end := exporting(t, c, func(o *ExportOptions) { o.Headers = map[string]string{"api-key": "k1"} })
	e.Observe(t.Context(), small(1))
	end()
	if len(elsewhere.bodies) > 0 {
		t.Error("it followed the redirect")
	}
}

// Only a small part of an answer is read, for any size.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	c := newCollector(t, func(w http.ResponseWriter, r *http.Request) bool {
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range 1 << 10 {
			n, err := w.Write(chunk)
			if sent.Add(int64(n)); err != nil || r.Context().Err() != nil {
				return true
			}
		}
		return true
	})
	e, end := exporting(t, c, nil)
	e.Observe(t.Context(), small(1))
	end()
	if n := sent.Load(); n > 256<<20 {
		t.Errorf("%d bytes were sent", n)
	}
}

func TestGzip(t *testing.T) {
	t.Parallel()
	c := newCollector(t, nil)
	e, end := exporting(t, c, func(o *ExportOptions) { o.Gzip = true })
	e.Observe(t.Context(), small(1))
	end()
	if len(c.spans) != 1 || c.headers[0].Get("Content-Encoding") != "gzip" {
		t.Errorf("%d spans, headers %v", len(c.spans), c.headers)
	}
}
