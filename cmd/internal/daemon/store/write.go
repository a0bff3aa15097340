package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel/internal/fault"
)

const (
	maxOps   = 256     // maximum ops per commit, so that the first does not wait long for the last
	maxBytes = 8 << 20 // maximum bytes of lines and events per commit
)

// crowd is the number of waiting callers above which a commit waits a millisecond for more. With
// 64 callers, this stores 13 % more Records per second.
const crowd = 16

// op is one requested write.
type op struct {
	do    func(*change) error // may be called again after an error, from the start
	bytes int
	state atomic.Int32
	done  chan error
}

// The states of an op.
const (
	queued int32 = iota
	taken        // by the writer: the caller has to wait for the result
	left         // by its caller, whose context ended
)

// change is the content of one commit.
type change struct {
	*base
	head Head // becomes base.head after the commit
	rows []Row
}

// write runs do in a commit and returns after the commit. An error of ctx means that nothing was
// written.
func (s *Store) write(ctx context.Context, bytes int, do func(*change) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-s.quit:
		return ErrClosed
	default:
	}
	o := &op{do: do, bytes: bytes, done: make(chan error, 1)}
	defer s.writing.Add(-1)
	if s.writing.Add(1) == 1 && s.turn.TryLock() {
		// No other caller waits to share the commit. Waking the writer, and being woken by
		// it, would take as long as the disk write.
		ended, err := s.commitInline(o)
		s.turn.Unlock()
		if ended {
			return err
		}
	}
	select {
	case s.work <- o:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.quit:
		return ErrClosed
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		if o.state.CompareAndSwap(queued, left) {
			return context.Cause(ctx)
		}
	case <-s.gone:
	}
	select {
	case err := <-o.done:
		return err
	case <-s.gone:
	}
	select {
	case err := <-o.done: // completed just before the writer ended
		return err
	default:
		return ErrClosed
	}
}

// commitInline runs the write of one caller in the caller's goroutine. If the writer has other work to
// do first, commitInline does nothing and reports false.
func (s *Store) commitInline(o *op) (ended bool, err error) {
	select {
	case <-s.gone:
		return true, ErrClosed
	default:
	}
	if s.behind > maxBehind {
		return false, nil
	}
	s.commit([]*op{o})
	return true, <-o.done
}

// quiet is how long there must be no writes before words are indexed.
const quiet = 100 * time.Millisecond

// run is the writer goroutine: it commits the writes of several callers together. It indexes
// words while nothing is written.
func (s *Store) run() {
	idle, waits := time.NewTimer(quiet), true
	defer idle.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case o := <-s.work:
			if s.writing.Load() > crowd {
				time.Sleep(time.Millisecond) // more callers then share the commit
			}
			s.turn.Lock()
			for s.behind > maxBehind {
				s.index()
			}
			s.commit(s.collect(o))
			s.turn.Unlock()
			idle.Reset(quiet)
			waits = true
		case <-s.stirred:
			if !waits {
				idle.Reset(quiet)
				waits = true
			}
		case <-idle.C:
			again := s.catchUp()
			if waits = again > 0; waits {
				idle.Reset(again)
			}
		case <-look.C:
			s.watch()
		case <-s.quit:
			s.turn.Lock()
			defer s.turn.Unlock()
			for len(s.work) > 0 {
				s.commit(s.collect(<-s.work))
			}
			close(s.gone)
			return
		}
	}
}

// catchUp indexes words, summarizes rows and shrinks the file until there is a write, and returns when to continue;
// 0 = nothing is left to do.
func (s *Store) catchUp() (again time.Duration) {
	for s.writing.Load() == 0 && s.turn.TryLock() {
		wait := quiet - time.Since(s.wrote)
		done := false
		switch {
		case s.behind > maxBehind || s.behind > 0 && wait <= 0:
			wait = 0
			s.index()
		case wait <= 0:
			done = !s.summarize() && !s.shrink()
		}
		s.turn.Unlock()
		switch {
		case done:
			return 0
		case wait > 0:
			return wait
		}
	}
	return quiet
}

// collect takes the ops that wait together with the first, up to the limits of a commit.
func (s *Store) collect(first *op) []*op {
	var ops []*op
	bytes := 0
	take := func(o *op) {
		if o.state.CompareAndSwap(queued, taken) {
			ops, bytes = append(ops, o), bytes+o.bytes
		}
	}
	take(first)
	for len(ops) < maxOps && bytes < maxBytes {
		select {
		case o := <-s.work:
			take(o)
		default:
			return ops
		}
	}
	return ops
}

