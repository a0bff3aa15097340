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

// A Condition is the state of a Store, and counts of the problems with its files since it was
// opened.
type Condition struct {
	Restored int64 // how often the database was restored after its files were removed, replaced or truncated
	Lost     int64 // rows of the log that could not be restored, or were missing when the Store was opened
	Err      error // why the last write failed; nil = it succeeded
}

// Condition returns the state of the Store. It is safe for concurrent use.
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

// ended stores the result of a write. An error of the caller does not change the Condition.
func (s *Store) ended(err error) {
	_, ofDatabase := errors.AsType[*sqlite.Error](err)
	_, ofFile := errors.AsType[*fs.PathError](err)
	if err == nil || ofDatabase || ofFile || errors.Is(err, errBroken) || errors.Is(err, errFiles) {
		s.setCondition(func(c *Condition) { c.Err = err })
	}
}

// lookEvery is how often a Store compares the files at its paths with its open files. A Record
// must not be only in a removed file for more than a second.
const lookEvery = 500 * time.Millisecond

// errFiles means that the files of the store are not the open files.
var errFiles = errors.New("the files of the store were changed while they were open")

// openFiles describes the files that the writer has open, and the size of the database.
type openFiles struct {
	db, wal, shm fs.FileInfo
	size         int64 // the database must not become smaller
	shrinks      bool  // the next checkpoint may truncate the database to size
}

// filesAt returns the description of the files of an open database.
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

// changed returns an error if the paths no longer lead to the open files, or if the database file
// became smaller than SQLite makes it.
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
		case file.suffix == "" && !f.shrinks:
			f.size = info.Size()
		}
	}
	return nil
}

// errShorter means that the database was truncated: the remaining data may be wrong.
var errShorter = fmt.Errorf("%s was truncated", baseFile)

// look compares the files with the open files, unless it did so recently, and restores them. It
// returns an error until they are restored: nothing may be written into a file that has
// no path. The caller holds turn.
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
		// Copying a large database takes long, and may fail again.
		s.looked = time.Now()
		s.retry = s.looked.Add(10 * s.looked.Sub(now))
	}
	return err
}

// watch checks the files while nothing is written. After an error it finds out whether writing
// works again.
func (s *Store) watch() {
	if !s.turn.TryLock() {
		return // the current writer checks
	}
	defer s.turn.Unlock()
	err := s.look()
	if err == nil && s.Condition().Err != nil {
		err = s.try([]*op{{do: func(c *change) error { return c.run("UPDATE indexed SET seq = seq") }}})
		if err != nil {
			return // try has stored the error
		}
	}
	s.ended(err)
	if s.base != nil && s.base.files.shrinks { // a reader or another checkpoint was in the way
		select {
		case s.stirred <- struct{}{}:
		default:
		}
	}
}

// relock takes the lock again if the lock file was removed or replaced, because another process
// could then write too.
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

// directory creates the directory again if only that was removed. If its parent is missing too,
// the whole state was removed on purpose.
func (s *Store) directory() error {
	if _, err := os.Lstat(filepath.Dir(s.dir)); err != nil {
		return err
	}
	return ready(s.dir)
}

// restore copies the open database to a new one at the old path. If the open database cannot be
// read, restore creates an empty one, and counts the rows of the old one as lost.
func (s *Store) restore(why error) error {
	head := s.base.head
	name := filepath.Join(s.dir, baseFile+".rescue")
	err := s.base.copyTo(name, errors.Is(why, errShorter))
	if err != nil && !broken(err) {
		return fmt.Errorf("%w; cannot restore the database yet: %w", why, err)
	}
	if err := s.writeAnchor(head); err != nil {
		return fmt.Errorf("%w; cannot restore the database yet: %w", why, err)
	}
	if err != nil {
		s.opts.Note(fmt.Errorf("%w; cannot restore the database: %w", why, err))
		return s.replace(err)
	}
	if err := s.swap(name); err != nil {
		return fmt.Errorf("%w; cannot restore the database yet: %w", why, err)
	}
	s.setCondition(func(c *Condition) { c.Restored++ })
	s.opts.Note(fmt.Errorf("%w: all rows up to %d were restored", why, s.base.head.Seq))
	return nil
}

// swap replaces the open database by a copy, and opens the copy. The caller holds turn.
func (s *Store) swap(name string) error {
	if err := errors.Join(s.Reader.Close(), s.clear()); err != nil {
		return err
	}
	if err := os.Rename(name, filepath.Join(s.dir, baseFile)); err != nil {
		return err
	}
	_ = s.base.close() // SQLite notices that the file was moved, and does not touch the new one
	s.base = nil
	base, err := attach(s.dir, &s.opts)
	if err != nil {
		return err
	}
	s.use(base)
	return nil
}

// clear makes room for a copy of the open database. It renames a foreign file at that path,
// without the write-ahead log if that is still the open one.
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
		s.opts.Note(fmt.Errorf("another file replaced the database %s: renamed that file to %s", name, aside))
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(name + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// putAside renames a database and its write-ahead log, and returns the new name. A missing file
// is not an error.
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

// copyTo writes a copy of the database. The file of the database may be deleted already. If doubt
// is set, it checks all lines first, because SQLite reads the missing end of a file as zeros.
func (b *base) copyTo(name string, doubt bool) error {
	if doubt {
		if err := b.sound(); err != nil {
			return err
		}
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := openRegular(name, os.O_RDWR|os.O_CREATE|os.O_EXCL) // created here because SQLite would make it readable for others
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := b.exec("VACUUM INTO ?", name); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return f.Sync()
}

// sound compares all lines with their digests.
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
