package hookcmd

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/consent"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

const (
	// listenAfter is when a program begins to catch signals, unless it starts hooks before:
	// catching costs a thread, and most events are answered long before.
	listenAfter = 50 * time.Millisecond

	lookEvery  = 500 * time.Millisecond // how often the deadline is computed while the event is being read
	closedTime = time.Second            // to make the fail-closed reply from the payload
	settleTime = 2 * time.Second        // to end the hooks' programs and write the Record, after the reply
)

// patience returns how long an event with this budget may take from the start of the
// program to its reply. It is more than the budget, after which hooks are ended, and less
// than the timeout in the agent's settings.
func patience(budget time.Duration) time.Duration {
	if budget <= 0 {
		budget = dialect.DefaultBudget
	}
	return budget + min(budget/10, 2*time.Second)
}

// A watchdog makes sure that an agent gets one reply in time. Another goroutine does the work. If
// the work does not end before the deadline, or if the agent asks this process to end, the watchdog
// returns the fail-closed reply, and the result of the work is dropped. Only the caller of run
// writes, so there are never two replies.
type watchdog struct {
	inv     invocation // a copy: the work may change its own
	named   *dialect.Dialect
	begun   time.Time
	signals chan os.Signal // nil = signals are not for this event
	done    chan worked
	cancel  context.CancelCauseFunc

	asked  bool            // a signal asked this process to end
	over   atomic.Bool     // the fail-closed reply was made: the work leaves no Record
	record *grapnel.Record // of the fail-closed reply
	why    error           // the fail-closed reply was made; nil = the work was done
	mu     sync.Mutex      // of the following
	input  *dialect.Input  // nil = not read yet
	place  local.Place     // zero = not found yet
	budget time.Duration   // of the event; 0 = not known yet
	waits  time.Time       // until then a person may answer; zero = no person is asked
}

// worked is the result of the work on one event.
type worked struct {
	reply   dialect.Reply
	pending bool // observing hooks wait for a drain
}

func newWatchdog(inv *invocation, named *dialect.Dialect, signals bool) *watchdog {
	w := &watchdog{inv: *inv, named: named, begun: time.Now(), done: make(chan worked, 1)}
	if signals {
		w.signals = make(chan os.Signal, 2)
	}
	if named != nil {
		if row := named.Row(inv.event); row != nil {
			w.budget = row.Budget
		}
	}
	return w
}

// run returns the result of work, or the fail-closed reply. Afterwards the caller writes the
// reply and calls settle.
func (w *watchdog) run(ctx context.Context, work func(ctx context.Context) worked) worked {
	ctx, w.cancel = context.WithCancelCause(ctx)
	go func() {
		defer func() {
			if r := recover(); r != nil { // not even lastResort could answer
				w.done <- worked{reply: w.crashed(ctx, fmt.Errorf("internal error: %v", r))}
			}
		}()
		w.done <- work(ctx)
	}()
	timer := time.NewTimer(listenAfter)
	defer timer.Stop()
	for w.why == nil {
		select {
		case result := <-w.done:
			return result
		case s := <-w.signals:
			w.asked, w.why = true, fmt.Errorf("the process received a signal (%v) before it had judged this event", s)
		case <-timer.C:
			w.listen()
			limit := w.limit()
			if left := limit - time.Since(w.begun); left > 0 {
				timer.Reset(min(left, lookEvery))
			} else {
				w.why = fmt.Errorf("this event was not judged within %v", limit)
			}
		}
	}
	select {
	case result := <-w.done: // just in time
		w.why = nil
		return result
	default:
	}
	w.over.Store(true)
	return worked{reply: w.closed(ctx)}
}

// crashed returns the reply if not even lastResort could answer. An agent for which each exit code
// other than 0 is an answer gets the fail-closed reply to an event without a payload.
func (w *watchdog) crashed(ctx context.Context, err error) (reply dialect.Reply) {
	reply = dialect.Reply{Stderr: fmt.Appendf(nil, "grapnel: error: %v\n", err), Exit: exitFailure}
	if w.named == nil || !w.named.ExitBlocks {
		return reply
	}
	defer func() { _ = recover() }() // then the reply is the one above
	return lastResort(ctx, w.named, dialect.Input{Event: w.inv.event, Err: err}, err)
}

