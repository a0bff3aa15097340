package telemetry

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/local"
)

// MetricsOptions configure Metrics. The zero value is valid.
type MetricsOptions struct {
	Version string         // of the program; empty = unknown
	Origin  local.Identity // of the daemon

	// MaxHooks is the maximum number of hooks with their own series; 0 = 1000. Later hooks are
	// counted under "other". One source gets at most a quarter of them, so that a project with
	// thousands of hooks does not hide the machine's hooks.
	MaxHooks int

	// Scope returns the scope of a policy file; nil = unknown. Labels contain no paths, so without
	// a scope, files that Expect has not seen are called "file". Scope must not call the Metrics.
	Scope func(file string) (grapnel.Scope, bool)

	Store   func(context.Context) (StoreStats, error)     // called at each scrape; nil = no store
	Deliver func(context.Context) (DeliveryStats, error)  // called at each scrape; nil = no deliveries
	Forward func(context.Context) ([]ForwardStats, error) // called at each scrape; nil = no targets
	Losses  func() Losses                                 // called at each scrape; nil = no store
}

// The signals that a collector receives.
const (
	signalTraces  = "traces"
	signalLogs    = "logs"
	signalMetrics = "metrics"
)

// Limits for the cost of a scrape.
const (
	defaultMaxHooks = 1000
	maxTargets      = 200             // targets of deliveries; the others are counted under "other"
	maxReasons      = 24              // reasons for declined replies
	maxQueues       = 24              // queues with a depth
	askTimeout      = 2 * time.Second // for the log and the deliveries
	scrapeTimeout   = 8 * time.Second // below the 10 s of Prometheus, so that it receives the error
	maxScrapes      = 4               // concurrent scrapes
)

