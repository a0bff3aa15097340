package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/files"
)

// A DB writes to a database, and has all methods of a Reader. It is safe for concurrent use.
type DB struct {
	*Reader
	turn chan struct{} // holds an element while a goroutine writes; guards the fields up to the next empty line
	lock *files.Lock   // nil = closed

	session *session // nil = the file could not be opened again
	looked  time.Time
	noted   bool // the operator knows that the file cannot be opened

	files     atomic.Pointer[openFiles] // of the session
	committed atomic.Int64              // number of commits

	flushing sync.Mutex
	flushed  int64 // number of commits that are on disk
}

// session is the only connection that writes, with its prepared statements.
type session struct {
	db    *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	files openFiles
}

// A Tx is a transaction that writes. Its Ctx is never done, because a commit that has begun is not
// canceled.
type Tx struct {
	View
	session *session
}

// Run runs a statement. The prepared statement is cached until the DB is closed, so values belong
// into args.
func (t *Tx) Run(query string, args ...any) error {
	_, err := t.Change(query, args...)
	return err
}

// Change runs a statement like Run and returns how many rows it changed.
func (t *Tx) Change(query string, args ...any) (n int64, err error) {
	stmt, err := t.session.stmt(query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(t.Ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Write runs do in a transaction: all of its changes are committed, or none. One caller writes at a
// time. An error of ctx means that nothing was written. do may be called again from the start, with a
// new database, if the database is damaged.
func (d *DB) Write(ctx context.Context, do func(*Tx) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := d.look(); err != nil {
		return err
	}
	err := d.commit(ctx, do)
	if Broken(err) {
		if err = d.renew(err); err == nil {
			err = d.commit(ctx, do)
		}
	}
	return err
}

func (d *DB) commit(ctx context.Context, do func(*Tx) error) error {
	err := d.session.transaction(context.WithoutCancel(ctx), func(tx *Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		d.step("before the commit")
		return nil
	})
	if err != nil {
		return err
	}
	d.step("after the commit")
	d.committed.Add(1)
	return nil
}

// step marks a point at which tests kill the process.
func (d *DB) step(name string) {
	if fault.On {
		fault.At(d.opts.Name + ": " + name)
	}
}

// Flush waits until everything that was committed is on disk. Concurrent callers share one flush,
// and writing continues meanwhile.
func (d *DB) Flush() error {
	want := d.committed.Load()
	d.flushing.Lock()
	defer d.flushing.Unlock()
	if d.flushed >= want && want > 0 {
		return nil // by a flush that began after the commit
	}
	have := d.committed.Load()
	d.step("before the flush")
	if err := d.flushLog(); err != nil {
		return fmt.Errorf("cannot flush %s: %w", d.opts.file(), err)
	}
	d.step("after the flush")
	d.flushed = have
	return nil
}

// flushLog flushes the write-ahead log. It exists as long as the session.
func (d *DB) flushLog() error {
	open := d.files.Load()
	if open == nil {
		return ErrClosed
	}
	f, err := files.OpenRegular(d.opts.file()+"-wal", os.O_RDWR)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(info, open.wal) {
		err = fmt.Errorf("%w: %s was replaced", errFiles, f.Name())
	}
	if err == nil {
		err = files.Flush(f)
	}
	return errors.Join(err, f.Close())
}

// Close waits for the current Write and closes the database. The last connection writes the
// write-ahead log into the database, and flushes it.
func (d *DB) Close() error {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	if d.lock == nil {
		return nil
	}
	err := errors.Join(d.Reader.Close(), d.detach(), d.lock.Close())
	d.lock = nil
	return err
}

// detach closes the session.
func (d *DB) detach() error {
	s := d.session
	if s == nil {
		return nil
	}
	d.session = nil
	d.files.Store(nil)
	return s.close()
}

func (s *session) close() error {
	var errs []error
	for _, stmt := range s.stmts {
		errs = append(errs, stmt.Close())
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	return errors.Join(append(errs, s.db.Close())...)
}

// transaction runs do in a transaction.
func (s *session) transaction(ctx context.Context, do func(*Tx) error) error {
	tx := &Tx{View: View{Ctx: ctx, from: s}, session: s}
	if err := tx.Run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	done := false
	defer func() {
		if !done {
			_ = s.exec("ROLLBACK") // an error has often rolled back already
		}
	}()
	if err := do(tx); err != nil {
		return err
	}
	err := tx.Run("COMMIT")
	done = err == nil
	return err
}

// exec runs statements that are not worth preparing.
func (s *session) exec(query string) error {
	_, err := s.conn.ExecContext(context.Background(), query)
	return err
}

// stmt returns a prepared statement from the cache.
func (s *session) stmt(query string) (*sql.Stmt, error) {
	if stmt := s.stmts[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(context.Background(), query)
	if err == nil {
		s.stmts[query] = stmt
	}
	return stmt, err
}

// QueryContext runs a prepared query.
func (s *session) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := s.stmt(query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}
