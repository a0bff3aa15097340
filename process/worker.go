package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// DefaultHello is the limit for a Worker if its Hello is 0.
const DefaultHello = 10 * time.Second

const (
	// maxConcurrency limits the concurrency that a program may announce, because that many events
	// are buffered for it.
	maxConcurrency = 1024

	// maxMisses is how many consecutive events may exceed their deadlines before the program is
	// restarted. stuckGrace is how long all places of a program may be occupied by canceled
	// events.
	maxMisses  = 3
	stuckGrace = time.Second

	// closeGrace is how long a program may take to exit after its input was closed.
	closeGrace = 2 * time.Second

	// The pauses between starts grow from shortestPause to longestPause. If a program has worked
	// for at least steady, its failures are counted from zero again.
	shortestPause = 100 * time.Millisecond
	longestPause  = 30 * time.Second
	steady        = 30 * time.Second
)

// A Worker is a hook whose program keeps running: it gets each event as a line on standard input
// and answers with a line on standard output, in any order. The lines are [dialect.Message]. A
// Worker is safe for concurrent use. It must not be copied, and must not be modified after its
// first use.
//
// The first event starts the program in Dir. The program gets GRAPNEL_HOOK and GRAPNEL_DEPTH, but
// no variables of events. If it ends or writes an invalid message, all unanswered events fail
// with that reason, and the next event starts it again: immediately after the first failure, then
// with growing pauses. Events during a pause fail immediately. A late answer fails only its own
// event. If three consecutive events are late, or if all places are occupied by late events, the
// program is restarted.
//
// The caller must call Close.
type Worker struct {
	// Command is the program to run. Its Dialect must be nil, plain or [dialect.OpenClawHandlers], and
	// its Vars must be nil. MaxOutput limits one line.
	Command

	Concurrency int           // maximum number of concurrent events; 0 = the number that the program announces
	Hello       time.Duration // time limit from the start to the first line; 0 = DefaultHello
	Log         io.Writer     // gets the program's standard error; nil = only errors quote the end of it

	ids atomic.Uint64

	mu       sync.Mutex
	asking   sync.WaitGroup // running calls of Handle
	closed   bool           // no new events
	over     bool           // no new starts
	wake     chan struct{}  // closed when over becomes true; nil = no call has needed it yet
	now      *instance      // the instance that was started last
	failures int            // consecutive failures
	retry    time.Time      // no start before this time
	unseen   error          // why the instance was ended while no event waited for it
}

// Check returns an error if the Worker has no Executor, or if its Dialect or Vars are not allowed
// for a worker.
func (w *Worker) Check() error {
	if d := w.Dialect; d != nil && (d.WriteEvent == nil || d.ReadOutcome == nil || d.HookEnv != nil || d.IsOnce()) || w.Vars != nil {
		return fmt.Errorf("%s cannot be a worker: a worker must use the dialect %q and gets no event variables", w.title(), plain.Name)
	}
	return w.Command.Check()
}

// language returns the dialect of the events and answers in messages.
func (w *Worker) language() *dialect.Dialect { return cmp.Or(w.Dialect, plain) }

// Grace returns 0, because the engine does not wait for a late Worker.
func (w *Worker) Grace() time.Duration { return 0 }

// Handle sends the event to the program and waits for the answer. It starts the program if it is
// not running.
func (w *Worker) Handle(ctx context.Context, ev *grapnel.Event) (out grapnel.Outcome, err error) {
	w.mu.Lock()
	closed := w.closed
	if !closed {
		w.asking.Add(1)
		defer w.asking.Done()
	}
	w.mu.Unlock()
	if err = w.Check(); err == nil && closed {
		err = errClosed
	}
	if err != nil {
		return out, w.cannotStart(err)
	}
	event, err := w.language().WriteEvent(ev)
	if err != nil {
		return out, fmt.Errorf("%s: cannot encode the event: %w", w.title(), err)
	}
	id := strconv.FormatUint(w.ids.Add(1), 10)
	line, err := dialect.Message{Type: dialect.TypeEvent, ID: id, Event: event}.Write()
	if err != nil {
		return out, fmt.Errorf("%s: cannot encode the event: %w", w.title(), err)
	}
	c := &call{id: id, answer: make(chan answer, 1)}
	for i := (*instance)(nil); ; {
		if i, err = w.instance(ctx, i); err != nil {
			return out, err
		}
		asked, err := i.ask(ctx, ev.Kind, c, line)
		switch {
		case errors.Is(err, errGone): // the program did not get this event: try the next instance
		case err != nil || !asked:
			return out, err
		default:
			return i.await(ctx, ev, c)
		}
	}
}

