package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// A Log is the complete log: the rows of a store and the lines of a spool that were not taken in
// yet. Either may be missing. Reading changes nothing and needs no running daemon.
type Log struct {
	Spool, Store string // directories
}

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

// Read yields the Records of a log that match q, each once, in the order of time. It uses only
// the Filter, the ID and the Text of q. An error concerns one line, or one of the two places, and does
// not end the iteration.
//
// Read yields the rows of the store as they were when Read was called. Without a store, the order
// is the order in which the spool was written.
func (l Log) Read(ctx context.Context, q Query) iter.Seq2[Kept, error] {
	return func(yield func(Kept, error) bool) {
		r, err := l.open(ctx, q)
		if err != nil && !yield(Kept{}, err) {
			return
		}
		defer r.close()
		if err == nil && r.store == nil && r.q.Text == "" {
			for e, err := range spool.Read(l.Spool, q.Filter) {
				if (err != nil || r.q.selects(&e)) && !yield(Kept{Entry: e}, err) {
					return
				}
			}
			return
		}
		for k, err := range merged(r.stored(ctx), r.spooled(ctx)) {
			if !yield(k, err) {
				return
			}
		}
	}
}

// ValidText returns an error if the Text of a Query is invalid.
func ValidText(text string) error {
	_, err := matchOf(text)
	return err
}

// followPoll is how often Follow looks for new lines.
const followPoll = 200 * time.Millisecond

// Follow yields the same as Read, and then new Records until ctx is done.
func (l Log) Follow(ctx context.Context, q Query) iter.Seq2[Kept, error] {
	return func(yield func(Kept, error) bool) {
		r, err := l.open(ctx, q)
		if err != nil && !yield(Kept{}, err) {
			return
		}
		defer r.close()
		r.following = true
		for k, err := range merged(r.stored(ctx), r.spooled(ctx)) {
			if !yield(k, err) {
				return
			}
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
			fresh, err := r.more(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				reported = ""
			case err.Error() != reported:
				reported = err.Error()
				if !yield(Kept{}, err) {
					return
				}
			}
			for _, k := range fresh {
				if !yield(k.Kept, k.err) {
					return
				}
			}
		}
	}
}

// Waiting returns the number of lines in the spool that are not in the store yet.
func (l Log) Waiting(ctx context.Context) (lines int, err error) {
	r, err := l.open(ctx, Query{})
	defer r.close()
	for _, problem := range r.spooled(ctx) {
		if problem != nil && !errors.Is(problem, spool.ErrTorn) {
			err = errors.Join(err, problem)
			continue
		}
		lines++
	}
	return lines, err
}

// A logReader reads store and spool together. It takes a Record from the store if its row is not
// after head. Records that are taken in after head was read still come from the spool.
type logReader struct {
	Log
	q     Query
	store *Reader // nil = no store exists
	files *spool.Log
	head  int64
	done  map[string]int64 // read positions in the files of the spool, by key
	seen  map[string]bool  // names of lines that were read from the spool
	shown []string         // the names in seen, oldest first: Follow may find these lines in the store later

	following bool
	refused   bool // a store existed, but could not be opened
}

// maxShown is how many lines of the spool Follow remembers, to recognize them in the store.
const maxShown = 1 << 16

// open opens the files of the spool before it reads how far they were taken in: open files can
// still be read after their removal.
func (l Log) open(ctx context.Context, q Query) (*logReader, error) {
	r := &logReader{Log: l, q: Query{Filter: q.Filter, ID: q.ID, Text: q.Text}, done: map[string]int64{}, seen: map[string]bool{}}
	var errs []error
	var err error
	if r.files, err = spool.OpenLog(l.Spool, q.Since); err != nil {
		errs = append(errs, err)
	}
	if err := r.openStore(ctx); err != nil {
		errs = append(errs, err)
	}
	return r, errors.Join(errs...)
}

// openStore opens the store, if it exists now.
func (r *logReader) openStore(ctx context.Context) error {
	store, err := OpenReader(r.Store)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r.refused = err != nil
	if err != nil {
		return err
	}
	r.store = store
	return store.read(ctx, func(v *view) error {
		head, err := loadHead(ctx, v.tx)
		r.head = head.Seq
		if err != nil {
			return err
		}
		return v.each(`SELECT file, "offset" FROM mark`, nil, func(scan func(into ...any) error) error {
			var file string
			var offset int64
			err := scan(&file, &offset)
			r.done[file] = max(r.done[file], offset)
			return err
		})
	})
}

func (r *logReader) close() {
	if r.files != nil {
		_ = r.files.Close()
	}
	if r.store != nil {
		_ = r.store.Close()
	}
}

