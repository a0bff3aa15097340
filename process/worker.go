package process

import (
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

// DefaultHello is the Hello of a Worker that names none.
const DefaultHello = 10 * time.Second

const (
	// maxConcurrency bounds what a program may say that it takes at once: as many
	// events are kept for it.
	maxConcurrency = 1024

	// maxMisses is how many events in a row may meet their deadline before a program is
	// taken for dead, and stuckGrace how long it may hold all its places with events
	// that nobody waits for any more.
	maxMisses  = 3
	stuckGrace = time.Second

	// closeGrace is how long a program may take to end by itself once its input has
	// ended.
	closeGrace = 2 * time.Second

	// The pauses between starts grow from the shortest to the longest. A program that
	// has worked for as long as steady has failed for the first time again.
	shortestPause = 100 * time.Millisecond
	longestPause  = 30 * time.Second
	steady        = 30 * time.Second
)

// A Worker is a hook that is a program which is kept running: it gets each event as a
// line on standard input and answers with a line on standard output, in any order. The
// lines are [dialect.Message]. It must not be copied, nor be changed once it is in use;
// it is safe for concurrent use.
//
// The program is started by the first event, in Dir, and told of no event by variables:
// those that it gets are GRAPNEL_HOOK and GRAPNEL_DEPTH. When it ends, or says what is no
// message, the events that it had not answered fail, each with the reason, and the next
// event starts it again: at once the first time, then after pauses that grow. An event
// that comes in a pause fails at once. An answer that is late fails its event alone; of a
// program that lets three events in a row be late, or all that it can take at once, a
// new one is started.
//
// Whoever has used a Worker calls Close.
type Worker struct {
	// Command is what runs. Its Dialect is Plain and its Vars are none. MaxOutput
	// bounds one line.
	Command

	Concurrency int           // how many events it gets at once, at most; 0 = as many as it says
	Hello       time.Duration // how long it may take from its start to its first line; 0 = DefaultHello
	Log         io.Writer     // gets what it writes to standard error; nil = only errors quote its end

	ids atomic.Uint64

	mu       sync.Mutex
	asking   sync.WaitGroup // events that Handle has taken
	closed   bool           // for new events
	over     bool           // for starts too
	wake     chan struct{}  // closed with that; nil = nobody has asked
	now      *instance      // the one that was started last
	failures int            // in a row
	retry    time.Time      // no start before that
	unseen   error          // why it was ended while nobody was waiting for it
}

// Check reports whether there is anybody to run the program, and whether it can be one
// that is kept running.
func (w *Worker) Check() error {
	if w.Dialect != nil && (w.Dialect.Name != plain.Name || w.Dialect.IsOnce()) || w.Vars != nil {
		return fmt.Errorf("%s cannot be kept running: a worker speaks %q and gets no variables of events", w.title(), plain.Name)
	}
	return w.Command.Check()
}

// Grace is nothing: who is late is left behind.
func (w *Worker) Grace() time.Duration { return 0 }

// Handle asks the program, and starts it if it does not run.
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
	event, err := plain.WriteEvent(ev)
	if err != nil {
		return out, fmt.Errorf("%s: cannot write the event for it: %w", w.title(), err)
	}
	id := strconv.FormatUint(w.ids.Add(1), 10)
	line, err := dialect.Message{Type: dialect.TypeEvent, ID: id, Event: event}.Write()
	if err != nil {
		return out, fmt.Errorf("%s: cannot write the event for it: %w", w.title(), err)
	}
	c := &call{id: id, answer: make(chan answer, 1)}
	for i := (*instance)(nil); ; {
		if i, err = w.instance(ctx, i); err != nil {
			return out, err
		}
		asked, err := i.ask(ctx, ev.Kind, c, line)
		switch {
		case errors.Is(err, errGone): // it was not told of this event: the next one will be
		case err != nil || !asked:
			return out, err
		default:
			return i.await(ctx, ev, c)
		}
	}
}

var (
	errClosed = errors.New("it was closed")
	errGone   = errors.New("gone")
)

// instance returns the one that is to be asked, and starts it if need be. before is the
// one that has ended while the event waited for its turn: such an event waits on.
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
			i = w.start() //nolint:contextcheck // it outlives the event that starts it
		}
		w.mu.Unlock()
		if unseen != nil {
			return nil, unseen
		}
		if pause <= 0 {
			return i, nil
		}
		if end, ok := ctx.Deadline(); before == nil || ok && time.Until(end) < pause {
			return nil, fmt.Errorf("%w %s: it has failed %d times in a row and is tried again in %v: %w", ErrStart, w.title(),
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

// cannotStart is an error of an event that the program was not asked about.
func (w *Worker) cannotStart(err error) error {
	if errors.Is(err, ErrStart) {
		return err
	}
	return fmt.Errorf("%w %s: %w", ErrStart, w.title(), err)
}

// backoff is the pause before the next start after so many failures in a row. random is
// from [0, 1): not all that failed together come back together.
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

// Close ends the program: it answers what it was asked, its input ends, and it gets a
// little time before it is interrupted and killed, with all that it started. ctx bounds
// how long the first two may take. Events that come later fail. The error says that the
// program did not end by itself.
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
		return nil // nobody ever asked
	}
	_ = i.lines.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, closeGrace, fmt.Errorf("did not end within %v after its input had ended", closeGrace))
	defer cancel()
	var err error
	select {
	case <-i.ended:
	case <-ctx.Done():
		select {
		case <-i.ended: // before
		default:
			err = fmt.Errorf("%s was killed: %w", w.title(), context.Cause(ctx))
			i.fail(fmt.Errorf("%s: %w", w.title(), errClosed))
		}
	}
	<-i.ended
	<-answered
	return err
}

