package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A Reader reads a store, with or without a process that writes to it. It is safe for concurrent
// use.
type Reader struct {
	dir  string
	mend func(context.Context, error) error // rebuilds a damaged word index; nil = cannot

	limits atomic.Pointer[Limits]
	now    func() time.Time // for Verify

	mu   sync.Mutex
	db   *sql.DB
	info fs.FileInfo // of the open database file
}

func newReader(dir string) *Reader {
	r := &Reader{dir: dir, now: time.Now}
	r.SetLimits(Limits{})
	return r
}

// OpenReader opens the store in a directory for reading. It returns fs.ErrNotExist if the store
// does not exist or is being created, and ErrVersion if this version cannot read it.
func OpenReader(dir string) (*Reader, error) {
	r := newReader(filepath.Clean(dir))
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("cannot open the store: the directory %q is not an absolute path", dir)
	}
	err := r.read(context.Background(), func(v *view) error {
		var have int
		if _, err := v.row("PRAGMA user_version", nil, &have); err != nil {
			return err
		}
		if have == 0 { // another process is creating it
			return fmt.Errorf("%s: %w yet", filepath.Join(dir, baseFile), fs.ErrNotExist)
		}
		return checkVersion(dir, have)
	})
	if broken(err) {
		err = fmt.Errorf("%s: %w: the next start of the daemon renames it and creates a new database", filepath.Join(dir, baseFile), err)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the store: %w", err), r.Close())
	}
	return r, nil
}

// Close closes the database. The Reader can be used again.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.db == nil {
		return nil
	}
	err := r.db.Close()
	r.db = nil
	return err
}

// open returns the database. If a new database has replaced a damaged one, it opens the new one.
func (r *Reader) open() (*sql.DB, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info, err := os.Lstat(filepath.Join(r.dir, baseFile))
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", filepath.Join(r.dir, baseFile))
	case r.db != nil && os.SameFile(info, r.info):
		return r.db, nil
	case r.db != nil:
		_ = r.db.Close()
	}
	r.db, err = sql.Open("sqlite", source(r.dir, "mode=ro", "_pragma=busy_timeout(5000)", "_pragma=query_only(1)", "_pragma=trusted_schema(0)"))
	if err != nil {
		return nil, err
	}
	r.db.SetMaxOpenConns(8)
	r.db.SetMaxIdleConns(2)
	r.info = info
	return r.db, nil
}

// view is a read transaction: the store at one moment.
type view struct {
	ctx context.Context
	tx  *sql.Tx
}

// read runs do in a read transaction.
func (r *Reader) read(ctx context.Context, do func(*view) error) error {
	db, err := r.open()
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	return do(&view{ctx: ctx, tx: tx})
}