// stored yields the matching rows up to head, in the order of time.
func (r *logReader) stored(ctx context.Context) iter.Seq2[Kept, error] {
	return func(yield func(Kept, error) bool) {
		if r.store == nil {
			return
		}
		q := r.q
		q.Before = r.head + 1
		// Sort the row numbers first, which does not need the lines: rows are stored in the order
		// of their Puts.
		var seqs []int64
		err := r.store.read(ctx, func(v *view) error {
			cond, args, err := v.where(&q)
			if err != nil {
				return err
			}
			return v.each("SELECT r.seq FROM record r WHERE "+cond+" ORDER BY r.time, r.seq", args, func(scan func(into ...any) error) error {
				var seq int64
				err := scan(&seq)
				seqs = append(seqs, seq)
				return err
			})
		})
		for part := range slices.Chunk(seqs, page) {
			var lines map[int64][]byte
			if err == nil {
				lines, err = r.lines(ctx, part)
			}
			for _, seq := range part {
				if line := lines[seq]; line != nil && !yield(kept(line)) { // it may have been removed meanwhile
					return
				}
			}
		}
		if err != nil {
			yield(Kept{}, fmt.Errorf("cannot read the records of the store: %w", err))
		}
	}
}

// lines returns the lines of some rows, by row number.
func (r *logReader) lines(ctx context.Context, seqs []int64) (map[int64][]byte, error) {
	lines := make(map[int64][]byte, len(seqs))
	err := r.store.read(ctx, func(v *view) error {
		return v.each("SELECT seq, line FROM line WHERE seq IN ("+marks(len(seqs))+")", anys(seqs, func(seq int64) any { return seq }),
			func(scan func(into ...any) error) error {
				var seq int64
				var line []byte
				err := scan(&seq, &line)
				lines[seq] = line
				return err
			})
	})
	return lines, err
}

// kept decodes the line of a row.
func kept(raw []byte) (Kept, error) {
	l, err := parse(raw)
	if err != nil {
		return Kept{}, fmt.Errorf("cannot read a record of the store: %w", err)
	}
	if l.Event == spool.Torn {
		return Kept{}, tornError{&l.Entry}
	}
	return Kept{Entry: l.Entry, event: func(e *spool.Entry) error {
		err := l.input()
		if err == nil && l.Input == nil && l.InputAt != "" {
			err = errors.New("the event's file was missing when the record was read from the spool")
		}
		if err != nil {
			return fmt.Errorf("cannot read the event of record %s: %w", e.ID, err)
		}
		e.Input = l.Input
		return nil
	}}, nil
}

// tornError is the error for an unreadable line, from its Entry.
type tornError struct{ *spool.Entry }

func (e tornError) Error() string { return wording.Shorten(e.Entry.Error, 200) }

func (e tornError) Is(target error) bool { return target == spool.ErrTorn }

// spooled yields the matching lines of the spool that are not in the store yet.
func (r *logReader) spooled(ctx context.Context) iter.Seq2[Kept, error] {
	return func(yield func(Kept, error) bool) {
		if r.files == nil {
			return
		}
		for _, f := range r.files.Files() {
			if !r.file(ctx, f, yield) {
				return
			}
		}
	}
}

// file yields the unread lines of a file. It reports whether the iteration should continue.
func (r *logReader) file(ctx context.Context, f *spool.LogFile, yield func(Kept, error) bool) bool {
	key := f.Key()
	var batch []spool.Line
	give := func() bool {
		for _, k := range r.wanted(ctx, f, batch) {
			if !yield(k.Kept, k.err) {
				return false
			}
		}
		batch = batch[:0]
		return true
	}
	for line, err := range f.Lines(r.done[key]) {
		if err != nil {
			return give() && yield(Kept{}, err)
		}
		r.done[key] = line.End
		if line.Text == nil {
			continue
		}
		if batch = append(batch, line); len(batch) == page && !give() {
			return false
		}
	}
	return give()
}

// result is one value pair of an iterator.
type result struct {
	Kept
	err error
}

// wanted returns the matching lines that are neither in the store nor in seen.
func (r *logReader) wanted(ctx context.Context, f *spool.LogFile, lines []spool.Line) []result {
	lines = slices.DeleteFunc(slices.Clone(lines), func(line spool.Line) bool { return !r.q.selects(&line.Entry) })
	if len(lines) == 0 {
		return nil
	}
	var out []result
	stored, err := r.inStore(ctx, lines)
	if err == nil && strings.TrimSpace(r.q.Text) != "" {
		lines, err = matching(ctx, f, lines, r.q.Text)
	}
	if err != nil {
		return []result{{err: err}}
	}
	for i := range lines {
		line := lines[i]
		name := nameOf(&line.Entry, line.Text)
		if stored[name] || r.seen[name] {
			continue
		}
		r.seen[name] = true
		r.shown = append(r.shown, name)
		if line.Torn != nil {
			out = append(out, result{err: tornError{&line.Entry}, Kept: Kept{Entry: line.Entry}})
			continue
		}
		out = append(out, result{Kept: Kept{Entry: line.Entry, event: func(e *spool.Entry) error {
			err := f.Event(&line)
			e.Input = line.Entry.Input
			return err
		}}})
	}
	if r.following {
		for len(r.shown) > maxShown {
			delete(r.seen, r.shown[0])
			r.shown = r.shown[1:]
		}
	}
	return out
}

