package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/grapnel-dev/grapnel/internal/circuit"
	"github.com/grapnel-dev/grapnel/internal/fault"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Options are the settings of a [Deliverer].
type Options struct {
	// Resolve returns the server of a job at each attempt, with resolved references, because the
	// policy or a secret may have been removed. An error is a failed attempt. Many goroutines call
	// it, with a timeout of 10 s. It is required.
	Resolve func(ctx context.Context, j *Job) (policyfile.HTTP, error)

	// Client sends the requests. nil = a new client, which can reach public addresses and keeps
	// connections open.
	Client *outbound.Client

	// MaxInFlight is the maximum number of concurrent attempts, of all targets; 0 = 64.
	MaxInFlight int

	// Grace is how long Run and Once wait for the current attempts when they stop. Longer
	// attempts are canceled and made again later. 0 = 5 s.
	Grace time.Duration

	// Observe is called after each attempt with its result and duration. Many goroutines call it.
	Observe func(j Job, r Result, took time.Duration)

	Now  func() time.Time // nil = time.Now
	Rand func() float64   // in [0, 1); nil = package math/rand/v2
	Log  *slog.Logger     // for errors of the queue; nil = slog.Default
}

// A Deliverer delivers the jobs of a Queue.
type Deliverer struct {
	queue Queue
	opts  Options
	own   bool // the Deliverer has created the client
	wake  chan struct{}
}

// New returns a Deliverer. No other Deliverer may lease from its queue while it runs.
func New(queue Queue, opts Options) *Deliverer {
	d := &Deliverer{queue: queue, opts: opts, wake: make(chan struct{}, 1)}
	if d.own = opts.Client == nil; d.own {
		d.opts.Client = outbound.NewClient(&outbound.Options{KeepIdle: 30 * time.Second})
	}
	if d.opts.MaxInFlight <= 0 {
		d.opts.MaxInFlight = 64
	}
	d.opts.Grace = cmp.Or(opts.Grace, 5*time.Second)
	if d.opts.Now == nil {
		d.opts.Now = time.Now
	}
	if d.opts.Rand == nil {
		d.opts.Rand = rand.Float64
	}
	if d.opts.Log == nil {
		d.opts.Log = slog.Default()
	}
	return d
}

// Wake makes the Deliverer look at the queue, after jobs were added or a target was switched on.
// It never blocks.
func (d *Deliverer) Wake() {
	select {
	case d.wake <- struct{}{}:
	default: // an earlier call is still pending
	}
}

// A Summary counts the results of attempts.
type Summary struct {
	Delivered int `json:"delivered"`
	Failed    int `json:"failed"` // and will be retried
	Dead      int `json:"dead"`
	Off       int `json:"off"` // the target refused all deliveries
}

// Tries returns the number of attempts.
func (s Summary) Tries() int { return s.Delivered + s.Failed + s.Dead + s.Off }

// Run delivers due jobs until ctx is done and all attempts have ended. Only one Run or Once may
// run at a time. An error means that the queue did not store some of the last results: these
// attempts will be repeated.
func (d *Deliverer) Run(ctx context.Context) error {
	r := d.begin(ctx)
	for ctx.Err() == nil {
		r.next(ctx, r.round()) // results are stored even if ctx has ended
	}
	return r.end() // results are stored even if ctx has ended
}

// Once makes one attempt for each job that is due now, and for jobs that become ready after them
// in their order. It returns after these attempts, or with the error of ctx when ctx is done. It
// skips the remaining jobs of a target that fails repeatedly or asks to wait.
func (d *Deliverer) Once(ctx context.Context) (Summary, error) {
	r := d.begin(ctx)
	r.once, r.cutoff = true, d.opts.Now()
	for ctx.Err() == nil && r.broken == nil {
		wait := r.round() // results are stored even if ctx has ended
		if wait == 0 {
			break
		}
		r.next(ctx, wait)
	}
	err := errors.Join(ctx.Err(), r.broken, r.end()) // results are stored even if ctx has ended
	return r.summary, err
}

const (
	// leaseTime is how long this Deliverer owns a job. An attempt starts only if leaseLeft
	// remains, so that there are never two concurrent attempts for a job.
	leaseTime = 2 * time.Minute
	leaseLeft = tryTime + 20*time.Second

	// maxWait is the maximum time between two looks at the queue, because the clock may jump.
	maxWait = 30 * time.Second
	// pollTime is the time between two looks while due jobs wait for their target, because they
	// hide the due times of other jobs.
	pollTime = time.Second
	// maxBackoff is the maximum wait after the queue has failed.
	maxBackoff = 30 * time.Second
	// settleTime is the timeout for storing results.
	settleTime = 30 * time.Second
)

