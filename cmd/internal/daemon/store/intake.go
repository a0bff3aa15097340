package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// An Intake takes what is written into a spool into a [Store], each line once.
//
// How far a file has been taken in is kept in the same commit as its lines, under a name
// that the file's content gives, and lines are on disk in the spool before they are taken.
// So an Intake can be stopped anywhere, by a power cut too: the next one goes on behind the
// last line that is in the store. Lines that are torn become Records of kind [spool.Torn].
//
// The file into which others write is put aside once it is large or old, and a file that
// was put aside is removed once all of it is in the store and nobody writes into it any
// more: where the system knows that (Linux), it is asked; everywhere the file has to stay
// as it is for Grace.
//
// The fields are set before the first call of a method. One method runs at a time.
type Intake struct {
	Spool string // the directory
	Store *Store

	// Note is told what goes wrong: once, and again only after it has gone well. Nil =
	// nobody is.
	Note func(error)

	// Took is told of each Record that was not in the store before, once it is. Nil =
	// nobody is.
	Took func(Row)

	// Grace is how long a file has to stay as it is before it is removed; 0 = a minute.
	Grace time.Duration

	lock  io.Closer
	still map[string]still // of files that were put aside, by name
	step  func(string)     // tests stop here
}

// still says since when a file has a size.
type still struct {
	size  int64
	since time.Time // of the clock that nobody sets
}

const (
	batchLines = 256       // that are put into the store together
	batchBytes = 1 << 20   // of them
	asideSize  = 4 << 20   // bytes with which the current file is put aside
	asideAge   = time.Hour // of its first Record, with which it is, too

	// maxAside is how many files may lie aside when another is put there. Those who write
	// remove the oldest when there are more than twice as many.
	maxAside = 4
)

// Run takes in what there is and what comes, until ctx is done or the Store is closed. What
// goes wrong is tried again. If another Intake is at work on the same spool, it waits for
// the other to end.
func (in *Intake) Run(ctx context.Context) error {
	w := newWatch(in.Spool, "records")
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
			pause(ctx, time.Second) // whatever comes meanwhile: a full disk is not asked each time
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

// Once takes in what there is, and returns how many lines that was. [spool.ErrBusy] says
// that another Intake is at work.
func (in *Intake) Once(ctx context.Context) (lines int, err error) {
	defer in.release()
	return in.once(ctx)
}

// once is Once for those who stay the only Intake.
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

// pass takes in what there is. A file that cannot be read does not keep the others from it.
func (in *Intake) pass(ctx context.Context) (lines int, err error) {
	log, err := spool.OpenLog(in.Spool)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	before, aside := in.still, 0
	in.still = map[string]still{}
	var errs []error
	for _, f := range log.Files() {
		if !f.Current() {
			aside++
		}
		n, err := in.file(ctx, f, before, aside)
		lines += n
		if err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			break
		}
	}
	return lines, errors.Join(errs...)
}

// file takes one file in, and does with it what is to be done then.
func (in *Intake) file(ctx context.Context, f *spool.LogFile, before map[string]still, aside int) (lines int, err error) {
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	calm := false // nobody writes any more
	if !f.Current() {
		s, ok := before[f.Name()]
		if !ok || s.size != size {
			s = still{size, time.Now()}
		}
		in.still[f.Name()] = s
		calm = time.Since(s.since) >= fault.Less(in.grace())
	}
	key, err := f.Key(calm)
	if err != nil {
		return 0, err
	}
	var done int64
	if key != "" {
		if done, err = in.Store.Mark(ctx, key); err != nil {
			return 0, err
		}
		if done, lines, err = in.take(ctx, f, key, done, size, calm); err != nil {
			return lines, err
		}
	}
	switch {
	case calm && done == size:
		err = in.remove(ctx, f, key, size)
	case f.Current() && key != "" && aside < maxAside && (size >= fault.Less(int64(asideSize)) || time.Since(f.Begun()) > asideAge):
		err = f.PutAside()
		in.at("put aside")
	}
	if errors.Is(err, spool.ErrBusy) {
		err = nil // the next time
	}
	return lines, err
}

func (in *Intake) grace() time.Duration {
	if in.Grace > 0 {
		return in.Grace
	}
	return time.Minute
}

// remove removes a file that is in the store as a whole.
func (in *Intake) remove(ctx context.Context, f *spool.LogFile, key string, size int64) error {
	if err := in.Store.Sync(); err != nil { // the file is the only copy that is surely on disk
		return err
	}
	if err := f.Remove(size); err != nil {
		return err
	}
	in.at("removed")
	if key == "" {
		return nil
	}
	// If this is not done, because we are killed, the mark stays, and means no other file.
	err := in.Store.ForgetMark(ctx, key)
	in.at("forgotten")
	return err
}

// take puts the lines behind a mark into the store, and returns the mark that it leaves.
func (in *Intake) take(ctx context.Context, f *spool.LogFile, key string, done, size int64, final bool) (mark int64, lines int, err error) {
	if size < done {
		// Whoever made it shorter goes on at its end. What was there is in the store.
		in.note(fmt.Errorf("%s has %d bytes, and %d were taken in before: somebody has cut it", f.Name(), size, done))
		if err := in.Store.Put(ctx, Item{Mark: &Mark{key, size}}); err != nil {
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
		if err := in.put(ctx, f, key, batch); err != nil {
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
	for line, err := range f.Lines(done, final) {
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

// put puts lines and the mark behind them into the store, in one commit.
func (in *Intake) put(ctx context.Context, f *spool.LogFile, key string, batch []spool.Line) error {
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
	items = append(items, Item{Mark: &Mark{key, batch[len(batch)-1].End}})
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

// refuse replaces the lines that the store does not take by what says so: the others must
// not wait for them.
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
