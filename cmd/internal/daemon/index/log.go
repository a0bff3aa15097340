package index

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// A Log is the log of a place. Reading changes nothing and needs no running daemon.
type Log struct {
	State string // the directory that [spool.Open] gets
	Index string // the directory of the index
}

// A Reader reads a Log. It is safe for concurrent use.
type Reader struct {
	Log
	lines journal.Finder
	db    *database.Reader
	mend  func(context.Context, error) error // rebuilds a damaged index; nil = cannot
}

// Open returns a Reader. Nothing has to exist.
func (l Log) Open() *Reader {
	return &Reader{Log: l, lines: journal.Finder{Dir: filepath.Join(l.State, spool.JournalDir)}, db: database.NewReader(options(l.Index))}
}

// Close closes the files. The Reader can be used again.
func (r *Reader) Close() error { return errors.Join(r.lines.Close(), r.db.Close()) }

// A Kept is an Entry of a Log. Its event is read only when Event is called.
type Kept struct {
	spool.Entry

	event func(*spool.Entry) error
}

// Event sets Input to the event, if one was stored.
func (k *Kept) Event() error {
	if k.event == nil || k.Input != nil {
		return nil
	}
	return k.event(&k.Entry)
}

// kept returns what a reader gets for a line.
func (r *Reader) kept(line spool.Line) (Kept, error) {
	if line.Torn != nil {
		return Kept{Entry: line.Entry}, tornError{&line.Entry}
	}
	return Kept{Entry: line.Entry, event: func(e *spool.Entry) error {
		err := line.Event(r.State)
		e.Input = line.Entry.Input
		return err
	}}, nil
}

// tornError is the error for an unreadable line, from its Entry.
type tornError struct{ *spool.Entry }

func (e tornError) Error() string { return wording.Shorten(e.Entry.Error, 200) }

func (e tornError) Is(target error) bool { return target == spool.ErrTorn }

// shown returns the part of a Query that Read and Follow use.
func (q *Query) shown() Query { return Query{Filter: q.Filter, ID: q.ID, Text: q.Text} }

// Read yields the Records of a log that match q, each once. It uses only the Filter, the ID and the Text of
// q. What the index has comes in the order of time, and newer Records in the order of the journal. An error
// concerns one line, or one of the two places, and does not end the iteration.
//
// Read yields the rows of the index as they were when Read was called.
func (l Log) Read(ctx context.Context, q Query) iter.Seq2[Kept, error] {
	return func(yield func(Kept, error) bool) {
		v := l.Open().look(ctx, q.shown())
		defer v.close()
		v.show(merged(v.old(ctx), v.fresh(ctx)), yield)
	}
}

// followPoll is how often Follow looks for new lines.
const followPoll = 200 * time.Millisecond

// Follow yields the same as Read, and then new Records until ctx is done.
func (l Log) Follow(ctx context.Context, q Query) iter.Seq2[Kept, error] {
	return func(yield func(Kept, error) bool) {
		v := l.Open().look(ctx, q.shown())
		defer v.close()
		if !v.show(merged(v.old(ctx), v.fresh(ctx)), yield) {
			return
		}
		tick := time.NewTicker(followPoll)
		defer tick.Stop()
		var reported string
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			err := v.refresh()
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != reported && err != nil && !yield(Kept{}, err) {
				return
			}
			reported = text
			if !v.show(v.fresh(ctx), yield) {
				return
			}
		}
	}
}

// A view is a log at one moment: the rows of the index up to a position, and the lines of the journal after it.
type view struct {
	*Reader
	q    Query
	base int64      // the position before the first segment: retention has removed the rows up to it
	head int64      // the position of the index; 0 = there is no index
	log  *spool.Log // nil = it could not be opened
	errs []error    // why a part cannot be read, until it is reported
	done int64      // the position up to which lines were read
	seen seen
}

// look opens a log. The journal is opened first: its open segments can still be read after their removal.
func (r *Reader) look(ctx context.Context, q Query) *view {
	v := &view{Reader: r, q: q}
	if err := v.refresh(); err != nil {
		v.errs = append(v.errs, err)
		return v
	}
	head, err := r.position(ctx, v.log)
	if err == nil {
		v.base, err = base(v.log)
	}
	if err != nil {
		v.errs = append(v.errs, err)
	}
	v.head, v.done = head, head
	return v
}