// settle ends the programs that the work has started and writes the Record of a closed
// reply. It returns after settleTime at the latest, or when this process gets the signal to end
// again.
func (w *watchdog) settle() {
	defer signal.Stop(w.signals)
	defer w.cancel(nil)
	if w.why == nil {
		return
	}
	w.cancel(w.why)
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		w.keep()
	}()
	wait := settleTime
	if !w.asked { // the agent's own timeout is near
		wait = w.limit() / 50
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	done := w.done
	for done != nil || recorded != nil {
		select {
		case <-done:
			done = nil
		case <-recorded:
			recorded = nil
		case <-w.signals:
			return
		case <-timeout.C:
			return
		}
	}
}

// listen catches the signals by which agents end their hooks. If the agent has also closed the
// pipe, writing the reply must not end this process before it has ended the programs of hooks.
func (w *watchdog) listen() {
	if w != nil && w.signals != nil {
		signal.Notify(w.signals, syscall.SIGTERM, os.Interrupt)
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}

// found notes where the policies are.
func (w *watchdog) found(place local.Place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.place = place
}

// read notes the payload.
func (w *watchdog) read(input dialect.Input) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.input = &input
}

// received notes the budget of the event, and subtracts the time that has passed.
func (w *watchdog) received(ev *grapnel.Event) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.budget = ev.Terms.Budget
	w.mu.Unlock()
	ev.Terms.Budget = max(ev.Terms.Budget-time.Since(w.begun).Truncate(time.Second), time.Millisecond)
}

// extend gives a person until a time to answer, and the program half of the margin to reply.
func (w *watchdog) extend(until time.Time) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits = until.Add(consent.Margin / 2)
}

// start returns when the agent began to wait for the reply.
func (w *watchdog) start() time.Time {
	if w == nil {
		return time.Now()
	}
	return w.begun
}

func (w *watchdog) limit() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.waits.IsZero() {
		return w.waits.Sub(w.begun)
	}
	return patience(w.budget)
}

// expired reports whether the fail-closed reply was made. Later results of the work are not the
// agent's reply.
func (w *watchdog) expired() bool { return w != nil && w.over.Load() }

// closed returns the reply to an event that is not judged: as for a broken policy without
// a snapshot.
func (w *watchdog) closed(ctx context.Context) dialect.Reply {
	w.mu.Lock()
	input, place := w.input, w.place
	w.mu.Unlock()
	if input != nil {
		// The work may hang because of the payload, so reading it has a time limit here, too.
		made := make(chan dialect.Reply, 1)
		var record grapnel.Record
		go func() { made <- w.locked(ctx, *input, place, &record) }()
		timeout := time.NewTimer(closedTime)
		defer timeout.Stop()
		select {
		case reply := <-made:
			w.record = &record
			return reply
		case <-timeout.C:
		}
	}
	w.record = new(grapnel.Record)
	return w.locked(ctx, dialect.Input{Event: w.inv.event, Err: w.why}, place, w.record)
}

// locked returns the reply of lastResort for the payload and sets record to its Record.
func (w *watchdog) locked(ctx context.Context, input dialect.Input, place local.Place, record *grapnel.Record) dialect.Reply {
	specs := notice.Locked(w.why.Error())
	if input.Err != nil && place.State != "" && !place.HasPolicy(w.inv.policies) {
		specs = nil // without a policy, an unreadable event is not blocked
	}
	observer := grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { *record = *rec })
	engine, err := grapnel.New(specs, &grapnel.Options{Observers: []grapnel.Observer{observer}})
	if err != nil {
		return dialect.Reply{Stderr: fmt.Appendf(nil, "grapnel: error: %v\n", err), Exit: exitFailure}
	}
	got := w.inv.receive(agents(nil).choose(w.named, input.Payload, place.Agent), input)
	reply := got.Answer(context.WithoutCancel(ctx), engine)
	warn(&reply, w.why)
	return reply
}

// keep writes the Record of the fail-closed reply. It stores metadata only, because the record mode
// of the policies may not be known yet.
func (w *watchdog) keep() {
	w.mu.Lock()
	place := w.place
	w.mu.Unlock()
	if place.State == "" || w.record == nil || w.record.Event == "" {
		return
	}
	sp, err := spool.Open(place.State, nil)
	if err != nil {
		return // the reply contains the reason
	}
	defer func() { _ = sp.Close() }()
	sp.Keep(spool.Metadata, nil, false)
	place.Identity().Mark(w.record, nil, "") // the policies may not be known
	sp.Observe(context.Background(), w.record)
	if err := sp.Err(); err != nil {
		_ = spool.AddLoss(sp.Dir(), err, time.Now())
	}
}