// selects reports whether an Entry matches the Filter and the ID.
func (q *Query) selects(e *spool.Entry) bool {
	return (q.ID == "" || e.ID == q.ID) && q.Wants(e)
}

// nameOf returns a name that is equal for two lines if the store keeps only one of them: a firing
// has one Record, but any number of late lines.
func nameOf(e *spool.Entry, line []byte) string {
	if !e.Late {
		return e.ID
	}
	sum := sha256.Sum256(line)
	return e.ID + "\x00" + string(sum[:])
}

// inStore returns the names of the lines that have a row not after head.
func (r *logReader) inStore(ctx context.Context, lines []spool.Line) (map[string]bool, error) {
	if r.store == nil {
		return nil, nil
	}
	ids := make([]any, len(lines))
	for i := range lines {
		ids[i] = lines[i].Entry.ID
	}
	found := map[string]bool{}
	err := r.store.read(ctx, func(v *view) error {
		return v.each("SELECT id, late, digest FROM record WHERE id IN ("+marks(len(ids))+") AND seq <= ?", append(ids, r.head), func(scan func(into ...any) error) error {
			var id string
			var late bool
			var digest []byte
			err := scan(&id, &late, &digest)
			if late {
				id += "\x00" + string(digest)
			}
			found[id] = true
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the records of the store: %w", err)
	}
	return found, nil
}

// matching returns the lines that match a text search, with the same result as in the store.
func matching(ctx context.Context, f *spool.LogFile, lines []spool.Line, text string) ([]spool.Line, error) {
	match, err := matchOf(text)
	if err != nil {
		return nil, err
	}
	db, err := memory(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot search the log: %w", err)
	}
	defer db.Close()
	for i := range lines {
		raw, err := f.Take(&lines[i])
		if err != nil {
			return nil, err
		}
		if _, err := db.ExecContext(ctx, "INSERT INTO words(rowid, text) VALUES (?,?)", i, wordsOf(raw)); err != nil {
			return nil, fmt.Errorf("cannot search the log: %w", err)
		}
	}
	var list string
	var found []int
	if err := db.QueryRowContext(ctx, "SELECT json_group_array(rowid) FROM words WHERE words MATCH ?", match).Scan(&list); err != nil {
		return nil, fmt.Errorf("cannot search the log: %w", err)
	}
	if err := json.Unmarshal([]byte(list), &found); err != nil {
		return nil, fmt.Errorf("cannot search the log: %w", err)
	}
	slices.Sort(found)
	var out []spool.Line
	for _, i := range found {
		out = append(out, lines[i])
	}
	return out, nil
}

// more returns the new lines of store and spool since the last look.
func (r *logReader) more(ctx context.Context) (fresh []result, err error) {
	var errs []error
	if r.files == nil {
		r.files, err = spool.OpenLog(r.Spool, r.q.Since)
	} else {
		err = r.files.Refresh()
	}
	if err != nil {
		errs = append(errs, err)
	}
	last := r.head
	if r.store == nil {
		refused := r.refused
		if err = r.openStore(ctx); refused {
			last = r.head // rows of a store that could not be opened before are not new
		}
	} else {
		var head Head
		if head, err = r.store.Head(ctx); err == nil {
			if head.Seq < last { // a new database replaced it
				last = 0
			}
			r.head = head.Seq
		}
	}
	if err != nil {
		errs = append(errs, err)
	}
	for k, err := range r.spooled(ctx) {
		fresh = append(fresh, result{k, err})
	}
	if r.store != nil && r.head > last {
		q := r.q
		q.Oldest, q.Lean, q.After, q.Before = true, true, last, r.head+1
		for row, err := range r.store.Records(ctx, q) {
			if err != nil && row.Seq == 0 {
				errs = append(errs, err)
				r.head = last // read these rows again
				break
			}
			if name := nameOf(&row.Entry, row.Line); r.seen[name] {
				continue
			}
			k, err := kept(row.Line)
			fresh = append(fresh, result{k, err})
		}
	}
	slices.SortStableFunc(fresh, func(a, b result) int { return a.Time.Compare(b.Time) })
	return fresh, errors.Join(errs...)
}

// merged merges two iterators in the order of time, if both are in that order. It yields an error
// as soon as it gets it.
func merged(a, b iter.Seq2[Kept, error]) iter.Seq2[Kept, error] {
	return func(yield func(Kept, error) bool) {
		next, stop := iter.Pull2(b)
		defer stop()
		k, err, ok := next()
		// until yields the values of b from before a time.
		until := func(at time.Time, all bool) bool {
			for ok && (all || err != nil || k.Time.Before(at)) {
				if !yield(k, err) {
					return false
				}
				k, err, ok = next()
			}
			return true
		}
		for first, problem := range a {
			if problem == nil && !until(first.Time, false) || !yield(first, problem) {
				return
			}
		}
		until(time.Time{}, true)
	}
}
