package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A Condition is the state of the journal and its index since the Index was opened.
type Condition struct {
	Removed int   // segments of the journal that another program removed, replaced or truncated
	Err     error // why the journal or the index cannot be read or updated now
}

// Condition returns the state.
func (x *Index) Condition() Condition {
	x.conditions.Lock()
	defer x.conditions.Unlock()
	return x.condition
}

// tail reads the end of the journal. Only one goroutine uses it.
type tail struct {
	*Index
	log   *spool.Log
	at    int64         // the position up to which lines were read
	end   int64         // of the journal, when it was looked at last
	last  time.Time     // when the last new line was read
	seen  seen          // the lines that were read
	sizes map[int]int64 // of the segments
	due   bool          // the index may have rows of removed segments

	looked time.Time // when the position of the index was read

	unflushed int // the first segment with lines that were not flushed; 0 = none
	flushed   time.Time
}

func (t *tail) close() {
	if t.log != nil {
		_ = t.flush()
		_ = t.log.Close()
	}
}

// read passes new lines on, and flushes them.
func (t *tail) read() error {
	if err := t.find(); err != nil {
		return err
	}
	if t.at < t.end {
		if err := t.pass(); err != nil {
			return err
		}
	}
	if t.unflushed > 0 && time.Since(t.flushed) >= flushEvery {
		return t.flush()
	}
	return nil
}

// pass passes the lines behind at on.
func (t *tail) pass() error {
	var rows []Row
	var failed error
	for line, err := range t.log.Raw(t.at) {
		if err != nil {
			failed = err
			break
		}
		t.at, t.last = line.At, time.Now()
		if t.unflushed == 0 {
			t.unflushed = line.Segment.Number
		}
		if line.Text == nil {
			continue
		}
		own := t.opts.Own != nil && t.opts.Own(line.Text)
		if own && !t.live.any() {
			continue // most lines: to decode them takes longer than all else here
		}
		line.Decode()
		if !own && t.opts.Other != nil {
			t.opts.Other(&line)
		}
		if _, again := t.seen.add(line.Name(), first{}, nil); !again && t.live.any() {
			if row, err := t.row(&line, true); err == nil {
				rows = append(rows, row)
			}
		}
		if len(rows) >= waitingRows {
			t.live.publish(rows)
			rows = nil
		}
	}
	t.live.publish(rows)
	return failed
}

// find finds the current segments. The first time, it begins after the lines that the index has, or at the end
// if it has none: older lines are not new.
func (t *tail) find() error {
	if t.log != nil {
		if err := t.log.Refresh(); err != nil {
			return err
		}
		return t.compare()
	}
	log, err := spool.OpenLog(t.State, time.Time{})
	if err != nil {
		return err
	}
	at, err := t.position(context.Background(), log)
	t.reached.Store(at)
	if err == nil && at == 0 {
		at, err = log.End()
	}
	if err != nil {
		return errors.Join(err, log.Close())
	}
	t.log, t.at, t.due = log, at, true
	return t.compare()
}

// look reads the position of the index, which is 0 if another program has removed the index.
func (t *tail) look(ctx context.Context) error {
	if time.Since(t.looked) < lookIndex {
		return nil
	}
	at, err := t.position(ctx, t.log)
	if err == nil {
		t.looked = time.Now()
		t.reached.Store(at)
	}
	return err
}

// flush flushes the segments with lines that were not flushed. After a power cut, no reader must know lines
// that the journal has lost.
func (t *tail) flush() error {
	for _, f := range t.log.Segments() {
		if t.unflushed > 0 && f.Number >= t.unflushed {
			if err := f.Flush(); err != nil {
				return err
			}
		}
	}
	t.unflushed, t.flushed = 0, time.Now()
	return nil
}

// compare counts segments that another program removed, replaced or truncated. Then the index is made again, and
// lines are new after the end.
func (t *tail) compare() error {
	gone := map[int]string{} // what happened to a segment
	sizes := map[int]int64{}
	end := int64(0)
	for _, f := range t.log.Segments() {
		size, err := f.Size()
		if err != nil {
			return err
		}
		end = max(end, journal.Position(f.Number, size))
		switch {
		case f.Removed():
			gone[f.Number] = f.Name() + " was removed"
			continue
		case size < t.sizes[f.Number]:
			gone[f.Number] = f.Name() + " was truncated"
		}
		sizes[f.Number] = size
	}
	t.sizes, t.end, t.at = sizes, end, min(t.at, end)
	if len(gone) == 0 {
		return nil
	}
	t.due = true
	if err := t.lines.Close(); err != nil { // it may have a removed segment open
		return err
	}
	manifest, err := journal.ReadManifest(filepath.Join(t.State, spool.JournalDir))
	if err != nil {
		return err
	}
	maps.DeleteFunc(gone, func(number int, _ string) bool { return number <= manifest.RemovedTo() })
	t.changed = t.changed || len(gone) > 0
	for _, what := range gone {
		t.opts.Note(fmt.Errorf("another program has changed the log: %s", what))
	}
	t.conditions.Lock()
	defer t.conditions.Unlock()
	t.condition.Removed += len(gone)
	return nil
}

// report stores why the last step failed. It calls Note for a new error.
func (t *tail) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	t.conditions.Lock()
	last := t.condition.Err
	t.condition.Err = err
	t.conditions.Unlock()
	if err != nil && (last == nil || last.Error() != err.Error()) {
		t.opts.Note(err)
	}
}