// base returns the position before the first segment in the directory.
func base(log *spool.Log) (int64, error) {
	numbers, err := log.Numbers()
	if len(numbers) == 0 || err != nil {
		return 0, err
	}
	return journal.Position(numbers[0], 0), nil
}

func (v *view) close() {
	if v.log != nil {
		_ = v.log.Close()
	}
	_ = v.Reader.Close()
}

// refresh finds the current segments.
func (v *view) refresh() error {
	if v.log != nil {
		return v.log.Refresh()
	}
	since := v.q.Since
	if v.q.ID != "" {
		since = time.Time{}
	}
	log, err := spool.OpenLog(v.State, since)
	if err == nil {
		v.log = log
	}
	return err
}

// read runs do in a read transaction of the index, if there is an index.
func (r *Reader) read(ctx context.Context, do func(*database.View) error) error {
	err := r.db.Read(ctx, do)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, database.ErrVersion):
		return nil // a daemon makes it again
	case database.Broken(err) && r.mend != nil:
		return errors.Join(r.mend(ctx, err), errGone)
	case database.Broken(err):
		return errors.Join(err, errGone)
	}
	return err
}

// errGone means that the index was removed or damaged. It is made again, and the journal has all.
var errGone = errors.New("the index was removed or damaged")

// read runs do in a read transaction of the index that the view began with. It returns errGone if that does not
// exist any more. Rows have the same numbers in an index that was made again, and has them already.
func (v *view) read(ctx context.Context, do func(*database.View) error) error {
	found := false
	err := v.Reader.read(ctx, func(db *database.View) error {
		var at int64
		if _, err := db.Row("SELECT seq FROM position", nil, &at); err != nil || at < v.head {
			return err
		}
		found = true
		return do(db)
	})
	if err == nil && !found {
		return errGone
	}
	return err
}

// without makes the view one without an index, if the index is gone.
func (v *view) without(err error) error {
	if errors.Is(err, errGone) {
		v.head, v.done, v.seen = 0, 0, seen{}
		return nil
	}
	return err
}

// position returns the position of the index; 0 = it is the index of another log.
func (r *Reader) position(ctx context.Context, log *spool.Log) (position int64, err error) {
	var stored spool.Position
	err = r.read(ctx, func(v *database.View) error {
		_, err := v.Row("SELECT seq, key FROM position", nil, &stored.At, &stored.Key)
		return err
	})
	if errors.Is(err, errGone) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read the index: %w", err)
	}
	if same, err := log.Has(stored); err != nil || !same {
		return 0, err
	}
	return stored.At, nil
}

// page is how many lines are read at once.
const page = 128

// show yields what a reader gets for lines. It reports whether to continue.
func (v *view) show(lines iter.Seq2[spool.Line, error], yield func(Kept, error) bool) bool {
	for line, err := range lines {
		k := Kept{}
		if err == nil {
			k, err = v.kept(line)
		}
		if !yield(k, err) {
			return false
		}
	}
	return true
}

// old yields the matching lines of the index, in the order of time. Sorting the rows does not need the lines.
func (v *view) old(ctx context.Context) iter.Seq2[spool.Line, error] {
	rows, err := v.first(ctx, "r.time, r.seq") // at once: if the index is gone, fresh must begin earlier
	return func(yield func(spool.Line, error) bool) {
		if err != nil && !yield(spool.Line{}, fmt.Errorf("cannot read the records: %w", err)) {
			return
		}
		v.indexed(rows)(yield)
	}
}

// fresh yields the matching lines of the journal after done.
func (v *view) fresh(ctx context.Context) iter.Seq2[spool.Line, error] {
	return func(yield func(spool.Line, error) bool) {
		for _, err := range v.errs {
			if !yield(spool.Line{}, err) {
				return
			}
		}
		v.errs = nil
		v.after(ctx)(yield)
	}
}

