package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Reader reads a database, with or without a process that writes to it. If another file has
// replaced the open one, it opens that file. It is safe for concurrent use.
type Reader struct {
	opts Options

	mu   sync.Mutex
	db   *sql.DB
	info fs.FileInfo // of the open file
}

// NewReader returns a Reader of a database that may not exist yet.
func NewReader(o Options) *Reader { return &Reader{opts: o} }

// OpenReader opens a database for reading. It returns fs.ErrNotExist if the database does not exist or
// is being created, and ErrVersion for another version than Options.Version.
func OpenReader(o Options) (*Reader, error) {
	r := NewReader(o)
	err := r.Read(context.Background(), func(*View) error { return nil })
	if Broken(err) {
		err = fmt.Errorf("%s: %w: the next start of the daemon creates a new database", o.file(), err)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close closes the database. The Reader can be used again.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.close()
}

func (r *Reader) close() error {
	if r.db == nil {
		return nil
	}
	err := r.db.Close()
	r.db = nil
	return err
}

// open returns the database at the path.
func (r *Reader) open(ctx context.Context) (*sql.DB, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.opts.check(); err != nil {
		return nil, err
	}
	info, err := os.Lstat(r.opts.file())
	if err := errors.Join(err, regular(r.opts.file(), info)); err != nil {
		return nil, err
	}
	if r.db != nil && os.SameFile(info, r.info) {
		return r.db, nil
	}
	_ = r.close()
	db, err := sql.Open("sqlite", source(&r.opts, "mode=ro", "_pragma=busy_timeout(5000)", "_pragma=query_only(1)", "_pragma=trusted_schema(0)"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(2)
	if err := r.known(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	r.db, r.info = db, info
	return db, nil
}

// known returns an error for a database of another version.
func (r *Reader) known(ctx context.Context, db *sql.DB) error {
	var have int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return err
	}
	if have == 0 { // another process is creating it
		return fmt.Errorf("%s: %w yet", r.opts.file(), fs.ErrNotExist)
	}
	return checkVersion(&r.opts, have)
}

// Read runs do in a read transaction: do sees the database at one moment. It should return soon,
// because the write-ahead log grows meanwhile.
func (r *Reader) Read(ctx context.Context, do func(*View) error) error {
	db, err := r.open(ctx)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	return do(&View{Ctx: ctx, from: tx})
}

// A View is the database in a transaction. Only the function that gets it may use it.
type View struct {
	Ctx  context.Context // of the transaction
	from interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
}

// Row reads the first row of a query. It reports false if no row was found.
func (v *View) Row(query string, args []any, into ...any) (found bool, err error) {
	rows, err := v.from.QueryContext(v.Ctx, query, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if !rows.Next() {
		return false, rows.Err()
	}
	if err := rows.Scan(into...); err != nil {
		return false, err
	}
	return true, rows.Close()
}

// Each calls do for each row of a query, until do returns an error. In a Tx, do must not run the
// same query again.
func (v *View) Each(query string, args []any, do func(scan func(into ...any) error) error) error {
	rows, err := v.from.QueryContext(v.Ctx, query, args...)
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

// Marks returns n question marks: "?,?,?".
func Marks(n int) string { return strings.Join(slices.Repeat([]string{"?"}, n), ",") }

var (
	oldest = time.Date(1678, 1, 1, 0, 0, 0, 0, time.UTC)
	latest = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Stamp encodes a time for the database: in nanoseconds since 1970, limited to the range of int64.
// The zero time is 0.
func Stamp(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Before(oldest):
		return oldest.UnixNano()
	case t.After(latest):
		return latest.UnixNano()
	}
	return t.UnixNano()
}

// Time decodes the result of Stamp.
func Time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
