package telemetry

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// ExportOptions configure the export to a collector. The zero value names no collector.
type ExportOptions struct {
	Traces  string            // URL for traces, as OTLP in JSON; empty = no traces
	Logs    string            // URL for logs; empty = no logs
	Series  string            // URL for the values of Metrics, which must then be set; empty = they are not sent
	Headers map[string]string // of every request, such as a key for the collector
	Gzip    bool              // compress requests
	RootCAs *x509.CertPool    // trusted certificate authorities; nil = the system's

	Service  string            // service name; empty = grapnel
	Version  string            // of the program; empty = unknown
	Resource map[string]string // further resource attributes
	Origin   local.Identity    // of the daemon; Resource can replace it

	// Sampler selects the exported firings among those without a block, an ask or a failure, by its
	// name in OTEL_TRACES_SAMPLER; empty = parentbased_always_on. Firings with a block, an ask or a
	// failure are always exported, because a project can set the sampled flag of the parent trace.
	Sampler string
	Ratio   float64 // for samplers with a ratio

	Queue    int           // maximum number of waiting spans, or log records; 0 = 2048. When the queue is full, new ones are dropped
	Batch    int           // maximum number per request; 0 = 512
	Interval time.Duration // maximum wait before a batch is sent; 0 = 5 s
	Every    time.Duration // time between two snapshots of Metrics; 0 = 1 min
	Timeout  time.Duration // of a request; 0 = 10 s
	Retry    time.Duration // how long a failed batch is retried; 0 = 1 min
	Flush    time.Duration // time limit for the last batches when Run ends; 0 = 5 s

	NoTexts bool                // send no reasons and no error messages
	Mask    func(string) string // masks secrets; nil = spool.Mask

	Metrics *Metrics     // counts dropped data, and is sent to Series; nil = not counted
	Log     *slog.Logger // logs when the collector fails and when it works again; nil = no log. Must not be a logger that exports

	transport http.RoundTripper // nil = the network
}

// An Export sends telemetry to an OpenTelemetry collector. It is an Observer of an engine. Its
// methods are safe for concurrent use, do nothing on a nil Export, and never block, except Run.
type Export struct {
	opts     ExportOptions
	resource []otlpAttribute
	client   *http.Client
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	firings  chan firing                  // firings whose spans are not made yet
	spans    *pipe[sdktrace.ReadOnlySpan] // nil = no traces
	logs     *pipe[logRecord]             // nil = no logs
	series   *pipe[snapshot]              // nil = no metrics
}

// NewExport returns an Export. It sends nothing until Run is called. It returns nil if the options
// name no collector.
func NewExport(opts ExportOptions) (*Export, error) {
	if opts.Traces == "" && opts.Logs == "" && opts.Series == "" {
		return nil, nil // a nil Export does nothing
	}
	for _, address := range []string{opts.Traces, opts.Logs, opts.Series} {
		if err := checkURL(address); err != nil {
			return nil, err
		}
	}
	for name, value := range opts.Headers {
		if err := checkHeader(name, value); err != nil {
			return nil, err
		}
	}
	base, err := newSampler(opts.Sampler, opts.Ratio)
	if err != nil {
		return nil, err
	}
	opts.Service = cmp.Or(opts.Service, "grapnel")
	opts.Queue = cmp.Or(max(opts.Queue, 0), 2048)
	opts.Batch = min(cmp.Or(max(opts.Batch, 0), 512), opts.Queue)
	opts.Interval = cmp.Or(max(opts.Interval, 0), 5*time.Second)
	opts.Every = cmp.Or(max(opts.Every, 0), time.Minute)
	opts.Timeout = cmp.Or(max(opts.Timeout, 0), 10*time.Second)
	opts.Retry = cmp.Or(max(opts.Retry, 0), time.Minute)
	opts.Flush = cmp.Or(max(opts.Flush, 0), 5*time.Second)
	if opts.Mask == nil {
		opts.Mask = spool.Mask
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	e := &Export{opts: opts, resource: resourceOf(opts), client: newClient(opts)}
	if opts.Traces != "" {
		e.firings = make(chan firing, opts.Queue)
		if opts.Metrics != nil {
			opts.Metrics.Queue("telemetry_firings", func() int { return len(e.firings) })
		}
		e.spans = newPipe(e, signalTraces, opts.Traces, func(spans []sdktrace.ReadOnlySpan) ([]byte, error) { return encodeSpans(e.resource, spans) })
		e.provider = sdktrace.NewTracerProvider(
			sdktrace.WithSpanProcessor(toPipe{e.spans}), sdktrace.WithSampler(sampler{base}), sdktrace.WithIDGenerator(generator{}), sdktrace.WithRawSpanLimits(spanLimits),
		)
		e.tracer = e.provider.Tracer(scopeName, trace.WithInstrumentationVersion(opts.Version), trace.WithSchemaURL(schemaURL))
	}
	if opts.Logs != "" {
		e.logs = newPipe(e, signalLogs, opts.Logs, func(records []logRecord) ([]byte, error) { return encodeLogs(e.resource, records) })
	}
	if opts.Series != "" && opts.Metrics != nil {
		begun := time.Now()
		e.series = newPipe(e, signalMetrics, opts.Series, func(all []snapshot) ([]byte, error) { return encodeMetrics(e.resource, begun, all) })
	}
	return e, nil
}

// resourceOf returns the attributes that identify the sender.
func resourceOf(opts ExportOptions) []otlpAttribute {
	id, all := opts.Origin, map[string]string{}
	for key, value := range map[string]string{attrHostName: id.Host, attrHostID: id.Machine, attrInstance: id.Machine, attrUserName: id.User} {
		if value != "" {
			all[key] = value
		}
	}
	maps.Copy(all, opts.Resource)
	all[attrServiceName] = opts.Service
	if opts.Version != "" {
		all[attrServiceVersion] = opts.Version
	}
	var list []otlpAttribute
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, otlpAttribute{clean(key, maxLabel), textValue(clean(all[key], maxAttribute))})
	}
	return list
}

