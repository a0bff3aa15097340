package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/circuit"
	"github.com/grapnel-dev/grapnel/outbound"
)

// Options are what a [Deliverer] needs and may do otherwise.
type Options struct {
	// Resolve says where a job goes, at each try: the policy that asked for it may be gone,
	// and so may a secret. An error counts as a try that failed. It is called by many
	// goroutines, and has 10 s. It has to be there.
	Resolve func(ctx context.Context, j *Job) (Target, error)

	// Client reaches the targets. nil = one of its own, which reaches public addresses and
	// keeps connections.
	Client *outbound.Client

	// MaxInFlight is how many tries may be under way at once, of all targets; 0 = 64.
	MaxInFlight int

	// Grace is how long Run and Once wait for the tries under way when they are to end. What
	// takes longer is cut off, and tried again another time. 0 = 5 s.
	Grace time.Duration

	// Observe is told of each try, how it ended and what it took. Many goroutines call it.
	Observe func(j Job, r Result, took time.Duration)

	Now  func() time.Time // nil = time.Now
	Rand func() float64   // from 0 up to 1; nil = package math/rand/v2
	Log  *slog.Logger     // of what goes wrong with the queue; nil = slog.Default
}

// A Deliverer delivers what a Queue holds.
type Deliverer struct {
	queue Queue
	opts  Options
	own   bool // the client
	wake  chan struct{}
}

// New makes a Deliverer. Nobody else may lease from its queue while it runs.
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

// Wake says that jobs were added, or a target switched on. It never waits.
func (d *Deliverer) Wake() {
	select {
	case d.wake <- struct{}{}:
	default: // somebody said so, and nobody has looked yet
	}
}

// A Summary counts how tries ended.
type Summary struct {
	Delivered int `json:"delivered"`
	Failed    int `json:"failed"` // and are tried again
	Dead      int `json:"dead"`
	Off       int `json:"off"` // their target wants no more
}

// Tries is how many there were.
func (s Summary) Tries() int { return s.Delivered + s.Failed + s.Dead + s.Off }

// Run delivers what is due, until ctx is done and everything inside has stopped. One Run
// or Once is called at a time. An error says that the queue does not know how some of the
// last tries ended: they will be made again.
func (d *Deliverer) Run(ctx context.Context) error {
	r := d.begin(ctx)
	for ctx.Err() == nil {
		r.next(ctx, r.round()) //nolint:contextcheck // what has happened is written down, whoever has gone away
	}
	return r.end() //nolint:contextcheck // what has happened is written down, whoever has gone away
}

// Once tries each job once that is due now, and those that come due behind them in their
// order. It returns when that is done, or when ctx is done, whose error it returns then. A
// target that fails in a row, or wants to wait, is left for another time.
func (d *Deliverer) Once(ctx context.Context) (Summary, error) {
	r := d.begin(ctx)
	r.once, r.cutoff = true, d.opts.Now()
	for ctx.Err() == nil && r.broken == nil {
		wait := r.round() //nolint:contextcheck // what has happened is written down, whoever has gone away
		if wait == 0 {
			break
		}
		r.next(ctx, wait)
	}
	err := errors.Join(ctx.Err(), r.broken, r.end()) //nolint:contextcheck // what has happened is written down, whoever has gone away
	return r.summary, err
}

const (
	// leaseTime is how long a job is ours. One that is to be tried has to have the time
	// for that left, or two tries of it would be under way.
	leaseTime = 2 * time.Minute
	leaseLeft = tryTime + 20*time.Second

	// maxWait is how long nobody looks at the queue at most: a clock may have jumped.
	maxWait = 30 * time.Second
	// pollTime is when it is looked at again while jobs are due that have to wait for their
	// target, since the time of others cannot be seen behind them.
	pollTime = time.Second
	// maxBackoff is how long a queue is left alone that fails, at most.
	maxBackoff = 30 * time.Second
	// settleTime is how long writing down results may take.
	settleTime = 30 * time.Second
)

// A lane is what is known of a target while a Deliverer runs. All of it belongs to the
// goroutine of Run or Once.
type lane struct {
	name   string
	parked []leased // have no room yet
	under  int
	max    int // 0 = nobody has asked for it yet
	limits circuit.Limits
	state  circuit.State
	until  time.Time // it wants to hear of nothing until then
	off    bool      // it wants no more, and the queue was not told yet
	left   bool      // by Once, for another time
}

type leased struct {
	Job
	end time.Time
}