var (
	errClosed = errors.New("the worker was closed")
	errGone   = errors.New("gone")
)

// instance returns the current instance and starts one if necessary. before is the instance that
// ended while the event waited for a place. Such an event waits for the next start.
func (w *Worker) instance(ctx context.Context, before *instance) (*instance, error) {
	for {
		w.mu.Lock()
		i, pause, failures, unseen := w.now, time.Until(w.retry), w.failures, w.unseen
		w.unseen = nil
		if w.wake == nil {
			w.wake = make(chan struct{})
		}
		wake := w.wake
		switch {
		case w.over:
			unseen = w.cannotStart(errClosed)
		case unseen != nil:
		case i != nil && i.err == nil:
			pause = 0
		case pause <= 0:
			i = w.start() // the instance outlives the event that starts it
		}
		w.mu.Unlock()
		if unseen != nil {
			return nil, unseen
		}
		if pause <= 0 {
			return i, nil
		}
		if end, ok := ctx.Deadline(); before == nil || ok && time.Until(end) < pause {
			return nil, fmt.Errorf("%w %s: it has failed %d times in a row, next attempt in %v: %w", ErrStart, w.title(),
				failures, max(pause.Round(10*time.Millisecond), 10*time.Millisecond), i.err)
		}
		select {
		case <-time.After(pause):
		case <-wake:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s %w", w.title(), reason(ctx))
		}
	}
}

// cannotStart wraps an error of an event that was not sent to the program.
func (w *Worker) cannotStart(err error) error {
	if errors.Is(err, ErrStart) {
		return err
	}
	return fmt.Errorf("%w %s: %w", ErrStart, w.title(), err)
}

// backoff returns the pause before the next start after a number of consecutive failures. random
// is from [0, 1) and spreads the restarts of workers that failed together.
func backoff(failures int, random float64) time.Duration {
	if failures < 2 {
		return 0
	}
	pause := longestPause
	if doublings := failures - 2; doublings < 16 {
		pause = min(pause, shortestPause<<doublings)
	}
	return pause/2 + time.Duration(random*float64(pause/2))
}

// Close ends the program. It waits for the answers to pending events, closes the program's input,
// and waits closeGrace before it ends the program and its children. ctx limits both waits. Later
// events fail. Close returns an error if the program did not end by itself.
func (w *Worker) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	answered := make(chan struct{})
	go func() {
		w.asking.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-ctx.Done():
	}
	w.mu.Lock()
	w.over = true
	if w.wake != nil {
		close(w.wake)
		w.wake = nil
	}
	i := w.now
	w.mu.Unlock()
	if i == nil {
		return nil // the program was never started
	}
	_ = i.lines.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, closeGrace, fmt.Errorf("did not end within %v after the end of its input", closeGrace))
	defer cancel()
	var err error
	select {
	case <-i.ended:
	case <-ctx.Done():
		select {
		case <-i.ended: // ended at the same time
		default:
			err = fmt.Errorf("%s was killed: %w", w.title(), context.Cause(ctx))
			i.fail(fmt.Errorf("%s: %w", w.title(), errClosed))
		}
	}
	<-i.ended
	<-answered
	return err
}

// start starts the next instance. The caller holds w.mu.
func (w *Worker) start() *instance {
	i := &instance{
		worker: w, ready: make(chan struct{}), broken: make(chan struct{}), ended: make(chan struct{}),
		calls:  map[string]*call{},
		stderr: tail{also: w.Log},
	}
	i.lines.more.L = &i.lines.mu
	i.output = splitter{head: head{limit: w.limit()}, each: i.receive}
	var before <-chan struct{}
	if w.now != nil {
		before = w.now.ended
	}
	ctx, stop := context.WithCancelCause(context.Background())
	i.stop = stop
	w.now = i
	go i.run(ctx, before)
	return i
}

