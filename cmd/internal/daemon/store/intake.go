package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// An Intake copies the lines of a spool into a [Store], each line once.
//
// The position in a segment is stored in the same commit as its lines, under the key of the segment.
// Lines are on disk in the spool before the Intake takes them. So an Intake can stop at any moment,
// also by a power cut: the next one continues after the last line in the store. Torn lines become
// Records of kind [spool.Torn].
//
// The Intake closes the open segment when it is large or old. It removes a closed segment after all
// its lines are in the store.
//
// Set the fields before the first call of a method. Only one method may run at a time.
type Intake struct {
	Spool string // the directory
	Store *Store

	// Note is called with an error, and not again until the operation has succeeded in between.
	// Nil = not called.
	Note func(error)

	// Took is called for each Record that is new in the store, after the commit. Nil = not
	// called.
	Took func(Row)

	lock io.Closer
	age  time.Duration // for tests; 0 = endAge
	step func(string)  // called at each step, for tests
}

const (
	batchLines = 256       // lines per commit
	batchBytes = 1 << 20   // bytes per commit
	endSize    = 4 << 20   // size in bytes at which the open segment is closed
	endAge     = time.Hour // age at which it is closed too

	// maxClosed is how many closed segments may exist when the Intake closes another. The writers
	// remove the oldest if there are more than twice as many.
	maxClosed = 4
)