func (v *view) row(query string, args []any, into ...any) (bool, error) {
	err := v.tx.QueryRowContext(v.ctx, query, args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// each calls do for each row of a query.
func (v *view) each(query string, args []any, do func(scan func(into ...any) error) error) error {
	rows, err := v.tx.QueryContext(v.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// querier is a connection or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// loadHead reads the head of the chain.
func loadHead(ctx context.Context, q querier) (Head, error) {
	var h Head
	var hash []byte
	err := q.QueryRowContext(ctx, `SELECT seq, hash FROM (
			SELECT * FROM (SELECT seq, hash FROM record ORDER BY seq DESC LIMIT 1)
			UNION ALL SELECT * FROM (SELECT seq, hash FROM removal ORDER BY seq DESC LIMIT 1)
			UNION ALL SELECT * FROM (SELECT last, hash FROM gap ORDER BY first DESC LIMIT 1)
		) ORDER BY seq DESC LIMIT 1`).Scan(&h.Seq, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return Head{}, nil
	}
	if err == nil && len(hash) != len(h.Hash) {
		err = fmt.Errorf("%w: row %d has a hash of %d bytes", errBroken, h.Seq, len(hash))
	}
	copy(h.Hash[:], hash)
	return h, err
}

// hashAt returns the hash of a row, or nil if the database does not have the row.
func hashAt(ctx context.Context, q querier, seq int64) (*Hash, error) {
	var hash []byte
	err := q.QueryRowContext(ctx, `SELECT hash FROM record WHERE seq = ?1
		UNION ALL SELECT hash FROM removal WHERE seq = ?1
		UNION ALL SELECT after FROM removal WHERE last = ?1
		UNION ALL SELECT hash FROM gap WHERE last = ?1`, seq).Scan(&hash)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	var h Hash
	copy(h[:], hash)
	return &h, err
}

// Head returns the end of the chain. A copy in another place shows later whether all rows up to
// it still exist unchanged.
func (r *Reader) Head(ctx context.Context) (h Head, err error) {
	err = r.read(ctx, func(v *view) error {
		h, err = loadHead(ctx, v.tx)
		return err
	})
	return h, err
}

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

// A Row is an Entry with its row number. Rows are numbered in the order of their Puts,
// independent of clocks.
type Row struct {
	Seq int64
	spool.Entry
	Line []byte // line of the log, without its newline
}

// page is how many rows are read at once. No read transaction is open while the caller uses them,
// because it would block the checkpoint of the write-ahead log.
const page = 128

// Records yields the Records that match a Query. An error about the event of one Record comes
// with its Row, without the event, and does not end the iteration; any other error does. Records
// that are put meanwhile may or may not be yielded.
func (r *Reader) Records(ctx context.Context, q Query) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for left := q.Limit; ; {
			n := page
			if q.Limit > 0 {
				n = min(n, left)
			}
			rows, err := r.page(ctx, &q, n)
			if err != nil {
				yield(Row{}, fmt.Errorf("cannot read the records: %w", err))
				return
			}
			for _, row := range rows {
				if err := row.parse(q.Lean); !yield(row, err) {
					return
				}
			}
			left -= len(rows)
			if len(rows) < n || q.Limit > 0 && left <= 0 {
				return
			}
			if last := rows[len(rows)-1].Seq; q.Oldest {
				q.After = last
			} else {
				q.Before = last
			}
		}
	}
}

// parse decodes the Line into the Entry. With lean, it leaves Input out.
func (row *Row) parse(lean bool) error {
	l, err := parse(row.Line)
	if err == nil && !lean {
		err = l.input()
	}
	row.Entry = l.Entry
	if err != nil {
		return fmt.Errorf("cannot read the event of record %s: %w", l.ID, err)
	}
	return nil
}

// page reads the next rows of a Query. If the word index is damaged, it has it repaired and reads
// again.
func (r *Reader) page(ctx context.Context, q *Query, n int) (rows []Row, err error) {
	rows, err = r.readPage(ctx, q, n)
	if brokenWords(err) && r.mend != nil && r.mend(ctx, err) == nil {
		return r.readPage(ctx, q, n)
	}
	return rows, err
}

func (r *Reader) readPage(ctx context.Context, q *Query, n int) (rows []Row, err error) {
	err = r.read(ctx, func(v *view) error {
		cond, args, err := v.where(q)
		if err != nil {
			return err
		}
		order := "DESC"
		if q.Oldest {
			order = "ASC"
		}
		return v.each("SELECT r.seq, l.line FROM record r JOIN line l ON l.seq = r.seq WHERE "+cond+" ORDER BY r.seq "+order+" LIMIT ?",
			append(args, n), func(scan func(into ...any) error) error {
				var row Row
				err := scan(&row.Seq, &row.Line)
				rows = append(rows, row)
				return err
			})
	})
	return rows, err
}

// oftenRuns is the number of runs of a hook from which it is faster to check each Record for the
// hook than to list all Records with the hook.
const oftenRuns = 2000

// where returns the SQL condition of a Query.
func (v *view) where(q *Query) (cond string, args []any, err error) {
	conds := []string{"r.seq > ?"}
	args = []any{q.After}
	add := func(cond string, more ...any) {
		conds, args = append(conds, cond), append(args, more...)
	}
	if q.Before > 0 {
		add("r.seq < ?", q.Before)
	}
	if !q.Since.IsZero() {
		first, err := v.firstSince(q)
		if err != nil {
			return "", nil, err
		}
		add("r.seq >= ? AND r.time >= ?", first, stamp(q.Since))
	}
	if q.ID != "" {
		add("r.id = ?", q.ID)
	}
	if q.Agent != "" {
		add("r.agent = ?", q.Agent)
	}
	if q.Session != "" {
		add("r.session = ?", q.Session)
	}
	if q.Machine != "" {
		add("EXISTS (SELECT 1 FROM line m WHERE m.seq = r.seq AND json_extract(CAST(m.line AS TEXT), '$.machine') = ?)", q.Machine)
	}
	if len(q.Events) == 0 && q.ID == "" {
		add("r.event <> ?", string(spool.Alive))
	}
	if len(q.Events) > 0 {
		add("r.event IN ("+marks(len(q.Events))+")", anys(q.Events, func(k grapnel.Kind) any { return string(k) })...)
	}
	if len(q.Decisions) > 0 {
		cond := "r.late = 0 AND r.decision IN (" + marks(len(q.Decisions)) + ")"
		partial := " AND r.decision > 0"
		for _, d := range q.Decisions {
			if d == grapnel.None {
				partial = "" // the partial index contains only the other rows
			}
		}
		add(cond+partial, anys(q.Decisions, func(d grapnel.Decision) any { return int64(d) })...)
	}
	if q.Would {
		add("r.late = 0 AND r.would >= ? AND r.would > r.decision", int64(grapnel.Ask))
	}
	if q.Hook != "" {
		cond, args, err := v.ran(q.Hook)
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
		fresh, err := v.fresh(match)
		if err != nil {
			return "", nil, err
		}
		last := q.Before - 1
		if q.Before <= 0 {
			last = math.MaxInt64
		}
		add("r.seq IN (SELECT rowid FROM words WHERE words MATCH ? AND rowid > ? AND rowid <= ? UNION ALL SELECT value FROM json_each(?))", match, q.After, last, fresh)
	}
	return strings.Join(conds, " AND "), args, nil
}

// ran returns the SQL condition that a hook ran.
func (v *view) ran(hook string) (cond string, args []any, err error) {
	cond, args = hookWanted(hook)
	var n int
	if _, err := v.row("SELECT count(*) FROM (SELECT 1 FROM hook WHERE "+cond+" LIMIT ?)", append(slices.Clone(args), oftenRuns), &n); err != nil {
		return "", nil, err
	}
	if n < oftenRuns {
		return "r.seq IN (SELECT seq FROM hook WHERE " + cond + ")", args, nil
	}
	return "EXISTS (SELECT 1 FROM hook WHERE hook.seq = r.seq AND " + cond + ")", args, nil
}

// firstSince returns the first row that the Since of a Query can select, so that earlier rows are
// not read. The index finds it. If After limits the rows, that would take longer.
func (v *view) firstSince(q *Query) (int64, error) {
	first := sql.NullInt64{Int64: q.After}
	if q.After == 0 {
		if _, err := v.row("SELECT min(seq) FROM record WHERE time >= ?", []any{stamp(q.Since)}, &first); err != nil {
			return 0, err
		}
		if !first.Valid {
			return math.MaxInt64, nil
		}
	}
	return first.Int64, nil
}

func anys[T any](list []T, as func(T) any) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = as(v)
	}
	return out
}
