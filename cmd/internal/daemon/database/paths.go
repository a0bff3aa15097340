package database

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// lookEvery is how often Write compares the files at the paths with the open files. Data must not be
// only in a removed file for more than a second.
const lookEvery = 500 * time.Millisecond

var (
	// errFiles means that the files at the paths are not the open files.
	errFiles = errors.New("the files of the database were changed while they were open")

	// errShorter means that the database was truncated: the remaining data may be wrong.
	errShorter = errors.New("the database was truncated")
)

// openFiles describes the open files, and the size of the database.
type openFiles struct {
	db, wal, shm fs.FileInfo
	size         int64 // the database must not become smaller
}

// filesAt returns the description of the files of an open database. After an error, later ones are missing.
func filesAt(name string) (f openFiles, err error) {
	for _, file := range []struct {
		info   *fs.FileInfo
		suffix string
	}{{&f.db, ""}, {&f.wal, "-wal"}, {&f.shm, "-shm"}} {
		if *file.info, err = os.Lstat(name + file.suffix); err != nil {
			return f, err
		}
	}
	f.size = f.db.Size()
	return f, nil
}

// changed returns an error if the paths no longer lead to the open files, or if the database became
// smaller than SQLite makes it.
func (f *openFiles) changed(name string) error {
	now, err := filesAt(name)
	path, _ := errors.AsType[*fs.PathError](err)
	switch {
	case now.db != nil && os.SameFile(now.db, f.db) && now.db.Size() < f.size: // also if SQLite has removed the log of an empty database
		return fmt.Errorf("%w: %w from %d to %d bytes", errFiles, errShorter, f.size, now.db.Size())
	case errors.Is(err, fs.ErrNotExist) && path != nil:
		return fmt.Errorf("%w: %s was removed", errFiles, path.Path)
	case err != nil:
		return fmt.Errorf("%w: %w", errFiles, err)
	case !os.SameFile(now.db, f.db) || !os.SameFile(now.wal, f.wal) || !os.SameFile(now.shm, f.shm):
		return fmt.Errorf("%w: %s was replaced", errFiles, name)
	}
	f.size = now.size
	return nil
}

// forget removes the write-ahead log that is still at its path although the database is not: SQLite
// would write it into the database that is there now.
func (f *openFiles) forget(name string) error {
	if info, err := os.Lstat(name); err == nil && os.SameFile(info, f.db) {
		return nil
	}
	var errs []error
	for suffix, open := range map[string]fs.FileInfo{"-wal": f.wal, "-shm": f.shm} {
		if info, err := os.Lstat(name + suffix); err == nil && os.SameFile(info, open) {
			errs = append(errs, os.Remove(name+suffix))
		}
	}
	return errors.Join(errs...)
}

// look opens the database again if its files were changed, or if that failed before. It returns an
// error until the database is open. The caller holds turn.
func (d *DB) look() error {
	now := time.Now()
	switch {
	case d.lock == nil:
		return ErrClosed
	case d.session != nil && now.Sub(d.looked) < lookEvery:
		return nil
	}
	d.looked = now
	err := d.relock()
	if err == nil && d.session != nil {
		if why := d.session.files.changed(d.opts.file()); why != nil {
			err = d.reopen(why)
		}
	} else if err == nil {
		err = d.attach()
	}
	if err != nil {
		d.looked = time.Time{} // nothing may be written before the next look
		if !d.noted {
			d.opts.Note(err)
		}
	}
	d.noted = err != nil
	return err
}

// reopen opens the file that is at the path now, or creates it.
func (d *DB) reopen(why error) error {
	if errors.Is(why, errShorter) {
		return d.renew(fmt.Errorf("%w: %w", errBroken, why))
	}
	open := d.session.files
	_ = errors.Join(d.Reader.Close(), d.detach()) // SQLite notices that the file was moved, and does not touch the new one
	err := open.forget(d.opts.file())
	if err == nil {
		err = d.attach()
	}
	if err != nil {
		return fmt.Errorf("%w; cannot open the database again: %w", why, err)
	}
	d.opts.Note(fmt.Errorf("%w: opened the database at that path again", why))
	return nil
}

// renew replaces a damaged database by a new one.
func (d *DB) renew(why error) error {
	_ = d.detach() // the database is damaged
	if err := d.clear(why); err != nil {
		return err
	}
	return d.attach()
}

// relock takes the lock again if the lock file was removed or replaced, because another process could
// then write too. It creates the directory again if only that was removed. If its parent is missing
// too, the whole state was removed on purpose.
func (d *DB) relock() error {
	open, err := d.lock.Stat()
	if err != nil {
		return err
	}
	info, err := os.Lstat(d.opts.lock())
	if err == nil && os.SameFile(info, open) {
		return nil
	}
	if _, err := os.Lstat(filepath.Dir(d.opts.Dir)); err != nil {
		return err
	}
	if err := files.PrivateDir(d.opts.Dir); err != nil {
		return err
	}
	again, err := takeLock(&d.opts)
	if err != nil {
		return fmt.Errorf("%s was removed: %w", d.opts.lock(), err)
	}
	_ = d.lock.Close()
	d.lock = again
	return nil
}