// Buckets of the histograms, in seconds. A rule takes microseconds, a program milliseconds, and an
// agent waits at most one minute.
var (
	hookBuckets   = []float64{.000_01, .000_1, .001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60}
	firingBuckets = []float64{.000_05, .000_1, .000_25, .000_5, .001, .002_5, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

// Metrics counts the daemon's activity. It is an Observer of an engine. Its methods are safe for
// concurrent use. No label contains text that an agent, a model or a user could invent.
type Metrics struct {
	opts     MetricsOptions
	registry *prometheus.Registry

	firings        *prometheus.CounterVec
	firingErrors   *prometheus.CounterVec
	firingSeconds  *prometheus.HistogramVec
	would          *prometheus.CounterVec
	unsupported    *prometheus.CounterVec
	hookRuns       *prometheus.CounterVec
	hookWould      *prometheus.CounterVec
	hookErrors     *prometheus.CounterVec
	hookSeconds    *prometheus.HistogramVec
	failOpen       *prometheus.CounterVec
	answers        *prometheus.CounterVec
	answerSeconds  prometheus.Histogram
	inFlight       prometheus.Gauge
	tries          *prometheus.CounterVec
	reloads        *prometheus.CounterVec
	reloadGood     prometheus.Gauge
	reloadTime     prometheus.Gauge
	dropped        *prometheus.CounterVec
	exports        *prometheus.CounterVec
	askErrors      *prometheus.CounterVec
	mu             sync.RWMutex
	byFiring       map[firingKey]*firingMetrics
	byHook         map[hookKey]*hookMetrics
	shown          map[hookKey]*hookMetrics // by labels: several hooks may share one entry
	perSource      map[string]int           // number of entries of shown
	reasons        map[string]bool
	queues         map[string]func() int
	scopes         map[string]grapnel.Scope // of the files that Expect has seen
	descs          gaugeDescs
	metricsHandler http.Handler
}

type firingKey struct {
	agent string
	event grapnel.Kind
}

// firingMetrics are the series of one event of one agent.
type firingMetrics struct {
	decisions, would    [len(decisions)]prometheus.Counter
	errors, unsupported prometheus.Counter
	seconds             prometheus.Observer
}

type hookKey struct{ source, name string }

// hookMetrics are the series of one hook.
type hookMetrics struct {
	decisions, would           [len(decisions)]prometheus.Counter
	errors, timeouts, failOpen prometheus.Counter
	seconds                    prometheus.Observer
}

// NewMetrics returns Metrics with all counters at zero.
func NewMetrics(opts MetricsOptions) *Metrics {
	opts.MaxHooks = cmp.Or(max(opts.MaxHooks, 0), defaultMaxHooks)
	m := &Metrics{
		opts: opts, registry: prometheus.NewRegistry(), byFiring: map[firingKey]*firingMetrics{}, byHook: map[hookKey]*hookMetrics{},
		shown: map[hookKey]*hookMetrics{}, perSource: map[string]int{}, reasons: map[string]bool{}, queues: map[string]func() int{},
		scopes: map[string]grapnel.Scope{}, descs: newGaugeDescs(),
	}
	m.firings = m.counters("grapnel_firings_total", "Events that were answered.", "agent", "event", "decision")
	m.firingErrors = m.counters("grapnel_firing_errors_total", "Events that could not be read, or with observing hooks that did not start.", "agent", "event")
	m.firingSeconds = m.histograms("grapnel_firing_duration_seconds", "Time from the event to its verdict.", firingBuckets, "agent", "event")
	m.would = m.counters("grapnel_would_total", "Decisions that hooks in observe mode would have caused.", "agent", "event", "decision")
	m.unsupported = m.counters("grapnel_unsupported_total", "Parts of verdicts that the agent does not support; Grapnel used a stricter verdict or omitted the part.", "agent", "event")
	m.hookRuns = m.counters("grapnel_hook_runs_total", "Answers of a hook, including failures. Hooks in observe mode have the decision none.", "hook", "source", "decision")
	m.hookWould = m.counters("grapnel_hook_would_total", "Decisions that a hook in observe mode would have made.", "hook", "source", "decision")
	m.hookErrors = m.counters("grapnel_hook_errors_total", "Times a hook could not answer.", "hook", "source", "cause")
	m.hookSeconds = m.histograms("grapnel_hook_duration_seconds", "Time that a hook took.", hookBuckets, "hook", "source")
	m.failOpen = m.counters("grapnel_fail_open_total", "Times a hook could not answer and the action continued anyway.", "hook", "source")
	m.answers = m.counters("grapnel_answers_total", "Requests of grapnel-hook: answered, or declined, so that grapnel-hook answers without the daemon.", "how", "reason")
	m.answerSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "grapnel_answer_duration_seconds", Help: "Time that the daemon needed for a request.", Buckets: firingBuckets,
	})
	m.inFlight = m.gauge("grapnel_answers_in_flight", "Requests that are being answered.")
	m.tries = m.counters("grapnel_delivery_tries_total", "Delivery attempts, by result.", "result")
	m.reloads = m.counters("grapnel_policy_reloads_total", "Policy reloads. After a failed reload, the last valid policies stay in force.", "result")
	m.reloadGood = m.gauge("grapnel_policy_last_reload_successful", "Whether the last attempt to read the policies was successful.")
	m.reloadTime = m.gauge("grapnel_policy_last_reload_success_timestamp_seconds", "Time when policies were last read without an error.")
	m.dropped = m.counters("grapnel_telemetry_dropped_total", "Spans, log records and snapshots of metrics that did not reach a collector.", "signal", "reason")
	m.exports = m.counters("grapnel_telemetry_exports_total", "Requests to the collector, including retries.", "signal", "result")
	m.askErrors = m.counters("grapnel_scrape_errors_total", "Times that a part of the daemon could not report its state.", "part")

	info := m.gauges("grapnel_build_info", "Always 1; the labels name the version of Grapnel and of Go, the host, and the ID of the machine.", "version", "goversion", "host", "machine")
	info.WithLabelValues(clean(cmp.Or(opts.Version, "unknown"), maxLabel), runtime.Version(), clean(opts.Origin.Host, maxLabel), clean(opts.Origin.Machine, maxLabel)).Set(1)
	m.registry.MustRegister(m.answerSeconds, &gauges{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	// Series for alerts exist before the first event: a series that first appears with the value 1
	// shows no increase.
	for _, result := range []string{"ok", "failed"} {
		m.reloads.WithLabelValues(result)
	}
	for _, result := range tryResults {
		m.tries.WithLabelValues(result)
	}
	for _, part := range []string{"store", "deliver", "queue"} {
		m.askErrors.WithLabelValues(part)
	}
	m.answers.WithLabelValues("answered", "")
	m.failOpen.WithLabelValues(other, other)

	// A failing part must not hide the others.
	m.metricsHandler = promhttp.InstrumentMetricHandler(m.registry, promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, Registry: m.registry, MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout,
	}))
	return m
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	v := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(v)
	return v
}