// A run is one Run or Once.
type run struct {
	d      *Deliverer
	base   context.Context // is never done: what has happened is written down whoever has gone away
	work   context.Context // of the tries; done when their grace is over
	cancel context.CancelCauseFunc
	news   chan tried

	lanes   map[string]*lane
	ours    map[string]bool // the jobs that are leased, until the queue knows how they ended
	under   int             // tries
	results []Result        // of which the queue was not told yet
	offs    []*lane         // the same
	summary Summary

	retry   time.Time // a queue that failed is left alone until then
	backoff time.Duration

	once   bool
	cutoff time.Time // of Once: what is due then
	broken error     // of Once: the queue failed
}

func (d *Deliverer) begin(ctx context.Context) *run {
	r := &run{
		d: d, lanes: make(map[string]*lane), ours: make(map[string]bool),
		news: make(chan tried, 2*d.opts.MaxInFlight), // nobody who tries waits for us
	}
	r.base = context.WithoutCancel(ctx)
	r.work, r.cancel = context.WithCancelCause(r.base)
	return r
}

// round does all that can be done now, and returns how long nothing more can, if nothing
// happens. 0 = of Once, which is done.
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
			continue // what was given back
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
		// What is leased is ours from now on, and not from the time of the cutoff.
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
			if !r.ours[j.ID] { // a clock that jumped ends leases
				fresh++
				r.ours[j.ID] = true
				l := r.lane(j.Target)
				l.parked = append(l.parked, leased{j, now.Add(leaseTime)})
			}
		}
		if fresh > 0 {
			continue // starts them
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

// wait is how long until a job is due, or a target has to be left alone no longer.
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

// next waits until something happens, or for so long.
func (r *run) next(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.d.wake:
	case <-timer.C:
	case t := <-r.news:
		r.take(t)
		for { // what has ended meanwhile is written down together
			select {
			case t := <-r.news:
				r.take(t)
			default:
				return
			}
		}
	}
}

// failed remembers that the queue failed, and leaves it alone for a while.
func (r *run) failed(now time.Time, err error) {
	r.backoff = min(max(2*r.backoff, 100*time.Millisecond), maxBackoff)
	r.retry = now.Add(r.backoff)
	if r.once {
		r.broken = err
	}
	r.d.opts.Log.Error("deliveries wait, since their queue fails", "error", err, "again", r.backoff)
}

// settle tells the queue how tries ended. false: it could not.
func (r *run) settle(now time.Time) bool {
	if len(r.results) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(r.base, settleTime)
	defer cancel()
	if fault.On {
		fault.At("deliver: before it is settled")
	}
	if err := r.d.queue.Settle(ctx, r.results); err != nil {
		r.failed(now, err)
		return false
	}
	if fault.On {
		fault.At("deliver: settled")
	}
	for _, result := range r.results {
		delete(r.ours, result.ID)
	}
	for _, l := range r.offs {
		l.off = false // the queue leaves it out now
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

// except lists the targets that have no room.
func (r *run) except(now time.Time) []string {
	var names []string
	for name, l := range r.lanes {
		if len(l.parked) > 0 || !l.room(now, r.d.most()) {
			names = append(names, name)
		}
	}
	return names
}

// most is how many tries one target may have under way, whatever it says.
func (d *Deliverer) most() int { return max(1, d.opts.MaxInFlight/2) }

// room reports whether a try may begin.
func (l *lane) room(now time.Time, most int) bool {
	limit := 1 // until it is known, and while one finds out whether it is back
	if l.max > 0 && l.state.Until == 0 {
		limit = min(l.max, most)
	}
	if l.shut(now) || l.under >= limit {
		return false
	}
	_, pass := l.state.Enter(now, l.limits, tryTime)
	return pass != circuit.Refused
}

// shut reports whether a target is to be left alone.
func (l *lane) shut(now time.Time) bool { return l.off || l.left || l.opens(now).After(now) }

// opens is until when a target is to be left alone.
func (l *lane) opens(now time.Time) time.Time {
	at := l.until
	if until := time.Unix(0, l.state.Until); l.state.Until > 0 && until.After(at) {
		if _, pass := l.state.Enter(now, l.limits, tryTime); pass == circuit.Refused {
			at = until
		}
	}
	return at
}

// start starts what has room, one of each target after the other. What would have to wait
// for longer is given back.
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

// giveBack returns what was leased and not tried.
func (r *run) giveBack(l *lane) {
	for _, j := range l.parked {
		r.results = append(r.results, untried(&j.Job))
	}
	l.parked = nil
}

// take takes note of what happened to a try.
func (r *run) take(t tried) {
	l := t.lane
	if t.known {
		l.max = t.target.MaxInFlight
		if l.max <= 0 {
			l.max = DefaultMaxInFlight
		}
		l.limits = circuit.Limits{Failures: t.target.Failures, Cooldown: t.target.Cooldown}
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

// end gives back what was not tried, waits for the tries under way, and tells the queue of
// them.
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
		return fmt.Errorf("how %d tries ended could not be written down, and they will be made again: the queue fails", n)
	}
	return nil
}
