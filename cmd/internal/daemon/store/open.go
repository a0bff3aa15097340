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

	"github.com/grapnel-dev/grapnel/cmd/internal/fault"
)

// Options are a Store's settings. The zero value is the default, and nil is fine.
type Options struct {
	MaxAge     time.Duration // of a Record; 0 = 90 days
	MaxRecords int           // that are kept; 0 = 1,000,000

	// Note is told what a person should know and nobody was told otherwise: a database that
	// was put aside, rows that are missing. It must not call the Store. Nil = nobody is.
	Note func(error)

	// Due is called when jobs may have become due otherwise than by time: by Put, Retry or
	// SwitchOn. It must return at once. Nil is fine.
	Due func()

	unsafe bool // for tests that are about something else than disks
}

// The limits of retention.
const (
	maxAge     = 90 * 24 * time.Hour
	maxRecords = 1_000_000
)

// The files of a store, besides what SQLite puts beside the database.
const (
	baseFile = "grapnel.db"
	lockName = "grapnel.lock"
)

var (
	// ErrLocked is what Open returns while another process writes.
	ErrLocked = errors.New("another process writes there")

	// ErrNewer is what is returned of a database that a newer version has made.
	ErrNewer = errors.New("a newer version of Grapnel has made it")

	// ErrOlder is the error for a database that a development version before the first
	// release has made. Its rows are chained in another way.
	ErrOlder = errors.New("a development version of Grapnel has made it")

	// ErrClosed is what a Store returns after Close.
	ErrClosed = errors.New("the store is closed")
)

// A Store writes, and offers all that a Reader does. It is safe for concurrent use.
type Store struct {
	*Reader
	opts Options
	lock *os.File

	writing atomic.Int32  // callers that want something written
	work    chan *op      // of those that share a commit
	stirred chan struct{} // words may have to be indexed
	quit    chan struct{} // closed by Close
	gone    chan struct{} // closed when the writer has ended
	close   sync.Once
	closed  error

	turn   sync.Mutex // of whoever writes: all until the next empty line
	base   *base      // nil = it was broken, and there is no other yet
	behind int64      // about how many rows have no words in the index
	wrote  time.Time  // when the last Record was
	leased time.Time  // when jobs were leased last

	looked time.Time // when the files were compared last; see look
	retry  time.Time // not before
	astray error     // why the files are not restored yet

	conditions sync.Mutex // of condition
	condition  Condition

	head     atomic.Pointer[Head] // of the last commit
	moved    chan struct{}        // head has
	anchor   sync.WaitGroup
	anchored sync.Mutex // of who writes the anchor
	flushes  flushes
	live     hub
}

// Open opens the store in a directory, or makes it. One process at a time can: ErrLocked
// says who is first. A database that is damaged is put aside, and a new one begun; Options.Note
// is told.
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
		work:   make(chan *op, maxOps), quit: make(chan struct{}), gone: make(chan struct{}), moved: make(chan struct{}, 1), stirred: make(chan struct{}, 1),
	}
	s.Reader.mend = s.mendWords
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.MaxAge <= 0 {
		s.opts.MaxAge = maxAge
	}
	if s.opts.MaxRecords <= 0 {
		s.opts.MaxRecords = maxRecords
	}
	s.Reader.maxAge, s.Reader.maxRecords = s.opts.MaxAge, s.opts.MaxRecords
	if s.opts.Note == nil {
		s.opts.Note = func(error) {}
	}
	if s.opts.Due == nil {
		s.opts.Due = func() {}
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
		base, err = s.anew(err)
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

// Close ends the writing, waits for it, and flushes it.
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.quit)
		<-s.gone
		s.anchor.Wait()
		s.live.close()
		s.closed = s.Reader.Close() // whoever is last puts the write-ahead log into the database, if it may write
		if s.base != nil {
			s.closed = errors.Join(s.closed, s.base.close())
		}
		s.closed = errors.Join(s.closed, s.lock.Close())
	})
	return s.closed
}