// A lane is the state of a target while a Deliverer runs. Only the goroutine of Run or Once uses
// it.
type lane struct {
	name   string
	parked []leased // leased jobs that wait for room
	under  int
	max    int // 0 = not resolved yet
	limits circuit.Limits
	state  circuit.State
	until  time.Time // no attempts until this time, as the target asked
	off    bool      // the target refused all deliveries, and the queue does not know yet
	left   bool      // skipped by Once
}

type leased struct {
	Job
	end time.Time
}

// A run is one call of Run or Once.
type run struct {
	d      *Deliverer
	base   context.Context // never done: results are stored even if the caller's context has ended
	work   context.Context // of the attempts; done when their grace period has ended
	cancel context.CancelCauseFunc
	news   chan tried

	lanes   map[string]*lane
	ours    map[string]bool // leased jobs, until the queue has stored their results
	under   int             // attempts
	results []Result        // not stored by the queue yet
	offs    []*lane         // not stored by the queue yet
	summary Summary

	retry   time.Time // no use of the queue until this time, after it has failed
	backoff time.Duration

	once   bool
	cutoff time.Time // of Once: only jobs that are due at this time
	broken error     // of Once: the queue failed
}

func (d *Deliverer) begin(ctx context.Context) *run {
	r := &run{
		d: d, lanes: make(map[string]*lane), ours: make(map[string]bool),
		news: make(chan tried, 2*d.opts.MaxInFlight), // so that attempts never block on it
	}
	r.base = context.WithoutCancel(ctx)
	r.work, r.cancel = context.WithCancelCause(r.base)
	return r
}

// round does all work that is possible now, and returns how long to wait if nothing happens. 0 =
// Once is done.
func (r *run) round() time.Duration {
	for {
		now := r.d.opts.Now()
		if now.Before(r.retry) {
			return min(r.retry.Sub(now), maxBackoff)
		}
		if !r.settle(now) {
			continue
		}
		r.start(now)
		if len(r.results) > 0 {
			continue // settle the returned jobs
		}
		free := r.d.opts.MaxInFlight - r.under
		if free <= 0 {
			return maxWait
		}
		except := r.except(now)
		due := now
		if r.once {
			due = r.cutoff
		}
		// The lease begins now, and not at the cutoff.
		jobs, err := r.d.queue.Lease(r.work, due, leaseTime+now.Sub(due), free, except)
		if err != nil {
			r.failed(now, err)
			continue
		}
		r.backoff = 0
		if fault.On && len(jobs) > 0 {
			fault.At("deliver: leased")
		}
		fresh := 0
		for _, j := range jobs {
			if !r.ours[j.ID] { // leases may end early if the clock jumps
				fresh++
				r.ours[j.ID] = true
				l := r.lane(j.Target)
				l.parked = append(l.parked, leased{j, now.Add(leaseTime)})
			}
		}
		if fresh > 0 {
			continue // start them
		}
		switch {
		case !r.once:
			return r.wait(now)
		case r.under > 0:
			return maxWait
		default:
			return 0
		}
	}
}

// wait returns the time until a job is due or a target may be tried again.
func (r *run) wait(now time.Time) time.Duration {
	wait := maxWait
	next, err := r.d.queue.NextDue(r.work)
	switch {
	case err != nil:
		r.failed(now, err)
		return min(r.retry.Sub(now), maxBackoff)
	case next.IsZero():
	case next.After(now):
		wait = min(wait, next.Sub(now))
	default:
		wait = pollTime
	}
	for _, l := range r.lanes {
		if at := l.opens(now); at.After(now) {
			wait = min(wait, at.Sub(now))
		}
	}
	return max(wait, time.Millisecond)
}

// next waits for an event, at most for wait.
func (r *run) next(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.d.wake:
	case <-timer.C:
	case t := <-r.news:
		r.take(t)
		for { // store all attempts that have ended meanwhile together
			select {
			case t := <-r.news:
				r.take(t)
			default:
				return
			}
		}
	}
}

// failed stores that the queue failed, and delays its next use.
func (r *run) failed(now time.Time, err error) {
	r.backoff = min(max(2*r.backoff, 100*time.Millisecond), maxBackoff)
	r.retry = now.Add(r.backoff)
	if r.once {
		r.broken = err
	}
	r.d.opts.Log.Error("delivery queue failed; deliveries wait", "error", err, "next", r.backoff)
}