// An instance is one process of a Worker. Fields that start does not set are guarded by the
// Worker's mutex.
type instance struct {
	worker *Worker
	lines  queue // lines to the program
	output splitter
	stderr tail
	stop   context.CancelCauseFunc // ends the process

	ready  chan struct{} // closed after the hello message
	broken chan struct{} // closed when the instance accepts no more events; err is the reason
	ended  chan struct{} // closed when the process has ended

	err     error
	hello   *dialect.Message
	greeted time.Time
	places  chan struct{} // one entry for each event that the program is handling
	calls   map[string]*call
	overdue int // canceled calls without an answer
	misses  int // calls that exceeded their deadline since the last answer
	stuck   *time.Timer
}

// A call is an event that was sent to an instance.
type call struct {
	id      string
	answer  chan answer // has room for one answer
	overdue bool
}

type answer struct {
	message *dialect.Message
	err     error
}

// run starts the process and returns when it has ended. It first waits for before.
func (i *instance) run(ctx context.Context, before <-chan struct{}) {
	w := i.worker
	defer close(i.ended)
	defer i.stop(nil)
	if before != nil {
		<-before
	}
	hello := w.Hello
	if hello <= 0 {
		hello = DefaultHello
	}
	var end *Ending
	first, err := dialect.Hello().Write()
	cmd := w.Command
	cmd.InDir = cmd.Dir != ""
	p, startErr := cmd.program(nil)
	if err = errors.Join(err, startErr, context.Cause(ctx)); err == nil {
		i.lines.push(first)
		late := time.AfterFunc(hello, func() {
			select {
			case <-i.ready:
			default:
				i.fail(w.cannotStart(fmt.Errorf("it did not send its hello within %v%s", hello, i.stderr.last())))
			}
		})
		defer late.Stop()
		p.Input, p.Output, p.Errors = &i.lines, &i.output, &i.stderr
		end, err = w.Executor.Run(ctx, p)
	}
	_ = i.lines.Close()
	i.output.flush()
	i.fail(i.why(end, err))
}

// why returns the error for a process that ended although it was not stopped.
func (i *instance) why(end *Ending, err error) error {
	w := i.worker
	var how string
	switch {
	case err == nil && end == nil:
		err = errors.New("the Executor returned no result")
		fallthrough
	case err != nil:
		return w.cannotStart(err)
	case end.Signal != "":
		return fmt.Errorf("%s %w %s before it answered%s", w.title(), ErrSignal, end.Signal, i.stderr.last())
	case end.Exit != 0:
		how = fmt.Sprintf(" with exit code %d", end.Exit)
	}
	select {
	case <-i.ready:
		return fmt.Errorf("%s ended%s before it answered%s", w.title(), how, i.stderr.last())
	default:
		return w.cannotStart(fmt.Errorf("it ended%s before it sent its hello%s", how, i.stderr.last()))
	}
}

// fail ends the instance. The first error is the reason for all unanswered events.
func (i *instance) fail(err error) {
	i.worker.mu.Lock()
	defer i.worker.mu.Unlock()
	i.failed(err)
}

// failed does the work of fail. The caller must hold the Worker's mutex.
func (i *instance) failed(err error) {
	if i.err != nil {
		return
	}
	w := i.worker
	i.err = err
	close(i.broken)
	i.stop(err)
	if i.stuck != nil {
		i.stuck.Stop()
	}
	if !i.greeted.IsZero() && time.Since(i.greeted) >= steady {
		w.failures = 0
	}
	w.failures++
	w.retry = time.Now().Add(backoff(w.failures, rand.Float64())) // an attacker gains nothing by guessing it
}