// Handler returns a handler that answers GET with the metrics in the formats of Prometheus. It has
// no access control: serve it only where authorized clients can reach it.
func (m *Metrics) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "metrics are read with GET", http.StatusMethodNotAllowed)
			return
		}
		m.metricsHandler.ServeHTTP(w, r)
	})
}

// Registry returns the registry, for further collectors of the same program.
func (m *Metrics) Registry() prometheus.Registerer { return m.registry }

// Observe counts a firing. Async hooks that have not run yet are counted by ObserveLate.
func (m *Metrics) Observe(_ context.Context, rec *grapnel.Record) {
	f := m.firing(rec.Agent, rec.Event)
	f.decisions[decision(rec.Decision)].Inc()
	if rec.Would > grapnel.None {
		f.would[decision(rec.Would)].Inc()
	}
	if rec.Error != "" {
		f.errors.Inc()
	}
	f.unsupported.Add(float64(len(rec.Unsupported)))
	f.seconds.Observe(seconds(rec.MS))
	for i := range rec.Hooks {
		if run := &rec.Hooks[i]; !run.Async || run.Error != "" { // a pending async hook is counted later, unless it could not start
			m.run(run)
		}
	}
}

// ObserveLate counts the results of async hooks, from the Record that is written when they have
// ended. It does not count a firing, because Observe has already counted it.
func (m *Metrics) ObserveLate(_ context.Context, rec *grapnel.Record) {
	for i := range rec.Hooks {
		m.run(&rec.Hooks[i])
	}
}

func (m *Metrics) run(run *grapnel.HookRun) {
	h := m.hook(run.Source, run.Name)
	d := decision(run.Decision)
	if run.Observed {
		if d > grapnel.None {
			h.would[d].Inc()
		}
		d = grapnel.None
	}
	h.decisions[d].Inc()
	if run.Error != "" {
		if run.Cause == grapnel.CauseTimeout {
			h.timeouts.Inc()
		} else {
			h.errors.Inc()
		}
	}
	if run.FailOpen {
		h.failOpen.Inc()
	}
	h.seconds.Observe(seconds(run.MS))
}

// seconds converts a duration in milliseconds from a Record, which another program may have
// written.
func seconds(ms float64) float64 {
	if !(ms > 0) { // also catches NaN
		return 0
	}
	return ms / 1000
}

// Expect creates the series of hooks before they run, so that their counters begin at 0 and a
// failure of the first run is an increase. Call it after each load of the policies. List the
// strongest scope first, because hooks beyond MaxHooks are counted under "other".
func (m *Metrics) Expect(specs []grapnel.Spec) {
	m.mu.Lock()
	for i := range specs {
		file, _, _ := cutLast(specs[i].Source.Name, '#')
		for _, name := range []string{file, specs[i].Source.File} {
			if len(m.scopes) < 4*m.opts.MaxHooks && name != "" {
				m.scopes[name] = specs[i].Source.Scope
			}
		}
	}
	m.mu.Unlock()
	for i := range specs {
		m.hook(specs[i].Source.Name, specs[i].Name)
	}
}

// scopeOf returns the scope of a policy file. The caller must hold mu.
func (m *Metrics) scopeOf(file string) (grapnel.Scope, bool) {
	if m.opts.Scope != nil {
		if scope, ok := m.opts.Scope(file); ok {
			return scope, true
		}
	}
	scope, ok := m.scopes[file]
	return scope, ok
}