// newClient returns a client that follows no redirects, because a request with the key for one
// collector must not reach another address.
func newClient(opts ExportOptions) *http.Client {
	transport := opts.transport
	if transport == nil {
		transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: 2, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
			TLSClientConfig:     &tls.Config{RootCAs: opts.RootCAs, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: opts.Timeout, ResponseHeaderTimeout: opts.Timeout, MaxResponseHeaderBytes: maxAnswer,
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Run sends queued data until ctx is done, and then sends the rest for at most Flush. It returns
// nil, because a failing collector is not an error of the daemon.
func (e *Export) Run(ctx context.Context) error {
	if e == nil {
		<-ctx.Done()
		return nil
	}
	made, allMade := context.WithCancel(context.WithoutCancel(ctx))
	defer allMade()
	var wg sync.WaitGroup
	if e.spans != nil {
		wg.Go(func() { e.spans.run(made) })
	}
	if e.logs != nil {
		wg.Go(func() { e.logs.run(made) })
	}
	if e.series != nil {
		wg.Go(func() { e.series.run(made) })
	}
	every := time.NewTicker(e.opts.Every)
	defer every.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-every.C:
			e.measure()
		case f := <-e.firings:
			e.makeSpans(made, &f)
		}
	}
	for range len(e.firings) { // firings that arrive from now on are lost
		f := <-e.firings
		e.makeSpans(made, &f)
	}
	e.measure()
	allMade()
	wg.Wait()
	e.client.CloseIdleConnections()
	return nil
}

// TracerProvider returns the provider of tracers for other parts of the program. Their spans are
// exported too.
func (e *Export) TracerProvider() trace.TracerProvider {
	if e == nil || e.provider == nil {
		return noTraces
	}
	return e.provider
}

// toPipe passes ended spans to their pipe.
type toPipe struct{ *pipe[sdktrace.ReadOnlySpan] }

func (p toPipe) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (p toPipe) OnEnd(s sdktrace.ReadOnlySpan)                   { p.put(s) }
func (p toPipe) Shutdown(context.Context) error                  { return nil } // Run ends the pipe
func (p toPipe) ForceFlush(context.Context) error                { return nil }

// A pipe is a queue of data for one collector URL.
type pipe[T any] struct {
	signal string
	url    string
	queue  chan T
	encode func([]T) ([]byte, error)
	opts   *ExportOptions
	client *http.Client

	dropped atomic.Uint64
	failing bool // the last request failed; used only by run
}

func newPipe[T any](e *Export, signal, address string, encode func([]T) ([]byte, error)) *pipe[T] {
	p := &pipe[T]{signal: signal, url: address, queue: make(chan T, e.opts.Queue), encode: encode, opts: &e.opts, client: e.client}
	if m := e.opts.Metrics; m != nil {
		m.Queue("telemetry_"+signal, func() int { return len(p.queue) })
		for _, reason := range []string{dropFull, dropFailed, dropRejected} {
			m.dropped.WithLabelValues(signal, reason)
		}
		for _, result := range []string{"ok", "failed"} {
			m.exports.WithLabelValues(signal, result)
		}
	}
	return p
}

// Reasons for dropped data.
const (
	dropFull     = "full"     // the queue was full
	dropFailed   = "failed"   // the collector did not accept it in time
	dropRejected = "rejected" // the collector rejected it
)

// put queues an item, or drops it if the queue is full.
func (p *pipe[T]) put(item T) {
	select {
	case p.queue <- item:
	default:
		p.drop(1, dropFull)
	}
}

func (p *pipe[T]) drop(n int, reason string) {
	p.dropped.Add(uint64(max(n, 0)))
	if m := p.opts.Metrics; m != nil && n > 0 {
		m.dropped.WithLabelValues(p.signal, reason).Add(float64(n))
	}
}

// run sends batches until ctx is done, and then sends the rest. It does not cancel a request in
// progress, because the data would be sent twice.
func (p *pipe[T]) run(ctx context.Context) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-work.Done():
			return
		}
		late := time.NewTimer(p.opts.Flush)
		defer late.Stop()
		select {
		case <-late.C:
			cancel(fmt.Errorf("the last export did not finish within %v", p.opts.Flush))
		case <-work.Done():
		}
	})
	defer func() {
		cancel(nil)
		wg.Wait()
	}()
	ticker := time.NewTicker(p.opts.Interval)
	defer ticker.Stop()
	batch := make([]T, 0, p.opts.Batch)
	send := func() {
		if len(batch) > 0 {
			p.send(work, ctx.Done(), batch)
			clear(batch) // release the sent items
			batch = batch[:0]
		}
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case item := <-p.queue:
			if batch = append(batch, item); len(batch) == p.opts.Batch {
				send()
			}
		case <-ticker.C:
			send()
		}
	}
	for {
		select {
		case item := <-p.queue:
			if batch = append(batch, item); len(batch) == p.opts.Batch {
				send()
			}
		default:
			send()
			return
		}
	}
}

