package telemetry

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/grapnel-dev/grapnel/internal/spool"
)

// ExportOptions say which collector is told of what. The zero value names none.
type ExportOptions struct {
	Traces  string            // URL that takes traces as OTLP in JSON; empty = none
	Logs    string            // URL that takes logs; empty = none
	Headers map[string]string // of every request, such as a key to the collector
	Gzip    bool              // compress what is sent

	Service  string            // empty = grapnel
	Version  string            // of the program; empty = unknown
	Resource map[string]string // more of what says who is speaking

	// Sampler decides which firings without a block, a question or a failure are told of,
	// by its name in OTEL_TRACES_SAMPLER; empty = parentbased_always_on. The others always
	// are: an agent's project can set the flag of the trace that a firing belongs to.
	Sampler string
	Ratio   float64 // of a sampler that wants one

	Queue    int           // spans, or records, that wait; 0 = 2048. What comes when it is full is dropped
	Batch    int           // how many are sent together at most; 0 = 512
	Interval time.Duration // how long they wait for others; 0 = 5 s
	Timeout  time.Duration // of a request; 0 = 10 s
	Retry    time.Duration // how long a batch is tried again; 0 = 1 min
	Flush    time.Duration // how long the last ones may take when Run ends; 0 = 5 s

	NoTexts bool                // send no reasons and no messages of errors
	Mask    func(string) string // hides secrets; nil = spool.Mask

	Metrics *Metrics     // counts what is dropped; nil = nobody
	Log     *slog.Logger // is told when the collector fails, and when it is back; nil = nobody. Not one that exports

	transport http.RoundTripper // nil = the network
}

// An Export tells a collector of OpenTelemetry what happens. It is an Observer of an
// engine. Its methods never wait, but for Run, are safe for concurrent use, and do nothing
// when it is nil.
type Export struct {
	opts     ExportOptions
	resource []otlpAttribute
	client   *http.Client
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	firings  chan firing                  // whose spans are yet to be made
	spans    *pipe[sdktrace.ReadOnlySpan] // nil = no traces
	logs     *pipe[logRecord]             // nil = no logs
}

// NewExport returns an Export that sends nothing yet: that is what Run does. It is nil when
// the options name no collector.
func NewExport(opts ExportOptions) (*Export, error) {
	if opts.Traces == "" && opts.Logs == "" {
		return nil, nil //nolint:nilnil // a nil Export is one that does nothing
	}
	for _, address := range []string{opts.Traces, opts.Logs} {
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
	return e, nil
}

// resourceOf says who is speaking.
func resourceOf(opts ExportOptions) []otlpAttribute {
	all := maps.Clone(opts.Resource)
	if all == nil {
		all = map[string]string{}
	}
	if _, ok := all[attrHostName]; !ok {
		if host, err := os.Hostname(); err == nil {
			all[attrHostName] = host
		}
	}
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

// newClient returns a client that follows no redirect: what carries the key to one
// collector must not end up at another address.
func newClient(opts ExportOptions) *http.Client {
	transport := opts.transport
	if transport == nil {
		transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: 2, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: opts.Timeout, ResponseHeaderTimeout: opts.Timeout, MaxResponseHeaderBytes: maxAnswer,
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Run sends what there is to send until ctx is done, and then the rest for as long as
// Flush says. It returns nil, for what a collector does is not the daemon's failure.
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
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case f := <-e.firings:
			e.tell(made, &f)
		}
	}
	for range len(e.firings) { // those that come now come too late
		f := <-e.firings
		e.tell(made, &f)
	}
	allMade()
	wg.Wait()
	e.client.CloseIdleConnections()
	return nil
}

// TracerProvider is where other parts of the program get their tracers. What they trace
// is sent along.
func (e *Export) TracerProvider() trace.TracerProvider {
	if e == nil || e.provider == nil {
		return noTraces
	}
	return e.provider
}

// toPipe gives spans that have ended to their pipe.
type toPipe struct{ *pipe[sdktrace.ReadOnlySpan] }

func (p toPipe) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (p toPipe) OnEnd(s sdktrace.ReadOnlySpan)                   { p.put(s) }
func (p toPipe) Shutdown(context.Context) error                  { return nil } // Run ends it
func (p toPipe) ForceFlush(context.Context) error                { return nil }

// A pipe is a queue with a collector behind it.
type pipe[T any] struct {
	signal string
	url    string
	queue  chan T
	encode func([]T) ([]byte, error)
	opts   *ExportOptions
	client *http.Client

	dropped atomic.Uint64
	failing bool // the last request failed; of run only
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

// Why something was dropped.
const (
	dropFull     = "full"     // the queue was
	dropFailed   = "failed"   // the collector did not take it in time
	dropRejected = "rejected" // it did not want it
)

// put queues something, or drops it.
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

// run sends batches until ctx is done, and then what is left. A request that is under way
// then is not broken off: it would be sent twice.
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
			cancel(fmt.Errorf("the %v that the last ones have are spent", p.opts.Flush))
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
			clear(batch) // else they are kept until others come
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

// send sends a batch, in parts where it is too large, and tries again what may go well
// the next time, until stopping: then there is one try more. What cannot be sent is dropped.
func (p *pipe[T]) send(ctx context.Context, stopping <-chan struct{}, batch []T) {
	body, err := p.encode(batch)
	if err != nil { // values that JSON has no word for; there are none
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
		pause := max(again, wait/2+rand.N(wait/2+1)) //nolint:gosec // spreads tries, guards nothing
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

// end tells of the first request that failed, and of the first that did not.
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
		p.opts.Log.Warn("the collector does not take "+p.signal, "error", err)
	case !failing && p.failing:
		p.opts.Log.Info("the collector takes "+p.signal+" again", "dropped", p.dropped.Load())
	}
	p.failing = err != nil
}

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 64 << 10

// maxWait is how long a collector may ask to be left alone.
const maxWait = 30 * time.Second

// statusError is an answer that was no 200.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("status %d %s: %s", e.status, http.StatusText(e.status), e.text), ": ")
}

// post sends a body once. again is how long to wait at least before it is tried again;
// negative = never. rejected is how many of its items the collector did not want.
func (p *pipe[T]) post(ctx context.Context, body []byte) (rejected int, again time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.Timeout, fmt.Errorf("no answer within %v", p.opts.Timeout))
	defer cancel()
	if p.opts.Gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // a Buffer takes all
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
		return partial(answer), -1, nil // it has them, whatever became of the answer
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

// partial is how many items a collector that took the others did not want.
func partial(answer []byte) int {
	var a struct {
		PartialSuccess struct {
			Spans   json.RawMessage `json:"rejectedSpans"`
			Records json.RawMessage `json:"rejectedLogRecords"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return 0
	}
	n := 0
	for _, raw := range []json.RawMessage{a.PartialSuccess.Spans, a.PartialSuccess.Records} {
		if i, err := strconv.Atoi(strings.Trim(string(raw), `"`)); err == nil && i > 0 {
			n += min(i, 1<<20)
		}
	}
	return n
}

// retryAfter reads seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(text); err == nil {
		return min(max(time.Duration(n), 0), maxWait/time.Second) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxWait)
	}
	return 0
}