// firing returns the series of an event, and creates it if necessary.
func (m *Metrics) firing(agent string, event grapnel.Kind) *firingMetrics {
	key := firingKey{agentLabel(agent), grapnel.Kind(eventLabel(event))}
	m.mu.RLock()
	f := m.byFiring[key]
	m.mu.RUnlock()
	if f != nil {
		return f
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if f = m.byFiring[key]; f != nil {
		return f
	}
	agent, name := key.agent, string(key.event)
	f = &firingMetrics{
		errors: m.firingErrors.WithLabelValues(agent, name), unsupported: m.unsupported.WithLabelValues(agent, name), seconds: m.firingSeconds.WithLabelValues(agent, name),
	}
	for d, label := range decisions {
		f.decisions[d] = m.firings.WithLabelValues(agent, name, label)
		if grapnel.Decision(d) > grapnel.None {
			f.would[d] = m.would.WithLabelValues(agent, name, label)
		}
	}
	m.byFiring[key] = f
	return f
}

// hook returns the series of a hook, or the series "other" if the limit is reached.
func (m *Metrics) hook(source, name string) *hookMetrics {
	key := hookKey{source, name}
	m.mu.RLock()
	h := m.byHook[key]
	m.mu.RUnlock()
	if h != nil {
		return h
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if h = m.byHook[key]; h != nil {
		return h
	}
	labels := hookKey{sourceLabel(source, m.scopeOf), clean(name, maxLabel)}
	if h = m.shown[labels]; h == nil {
		switch {
		case len(m.shown) >= m.opts.MaxHooks || m.perSource[labels.source] >= max(m.opts.MaxHooks/4, 1):
			labels = hookKey{other, other}
		default:
			m.perSource[labels.source]++
		}
		if h = m.shown[labels]; h == nil {
			h = m.newHook(labels)
			m.shown[labels] = h
		}
	}
	// Cache the series by the hook's name, up to a limit.
	if len(m.byHook) < 4*m.opts.MaxHooks && len(source)+len(name) < 4096 {
		m.byHook[key] = h
	}
	return h
}

func (m *Metrics) newHook(l hookKey) *hookMetrics {
	h := &hookMetrics{
		errors: m.hookErrors.WithLabelValues(l.name, l.source, string(grapnel.CauseError)), timeouts: m.hookErrors.WithLabelValues(l.name, l.source, string(grapnel.CauseTimeout)),
		failOpen: m.failOpen.WithLabelValues(l.name, l.source), seconds: m.hookSeconds.WithLabelValues(l.name, l.source),
	}
	for d, label := range decisions {
		h.decisions[d] = m.hookRuns.WithLabelValues(l.name, l.source, label)
		if grapnel.Decision(d) > grapnel.None {
			h.would[d] = m.hookWould.WithLabelValues(l.name, l.source, label)
		}
	}
	return h
}

// Request counts the start of a request from grapnel-hook. At its end the caller must call one of
// the returned functions: answered, or declined with a reason in lower-case letters, such as busy
// or version.
func (m *Metrics) Request() (answered func(), declined func(reason string)) {
	begun := time.Now()
	m.inFlight.Inc()
	var once sync.Once
	end := func(how string, reason func() string) {
		once.Do(func() {
			m.inFlight.Dec()
			m.answerSeconds.Observe(time.Since(begun).Seconds())
			m.answers.WithLabelValues(how, reason()).Inc()
		})
	}
	answered = func() { end("answered", func() string { return "" }) }
	declined = func(why string) { end("declined", func() string { return m.reason(why) }) }
	return answered, declined
}

// reason returns the label for the reason of a declined request.
func (m *Metrics) reason(reason string) string {
	if !isWord(reason) {
		return other
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.reasons[reason] {
		if len(m.reasons) >= maxReasons {
			return other
		}
		m.reasons[reason] = true
	}
	return reason
}

// tryResults are the results of a delivery attempt: delivered, retried later, given up, or disabled
// by the target.
var tryResults = []string{"delivered", "again", "dead", "off"}

// DeliveryTried counts a delivery attempt by its result: delivered, again, dead or off.
func (m *Metrics) DeliveryTried(result string) {
	for _, known := range tryResults {
		if result == known {
			m.tries.WithLabelValues(known).Inc()
			return
		}
	}
	m.tries.WithLabelValues(other).Inc()
}

// PolicyLoaded counts an attempt to read the policies. err = nil means that it succeeded.
func (m *Metrics) PolicyLoaded(at time.Time, err error) {
	if err != nil {
		m.reloads.WithLabelValues("failed").Inc()
		m.reloadGood.Set(0)
		return
	}
	m.reloads.WithLabelValues("ok").Inc()
	m.reloadGood.Set(1)
	m.reloadTime.Set(float64(at.UnixMilli()) / 1000)
}

// Queue adds a gauge for the depth of a queue of the daemon. name must be in lower-case letters.
// depth is called at each scrape and must not block. A nil depth removes the gauge of that name.
func (m *Metrics) Queue(name string, depth func() int) {
	if !isWord(name) {
		name = other
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if depth == nil {
		delete(m.queues, name)
	} else if m.queues[name] != nil || len(m.queues) < maxQueues {
		m.queues[name] = depth
	}
}
