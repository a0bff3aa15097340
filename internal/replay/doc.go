// Package replay evaluates recorded events against a policy and reports which results would
// change.
//
//	report, err := replay.Play(ctx, records, replay.Options{Policy: open})
//
// A Record holds an agent's payload, which is usually masked and cut to a maximum size. Play
// evaluates sessions in their order, with the recorded time and with empty limits. Hooks that run
// a program or contact a server are not run: the recorded answer is used. The result is compared
// with the recorded result, or with the result of another policy for the same events.
//
// [Suggest] reads the same Records and suggests changes of the policy.
//
// The package opens no files, runs no programs and loads no policies; the caller does. It cannot
// find text that a Record does not contain, and reports that: a masked key, for example, is not found
// as a key.
package replay

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A Record is one line of a log. Load completes the Entry if it is not nil: it reads the event,
// or the whole line if the ID is still empty. It is called once, from any goroutine.
type Record struct {
	spool.Entry
	Load func(*spool.Entry) error
}

// A Policy returns a function that returns the engine for an event. The Policy is called once for
// each [Stage], its function once for each event in turn. The function may return the same engine
// each time.
type Policy func(s *Stage) func(ev *grapnel.Event) (*grapnel.Engine, error)

// Options are the options of [Play].
type Options struct {
	Policy  Policy
	Against Policy // compare with the results of this policy; nil = with the recorded results

	// StandIn is a policy file that Policy, and Against, use in place of the recorded one. A hook
	// in it is identified with a recorded hook of any other file if their names and packs are
	// equal. Empty = hooks are identified by name and source.
	StandIn string

	Wants    func(*spool.Entry) bool // selects the Records to evaluate; nil = all
	Workers  int                     // number of sessions evaluated in parallel; 0 = number of processors
	Examples int                     // number of example Records for each difference; 0 = 3
	Progress func(records int)       // called from time to time with the number of Records read; nil = no calls
}

const (
	batchSize = 64
	ahead     = 8 // maximum number of waiting batches for each worker
)

// Play evaluates Records, which must be in the order of time. An invalid Record is counted and
// skipped; Play fails only if a policy cannot be opened or ctx is done. Its memory does not grow
// with the number of Records.
func Play(ctx context.Context, records iter.Seq2[Record, error], opts Options) (*Report, error) {
	workers := opts.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	if opts.Examples <= 0 {
		opts.Examples = 3
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var actors sync.WaitGroup
	players := make([]*player, workers)
	for i := range players {
		p := newPlayer(&opts)
		players[i] = p
		actors.Go(func() { p.run(ctx, cancel) })
	}
	parts := make([][]scene, len(players)) // by player; a session always has the same player, which keeps its order
	for batch := range decoded(records, opts.Wants, opts.Progress) {
		if ctx.Err() != nil {
			break
		}
		for i := range batch {
			at := batch[i].player(len(players))
			parts[at] = append(parts[at], batch[i])
		}
		for at, part := range parts {
			if len(part) > 0 {
				players[at].scenes <- part
				parts[at] = nil
			}
		}
	}
	for _, p := range players {
		close(p.scenes)
	}
	actors.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	report := newReport()
	for _, p := range players {
		report.add(p.report)
	}
	report.finish(&opts, players)
	return report, nil
}

// decoded reads Records in the background, many in parallel, and yields them in their order.
func decoded(records iter.Seq2[Record, error], wants func(*spool.Entry) bool, progress func(int)) iter.Seq[[]scene] {
	return func(yield func([]scene) bool) {
		readers := runtime.GOMAXPROCS(0)
		decode, order, stop := make(chan *batch, ahead*readers), make(chan *batch, ahead*readers), make(chan struct{})
		var all sync.WaitGroup
		defer all.Wait()
		defer close(stop)
		for range readers {
			all.Go(func() {
				for b := range decode {
					b.decode(wants)
				}
			})
		}
		all.Go(func() {
			defer close(order)
			defer close(decode)
			for b := range batches(records, progress) {
				select {
				case order <- b:
				case <-stop:
					return
				}
				decode <- b // never blocks forever: the readers run until decode is closed
			}
		})
		for b := range order {
			<-b.ready
			if !yield(b.scenes) {
				return
			}
		}
	}
}

// A batch is a number of Records that are decoded together.
type batch struct {
	records []Record
	scenes  []scene
	ready   chan struct{} // closed when scenes is complete
}

func (b *batch) decode(wants func(*spool.Entry) bool) {
	for i := range b.records {
		b.scenes = append(b.scenes, newScene(&b.records[i], wants))
	}
	b.records = nil
	close(b.ready)
}

// batches yields Records in batches. The last batch may be empty.
func batches(records iter.Seq2[Record, error], progress func(int)) iter.Seq[*batch] {
	return func(yield func(*batch) bool) {
		next, read := &batch{ready: make(chan struct{})}, 0
		for r, err := range records {
			if err != nil {
				r = Record{Load: func(*spool.Entry) error { return err }} // an invalid line
			}
			if next.records = append(next.records, r); len(next.records) == batchSize {
				if !yield(next) {
					return
				}
				next = &batch{ready: make(chan struct{})}
			}
			if read++; progress != nil && read%256 == 0 {
				progress(read)
			}
		}
		if yield(next) && progress != nil {
			progress(read)
		}
	}
}

// A player evaluates its share of the sessions.
type player struct {
	opts    *Options
	scenes  chan []scene
	report  *Report
	now     *Stage
	against *Stage // nil = compare with the recorded results
}

func newPlayer(opts *Options) *player {
	p := &player{opts: opts, scenes: make(chan []scene, ahead), report: newReport(), now: newStage(opts.Policy, opts.StandIn)}
	if opts.Against != nil {
		p.against = newStage(opts.Against, opts.StandIn)
	}
	return p
}

// run evaluates all scenes. After an error it only drains the channel.
func (p *player) run(ctx context.Context, cancel context.CancelCauseFunc) {
	for scenes := range p.scenes {
		for i := range scenes {
			if ctx.Err() != nil {
				break
			}
			if err := p.play(ctx, &scenes[i]); err != nil {
				cancel(err)
			}
		}
	}
}

func (p *player) play(ctx context.Context, s *scene) error {
	r := p.report
	if s.unwanted || s.beside {
		return nil
	}
	if s.cause != "" {
		r.skip(s.cause, s.entry.ID)
		return nil
	}
	r.saw(s.entry.Time)
	now, err := p.now.play(ctx, s)
	if err != nil {
		return fmt.Errorf("record %s: %w", s.entry.ID, err)
	}
	then := &played{Record: s.entry.Record}
	if p.against != nil {
		if then, err = p.against.play(ctx, s); err != nil {
			return fmt.Errorf("record %s: %w", s.entry.ID, err)
		}
	}
	r.Played++
	r.then.add(then.MS)
	r.now.add(now.MS)
	p.now.note(r, s)
	if d := compare(s, then, now, p.against != nil); d != nil {
		r.differ(d, p.opts.Examples)
	}
	return nil
}

// clock is a clock that is set to recorded times.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }
