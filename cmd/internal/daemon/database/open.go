package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// Options name a database and say what to do with its problems. A Reader needs Dir, Name and
// Version only.
type Options struct {
	Dir     string // absolute; Open creates it for this user alone
	Name    string // the file is Name + ".db", the lock is Name + ".lock"
	Schema  string // SQL that creates the tables
	Version int    // of Schema, at least 1

	// Discard removes a database that is damaged or has another version, because its content can
	// be rebuilt. Without it, a damaged database is renamed, and another version is an error.
	Discard bool

	// Created is called when the database is new, and when a new one has replaced it, before the tables are
	// committed. It must not call the DB. Nil = not called.
	Created func()

	// Note is called with problems that the operator should know and that no caller gets as an
	// error. It must not call the DB. Nil = not called.
	Note func(error)
}

var (
	// ErrLocked is the error of Open if another process writes to the database.
	ErrLocked = errors.New("another process writes to the database")

	// ErrVersion is the error for a database that another version of Grapnel or another program
	// has created.
	ErrVersion = errors.New("unsupported database version")

	// ErrClosed is the error of a DB that is not open: after Close, or because its file could not be
	// opened again.
	ErrClosed = errors.New("the database is closed")

	errBroken = errors.New("the database is damaged")
)

// checkLimit is the size in bytes up to which Open checks the whole database. A check takes one
// second for a few hundred MB. In larger files, damaged pages are found when they are used.
const checkLimit = 32 << 20

func (o *Options) file() string { return filepath.Join(o.Dir, o.Name+".db") }
func (o *Options) lock() string { return filepath.Join(o.Dir, o.Name+".lock") }

func (o *Options) check() error {
	if !filepath.IsAbs(o.Dir) {
		return fmt.Errorf("the directory %q is not an absolute path", o.Dir)
	}
	return nil
}

// Open opens a database for writing, or creates it. Only one process at a time can open it; for
// others Open returns ErrLocked.
func Open(o Options) (*DB, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Dir = filepath.Clean(o.Dir)
	if o.Created == nil {
		o.Created = func() {}
	}
	if o.Note == nil {
		o.Note = func(error) {}
	}
	if err := files.PrivateDir(o.Dir); err != nil {
		return nil, err
	}
	lock, err := takeLock(&o)
	if err != nil {
		return nil, err
	}
	d := &DB{Reader: NewReader(o), lock: lock, turn: make(chan struct{}, 1)}
	if err := d.attach(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// takeLock takes the lock of the writing process.
func takeLock(o *Options) (*files.Lock, error) {
	f, err := files.OpenRegular(o.lock(), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	lock, err := files.TryLock(f, files.Exclusive)
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
		return nil, fmt.Errorf("%s: %w: %s", o.Dir, ErrLocked, who)
	}
	// The process ID in the file only helps people, so a full disk is not an error.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return lock, nil
}

// attach opens the file at the path as the current session. It replaces a file that is damaged, or
// that has another version and can be discarded.
func (d *DB) attach() error {
	s, err := open(&d.opts)
	if Broken(err) || d.opts.Discard && errors.Is(err, ErrVersion) {
		if err := d.clear(err); err != nil {
			return err
		}
		s, err = open(&d.opts)
	}
	if err != nil {
		return err
	}
	d.session = s
	d.files.Store(&s.files)
	return nil
}

// clear removes a database that cannot be used, or renames it with its write-ahead log, so that it
// can still be recovered by hand.
func (d *DB) clear(why error) error {
	if err := d.Reader.Close(); err != nil { // some systems cannot rename an open file
		return err
	}
	name := d.opts.file()
	aside := name + ".broken-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		err := error(nil)
		if d.opts.Discard || suffix == "-shm" {
			err = os.Remove(name + suffix)
		} else {
			err = os.Rename(name+suffix, aside+suffix)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w; cannot move it out of the way: %w", why, err)
		}
	}
	if d.opts.Discard {
		d.opts.Note(fmt.Errorf("%s: %w: created a new database", name, why))
	} else {
		d.opts.Note(fmt.Errorf("%s is damaged (%w): renamed it to %s and created a new database", name, why, aside))
	}
	return nil
}

// open opens the database for writing and creates its tables.
func open(o *Options) (_ *session, err error) {
	info, err := create(o.file())
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", source(o, "mode=rw", "_pragma=busy_timeout(5000)"))
	if err != nil {
		return nil, err
	}
	s := &session{db: db, stmts: map[string]*sql.Stmt{}}
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	if s.conn, err = db.Conn(context.Background()); err != nil {
		return nil, err
	}
	// With synchronous=NORMAL, a commit is in the write-ahead log, and Flush flushes that log.
	// Deleted data is overwritten where that costs no extra writes.
	for _, pragma := range []string{
		"journal_mode=WAL", "synchronous=NORMAL", "secure_delete=FAST", "wal_autocheckpoint=4000", "journal_size_limit=33554432",
		"temp_store=MEMORY", "cache_size=-8000", "trusted_schema=OFF",
	} {
		if err := s.exec("PRAGMA " + pragma); err != nil {
			return nil, err
		}
	}
	if err := s.prepare(o); err != nil {
		return nil, err
	}
	if info.Size() <= checkLimit {
		if err := s.check(); err != nil {
			return nil, err
		}
	}
	if s.files, err = filesAt(o.file()); err != nil {
		return nil, err
	}
	if !os.SameFile(s.files.db, info) {
		return nil, fmt.Errorf("%w: %s was replaced while it was opened", errFiles, o.file())
	}
	return s, nil
}

// create creates a file with the right mode if it is missing, because SQLite would make it readable
// for others. It does not open an existing file: on Unix, closing it would end the locks of all
// connections of this process.
func create(name string) (fs.FileInfo, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err := files.OpenRegular(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		return info, errors.Join(err, f.Close())
	}
	return info, errors.Join(err, regular(name, info))
}

func regular(name string, info fs.FileInfo) error {
	if info != nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", name)
	}
	return nil
}

// source returns the data source name of the database.
func source(o *Options, params ...string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(o.file()), RawQuery: strings.Join(params, "&")}
	return u.String()
}

// prepare creates the tables of a new database, and refuses another version.
func (s *session) prepare(o *Options) error {
	have, tables := 0, 0
	err := s.conn.QueryRowContext(context.Background(), "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version").Scan(&have, &tables)
	if err != nil {
		return err
	}
	if have != 0 || tables != 0 {
		return checkVersion(o, have)
	}
	return s.transaction(context.Background(), func(*Tx) error {
		if err := s.exec(o.Schema); err != nil {
			return err
		}
		o.Created()
		return s.exec("PRAGMA user_version=" + strconv.Itoa(o.Version))
	})
}

func checkVersion(o *Options, have int) error {
	if have == o.Version {
		return nil
	}
	err := fmt.Errorf("%s: %w %d, the supported version is %d", o.file(), ErrVersion, have, o.Version)
	if o.Discard {
		return err
	}
	return fmt.Errorf("%w: update Grapnel, or move the file away", err)
}

// check runs an integrity check.
func (s *session) check() error {
	var result string
	err := s.conn.QueryRowContext(context.Background(), "PRAGMA quick_check(1)").Scan(&result)
	if err == nil && result != "ok" {
		err = fmt.Errorf("%w: %s", errBroken, result)
	}
	return err
}

// Broken reports whether an error means that the file is not a valid database.
func Broken(err error) bool {
	if errors.Is(err, errBroken) {
		return true
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	case sqlite3.SQLITE_ERROR: // a word index reports damage without a code of its own
		return strings.Contains(e.Error(), "invalid fts5 file format")
	}
	return e.Code() == sqlite3.SQLITE_IOERR_SHORT_READ // the end of the file is missing
}
