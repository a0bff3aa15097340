package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A Query selects Records and their order. The zero Query selects all, newest first.
type Query struct {
	spool.Filter

	ID string // of a firing: its Record, and the late lines about its observing hooks

	// Text is a search for words that must all occur in the Record: in its reasons, errors, tool,
	// hooks or event. Quoted words must be adjacent. A word that ends in * matches by its prefix.
	Text string

	Oldest bool  // oldest first
	After  int64 // only rows after this one
	Before int64 // only rows before this one; 0 = all
	Limit  int   // 0 = no limit
	Lean   bool  // leave Input out
}

// selects reports whether an Entry matches the Filter and the ID. With an ID, a heartbeat matches, too.
func (q *Query) selects(e *spool.Entry) bool {
	f := q.Filter
	if q.ID != "" && len(f.Events) == 0 {
		f.Events = []grapnel.Kind{e.Event}
	}
	return (q.ID == "" || e.ID == q.ID) && f.Wants(e)
}

// from returns the first time that the Query selects, as in the index.
func (q *Query) from() int64 {
	if q.Since.IsZero() {
		return math.MinInt64
	}
	return database.Stamp(q.Since)
}

// A Row is an Entry with its number: the position behind its line in the journal.
type Row struct {
	Seq int64
	spool.Entry
	Line []byte // line of the log, with its event
}

// Records yields the Records that match a Query, each once, in the order of the journal. An error about the
// event of one Record comes with its Row, without the event, and does not end the iteration; any other error
// does. Records that are appended meanwhile are not yielded.
func (r *Reader) Records(ctx context.Context, q Query) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		v := r.look(ctx, q)
		defer v.leave()
		if len(v.errs) > 0 {
			yield(Row{}, errors.Join(v.errs...))
			return
		}
		n := 0
		for line, err := range v.lines(ctx) {
			if err != nil {
				yield(Row{}, fmt.Errorf("cannot read the records: %w", err))
				return
			}
			row, err := r.row(&line, q.Lean)
			if n++; !yield(row, err) || n == q.Limit {
				return
			}
		}
	}
}

// lines yields the matching lines in the order of the Query, until an error.
func (v *view) lines(ctx context.Context) iter.Seq2[spool.Line, error] {
	return func(yield func(spool.Line, error) bool) {
		rows, err := v.first(ctx, v.q.nextPage())
		switch {
		case err != nil:
			yield(spool.Line{}, err)
		case v.q.Oldest:
			if v.older(ctx, rows, yield) {
				v.after(ctx)(yield)
			}
		default:
			if v.newest(ctx, yield) {
				v.older(ctx, rows, yield)
			}
		}
	}
}

// Back returns the row that is n rows before another; 0 = there are not so many. Rows that the index does not
// have are not counted.
func (r *Reader) Back(ctx context.Context, before int64, n int) (seq int64, err error) {
	err = r.read(ctx, func(v *database.View) error {
		_, err := v.Row("SELECT seq FROM record WHERE seq < ? ORDER BY seq DESC LIMIT 1 OFFSET ?", []any{before, n}, &seq)
		return err
	})
	if err != nil && !errors.Is(err, errGone) {
		return 0, fmt.Errorf("cannot read the index: %w", err)
	}
	return seq, nil
}

// leave closes the journal. The index stays open for the Reader.
func (v *view) leave() {
	if v.log != nil {
		_ = v.log.Close()
	}
}

// older passes the matching rows of the index on, in the order of the Query, beginning with the first page. It
// reports whether to continue.
func (v *view) older(ctx context.Context, rows []indexed, yield func(spool.Line, error) bool) bool {
	for q := v.past(); ; {
		for line, err := range v.indexed(rows) {
			if !yield(line, err) {
				return false
			}
		}
		if len(rows) < page {
			return true
		}
		if last := rows[len(rows)-1].seq; q.Oldest {
			q.After = last
		} else {
			q.Before = last
		}
		var err error
		if rows, err = v.rows(ctx, &q, q.nextPage()); v.without(err) != nil {
			yield(spool.Line{}, err)
			return false
		}
		if v.head == 0 { // the journal has the rest
			if v.q.Oldest {
				v.q.After = q.After
				return true
			}
			v.q.Before = q.Before
			return v.newest(ctx, yield)
		}
	}
}

