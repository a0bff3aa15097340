package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	shrinkStep = 64 // pages that are moved in one commit, so that a Put does not wait long

	// Free pages up to this number, and up to an eighth of the file, stay in the file for new rows.
	spareFree = 256
)

// pages are counts of the pages of a database.
type pages struct {
	all, free, size int64
	vacuum          int // 0 = the file cannot shrink, as after the import of a dump
}

func (b *base) pages() (p pages, err error) {
	err = b.conn.QueryRowContext(b.ctx, "SELECT page_count, freelist_count, page_size, auto_vacuum FROM pragma_page_count, pragma_freelist_count, pragma_page_size, pragma_auto_vacuum").
		Scan(&p.all, &p.free, &p.size, &p.vacuum)
	return p, err
}

// tooFree reports whether the file has more free pages than new rows will soon use.
func (p *pages) tooFree() bool { return p.free > spareFree+p.all/8 }

// bound sets the size below which the file must not fall. The next checkpoint truncates the file
// if pages were freed at its end.
func (b *base) bound(dir string) error {
	p, err := b.pages()
	if err != nil {
		return err
	}
	info, err := os.Lstat(filepath.Join(dir, baseFile)) // a checkpoint may have made it larger since the last look
	if err != nil {
		return err
	}
	if size := p.all * p.size; size < max(b.files.size, info.Size()) {
		b.files.size, b.files.shrinks = size, true
	}
	return nil
}

// shrink moves some pages from the end of the file to free pages, and reports whether there is more
// to do. The caller holds turn.
func (s *Store) shrink() (more bool) {
	if s.base == nil || s.astray != nil {
		return false
	}
	more, err := s.base.shrink(s.dir)
	if err != nil && broken(err) {
		err = s.mend(err)
	}
	if err != nil {
		s.opts.Note(fmt.Errorf("cannot shrink the database: %w", err))
		return false
	}
	return more
}

func (b *base) shrink(dir string) (more bool, err error) {
	p, err := b.pages()
	if err != nil {
		return false, err
	}
	if p.vacuum == 0 || !p.tooFree() {
		if b.files.shrinks {
			err = b.checkpoint()
		}
		return false, err
	}
	rows, err := b.conn.QueryContext(b.ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkStep))
	if err != nil {
		return false, err
	}
	for rows.Next() { // each step moves one page
	}
	return true, errors.Join(rows.Err(), rows.Close(), b.bound(dir))
}

// checkpoint copies the write-ahead log into the database, while others write.
func (s *Store) checkpoint(ctx context.Context) error {
	db, err := sql.Open("sqlite", source(s.dir, "mode=rw", "_pragma=busy_timeout(5000)", "_pragma=trusted_schema(0)"))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	return errors.Join(err, db.Close())
}

// checkpoint copies the write-ahead log into the database, without waiting for readers.
func (b *base) checkpoint() error {
	var busy, frames, done int64
	if err := b.conn.QueryRowContext(b.ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &frames, &done); err != nil {
		return err
	}
	if busy == 0 && frames == done {
		b.files.shrinks = false
	}
	return nil
}
