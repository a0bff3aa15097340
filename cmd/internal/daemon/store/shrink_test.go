package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// fullSize returns the size of the database file when it has all rows.
func fullSize(t testing.TB, s *Store) int64 {
	t.Helper()
	if err := s.checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	return fileSize(t, s.dir)
}

// fileSize returns the size of the database file.
func fileSize(t testing.TB, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, baseFile))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// large puts Records of about 4 KB.
func large(t testing.TB, s *Store, from, to int, at time.Time) {
	t.Helper()
	var items []Item
	for i := from; i < to; i++ {
		e := entry(fmt.Sprintf("r%06d", i))
		e.Time, e.Error = at.UTC(), fmt.Sprintf("%d %s", i, strings.Repeat("a long reason ", 280))
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if items = append(items, Item{Line: raw}); len(items) == 256 || i == to-1 {
			if err := s.Put(context.Background(), items...); err != nil {
				t.Error(err)
			}
			items = nil
		}
	}
}

// After a removal the file becomes smaller. This is neither tampering nor a truncated file.
func TestShrink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var reported notes
	s := openTest(t, dir, &Options{Note: reported.add})
	large(t, s, 0, 3000, time.Now())
	before := fullSize(t, s)
	if before < 10e6 {
		t.Fatalf("the file has %d bytes, want more", before)
	}
	s.SetLimits(Limits{MaxRecords: 300})
	if err := s.Prune(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the file is small", func() bool { return fileSize(t, dir) < before/2 })
	large(t, s, 3000, 3100, time.Now())
	await.Until(t, "the words are indexed", func() bool { s.turn.Lock(); defer s.turn.Unlock(); return s.behind == 0 })
	s.watch()
	if c := s.Condition(); c.Restored != 0 || c.Err != nil || reported.String() != "" {
		t.Errorf("Condition = %+v; reported: %s", c, &reported)
	}
	if n := count(t, s.Reader); n != 400 {
		t.Errorf("%d Records, want 400", n)
	}
	if report, err := s.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("Verify = %+v, %v", report, err)
	}
	closeTest(t, s)
	s = openTest(t, dir, &Options{Note: reported.add, Limits: Limits{MaxRecords: 300}})
	if report, err := s.Verify(t.Context()); err != nil || !report.OK() || reported.String() != "" {
		t.Errorf("opened again: Verify = %+v, %v; reported: %s", report, err, &reported)
	}
}

// The writer does not try forever to shrink a file that cannot shrink, such as the result of a
// dump that was imported again.
func TestShrinkWithoutVacuum(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	large(t, s, 0, 1000, time.Now())
	closeTest(t, s)
	db, err := sql.Open("sqlite", source(dir, "mode=rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, query := range []string{"PRAGMA journal_mode=DELETE", "PRAGMA auto_vacuum=NONE", "VACUUM", "PRAGMA journal_mode=WAL"} {
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, dir, &Options{Limits: Limits{MaxRecords: 10}})
	if err := s.Prune(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	p, err := s.base.pages()
	if err != nil || !p.tooFree() {
		t.Errorf("pages = %+v, %v, want many free pages", p, err)
	}
	if more := s.shrink(); more {
		t.Error("the writer would try again")
	}
}

// A file that another program truncated is still found after the database shrank.
func TestTruncatedAfterShrink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	large(t, s, 0, 3000, time.Now())
	before := fullSize(t, s)
	s.SetLimits(Limits{MaxRecords: 300})
	if err := s.Prune(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the file is small", func() bool { return fileSize(t, dir) < before/2 })
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.base.files.changed(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, baseFile), 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := s.base.files.changed(dir); err == nil {
		t.Error("the truncated file was not noticed")
	}
	if err := s.restore(errShorter); err != nil {
		t.Error(err)
	}
}