// past returns the Query for the index, which ends at head.
func (v *view) past() Query {
	q := v.q
	if q.Before == 0 || q.Before > v.head {
		q.Before = v.head + 1
	}
	return q
}

// first reads the first rows of the index in an order. If the index is damaged, the journal is read instead.
func (v *view) first(ctx context.Context, order string) ([]indexed, error) {
	if v.head == 0 {
		return nil, nil
	}
	q := v.past()
	rows, err := v.rows(ctx, &q, order)
	return rows, v.without(err)
}

// newest passes the matching lines after the index on, the newest first.
func (v *view) newest(ctx context.Context, yield func(spool.Line, error) bool) bool {
	var lines []spool.Line
	for line, err := range v.after(ctx) {
		if err != nil {
			yield(line, err)
			return false
		}
		if lines = append(lines, line); v.q.Limit > 0 && len(lines) >= 2*v.q.Limit {
			lines = slices.Delete(lines, 0, len(lines)-v.q.Limit)
		}
	}
	for i := range slices.Backward(lines) {
		if !yield(lines[i], nil) {
			return false
		}
	}
	return true
}

// row returns the Row of a line. With lean, it leaves Input out.
func (r *Reader) row(line *spool.Line, lean bool) (Row, error) {
	text, err := line.Whole(r.State)
	if err == nil && !lean && line.Torn == nil {
		err = line.Event(r.State)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("the file of the event of record %s is missing", line.Entry.ID)
	}
	if text == nil {
		text = line.Text
	}
	return Row{Seq: line.At, Entry: line.Entry, Line: text}, err
}

// An indexed is a row of the index.
type indexed struct {
	seq  int64
	size int
	id   string
	time int64
	torn string
}

// line reads the line of a row. If another program has changed it, the result is a torn line.
func (r *Reader) line(row *indexed) (spool.Line, error) {
	torn := func(what string) (spool.Line, error) {
		return spool.TornLine(row.seq, row.id, database.Time(row.time), what), nil
	}
	if row.torn != "" {
		return torn(row.torn)
	}
	raw, err := r.lines.Line(row.seq, row.size)
	if err == nil {
		err = raw.Torn
	}
	var line spool.Line
	if err == nil {
		line, err = spool.Parse(raw)
	}
	line.At = row.seq
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return line, err
	case raw.Text != nil, errors.Is(err, journal.ErrNoLine):
		return torn(fmt.Sprintf("record %s was changed in the journal: %v", row.id, err))
	}
	return line, fmt.Errorf("cannot read record %s: %w", row.id, err)
}

// rows returns the rows of the index that match a Query, in an order.
func (v *view) rows(ctx context.Context, q *Query, order string) (rows []indexed, err error) {
	err = v.read(ctx, func(db *database.View) error {
		cond, args, err := v.where(db, q)
		if err == nil {
			rows, err = rowsOf(db, cond+" ORDER BY "+order, args...)
		}
		return err
	})
	return rows, err
}

// nextPage is the order of Records, for the next rows.
func (q *Query) nextPage() string {
	if q.Oldest {
		return fmt.Sprintf("r.seq LIMIT %d", page)
	}
	return fmt.Sprintf("r.seq DESC LIMIT %d", page)
}

