package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/grapnel-dev/grapnel/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/files"
)

// Options are a Store's settings. The zero value is the default, and nil is fine.
type Options struct {
	Limits Limits // of retention, until SetLimits; see DefaultLimits

	// Note is called with problems that the operator should know and that no caller gets as an
	// error, such as a damaged database or missing rows. It must not call the Store. Nil = not
	// called.
	Note func(error)

	unsafe bool // for tests that do not need durability
}

// The files of a store, in addition to the files that SQLite creates next to the database.
const (
	baseFile = "grapnel.db"
	lockName = "grapnel.lock"
)

var (
	// ErrLocked is the error of Open if another process writes to the store.
	ErrLocked = errors.New("another process writes to the store")

	// ErrVersion is the error for a database with a version that this program does not know: a newer
	// version of Grapnel or another program has created it.
	ErrVersion = errors.New("unsupported database version")

	// ErrClosed is the error of a Store after Close.
	ErrClosed = errors.New("the store is closed")
)

// A Store writes to a database, and has all methods of a Reader. It is safe for concurrent use.
type Store struct {
	*Reader
	opts Options
	lock *files.Lock

	writing atomic.Int32  // callers that wait for a write
	work    chan *op      // writes that share a commit
	stirred chan struct{} // signals that words may have to be indexed
	quit    chan struct{} // closed by Close
	gone    chan struct{} // closed when the writer has ended
	close   sync.Once
	closed  error

	turn       sync.Mutex // held by the goroutine that writes; guards the fields up to the next empty line
	base       *base      // nil = it was damaged and not replaced yet
	behind     int64      // approximate number of rows that are not in the word index
	summarizer summarizer
	wrote      time.Time // time of the last Record

	looked time.Time // when the files were last compared; see look
	retry  time.Time // no retry of the restore before this time
	astray error     // why the files are not restored yet

	pruning sync.Mutex      // held by Prune; guards sizes
	sizes   map[int64]int64 // bytes of the lines of complete blocks of rows, see above

	conditions sync.Mutex // guards condition
	condition  Condition

	head     atomic.Pointer[Head] // after the last commit
	moved    chan struct{}        // signals that head has changed
	anchor   sync.WaitGroup
	anchored sync.Mutex // held while the anchor is written
	flushes  flushes
	live     hub
}

// Open opens the store in a directory, or creates it. Only one process at a time can open it; for
// others Open returns ErrLocked. If the database is damaged, Open renames it, creates a new one,
// and calls Options.Note.
func Open(dir string, opts *Options) (*Store, error) {
	s, err := open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("cannot open the store: %w", err)
	}
	return s, nil
}

func open(dir string, opts *Options) (_ *Store, err error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the directory %q is not an absolute path", dir)
	}
	dir = filepath.Clean(dir)
	s := &Store{
		Reader: newReader(dir),
		sizes:  map[int64]int64{},
		work:   make(chan *op, maxOps), quit: make(chan struct{}), gone: make(chan struct{}), moved: make(chan struct{}, 1), stirred: make(chan struct{}, 1),
	}
	s.Reader.mend = s.mendWords
	if opts != nil {
		s.opts = *opts
	}
	s.SetLimits(s.opts.Limits)
	if s.opts.Note == nil {
		s.opts.Note = func(error) {}
	}
	if err := ready(dir); err != nil {
		return nil, err
	}
	if s.lock, err = lock(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.lock.Close()
		}
	}()
	base, err := attach(dir, &s.opts)
	if broken(err) {
		base, err = s.recreate(err)
	}
	if err != nil {
		return nil, err
	}
	s.use(base)
	if err := s.writeAnchor(base.head); err != nil {
		return nil, errors.Join(err, base.close())
	}
	s.anchor.Go(s.keepAnchor)
	go s.run()
	return s, nil
}

// Close ends the writer, waits for it, and flushes the database.
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.quit)
		<-s.gone
		s.anchor.Wait()
		s.live.close()
		s.closed = s.Reader.Close() // the last connection checkpoints the write-ahead log, if it may write
		if s.base != nil {
			s.closed = errors.Join(s.closed, s.base.close())
		}
		s.closed = errors.Join(s.closed, s.lock.Close())
	})
	return s.closed
}

// lock takes the lock of the writing process.
func lock(dir string) (*files.Lock, error) {
	f, err := openRegular(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	held, err := files.TryLock(f, files.Exclusive)
	if err != nil {
		defer f.Close()
		if !errors.Is(err, files.ErrLocked) {
			return nil, err
		}
		text := make([]byte, 32)
		n, _ := f.Read(text)
		who := "an unknown process"
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n]))); err == nil {
			who = "process " + strconv.Itoa(pid)
		}
		return nil, fmt.Errorf("%s: %w: %s", dir, ErrLocked, who)
	}
	// The process ID in the file only helps people, so a full disk is not an error.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return held, nil
}

