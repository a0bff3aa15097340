package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/fault"
)

const (
	maxOps   = 256     // that share a commit, so that the first need not wait long for the last
	maxBytes = 8 << 20 // of the lines and events of a commit
)

// crowd is the number of waiting callers above which a commit waits a millisecond for more of
// them. With 64 callers, 13 % more Records per second are kept.
const crowd = 16

// op is something that a caller wants written.
type op struct {
	do    func(*change) error // may be called again after an error, from the start
	bytes int
	state atomic.Int32
	done  chan error
}

// The states of an op.
const (
	queued int32 = iota
	taken        // by the writer: its end has to be waited for
	left         // by its caller
)

// change is what is written in one commit.
type change struct {
	*base
	head Head // base.head when it has been committed
	rows []Row
	due  bool // there may be more to deliver
}

// write does something in a commit, and returns after it. An error of ctx means
// that nothing was done.
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
		// Nobody to share a commit with: to wake the writer, and to be woken by it, would
		// take as long as the disk does.
		ended, err := s.alone(o)
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
	case err := <-o.done: // just before the writer went
		return err
	default:
		return ErrClosed
	}
}

// alone does what one caller wants, unless there is something that the writer has to do
// before: then it is not ended.
func (s *Store) alone(o *op) (ended bool, err error) {
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

// quiet is how long nobody may have written anything before words are indexed.
const quiet = 100 * time.Millisecond

// run is the writer: it commits what several callers want at once. Words it indexes when
// nobody wants anything.
func (s *Store) run() {
	idle, waits := time.NewTimer(quiet), true
	defer idle.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case o := <-s.work:
			if s.writing.Load() > crowd {
				time.Sleep(time.Millisecond) // more of them then share the commit
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

// catchUp indexes words until somebody writes, and returns when to go on with it; 0 = it is
// done.
func (s *Store) catchUp() (again time.Duration) {
	for s.writing.Load() == 0 && s.turn.TryLock() {
		wait := quiet - time.Since(s.wrote)
		done := s.behind == 0
		if !done && (wait <= 0 || s.behind > maxBehind) {
			wait = 0
			s.index()
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

// collect takes what waits with the first, up to what a commit should hold.
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

// commit writes what several callers want, and tells them.
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
		// One of them may be at fault, and a full disk may have room for some.
		for _, o := range ops {
			o.done <- s.try([]*op{o})
		}
		return
	}
	for _, o := range ops {
		o.done <- err
	}
}

// mend does what lets a broken database be written again.
func (s *Store) mend(why error) error {
	if brokenWords(why) {
		s.opts.Note(fmt.Errorf("the index of words is damaged (%w): it is made anew", why))
		if err := s.base.forgetWords(); err == nil {
			s.behind = s.base.head.Seq
			return nil
		}
	}
	return s.replace(why)
}

// mendWords has the writer mend what a reader has found.
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

// replace puts a database aside that turned out to be broken. If it cannot, there is none
// until the next commit.
func (s *Store) replace(why error) error {
	if err := s.writeAnchor(s.base.head); err != nil { // it says which rows are missing from now on
		return err
	}
	_ = s.base.close()
	s.base = nil
	base, err := s.anew(why)
	if err == nil {
		s.use(base)
	}
	return err
}

// use makes a database the one that is written.
func (s *Store) use(b *base) {
	s.base = b
	var indexed int64
	if _, err := b.row("SELECT seq FROM indexed", nil, &indexed); err == nil {
		s.behind = b.head.Seq - indexed
	}
	head := b.head // which others read while b has its next rows
	s.head.Store(&head)
	if b.lost > 0 {
		s.setCondition(func(c *Condition) { c.Lost += b.lost })
	}
}

// try writes all of it or nothing.
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
	if c.due {
		s.opts.Due()
	}
	return nil
}

// often is how long the anchor may stay behind.
const often = 100 * time.Millisecond

// writeAnchor replaces the anchor by the head of a commit. The commit is flushed before: after
// a power cut, the anchor must not name rows that were lost. It may be called from any
// goroutine.
func (s *Store) writeAnchor(h Head) error {
	s.anchored.Lock()
	defer s.anchored.Unlock()
	if err := s.flush(); err != nil {
		return err
	}
	return writeAnchor(s.dir, h)
}

// keepAnchor writes the anchor a while after commits, and at the end. The writer hears of
// the commits that others have made then, too.
func (s *Store) keepAnchor() {
	var failed error // the last time
	write := func() {
		err := s.writeAnchor(*s.head.Load())
		if err != nil && failed == nil {
			s.opts.Note(fmt.Errorf("the end of the log cannot be kept: %w", err))
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