// start begins the next instance. w.mu is held.
func (w *Worker) start() *instance {
	i := &instance{
		worker: w, ready: make(chan struct{}), broken: make(chan struct{}), ended: make(chan struct{}),
		calls: map[string]*call{},
		said:  tail{also: w.Log},
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

// An instance is one process of a Worker, from its start to its end. What is not set
// when it is made is guarded by the Worker's mutex.
type instance struct {
	worker *Worker
	lines  queue // to the program
	output splitter
	said   tail
	stop   context.CancelCauseFunc // ends the process

	ready  chan struct{} // closed when it has said hello
	broken chan struct{} // closed when it is not to be asked any more, and err says why
	ended  chan struct{} // closed when it is gone

	err     error
	hello   *dialect.Message
	greeted time.Time
	places  chan struct{} // one for each event that it can take
	calls   map[string]*call
	overdue int // calls that nobody waits for any more
	misses  int // of them, those since its last answer whose deadline has passed
	stuck   *time.Timer
}

// A call is an event that an instance has been told of.
type call struct {
	id      string
	answer  chan answer // takes one
	overdue bool
}

type answer struct {
	message *dialect.Message
	err     error
}

// run is the life of the process.
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
				i.fail(w.cannotStart(fmt.Errorf("it did not say hello within %v%s", hello, i.said.last())))
			}
		})
		defer late.Stop()
		p.Input, p.Output, p.Errors = &i.lines, &i.output, &i.said
		end, err = w.Executor.Run(ctx, p)
	}
	_ = i.lines.Close()
	i.output.flush()
	i.fail(i.why(end, err))
}

// why says how a process ended that was not told to.
func (i *instance) why(end *Ending, err error) error {
	w := i.worker
	var how string
	switch {
	case err == nil && end == nil:
		err = errors.New("its Executor does not say how it ended")
		fallthrough
	case err != nil:
		return w.cannotStart(err)
	case end.Signal != "":
		return fmt.Errorf("%s %w %s before it answered%s", w.title(), ErrSignal, end.Signal, i.said.last())
	case end.Exit != 0:
		how = fmt.Sprintf(" with exit code %d", end.Exit)
	}
	select {
	case <-i.ready:
		return fmt.Errorf("%s ended%s before it answered%s", w.title(), how, i.said.last())
	default:
		return w.cannotStart(fmt.Errorf("it ended%s before it said hello%s", how, i.said.last()))
	}
}

// fail says why the instance is not to be asked any more, once, and ends it.
func (i *instance) fail(err error) {
	i.worker.mu.Lock()
	defer i.worker.mu.Unlock()
	i.failed(err)
}

// failed is fail for who holds the Worker's mutex.
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
	w.retry = time.Now().Add(backoff(w.failures, rand.Float64())) //nolint:gosec // G404: nobody gains by guessing it
}

// ask waits for a place and tells the program of an event. It reports false if the
// program does not want events of this kind.
func (i *instance) ask(ctx context.Context, kind grapnel.Kind, c *call, line []byte) (bool, error) {
	w := i.worker
	select {
	case <-i.ready:
	case <-i.broken:
		return false, i.err
	case <-ctx.Done():
		return false, fmt.Errorf("%s %w, and has not said hello yet%s", w.title(), reason(ctx), i.said.last())
	}
	if !i.hello.Wants(kind) {
		return false, nil
	}
	select {
	case i.places <- struct{}{}:
	case <-i.broken:
		return false, errGone
	case <-ctx.Done():
		return false, fmt.Errorf("%s %w: it takes %d events at once, and this one had to wait", w.title(), reason(ctx), cap(i.places))
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
		return grapnel.Outcome{}, fmt.Errorf("%s %w%s", i.worker.title(), err, i.said.last())
	case <-i.broken:
		select {
		case a = <-c.answer: // its last words
		default:
			return grapnel.Outcome{}, i.err
		}
	}
	out, err := grapnel.Outcome{}, a.err
	if err == nil {
		out, err = a.message.ReadOutcome(ev)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", i.worker.title(), err)
	}
	return out, err
}

// cancel tells the program that nobody waits for an answer any more. The call keeps its
// place until the answer comes: a program that is busy with it can take no other.
func (i *instance) cancel(c *call, late bool) {
	w := i.worker
	line, _ := dialect.Message{Type: dialect.TypeCancel, ID: c.id}.Write() // strings can always be written
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
		i.failed(fmt.Errorf("%s did not answer %d events in a row%s", w.title(), i.misses, i.said.last()))
	case i.overdue == cap(i.places):
		i.stuck = time.AfterFunc(stuckGrace, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if i.overdue == cap(i.places) {
				i.failed(fmt.Errorf("%s is stuck%s", w.title(), i.said.last()))
			}
		})
	}
}

// receive reads a line that the program has written. Of one that is too long it gets
// the beginning, and that it was.
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
	if err = fmt.Errorf("%w%s", err, i.said.last()); i.greeted.IsZero() {
		err = w.cannotStart(err)
	} else if err = fmt.Errorf("%s: %w", w.title(), err); len(i.calls) == i.overdue {
		w.unseen = err // who comes next is told: there may be an answer that it lost
	}
	i.failed(err)
}

// answered hands an answer to who waits for it. The Worker's mutex is held.
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