//go:embed migrations/*.sql
var migrations embed.FS

// base is the only connection that writes, with its prepared statements.
type base struct {
	ctx   context.Context // never done: a commit that has begun is not canceled
	db    *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	head  Head
	files openFiles
	lost  int64 // rows that were missing at the end when the database was opened
}

// source returns the data source name of the database.
func source(dir string, params ...string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(filepath.Join(dir, baseFile)), RawQuery: strings.Join(params, "&")}
	return u.String()
}

// attach opens the database for writing, runs the migrations, and compares it with the anchor.
func attach(dir string, opts *Options) (_ *base, err error) {
	f, err := openRegular(filepath.Join(dir, baseFile), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", source(dir, "mode=rw", "_pragma=busy_timeout(5000)"))
	if err != nil {
		return nil, err
	}
	b := &base{ctx: context.Background(), db: db, stmts: map[string]*sql.Stmt{}}
	defer func() {
		if err != nil {
			_ = b.close()
		}
	}()
	if b.conn, err = db.Conn(b.ctx); err != nil {
		return nil, err
	}
	// With synchronous=NORMAL, a commit is in the write-ahead log, and Sync flushes that log.
	// Deleted data is overwritten where that costs no extra writes.
	if info.Size() == 0 {
		if err := b.exec("PRAGMA auto_vacuum=INCREMENTAL"); err != nil {
			return nil, err
		}
	}
	sync := "NORMAL"
	if opts.unsafe {
		sync = "OFF"
	}
	for _, pragma := range []string{
		"journal_mode=WAL", "synchronous=" + sync, "secure_delete=FAST", "wal_autocheckpoint=4000", "journal_size_limit=33554432", "temp_store=MEMORY",
		"cache_size=-8000", "trusted_schema=OFF",
	} {
		if err := b.exec("PRAGMA " + pragma); err != nil {
			return nil, err
		}
	}
	if err := b.migrate(dir); err != nil {
		return nil, err
	}
	// A full check takes one second per few hundred MB. In large files, damaged pages are found
	// when they are used.
	if info.Size() <= 32<<20 {
		if err := b.check(opts.Note); err != nil {
			return nil, err
		}
	}
	if b.head, err = loadHead(b.ctx, b.conn); err != nil {
		return nil, err
	}
	if b.files, err = filesAt(dir); err != nil {
		return nil, err
	}
	if !os.SameFile(b.files.db, info) {
		return nil, fmt.Errorf("%w: %s was replaced while it was opened", errFiles, baseFile)
	}
	if err := b.bound(dir); err != nil {
		return nil, err
	}
	return b, b.compare(dir, opts.Note)
}

// tables lists the tables that are checked. The word index can be rebuilt.
var tables = []string{"record", "line", "hook", "again", "removal", "gap", "finding", "mark", "summary"}

// check runs an integrity check. It rebuilds the word index if that is damaged.
func (b *base) check(note func(error)) error {
	for _, table := range tables {
		var result string
		if err := b.conn.QueryRowContext(b.ctx, "PRAGMA quick_check("+table+")").Scan(&result); err != nil {
			return err
		}
		if result != "ok" {
			return fmt.Errorf("%w: %s: %s", errBroken, table, result)
		}
	}
	err := b.exec("INSERT INTO words(words) VALUES ('integrity-check')")
	if broken(err) {
		note(fmt.Errorf("the word index is damaged (%w): rebuilding it", err))
		err = b.forgetWords()
	}
	return err
}

// version returns the version of the newest migration.
func version() int {
	names, _ := fs.Glob(migrations, "migrations/*.sql")
	return len(names)
}

// checkVersion returns an error for a version that no migration creates.
func checkVersion(dir string, have int) error {
	if have < 0 || have > version() {
		return fmt.Errorf("%s: %w %d, the newest supported version is %d: update Grapnel, or move the file away", filepath.Join(dir, baseFile), ErrVersion, have, version())
	}
	return nil
}

// migrate runs the missing migrations.
func (b *base) migrate(dir string) error {
	var have int
	if err := b.conn.QueryRowContext(b.ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return err
	}
	if err := checkVersion(dir, have); err != nil || have == version() {
		return err
	}
	return b.transaction(func() error {
		for n := have + 1; n <= version(); n++ {
			script, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", n))
			if err != nil {
				return err
			}
			if err := b.exec(string(script)); err != nil {
				return fmt.Errorf("migration %d: %w", n, err)
			}
			if fault.On {
				fault.At("store: in a migration")
			}
		}
		return b.exec("PRAGMA user_version=" + strconv.Itoa(version()))
	})
}

// compare checks the database against the anchor. A difference becomes a finding, which
// Verify reports, because the anchor is about to be replaced. Rows that are missing at the
// end keep their numbers.
func (b *base) compare(dir string, note func(error)) error {
	anchor, err := readAnchor(dir)
	var what string
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if b.head.Seq == 0 {
			return nil
		}
		what = headFile + " was missing"
	case err != nil:
		what = "cannot read the anchor: " + err.Error()
	case anchor.Seq > b.head.Seq:
		what = fmt.Sprintf("rows %d to %d were missing at the end", b.head.Seq+1, anchor.Seq)
		b.lost = anchor.Seq - b.head.Seq
	default:
		hash, err := hashAt(b.ctx, b.conn, anchor.Seq)
		switch {
		case err != nil:
			return err
		case hash == nil && anchor.Seq > 0:
			what = fmt.Sprintf("row %d, which %s names, was missing", anchor.Seq, headFile)
		case hash != nil && *hash != anchor.Hash:
			what = fmt.Sprintf("row %d did not match %s", anchor.Seq, headFile)
		default:
			return nil
		}
	}
	seq := b.head.Seq
	err = b.transaction(func() error {
		now := stamp(time.Now())
		if b.lost > 0 {
			if err := b.exec("INSERT INTO gap(first, last, hash, time) VALUES (?,?,?,?)", seq+1, anchor.Seq, anchor.Hash[:], now); err != nil {
				return err
			}
		}
		return b.exec("INSERT INTO finding(time, seq, what) VALUES (?,?,?)", now, seq, what)
	})
	if err != nil {
		return err
	}
	if b.lost > 0 {
		b.head = anchor
	}
	note(fmt.Errorf("%s: another program or user may have changed the log: %s", filepath.Join(dir, baseFile), what))
	return nil
}