// lock makes this the process that writes.
func lock(dir string) (*os.File, error) {
	f, err := openRegular(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		defer f.Close()
		if !errors.Is(err, errHeld) {
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
	// Who holds it is a help for people, and no reason to fail on a full disk.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

//go:embed migrations/*.sql
var migrations embed.FS

// base is the one connection that writes, and the statements that were prepared on it.
type base struct {
	ctx   context.Context // never done: a commit that has begun is not given up
	db    *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	head  Head
	files openFiles
	lost  int64 // rows that were missing at the end when it was opened
}

// source is the name by which the driver opens the database.
func source(dir string, params ...string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(filepath.Join(dir, baseFile)), RawQuery: strings.Join(params, "&")}
	return u.String()
}

// attach opens the database for writing, brings it up to date and looks whether it is what
// the anchor says.
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
	// With synchronous=NORMAL a commit is in the write-ahead log, and Sync flushes that. What
	// is removed is overwritten if that costs nothing.
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
	// A whole check takes a second per few hundred MB. Of large files, pages are found
	// broken when they are used.
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
	return b, b.compare(dir, opts.Note)
}

// tables are those that cannot be made again from others.
var tables = []string{"record", "line", "hook", "again", "removal", "gap", "finding", "mark", "job", "off"}

// check looks for damage. The index of words is made anew if it has any.
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
		note(fmt.Errorf("the index of words is damaged (%w): it is made anew", err))
		err = b.forgetWords()
	}
	return err
}

// firstVersion is the version of the first migration. Databases of version 1 were never
// released.
const firstVersion = 2

// version is that of the newest migration.
func version() int {
	names, _ := fs.Glob(migrations, "migrations/*.sql")
	return firstVersion - 1 + len(names)
}

// migrate brings the tables up to date.
func (b *base) migrate(dir string) error {
	var have int
	if err := b.conn.QueryRowContext(b.ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return err
	}
	if have > version() {
		return fmt.Errorf("%s: %w (its version is %d, and this one knows %d): update Grapnel, or move the file away",
			filepath.Join(dir, baseFile), ErrNewer, have, version())
	}
	if have > 0 && have < firstVersion {
		return fmt.Errorf("%s: %w (its version is %d, and this one needs %d): move the file away",
			filepath.Join(dir, baseFile), ErrOlder, have, version())
	}
	if have == version() {
		return nil
	}
	return b.transaction(func() error {
		for n := max(have+1, firstVersion); n <= version(); n++ {
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
		what = "cannot be read: " + err.Error()
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
			what = fmt.Sprintf("row %d was not the one that %s names", anchor.Seq, headFile)
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
	note(fmt.Errorf("%s: somebody may have changed the log: %s", filepath.Join(dir, baseFile), what))
	return nil
}

// anew puts a broken database aside and begins a new one.
func (s *Store) anew(why error) (*base, error) {
	if err := s.Reader.Close(); err != nil { // where an open file cannot be renamed
		return nil, err
	}
	// What is not in the database yet goes with it; it can still be put together by hand.
	name := filepath.Join(s.dir, baseFile)
	aside, err := putAside(name, "broken")
	if err != nil {
		return nil, fmt.Errorf("%w; and it cannot be put aside: %w", why, err)
	}
	s.opts.Note(fmt.Errorf("%s is damaged (%w): it is now %s, and a new one is begun", name, why, aside))
	return attach(s.dir, &s.opts)
}

// errBroken is what a check found.
var errBroken = errors.New("the database is damaged")

// broken reports whether an error says that the file is no sound database.
func broken(err error) bool {
	if errors.Is(err, errBroken) {
		return true
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xff == sqlite3.SQLITE_CORRUPT || e.Code()&0xff == sqlite3.SQLITE_NOTADB)
}

// brokenWords reports whether it is the index of words that is damaged, and not a table.
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

// transaction does what do does, or nothing.
func (b *base) transaction(do func() error) (err error) {
	if err := b.run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = b.exec("ROLLBACK") // an error has often done it already
		}
	}()
	if err := do(); err != nil {
		return err
	}
	return b.run("COMMIT")
}

// exec runs statements that are not needed often.
func (b *base) exec(query string, args ...any) error {
	_, err := b.conn.ExecContext(b.ctx, query, args...)
	return err
}

// stmt returns a statement that is kept prepared.
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

// row reads one row. It reports false if there is none.
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

// stamp is a time as it is kept: nanoseconds since 1970, or the end of what these reach.
// The zero time is 0.
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

// unstamp is the time that was kept.
func unstamp(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// marks returns n question marks.
func marks(n int) string { return strings.Join(slices.Repeat([]string{"?"}, n), ",") }

// ints appends the whole numbers that a query finds.
func (b *base) ints(to []int64, query string, args ...any) ([]int64, error) {
	stmt, err := b.stmt(query)
	if err != nil {
		return to, err
	}
	rows, err := stmt.QueryContext(b.ctx, args...)
	if err != nil {
		return to, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return to, err
		}
		to = append(to, n)
	}
	return to, rows.Err()
}
