package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	shrinkStep = 64 // pages that are moved in one commit, so that a Put does not wait long

	// Free pages up to this number, and up to an eighth of the file, stay in the file for new rows.
	spareFree = 256
)

// pages are counts of the pages of a database.
type pages struct {
	all, free, size int64
	vacuum          int // 0 = the file cannot shrink
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
func (b *base) bound() error {
	p, err := b.pages()
	if size := p.all * p.size; err == nil && size < b.files.size {
		b.files.size, b.files.shrinks = size, true
	}
	return err
}

// shrink moves some pages from the end of the file to free pages, and reports whether there is more
// to do. The caller holds turn.
func (s *Store) shrink() (more bool) {
	if s.base == nil || s.astray != nil {
		return false
	}
	more, err := s.base.shrink()
	if err != nil && broken(err) {
		err = s.mend(err)
	}
	if err != nil {
		s.opts.Note(fmt.Errorf("cannot shrink the database: %w", err))
		return false
	}
	return more
}

func (b *base) shrink() (more bool, err error) {
	p, err := b.pages()
	if err != nil {
		return false, err
	}
	if p.vacuum == 0 || !p.tooFree() {
		if b.files.shrinks {
			_, err = b.checkpoint()
		}
		return false, err
	}
	rows, err := b.conn.QueryContext(b.ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkStep))
	if err != nil {
		return false, err
	}
	for rows.Next() { // each step moves one page
	}
	return true, errors.Join(rows.Err(), rows.Close(), b.bound())
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

// checkpoint copies the write-ahead log into the database, without waiting for readers. It reports
// whether all of it was copied.
func (b *base) checkpoint() (all bool, err error) {
	var busy, frames, done int64
	if err := b.conn.QueryRowContext(b.ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &frames, &done); err != nil {
		return false, err
	}
	all = busy == 0 && frames == done
	if all {
		b.files.shrinks = false
	}
	return all, nil
}

// compact replaces a database that an earlier version of Grapnel created by a copy that can shrink,
// if the file has many free pages. Most of the copy is made while others write. Only the rows that
// they add meanwhile are copied while they wait. The caller holds pruning.
func (s *Store) compact(ctx context.Context) error {
	s.turn.Lock()
	was := s.base
	var p pages
	var err error
	if was != nil {
		p, err = was.pages()
	}
	s.turn.Unlock()
	if err != nil || was == nil || p.vacuum != 0 || !p.tooFree() {
		return err
	}
	name := filepath.Join(s.dir, compactFile)
	err = s.compactTo(ctx, name, was)
	if removed := os.Remove(name); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	if err != nil {
		return fmt.Errorf("cannot copy the database to a smaller file: %w", err)
	}
	return nil
}

// compactTries is how often compact tries to finish its copy while readers prevent it.
const compactTries = 50

func (s *Store) compactTo(ctx context.Context, name string, was *base) error {
	begun := stamp(time.Now().Add(-time.Minute)) // deliveries end a moment before they are stored as ended
	if err := s.copyLive(ctx, name); err != nil {
		return err
	}
	f, err := openRegular(name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	copied, err := s.openCopy(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = copied.close() }()
	if err := copied.follow(begun); err != nil { // most of what was written meanwhile
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	for range compactTries {
		if err := s.checkpoint(ctx); err != nil {
			return err
		}
		done, old, err := s.finish(name, f, copied, was, begun)
		if old != nil {
			_ = old.Close()
		}
		if done || err != nil {
			return err
		}
		pause(ctx, 100*time.Millisecond)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return errors.New("other programs read the database all the time: the next removal tries again")
}

// finish copies the last rows and swaps the databases. It reports false if a reader still needs the
// write-ahead log. old is the former database: to free a large file takes long, and others can write
// meanwhile.
func (s *Store) finish(name string, f *os.File, copied, was *base, begun int64) (done bool, old *os.File, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.look(); err != nil {
		return false, nil, err
	}
	if s.base != was {
		return false, nil, errors.New("the database was replaced meanwhile")
	}
	// After this, the database without its write-ahead log has all rows, for the case of a power
	// cut before the copy has its name.
	if all, err := was.checkpoint(); !all || err != nil {
		return false, nil, err
	}
	if err := s.writeAnchor(was.head); err != nil {
		return false, nil, err
	}
	if err := copied.follow(begun); err != nil {
		return false, nil, err
	}
	if head, err := loadHead(copied.ctx, copied.conn); err != nil || head != was.head {
		return false, nil, errors.Join(err, fmt.Errorf("the copy ends at row %d instead of row %d", head.Seq, was.head.Seq))
	}
	if err := errors.Join(copied.close(), f.Sync()); err != nil {
		return false, nil, err
	}
	old, err = openRegular(filepath.Join(s.dir, baseFile), os.O_RDONLY)
	if err != nil {
		return false, nil, err
	}
	return true, old, s.swap(name)
}

// copyLive writes a copy of the database while others write to it.
func (s *Store) copyLive(ctx context.Context, name string) error {
	db, err := sql.Open("sqlite", source(s.dir, "mode=rw", "_pragma=busy_timeout(5000)", "_pragma=auto_vacuum(2)", "_pragma=trusted_schema(0)"))
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	b := &base{ctx: ctx, db: db, conn: conn, stmts: map[string]*sql.Stmt{}}
	return errors.Join(b.copyTo(name, false), b.close())
}

// openCopy opens the copy, with the database as "src".
func (s *Store) openCopy(ctx context.Context, name string) (*base, error) {
	db, err := sql.Open("sqlite", sourceOf(name, "mode=rw", "_pragma=journal_mode(MEMORY)", "_pragma=synchronous(OFF)", "_pragma=trusted_schema(0)"))
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	b := &base{ctx: context.WithoutCancel(ctx), db: db, conn: conn, stmts: map[string]*sql.Stmt{}}
	if err := b.exec("ATTACH ? AS src", source(s.dir, "mode=ro")); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// follow copies what was written to the database since the copy began. Rows of the chain are only
// added meanwhile, because Prune waits. The word index and the statistics continue by themselves.
func (b *base) follow(begun int64) error {
	return b.transaction(func() error {
		head, err := loadHead(b.ctx, b.conn)
		if err != nil {
			return err
		}
		for _, table := range []string{"record", "line", "hook", "removal"} {
			if err := b.exec("INSERT INTO main."+table+" SELECT * FROM src."+table+" WHERE seq > ?", head.Seq); err != nil {
				return err
			}
		}
		for _, table := range []string{"gap", "finding", "mark", "off"} {
			if err := b.exec("DELETE FROM main." + table + "; INSERT INTO main." + table + " SELECT * FROM src." + table); err != nil {
				return err
			}
		}
		if err := b.exec("INSERT OR IGNORE INTO main.again SELECT * FROM src.again"); err != nil {
			return err
		}
		// A job can change if it waits, and has changed if it ended meanwhile.
		return b.exec(`INSERT OR REPLACE INTO main.job SELECT * FROM src.job WHERE state = 'waiting' OR ended > 0 AND ended >= ? OR num > (SELECT coalesce(max(num), 0) FROM main.job)`, begun)
	})
}