// Run takes in existing and new lines until ctx is done or the Store is closed. After an error it
// tries again. If another Intake uses the same spool, Run waits until that one ends.
func (in *Intake) Run(ctx context.Context) error {
	w := newWatch(filepath.Join(in.Spool, spool.JournalDir))
	defer w.close()
	defer in.release()
	var reported string
	for ctx.Err() == nil {
		_, err := in.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case errors.Is(err, ErrClosed):
			return err
		case err == nil:
			reported = ""
			w.wait(ctx)
		default:
			if text := err.Error(); text != reported {
				in.note(err)
				reported = text
			}
			pause(ctx, time.Second) // wait even if lines arrive, so that a full disk is not tried for each line
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (in *Intake) note(err error) {
	if in.Note != nil {
		in.Note(err)
	}
}

// Once takes in the existing lines and returns their number. It returns [spool.ErrBusy] if
// another Intake uses the spool.
func (in *Intake) Once(ctx context.Context) (lines int, err error) {
	defer in.release()
	return in.once(ctx)
}

// once is Once without the release of the lock, so that this Intake stays the only one.
func (in *Intake) once(ctx context.Context) (lines int, err error) {
	select {
	case <-in.Store.quit:
		return 0, ErrClosed
	default:
	}
	if in.lock == nil {
		if in.lock, err = spool.LockIntake(in.Spool); err != nil {
			return 0, err
		}
	}
	return in.pass(ctx)
}

func (in *Intake) release() {
	if in.lock != nil {
		_ = in.lock.Close()
		in.lock = nil
	}
}

func (in *Intake) at(step string) {
	if in.step != nil {
		in.step(step)
	}
	if fault.On {
		fault.At("intake: " + step)
	}
}

// pass takes in the existing lines. A file that cannot be read does not stop the other files.
func (in *Intake) pass(ctx context.Context) (lines int, err error) {
	log, err := spool.OpenLog(in.Spool, time.Time{})
	if err != nil {
		return 0, err
	}
	defer log.Close()
	var errs []error
	closed := 0 // segments that stay
	for _, f := range log.Files() {
		n, gone, err := in.file(ctx, log, f, closed)
		lines += n
		if f.Closed() && !gone {
			closed++
		}
		if err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			break
		}
	}
	return lines, errors.Join(errs...)
}

// file takes in one segment. Then it removes or closes the segment, if that is due.
//
// closed is the number of older segments that stay. A segment is removed only after them.
func (in *Intake) file(ctx context.Context, log *spool.Log, f *spool.LogFile, closed int) (lines int, gone bool, err error) {
	size, err := f.Size()
	if err != nil {
		return 0, false, err
	}
	done, err := in.Store.Mark(ctx, f.Key())
	if err != nil {
		return 0, false, err
	}
	if done, lines, err = in.take(ctx, f, done, size); err != nil {
		return lines, false, err
	}
	switch {
	case f.Closed() && done == size && closed == 0:
		err = in.remove(ctx, f)
		gone = err == nil
	case !f.Closed() && closed < maxClosed && size > f.HeaderLength() && (size >= fault.Less(int64(endSize)) || time.Since(f.Begun()) > cmp.Or(in.age, endAge)):
		err = log.End()
		in.at("ended")
	}
	if errors.Is(err, spool.ErrBusy) {
		err = nil // the next pass tries again
	}
	return lines, gone, err
}

// remove removes a segment after all its lines are in the store.
func (in *Intake) remove(ctx context.Context, f *spool.LogFile) error {
	if err := in.Store.Sync(); err != nil { // until then, the file is the only copy that is surely on disk
		return err
	}
	if err := f.Remove(); err != nil {
		return err
	}
	in.at("removed")
	// If this process is killed here, the mark stays. It cannot match another segment.
	err := in.Store.ForgetMark(ctx, f.Key())
	in.at("forgotten")
	return err
}

// take puts the lines after a mark into the store, and returns the new mark.
func (in *Intake) take(ctx context.Context, f *spool.LogFile, done, size int64) (mark int64, lines int, err error) {
	if size < done {
		// The writer that truncated it continues at its end. The earlier lines are in the store.
		in.note(fmt.Errorf("%s has %d bytes, but %d bytes were read before: another program truncated it", f.Name(), size, done))
		if err := in.Store.Put(ctx, Item{Mark: &Mark{f.Key(), size}}); err != nil {
			return done, 0, err
		}
		done = size
	}
	if size == done {
		return done, 0, nil
	}
	var batch []spool.Line
	bytes := 0
	put := func() error {
		if err := in.put(ctx, f, batch); err != nil {
			return err
		}
		for _, line := range batch {
			done = line.End
			if line.Text != nil {
				lines++
			}
		}
		batch, bytes = batch[:0], 0
		return nil
	}
	for line, err := range f.Lines(done) {
		if err != nil {
			return done, lines, err
		}
		batch = append(batch, line)
		bytes += len(line.Text)
		if len(batch) < batchLines && bytes < batchBytes {
			continue
		}
		if err := put(); err != nil {
			return done, lines, err
		}
	}
	if len(batch) > 0 {
		err = put()
	}
	return done, lines, err
}

// put puts lines and the mark after them into the store, in one commit.
func (in *Intake) put(ctx context.Context, f *spool.LogFile, batch []spool.Line) error {
	items := make([]Item, 0, len(batch)+1)
	for i := range batch {
		if batch[i].Text == nil {
			continue
		}
		text, err := f.Take(&batch[i])
		if err != nil {
			return err
		}
		items = append(items, Item{Line: text})
	}
	items = append(items, Item{Mark: &Mark{f.Key(), batch[len(batch)-1].End}})
	in.at("read")
	if err := f.Flush(); err != nil {
		return err
	}
	in.at("flushed")
	rows, err := in.Store.put(ctx, in.Took != nil, items)
	if errors.Is(err, ErrLine) {
		if err = refuse(f, batch, items); err == nil {
			rows, err = in.Store.put(ctx, in.Took != nil, items)
		}
	}
	if err == nil && in.Took != nil {
		for i := range rows {
			in.Took(rows[i])
		}
	}
	in.at("put")
	return err
}

// refuse replaces the lines that the store rejects by Torn entries, so that the other lines can
// be stored.
func refuse(f *spool.LogFile, batch []spool.Line, items []Item) error {
	n := 0
	for i := range batch {
		line := &batch[i]
		if line.Text == nil {
			continue
		}
		if _, err := parse(items[n].Line); err != nil {
			f.Refuse(line, err)
			if items[n].Line, err = f.Take(line); err != nil {
				return err
			}
		}
		n++
	}
	return nil
}