// ask waits for a place and sends the event to the program. It returns false if the program does
// not want events of this kind.
func (i *instance) ask(ctx context.Context, kind grapnel.Kind, c *call, line []byte) (bool, error) {
	w := i.worker
	select {
	case <-i.ready:
	case <-i.broken:
		return false, i.err
	case <-ctx.Done():
		return false, fmt.Errorf("%s %w, and has not sent its hello yet%s", w.title(), reason(ctx), i.stderr.last())
	}
	if !i.hello.Wants(kind) {
		return false, nil
	}
	select {
	case i.places <- struct{}{}:
	case <-i.broken:
		return false, errGone
	case <-ctx.Done():
		return false, fmt.Errorf("%s %w: it handles %d events at once, and this event had to wait", w.title(), reason(ctx), cap(i.places))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if i.err != nil {
		return false, errGone
	}
	i.calls[c.id] = c
	i.lines.push(line)
	return true, nil
}

// await waits for the answer.
func (i *instance) await(ctx context.Context, ev *grapnel.Event, c *call) (grapnel.Outcome, error) {
	var a answer
	select {
	case a = <-c.answer:
	case <-ctx.Done():
		err := reason(ctx)
		i.cancel(c, errors.Is(err, grapnel.ErrTimeout))
		return grapnel.Outcome{}, fmt.Errorf("%s %w%s", i.worker.title(), err, i.stderr.last())
	case <-i.broken:
		select {
		case a = <-c.answer: // the program answered before it ended
		default:
			return grapnel.Outcome{}, i.err
		}
	}
	out, err := grapnel.Outcome{}, a.err
	if err == nil {
		out, err = a.message.ReadOutcomeAs(i.worker.language(), ev)
		out.Output = &dialect.Output{Stdout: a.message.Outcome}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", i.worker.title(), err)
	}
	return out, err
}

// cancel informs the program that no caller waits for the answer. The call keeps its place until
// the answer arrives, because the program is still busy with it.
func (i *instance) cancel(c *call, late bool) {
	w := i.worker
	line, _ := dialect.Message{Type: dialect.TypeCancel, ID: c.id}.Write() // strings can always be encoded
	w.mu.Lock()
	defer w.mu.Unlock()
	if i.err != nil || i.calls[c.id] == nil {
		return
	}
	i.lines.push(line)
	c.overdue = true
	i.overdue++
	if late {
		i.misses++
	}
	switch {
	case i.misses >= maxMisses:
		i.failed(fmt.Errorf("%s did not answer %d events in a row%s", w.title(), i.misses, i.stderr.last()))
	case i.overdue == cap(i.places):
		i.stuck = time.AfterFunc(stuckGrace, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if i.overdue == cap(i.places) {
				i.failed(fmt.Errorf("%s is stuck%s", w.title(), i.stderr.last()))
			}
		})
	}
}

// receive handles a line from the program. If cut is true, line is only the beginning of a longer
// line.
func (i *instance) receive(line []byte, cut bool) {
	m, err := dialect.ReadMessage(line)
	w := i.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	if i.err != nil {
		return
	}
	c := i.calls[m.ID]
	switch {
	case cut:
		err = fmt.Errorf("%w %d bytes", ErrOutput, w.limit())
		if m.Type == dialect.TypeAnswer && c != nil {
			i.answered(c, answer{err: err})
			return
		}
	case err == nil:
		err = m.Check(!i.greeted.IsZero())
	}
	switch {
	case err != nil:
	case m.Type == dialect.TypeHello && i.greeted.IsZero():
		i.hello, i.greeted = m, time.Now()
		places := min(max(m.Concurrency, 1), maxConcurrency)
		if w.Concurrency > 0 {
			places = min(places, w.Concurrency)
		}
		i.places = make(chan struct{}, places)
		close(i.ready)
	case m.Type == dialect.TypeAnswer && c == nil:
		err = m.Unasked()
	case m.Type == dialect.TypeAnswer:
		i.answered(c, answer{message: m})
	}
	if err == nil {
		return
	}
	if err = fmt.Errorf("%w%s", err, i.stderr.last()); i.greeted.IsZero() {
		err = w.cannotStart(err)
	} else if err = fmt.Errorf("%s: %w", w.title(), err); len(i.calls) == i.overdue {
		w.unseen = err // reported by the next event, because an answer may have been lost
	}
	i.failed(err)
}

// answered passes an answer to the waiting call. The caller holds the Worker's mutex.
func (i *instance) answered(c *call, a answer) {
	delete(i.calls, c.id)
	<-i.places
	i.misses = 0
	if !c.overdue {
		c.answer <- a
		return
	}
	i.overdue--
	if i.stuck != nil {
		i.stuck.Stop()
	}
}