// rowsOf returns the rows r with a condition.
func rowsOf(db *database.View, cond string, args ...any) (rows []indexed, err error) {
	err = db.Each("SELECT r.seq, r.size, r.id, r.time, r.torn FROM record r WHERE "+cond, args, func(scan func(into ...any) error) error {
		var row indexed
		err := scan(&row.seq, &row.size, &row.id, &row.time, &row.torn)
		rows = append(rows, row)
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// indexed yields the lines of rows. It leaves out lines that retention has removed, and Records of other machines.
func (v *view) indexed(rows []indexed) iter.Seq2[spool.Line, error] {
	return func(yield func(spool.Line, error) bool) {
		for i := range rows {
			line, err := v.line(&rows[i])
			if errors.Is(err, fs.ErrNotExist) || err == nil && v.q.Machine != "" && line.Entry.Machine != v.q.Machine {
				continue
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

// oftenRuns is the number of runs of a hook from which it is faster to check each Record for the
// hook than to list all Records with the hook.
const oftenRuns = 2000

// where returns the SQL condition of a Query, without the machine.
func (v *view) where(db *database.View, q *Query) (cond string, args []any, err error) {
	conds := []string{"r.seq > ?"}
	args = []any{max(q.After, v.base)}
	add := func(cond string, more ...any) {
		conds, args = append(conds, cond), append(args, more...)
	}
	if q.Before > 0 {
		add("r.seq < ?", q.Before)
	}
	if !q.Since.IsZero() {
		first, err := firstSince(db, q)
		if err != nil {
			return "", nil, err
		}
		add("r.seq >= ? AND r.time >= ?", first, database.Stamp(q.Since))
	}
	if q.ID != "" {
		add("r.id = ?", q.ID)
	}
	if q.Agent != "" {
		add("r.agent = "+labeled, q.Agent)
	}
	if q.Session != "" {
		add("r.session = "+labeled, q.Session)
	}
	if len(q.Events) == 0 && q.ID == "" {
		add("r.event IS NOT "+labeled, string(spool.Alive)) // also if no row has it
	}
	if len(q.Events) > 0 {
		add("r.event IN (SELECT num FROM label WHERE text IN ("+database.Marks(len(q.Events))+"))", anys(q.Events, func(k grapnel.Kind) any { return string(k) })...)
	}
	if len(q.Decisions) > 0 {
		cond := "r.late = 0 AND r.decision IN (" + database.Marks(len(q.Decisions)) + ")"
		if !slices.Contains(q.Decisions, grapnel.None) {
			cond += " AND r.decision > 0" // the partial index contains only these rows
		}
		add(cond, anys(q.Decisions, func(d grapnel.Decision) any { return int64(d) })...)
	}
	if q.Would {
		add("r.late = 0 AND r.would >= ? AND r.would > r.decision", int64(grapnel.Ask))
	}
	if q.Hook != "" {
		cond, args, err := ran(db, q.Hook)
		if err != nil {
			return "", nil, err
		}
		add(cond, args...)
	}
	if strings.TrimSpace(q.Text) != "" {
		match, err := matchOf(q.Text)
		if err != nil {
			return "", nil, err
		}
		last := q.Before - 1
		if q.Before <= 0 {
			last = math.MaxInt64
		}
		add("r.seq IN (SELECT rowid FROM words WHERE words MATCH ? AND rowid > ? AND rowid <= ?)", match, q.After, last)
	}
	return strings.Join(conds, " AND "), args, nil
}

// ran returns the SQL condition that a hook ran.
func ran(v *database.View, hook string) (cond string, args []any, err error) {
	wanted, args := hookWanted(hook)
	hooks := "(SELECT num FROM hook WHERE " + wanted + ")"
	var n int
	if _, err := v.Row("SELECT count(*) FROM (SELECT 1 FROM ran WHERE hook IN "+hooks+" LIMIT ?)", append(slices.Clone(args), oftenRuns), &n); err != nil {
		return "", nil, err
	}
	if n < oftenRuns {
		return "r.seq IN (SELECT seq FROM ran WHERE hook IN " + hooks + ")", args, nil
	}
	return "EXISTS (SELECT 1 FROM ran WHERE ran.seq = r.seq AND hook IN " + hooks + ")", args, nil
}

// hookWanted returns the SQL condition that a row of table hook matches the hook of a Filter: a
// name, or source::name.
func hookWanted(hook string) (cond string, args []any) {
	cond, args = "name = ?", []any{hook}
	for at := 0; ; {
		next := strings.Index(hook[at:], "::")
		if next < 0 {
			return "(" + cond + ")", args
		}
		at += next
		cond += " OR (name = ? AND source = ?)"
		args = append(args, hook[at+2:], hook[:at])
		at++
	}
}

// labeled is the number of a label.
const labeled = "(SELECT num FROM label WHERE text = ?)"

// firstSince returns a row before which no row has a time that the Since of a Query selects, so that earlier rows
// are not read.
func firstSince(v *database.View, q *Query) (first int64, err error) {
	_, err = v.Row(`SELECT coalesce((SELECT first FROM summary WHERE newest >= ? ORDER BY first LIMIT 1), (SELECT max(last) FROM summary), 0)`, []any{database.Stamp(q.Since)}, &first)
	return first, err
}

func anys[T any](list []T, as func(T) any) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = as(v)
	}
	return out
}