// recreate creates a new database and keeps the damaged one under another name.
func (s *Store) recreate(why error) (*base, error) {
	if err := s.Reader.Close(); err != nil { // some systems cannot rename an open file
		return nil, err
	}
	// The write-ahead log is renamed with it, so that it can still be recovered by hand.
	name := filepath.Join(s.dir, baseFile)
	aside, err := putAside(name, "broken")
	if err != nil {
		return nil, fmt.Errorf("%w; cannot rename it: %w", why, err)
	}
	s.opts.Note(fmt.Errorf("%s is damaged (%w): renamed it to %s and created a new database", name, why, aside))
	return attach(s.dir, &s.opts)
}

// errBroken is the error of a failed integrity check.
var errBroken = errors.New("the database is damaged")

// broken reports whether an error means that the file is not a valid database.
func broken(err error) bool {
	if errors.Is(err, errBroken) {
		return true
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xff == sqlite3.SQLITE_CORRUPT || e.Code()&0xff == sqlite3.SQLITE_NOTADB ||
		e.Code() == sqlite3.SQLITE_IOERR_SHORT_READ) // the end of the file is missing
}

// brokenWords reports whether the word index is damaged, and not a table.
func brokenWords(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code() == sqlite3.SQLITE_CORRUPT_VTAB
}

func (b *base) close() error {
	var errs []error
	for _, stmt := range b.stmts {
		errs = append(errs, stmt.Close())
	}
	if b.conn != nil {
		errs = append(errs, b.conn.Close())
	}
	return errors.Join(append(errs, b.db.Close())...)
}

// transaction runs do in a transaction: all of its changes are committed, or none.
func (b *base) transaction(do func() error) (err error) {
	if err := b.run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = b.exec("ROLLBACK") // an error has often rolled back already
		}
	}()
	if err := do(); err != nil {
		return err
	}
	return b.run("COMMIT")
}

// exec runs statements that are not worth preparing.
func (b *base) exec(query string, args ...any) error {
	_, err := b.conn.ExecContext(b.ctx, query, args...)
	return err
}

// stmt returns a prepared statement from the cache.
func (b *base) stmt(query string) (*sql.Stmt, error) {
	if stmt := b.stmts[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := b.conn.PrepareContext(b.ctx, query)
	if err == nil {
		b.stmts[query] = stmt
	}
	return stmt, err
}

func (b *base) run(query string, args ...any) error {
	_, err := b.change(query, args...)
	return err
}

// change runs a statement and returns how many rows it changed.
func (b *base) change(query string, args ...any) (int64, error) {
	stmt, err := b.stmt(query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(b.ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// row reads one row. It reports false if no row was found.
func (b *base) row(query string, args []any, into ...any) (bool, error) {
	stmt, err := b.stmt(query)
	if err != nil {
		return false, err
	}
	err = stmt.QueryRowContext(b.ctx, args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// stamp encodes a time for the database: in nanoseconds since 1970, limited to the range of
// int64. The zero time is 0.
func stamp(t time.Time) int64 {
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

var (
	oldest = time.Date(1678, 1, 1, 0, 0, 0, 0, time.UTC)
	latest = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)
)

// unstamp decodes the output of stamp.
func unstamp(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// marks returns n question marks.
func marks(n int) string { return strings.Join(slices.Repeat([]string{"?"}, n), ",") }
