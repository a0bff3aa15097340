// Package replay plays Records against a policy, and says what would come of them now.
//
//	report, err := replay.Play(ctx, records, replay.Options{Policy: open})
//
// A Record keeps what an agent sent, most of the time masked and cut to some size. Played
// are sessions in their order, with the time as it was then and with limits that count
// from nothing. Hooks that leave the process are not run: what a Record tells of their
// answer stands for it. What comes of that is compared with what was recorded, or with
// what another policy says of the same events.
//
// [Suggest] reads the same Records for what a policy should say otherwise.
//
// The package opens no files, runs no programs and loads no policies; who calls it does.
// What a Record does not hold it cannot know, and says so: of a masked key it does not
// find that it is one.
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

// A Record is one line of a log. Load, where it is not nil, completes the Entry: it reads
// the event, or the whole line if the ID is still empty. It is called once, by any
// goroutine.
type Record struct {
	spool.Entry
	Load func(*spool.Entry) error
}

// A Policy opens what judges events. It is called once for each [Stage], and what it returns
// for one event after the other. It may give the same engine again and again.
type Policy func(s *Stage) func(ev *grapnel.Event) (*grapnel.Engine, error)

// Options are how [Play] plays.
type Options struct {
	Policy  Policy
	Against Policy // compare with what this one says; nil = with what was recorded

	// StandIn is a policy file in whose place that of Policy, and of Against, stands: hooks
	// of it are the same as recorded ones of any other file, if their names are. Empty =
	// hooks are the same only if their sources are.
	StandIn string

	Wants    func(*spool.Entry) bool // which Records are played; nil = all
	Workers  int                     // how many sessions are played at once; 0 = as many as there are processors
	Examples int                     // how many Records are named for each difference; 0 = 3
	Progress func(records int)       // is told how many were read, now and then; nil = nobody is
}

const (
	batchSize = 64
	ahead     = 8 // batches that wait for each worker, at most
)

// Play plays Records. They come in the order of time. An error of one of them is counted;
// only a policy that cannot be opened, and ctx, end it. What is kept in memory does not
// grow with the number of Records.
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
	parts := make([][]scene, len(players)) // sessions go to players, in their order
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

// decoded reads Records in the background, many at once, and yields them in their order.
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
				decode <- b // its readers go on
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

// A batch is some Records that are decoded together.
type batch struct {
	records []Record
	scenes  []scene
	ready   chan struct{} // closed when scenes are there
}

func (b *batch) decode(wants func(*spool.Entry) bool) {
	for i := range b.records {
		b.scenes = append(b.scenes, newScene(&b.records[i], wants))
	}
	b.records = nil
	close(b.ready)
}

// batches yields Records in batches, the last of which may be empty.
func batches(records iter.Seq2[Record, error], progress func(int)) iter.Seq[*batch] {
	return func(yield func(*batch) bool) {
		next, read := &batch{ready: make(chan struct{})}, 0
		for r, err := range records {
			if err != nil {
				r = Record{Load: func(*spool.Entry) error { return err }} // torn
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

// player plays the sessions that fall to it.
type player struct {
	opts    *Options
	scenes  chan []scene
	report  *Report
	now     *Stage
	against *Stage // nil = what was recorded
}

func newPlayer(opts *Options) *player {
	p := &player{opts: opts, scenes: make(chan []scene, ahead), report: newReport(), now: newStage(opts.Policy, opts.StandIn)}
	if opts.Against != nil {
		p.against = newStage(opts.Against, opts.StandIn)
	}
	return p
}

// run plays all scenes. After an error it only takes them.
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

// clock is a time that is set.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }
