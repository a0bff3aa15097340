package store

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
)

// A Condition says how a Store is, and what has happened to its files since it was opened.
type Condition struct {
	Restored int64 // times that the database was restored after its files were removed, replaced or truncated
	Lost     int64 // rows of the log that could not be restored, or were missing when the Store was opened
	Err      error // why the last write failed; nil = it did not
}

// Condition returns how the Store is. It may be called from any goroutine.
func (s *Store) Condition() Condition {
	s.conditions.Lock()
	defer s.conditions.Unlock()
	return s.condition
}

func (s *Store) setCondition(set func(*Condition)) {
	s.conditions.Lock()
	defer s.conditions.Unlock()
	set(&s.condition)
}

// ended keeps how a write ended. An error of the caller says nothing about the Store.
func (s *Store) ended(err error) {
	_, ofDatabase := errors.AsType[*sqlite.Error](err)
	_, ofFile := errors.AsType[*fs.PathError](err)
	if err == nil || ofDatabase || ofFile || errors.Is(err, errBroken) || errors.Is(err, errFiles) {
		s.setCondition(func(c *Condition) { c.Err = err })
	}
}

// lookEvery is how often a Store compares the files at its paths with those it has open. A
// record must not stay in a removed file for more than a second.
const lookEvery = 500 * time.Millisecond

// errFiles means that the files of the store are not those that are open.
var errFiles = errors.New("the files of the store were changed while they were open")

// openFiles are the files that the writer has open, and how large the database was.
type openFiles struct {
	db, wal, shm fs.FileInfo
	size         int64
}

// filesAt describes the files of a database that is open.
func filesAt(dir string) (f openFiles, err error) {
	name := filepath.Join(dir, baseFile)
	for _, file := range []struct {
		info   *fs.FileInfo
		suffix string
	}{{&f.db, ""}, {&f.wal, "-wal"}, {&f.shm, "-shm"}} {
		if *file.info, err = os.Lstat(name + file.suffix); err != nil {
			return openFiles{}, err
		}
	}
	f.size = f.db.Size()
	return f, nil
}

// changed returns an error if the paths do not lead to the open files any more, or if the
// database became smaller: SQLite never makes it smaller here.
func (f *openFiles) changed(dir string) error {
	for _, file := range []struct {
		open   fs.FileInfo
		suffix string
	}{{f.db, ""}, {f.wal, "-wal"}, {f.shm, "-shm"}} {
		name := baseFile + file.suffix
		info, err := os.Lstat(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %s was removed", errFiles, name)
		case err != nil:
			return fmt.Errorf("%w: %w", errFiles, err)
		case !os.SameFile(info, file.open):
			return fmt.Errorf("%w: %s was replaced", errFiles, name)
		case file.suffix == "" && info.Size() < f.size:
			return fmt.Errorf("%w: %w from %d to %d bytes", errFiles, errShorter, f.size, info.Size())
		case file.suffix == "":
			f.size = info.Size()
		}
	}
	return nil
}

// errShorter means that the database was truncated: what is left of it may be wrong.
var errShorter = fmt.Errorf("%s was truncated", baseFile)

// look compares the files with those that are open, unless it did so a moment ago, and
// restores them. It returns an error as long as they are not restored: nothing must be
// written into a file that nobody can find. The caller has the turn.
func (s *Store) look() error {
	now := time.Now()
	if s.base == nil {
		return nil // the next write opens it
	}
	if now.Sub(s.looked) < lookEvery || now.Before(s.retry) {
		return s.astray
	}
	s.looked = now
	err := s.relock()
	if err == nil {
		if err = s.base.files.changed(s.dir); err != nil {
			err = s.restore(err)
		}
	}
	if err != nil && !errors.Is(err, errFiles) {
		err = fmt.Errorf("%w: %w", errFiles, err)
	}
	if err != nil && s.astray == nil {
		s.opts.Note(err)
	}
	s.astray = err
	if err != nil {
		// The copy of a large database takes long, and may fail again.
		s.looked = time.Now()
		s.retry = s.looked.Add(10 * s.looked.Sub(now))
	}
	return err
}

// watch looks after the files when nobody writes. After an error it finds out whether
// writing works again.
func (s *Store) watch() {
	if !s.turn.TryLock() {
		return // whoever writes looks
	}
	defer s.turn.Unlock()
	err := s.look()
	if err == nil && s.Condition().Err != nil {
		err = s.try([]*op{{do: func(c *change) error { return c.run("UPDATE indexed SET seq = seq") }}})
		if err != nil {
			return // try has kept it
		}
	}
	s.ended(err)
}

// relock takes the lock again if its file was removed or replaced: another process could
// write beside this one.
func (s *Store) relock() error {
	open, err := s.lock.Stat()
	if err != nil {
		return err
	}
	info, err := os.Lstat(filepath.Join(s.dir, lockName))
	if err == nil && os.SameFile(info, open) {
		return nil
	}
	if err := s.directory(); err != nil {
		return err
	}
	again, err := lock(s.dir)
	if err != nil {
		return fmt.Errorf("%s was removed: %w", lockName, err)
	}
	_ = s.lock.Close()
	s.lock = again
	// Another process may have written while the lock was free.
	if s.base.files.changed(s.dir) == nil {
		head, err := loadHead(s.base.ctx, s.base.conn)
		if err != nil {
			return err
		}
		s.base.head = head
		s.head.Store(&head)
	}
	return nil
}

// directory makes the directory again if only that was removed. If its parent is gone, too,
// somebody has removed the whole state on purpose.
func (s *Store) directory() error {
	if _, err := os.Lstat(filepath.Dir(s.dir)); err != nil {
		return err
	}
	return ready(s.dir)
}

// restore copies what is open to a new database at the path of the old one. If that cannot
// be read, a new database is begun, and the rows that were in it count as lost.
func (s *Store) restore(why error) error {
	head := s.base.head
	name := filepath.Join(s.dir, baseFile+".rescue")
	err := s.base.copyTo(name, errors.Is(why, errShorter))
	if err != nil && !broken(err) {
		return fmt.Errorf("%w; it cannot be restored yet: %w", why, err)
	}
	if err := s.writeAnchor(head); err != nil {
		return fmt.Errorf("%w; it cannot be restored yet: %w", why, err)
	}
	if err != nil {
		s.opts.Note(fmt.Errorf("%w, and cannot be restored: %w", why, err))
		return s.replace(err)
	}
	if err := errors.Join(s.Reader.Close(), s.clear()); err != nil {
		return fmt.Errorf("%w; it cannot be restored yet: %w", why, err)
	}
	if err := os.Rename(name, filepath.Join(s.dir, baseFile)); err != nil {
		return fmt.Errorf("%w; it cannot be restored yet: %w", why, err)
	}
	_ = s.base.close() // SQLite sees that the file was moved, and leaves the new one alone
	s.base = nil
	base, err := attach(s.dir, &s.opts)
	if err != nil {
		return fmt.Errorf("%w: %w", why, err)
	}
	s.use(base)
	s.setCondition(func(c *Condition) { c.Restored++ })
	s.opts.Note(fmt.Errorf("%w: all rows up to %d were restored", why, base.head.Seq))
	return nil
}

// clear makes room for a copy of the open database. A file that somebody has put in its
// place is put aside, without the write-ahead log if that is still the open one.
func (s *Store) clear() error {
	name := filepath.Join(s.dir, baseFile)
	open := &s.base.files
	if info, err := os.Lstat(name + "-wal"); err == nil && os.SameFile(info, open.wal) {
		if err := os.Remove(name + "-wal"); err != nil {
			return err
		}
	}
	if info, err := os.Lstat(name); err == nil && !os.SameFile(info, open.db) {
		aside, err := putAside(name, "replaced")
		if err != nil {
			return err
		}
		s.opts.Note(fmt.Errorf("%s was put in the place of the database: it is now %s", name, aside))
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(name + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// putAside renames a database and its write-ahead log, and returns the new name. A file that
// does not exist stays so.
func putAside(name, why string) (aside string, err error) {
	aside = name + "." + why + "-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	for _, suffix := range []string{"", "-wal"} {
		if err := os.Rename(name+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	if err := os.Remove(name + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return aside, nil
}

// copyTo writes a copy of the database, which may have no name any more. With doubt, lines
// are checked first: SQLite takes the missing end of a file for zeros.
func (b *base) copyTo(name string, doubt bool) error {
	if doubt {
		if err := b.sound(); err != nil {
			return err
		}
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := openRegular(name, os.O_RDWR|os.O_CREATE|os.O_EXCL) // SQLite would let others read it
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := b.exec("VACUUM INTO ?", name); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return f.Sync()
}

// sound reads all lines and compares them with their digests.
func (b *base) sound() error {
	rows, err := b.conn.QueryContext(b.ctx, "SELECT r.seq, r.digest, l.line FROM record r LEFT JOIN line l ON l.seq = r.seq")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var digest, line sql.RawBytes
		if err := rows.Scan(&seq, &digest, &line); err != nil {
			return err
		}
		if sum := sha256.Sum256(line); !bytes.Equal(sum[:], digest) {
			return fmt.Errorf("%w: the line of row %d", errBroken, seq)
		}
	}
	return rows.Err()
}