// commit writes the ops of several callers and sends them the result.
func (s *Store) commit(ops []*op) {
	if len(ops) == 0 {
		return
	}
	err := s.try(ops)
	if broken(err) {
		if err = s.mend(err); err == nil {
			err = s.try(ops)
		}
	}
	if err != nil && len(ops) > 1 && s.base != nil {
		// One of the ops may be the cause, and a full disk may have room for some.
		for _, o := range ops {
			o.done <- s.try([]*op{o})
		}
		return
	}
	for _, o := range ops {
		o.done <- err
	}
}

// mend repairs a damaged database so that it can be written again.
func (s *Store) mend(why error) error {
	if brokenWords(why) {
		s.opts.Note(fmt.Errorf("the word index is damaged (%w): rebuilding it", why))
		if err := s.base.forgetWords(); err == nil {
			s.behind = s.base.head.Seq
			return nil
		}
	}
	return s.replace(why)
}

// mendWords lets the writer repair damage of the word index that a reader has found.
func (s *Store) mendWords(ctx context.Context, why error) error {
	reported := false
	return s.write(ctx, 0, func(*change) error {
		if reported {
			return nil
		}
		reported = true
		return why
	})
}

// replace renames a damaged database and opens a new one. If that fails, the store has no database
// until the next commit.
func (s *Store) replace(why error) error {
	if err := s.writeAnchor(s.base.head); err != nil { // the anchor shows from now on which rows are missing
		return err
	}
	_ = s.base.close()
	s.base = nil
	base, err := s.recreate(why)
	if err == nil {
		s.use(base)
	}
	return err
}

// use makes a database the current one.
func (s *Store) use(b *base) {
	s.base, s.summarizer = b, summarizer{}
	var indexed int64
	if _, err := b.row("SELECT seq FROM indexed", nil, &indexed); err == nil {
		s.behind = b.head.Seq - indexed
	}
	head := b.head // a copy, because others read it while b gets new rows
	s.head.Store(&head)
	if b.lost > 0 {
		s.setCondition(func(c *Condition) { c.Lost += b.lost })
	}
}

// try runs all ops in one transaction, or none.
func (s *Store) try(ops []*op) (err error) {
	defer func() { s.ended(err) }()
	if err := s.look(); err != nil {
		return err
	}
	if s.base == nil {
		if err := errors.Join(s.directory(), s.writeAnchor(*s.head.Load())); err != nil {
			return err
		}
		base, err := attach(s.dir, &s.opts)
		if err != nil {
			return err
		}
		s.use(base)
	}
	c := &change{base: s.base, head: s.base.head}
	err = s.base.transaction(func() error {
		for _, o := range ops {
			if err := o.do(c); err != nil {
				return err
			}
		}
		if fault.On {
			fault.At("store: before the commit")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if fault.On {
		fault.At("store: after the commit")
	}
	s.flushes.committed.Add(1)
	if c.head != s.base.head {
		s.behind += c.head.Seq - s.base.head.Seq
		s.base.head, s.wrote = c.head, time.Now()
		s.head.Store(&c.head)
		select {
		case s.moved <- struct{}{}:
		default:
		}
	}
	s.live.publish(c.rows)
	return nil
}

// often is how long the anchor may be behind the last commit.
const often = 100 * time.Millisecond

// writeAnchor replaces the anchor by the head of a commit. It flushes the commit first: after a
// power cut, the anchor must not name rows that were lost. It is safe for concurrent use.
func (s *Store) writeAnchor(h Head) error {
	s.anchored.Lock()
	defer s.anchored.Unlock()
	if err := s.flush(); err != nil {
		return err
	}
	return writeAnchor(s.dir, h)
}

// keepAnchor writes the anchor a short time after commits, and at the end. It also wakes the
// writer then, for commits that other goroutines made.
func (s *Store) keepAnchor() {
	var failed error // the result of the last attempt
	write := func() {
		err := s.writeAnchor(*s.head.Load())
		if err != nil && failed == nil {
			s.opts.Note(fmt.Errorf("cannot write the anchor of the log: %w", err))
		}
		failed = err
	}
	for {
		select {
		case <-s.moved:
		case <-s.gone:
			if len(s.moved) > 0 || failed != nil {
				write()
			}
			return
		}
		select {
		case <-time.After(often):
		case <-s.gone:
		}
		write()
		select {
		case s.stirred <- struct{}{}:
		default:
		}
	}
}