// after yields the matching lines of the journal after done, and moves done.
func (v *view) after(ctx context.Context) iter.Seq2[spool.Line, error] {
	return func(yield func(spool.Line, error) bool) {
		if v.log == nil {
			return
		}
		var batch []spool.Line
		give := func() bool {
			lines, err := v.wanted(ctx, batch)
			batch = batch[:0]
			if err != nil && !yield(spool.Line{}, err) {
				return false
			}
			for _, line := range lines {
				if !yield(line, nil) {
					return false
				}
			}
			return true
		}
		for line, err := range v.log.From(v.done) {
			if err != nil {
				if !give() || !yield(spool.Line{}, err) {
					return
				}
				continue
			}
			v.done = line.At
			if line.Text == nil {
				continue
			}
			if batch = append(batch, line); len(batch) == page && !give() {
				return
			}
		}
		give()
	}
}

// wanted returns the lines that are the first of their name, and match. The first line hides the others also if it
// does not match: results must not depend on where the index ends.
func (v *view) wanted(ctx context.Context, batch []spool.Line) ([]spool.Line, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	known, err := v.known(ctx, batch)
	if err != nil {
		return nil, err
	}
	var lines []spool.Line
	for _, line := range batch {
		this := first{sumOf(line.Text), database.Stamp(line.Entry.Time)}
		earlier, found := v.seen.add(line.Name(), this, known)
		switch {
		case found && earlier.sum != this.sum && earlier.time >= v.q.from():
			v.seen.again++
		case !found && v.q.selects(&line.Entry) && line.At > v.q.After && (v.q.Before == 0 || line.At < v.q.Before):
			lines = append(lines, line)
		}
	}
	if strings.TrimSpace(v.q.Text) == "" || len(lines) == 0 {
		return lines, nil
	}
	return v.matching(ctx, lines)
}

// known returns the names of the lines that the index has, too: an event was answered twice.
func (v *view) known(ctx context.Context, lines []spool.Line) (map[spool.Name]first, error) {
	if v.head == 0 {
		return nil, nil
	}
	found := map[spool.Name]first{}
	ids := anys(lines, func(l spool.Line) any { return l.Entry.ID })
	err := v.read(ctx, func(db *database.View) error {
		return db.Each("SELECT id, decision, digest, sum, time FROM record WHERE id IN ("+database.Marks(len(ids))+") AND seq <= ?", append(ids, v.head), func(scan func(into ...any) error) error {
			var name spool.Name
			var digest []byte
			var f first
			err := scan(&name.ID, &name.Decision, &digest, &f.sum, &f.time)
			name.Digest = string(digest)
			found[name] = f
			return err
		})
	})
	if err != nil && !errors.Is(err, errGone) {
		return nil, fmt.Errorf("cannot read the index: %w", err)
	}
	return found, nil
}

// sumOf returns a checksum of a line, to compare two answers to an event.
func sumOf(line []byte) uint32 { return crc32.ChecksumIEEE(line) }

// first is what is known about the first line of a name.
type first struct {
	sum  uint32
	time int64
}

// seen has the newest names. Two answers to an event are not far apart.
type seen struct {
	lines map[spool.Name]first
	order []spool.Name // oldest first
	again int          // different Records of an event that were left out
}

const maxSeen = 1 << 16

// add adds a name, unless it is known. Then it returns the first line of this name.
func (s *seen) add(name spool.Name, line first, known map[spool.Name]first) (earlier first, found bool) {
	if earlier, found = known[name]; !found {
		earlier, found = s.lines[name]
	}
	if found {
		return earlier, true
	}
	if s.lines == nil {
		s.lines = map[spool.Name]first{}
	}
	s.lines[name] = line
	s.order = append(s.order, name)
	if len(s.order) > maxSeen {
		delete(s.lines, s.order[0])
		s.order = s.order[1:]
	}
	return first{}, false
}

// merged merges two iterators in the order of time, if both are in that order. It yields an error
// as soon as it gets it.
func merged(a, b iter.Seq2[spool.Line, error]) iter.Seq2[spool.Line, error] {
	return func(yield func(spool.Line, error) bool) {
		next, stop := iter.Pull2(b)
		defer stop()
		line, err, ok := next()
		// until yields the values of b from before a time.
		until := func(at time.Time, all bool) bool {
			for ok && (all || err != nil || line.Entry.Time.Before(at)) {
				if !yield(line, err) {
					return false
				}
				line, err, ok = next()
			}
			return true
		}
		for first, problem := range a {
			if problem == nil && !until(first.Entry.Time, false) || !yield(first, problem) {
				return
			}
		}
		until(time.Time{}, true)
	}
}