// settle stores results in the queue. It reports false if that failed.
func (r *run) settle(now time.Time) bool {
	if len(r.results) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(r.base, settleTime)
	defer cancel()
	fault.At("deliver: before it is settled")
	if err := r.d.queue.Settle(ctx, r.results); err != nil {
		r.failed(now, err)
		return false
	}
	fault.At("deliver: settled")
	for _, result := range r.results {
		delete(r.ours, result.ID)
	}
	for _, l := range r.offs {
		l.off = false // the queue leaves the target out now
	}
	r.results, r.offs, r.retry, r.backoff = nil, nil, time.Time{}, 0
	return true
}

func (r *run) lane(name string) *lane {
	l := r.lanes[name]
	if l == nil {
		l = &lane{name: name}
		r.lanes[name] = l
	}
	return l
}

// except returns the targets that have no room for attempts.
func (r *run) except(now time.Time) []string {
	var names []string
	for name, l := range r.lanes {
		if len(l.parked) > 0 || !l.room(now, r.d.most()) {
			names = append(names, name)
		}
	}
	return names
}

// most returns the maximum number of concurrent attempts for one target, independent of its
// settings.
func (d *Deliverer) most() int { return max(1, d.opts.MaxInFlight/2) }

// room reports whether an attempt may start.
func (l *lane) room(now time.Time, most int) bool {
	limit := 1 // until the setting is known, and while one attempt probes the target
	if l.max > 0 && l.state.Until == 0 {
		limit = min(l.max, most)
	}
	if l.shut(now) || l.under >= limit {
		return false
	}
	_, pass := l.state.Enter(now, l.limits, tryTime)
	return pass != circuit.Refused
}

// shut reports whether no attempt may start for a target.
func (l *lane) shut(now time.Time) bool { return l.off || l.left || l.opens(now).After(now) }

// opens returns until when no attempt may start for a target.
func (l *lane) opens(now time.Time) time.Time {
	at := l.until
	if until := time.Unix(0, l.state.Until); l.state.Until > 0 && until.After(at) {
		if _, pass := l.state.Enter(now, l.limits, tryTime); pass == circuit.Refused {
			at = until
		}
	}
	return at
}

// start starts the attempts that have room, one of each target in turn. It gives back jobs that
// would have to wait for longer.
func (r *run) start(now time.Time) {
	for begun := true; begun; {
		begun = false
		for _, l := range r.lanes {
			if l.shut(now) || len(l.parked) > 0 && l.parked[0].end.Sub(now) < leaseLeft {
				r.giveBack(l)
			}
			if len(l.parked) == 0 || r.under >= r.d.opts.MaxInFlight || !l.room(now, r.d.most()) {
				continue
			}
			j := l.parked[0].Job
			l.parked = l.parked[1:]
			var pass circuit.Pass
			l.state, pass = l.state.Enter(now, l.limits, tryTime)
			l.under++
			r.under++
			begun = true
			go func() { // end waits for it
				r.news <- r.d.try(r.work, l, j, pass, func(t tried) { r.news <- t })
			}()
		}
	}
}

// giveBack returns leased jobs without an attempt.
func (r *run) giveBack(l *lane) {
	for _, j := range l.parked {
		r.results = append(r.results, untried(&j.Job))
	}
	l.parked = nil
}

// take processes the report of an attempt.
func (r *run) take(t tried) {
	l := t.lane
	if t.known {
		l.max = cmp.Or(t.target.Most, defaultMost)
		l.limits = t.target.Breaker.Limits()
		return
	}
	now := r.d.opts.Now()
	l.under--
	r.under--
	l.state = l.state.Leave(now, l.limits, t.pass, t.server)
	if t.hold > 0 {
		l.until = now.Add(t.hold)
	}
	r.results = append(r.results, t.result)
	switch {
	case t.result.Untried:
	case t.result.Off:
		l.off = true
		r.offs = append(r.offs, l)
		r.giveBack(l)
		r.summary.Off++
	case t.result.State == Delivered:
		r.summary.Delivered++
	case t.result.State == Dead:
		r.summary.Dead++
	default:
		r.summary.Failed++
	}
	l.left = r.once && (l.left || l.off || l.shut(now))
}

// end gives back the jobs without an attempt, waits for the current attempts, and stores their
// results.
func (r *run) end() error {
	defer r.cancel(errStopped)
	for _, l := range r.lanes {
		r.giveBack(l)
	}
	grace := time.AfterFunc(r.d.opts.Grace, func() { r.cancel(errStopped) })
	defer grace.Stop()
	for r.under > 0 {
		r.take(<-r.news)
	}
	if r.d.own {
		_ = r.d.opts.Client.Close(r.base)
	}
	if n := len(r.results); n > 0 && !r.settle(r.d.opts.Now()) {
		return fmt.Errorf("cannot store the results of %d delivery attempts, which will be repeated: the queue failed", n)
	}
	return nil
}