// send sends a batch and splits it if it is too large. It retries temporary failures until the
// Retry time is over; after stopping is closed, it makes only one more attempt. Data that cannot be
// sent is dropped.
func (p *pipe[T]) send(ctx context.Context, stopping <-chan struct{}, batch []T) {
	body, err := p.encode(batch)
	if err != nil { // values that JSON cannot express; no such values exist
		p.end(fmt.Errorf("encode: %w", err))
		p.drop(len(batch), dropRejected)
		return
	}
	deadline, wait := time.Now().Add(p.opts.Retry), time.Second
	for {
		last := false
		select {
		case <-stopping:
			last = true
		default:
		}
		rejected, again, err := p.post(ctx, body)
		if failure, ok := errors.AsType[*statusError](err); ok && failure.status == http.StatusRequestEntityTooLarge && len(batch) > 1 {
			p.send(ctx, stopping, batch[:len(batch)/2])
			p.send(ctx, stopping, batch[len(batch)/2:])
			return
		}
		p.end(err)
		switch {
		case err == nil:
			p.drop(rejected, dropRejected)
			return
		case again < 0:
			p.drop(len(batch), dropRejected)
			return
		}
		pause := max(again, wait/2+rand.N(wait/2+1)) // jitter for retries, not security
		if wait *= 2; last || ctx.Err() != nil || time.Now().Add(pause).After(deadline) {
			p.drop(len(batch), dropFailed)
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-stopping:
			timer.Stop()
		}
	}
}

// end counts a request. It logs the first failed request, and the first successful one after that.
func (p *pipe[T]) end(err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	if m := p.opts.Metrics; m != nil {
		m.exports.WithLabelValues(p.signal, result).Inc()
	}
	switch failing := err != nil; {
	case failing && !p.failing:
		p.opts.Log.Warn("telemetry export failed", "signal", p.signal, "error", err)
	case !failing && p.failing:
		p.opts.Log.Info("telemetry export works again", "signal", p.signal, "dropped", p.dropped.Load())
	}
	p.failing = err != nil
}

// maxAnswer is the maximum number of bytes read from an answer.
const maxAnswer = 64 << 10

// maxWait is the maximum delay that a collector may request with Retry-After.
const maxWait = 30 * time.Second

// statusError is an answer with a status other than 2xx.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("status %d %s: %s", e.status, http.StatusText(e.status), e.text), ": ")
}

// post sends a body once. again is the minimum delay before a retry; negative = do not retry.
// rejected is the number of items that the collector rejected.
func (p *pipe[T]) post(ctx context.Context, body []byte) (rejected int, again time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.Timeout, fmt.Errorf("no answer within %v", p.opts.Timeout))
	defer cancel()
	if p.opts.Gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // writing to a Buffer cannot fail
		_ = z.Close()
		body = b.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return 0, -1, err
	}
	for name, value := range p.opts.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "grapnel/"+cmp.Or(clean(p.opts.Version, 64), "unknown"))
	if p.opts.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	res, err := p.client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return 0, 0, fmt.Errorf("%s: %w", p.signal, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return partial(answer), -1, nil // the collector has accepted the data, even if the body could not be read
	case err != nil:
		return 0, 0, fmt.Errorf("%s: read the answer: %w", p.signal, err)
	}
	again = -1
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = retryAfter(res.Header.Get("Retry-After"), time.Now())
	}
	return 0, again, fmt.Errorf("%s: %w", p.signal, &statusError{res.StatusCode, p.opts.Mask(clean(string(answer), 256))})
}

// partial returns the number of items that a collector rejected while it accepted the others.
func partial(answer []byte) int {
	var a struct {
		PartialSuccess struct {
			Spans   json.RawMessage `json:"rejectedSpans"`
			Records json.RawMessage `json:"rejectedLogRecords"`
			Points  json.RawMessage `json:"rejectedDataPoints"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return 0
	}
	n := 0
	for _, raw := range []json.RawMessage{a.PartialSuccess.Spans, a.PartialSuccess.Records, a.PartialSuccess.Points} {
		if i, err := strconv.Atoi(strings.Trim(string(raw), `"`)); err == nil && i > 0 {
			n += min(i, 1<<20)
		}
	}
	return n
}

// retryAfter parses the Retry-After header: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(text); err == nil {
		return min(max(time.Duration(n), 0), maxWait/time.Second) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxWait)
	}
	return 0
}
