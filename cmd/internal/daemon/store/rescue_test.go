//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// removeStore returns a function that removes files of a store.
func removeStore(names ...string) func(string) error {
	return func(dir string) error {
		var errs []error
		for _, name := range names {
			errs = append(errs, os.Remove(filepath.Join(dir, name)))
		}
		return errors.Join(errs...)
	}
}

// An earlier daemon wrote into a removed database: its records were lost without a report. Now
// the files are restored with all rows, with and without writes in progress.
func TestFilesRemoved(t *testing.T) {
	t.Parallel()
	other := func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "other"), []byte(strings.Repeat("no database ", 1000)), 0o600)
	}
	for name, test := range map[string]struct {
		do    func(dir string) error
		aside int // number of files that are put aside
	}{
		"the database":  {removeStore(baseFile), 0},
		"all files":     {removeStore(baseFile, baseFile+"-wal", baseFile+"-shm"), 0},
		"the log":       {removeStore(baseFile + "-wal"), 0},
		"the memory":    {removeStore(baseFile + "-shm"), 0},
		"the lock too":  {removeStore(baseFile, baseFile+"-wal", baseFile+"-shm", lockName, headFile), 0},
		"the directory": {removeDir, 0},
		"the directory, made again": {func(dir string) error {
			return errors.Join(removeDir(dir), os.MkdirAll(dir, 0o700)) // the store may create it first
		}, 0},
		"replaced": {func(dir string) error {
			return errors.Join(other(dir), os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, baseFile)))
		}, 1},
		"moved away": {func(dir string) error { return os.Rename(filepath.Join(dir, baseFile), filepath.Join(dir, "moved")) }, 0},
		"a directory in its place": {func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, baseFile), filepath.Join(dir, "moved")), os.Mkdir(filepath.Join(dir, baseFile), 0o700))
		}, 1},
		"a former one": {func(dir string) error {
			old, err := os.ReadFile(filepath.Join(dir, "former"))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "other"), old, 0o600), os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, baseFile)))
		}, 1},
	} {
		for _, busy := range []bool{true, false} {
			if !busy && name != "the database" && name != "the directory" {
				continue
			}
			t.Run(fmt.Sprintf("%s, busy %v", name, busy), func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "store")
				var reported notes
				s := openTest(t, dir, nil)
				fill(t, s, 5)
				closeTest(t, s)
				former, err := os.ReadFile(filepath.Join(dir, baseFile))
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, "former"), former, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				s = openTest(t, dir, &Options{Note: reported.add})
				fill(t, s, 20)
				head := *s.head.Load()
				if err := test.do(dir); err != nil {
					t.Fatal(err)
				}
				rows := 20
				if busy {
					// First the rows go into a file without a name.
					for ; s.Condition().Restored == 0 && rows < 100000; rows++ {
						if err := s.Put(t.Context(), item(fmt.Sprint(rows+1))); err != nil {
							t.Fatal(err)
						}
						time.Sleep(5 * time.Millisecond) // more rows only take more time
					}
				}
				await.Until(t, "the files are restored", func() bool { return s.Condition().Restored == 1 })
				fill(t, s, rows+3)
				rows += 3
				if got, want := s.Condition(), (Condition{Restored: 1}); got != want {
					t.Errorf("Condition = %+v, want %+v", got, want)
				}
				if n := strings.Count(reported.String(), "were restored"); n != 1 {
					t.Errorf("it is told %d times that rows were restored, want once: %s", n, &reported)
				}
				if n := count(t, s.Reader); n != rows {
					t.Errorf("%d records, want %d", n, rows)
				}
				report, err := s.Verify(t.Context(), head)
				if err != nil || !report.OK() || report.Rows != rows {
					t.Errorf("Verify = %+v, %v, want %d rows and nothing wrong", report, err, rows)
				}
				for _, err := range s.Records(t.Context(), Query{Text: "wintermute", Limit: 1}) {
					if err != nil {
						t.Fatal(err)
					}
					rows--
				}
				if rows == report.Rows {
					t.Error("no word is found")
				}
				aside, err := filepath.Glob(filepath.Join(dir, baseFile+".*"))
				if err != nil || len(aside) != test.aside {
					t.Errorf("put aside are %v, %v, want %d files", aside, err, test.aside)
				}
				if _, err := Open(dir, nil); !errors.Is(err, ErrLocked) {
					t.Errorf("another Open = %v, want %v", err, ErrLocked)
				}
				for _, file := range []string{baseFile, baseFile + "-wal", lockName, headFile} {
					if info, err := os.Lstat(filepath.Join(dir, file)); err != nil || info.Mode() != 0o600 {
						t.Errorf("%s: %v, %v", file, info, err)
					}
				}
				closeTest(t, s)
				reported = notes{}
				s = openTest(t, dir, &Options{Note: reported.add})
				if report, err := s.Verify(t.Context(), head); err != nil || !report.OK() || reported.String() != "" {
					t.Errorf("opened again: Verify = %+v, %v; told: %s", report, err, &reported)
				}
			})
		}
	}
}

// Truncated rows that are still in the write-ahead log are not lost.
func TestFilesTruncatedEarly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	fill(t, s, 20)
	s.turn.Lock()
	s.base.files.size = 1 << 20 // as after a checkpoint
	s.turn.Unlock()
	await.Until(t, "the database is restored", func() bool { return s.Condition().Restored == 1 })
	if report, err := s.Verify(t.Context()); err != nil || !report.OK() || report.Rows != 20 {
		t.Errorf("Verify = %+v, %v, want 20 rows", report, err)
	}
}

// While the files cannot be restored, the store accepts no record, because data in a file without
// a name does not survive the process.
func TestFilesNotRestored(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "store")
	var reported notes
	s := openTest(t, dir, &Options{Note: reported.add})
	fill(t, s, 20)
	away := filepath.Join(filepath.Dir(filepath.Dir(dir)), "away")
	if err := os.Rename(filepath.Dir(dir), away); err != nil { // the whole state directory
		t.Fatal(err)
	}
	await.Until(t, "the loss is noticed", func() bool { return s.Condition().Err != nil })
	if err := s.Put(t.Context(), item("more")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Put = %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := os.Lstat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that somebody removed was made again: %v", err)
	}
	if err := os.Mkdir(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the files are restored", func() bool { return s.Condition() == Condition{Restored: 1} })
	fill(t, s, 21)
	if report, err := s.Verify(t.Context()); err != nil || !report.OK() || report.Rows != 21 {
		t.Errorf("Verify = %+v, %v, want 21 rows", report, err)
	}
	if n := strings.Count(reported.String(), "no such file"); n > 2 {
		t.Errorf("one thing is told %d times: %s", n, &reported)
	}
}

// The same with a file in place of the directory.
func TestFilesNoDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := openTest(t, dir, nil)
	fill(t, s, 20)
	if err := errors.Join(os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the loss is noticed", func() bool { return s.Condition().Err != nil })
	if err := s.Put(t.Context(), item("more")); !errors.Is(err, errFiles) {
		t.Errorf("Put = %v, want %v", err, errFiles)
	}
	if err := errors.Join(os.Remove(dir), os.Rename(dir+".away", dir)); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the files are back", func() bool { return s.Condition() == Condition{} })
	fill(t, s, 21)
	if report, err := s.Verify(t.Context()); err != nil || !report.OK() || report.Rows != 21 {
		t.Errorf("Verify = %+v, %v, want 21 rows", report, err)
	}
}

// An error of the database stays in the Condition until a write succeeds, also without further
// writes. An error of a caller is not an error of the database.
func TestCondition(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir(), nil)
	if err := s.Put(t.Context(), Item{Line: []byte("no line")}); !errors.Is(err, ErrLine) || s.Condition().Err != nil {
		t.Errorf("Put = %v, Condition = %+v", err, s.Condition())
	}
	for _, n := range []int{0, 1} { // 1 = query_only, so that each write fails
		err := s.write(t.Context(), 0, func(c *change) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		s.turn.Lock()
		err = s.base.exec(fmt.Sprintf("PRAGMA query_only=%d", n))
		s.turn.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), item(fmt.Sprint(n))); (err != nil) != (n > 0) || (s.Condition().Err != nil) != (n > 0) {
			t.Errorf("Put = %v, Condition = %+v", err, s.Condition())
		}
	}
	time.Sleep(2 * lookEvery)
	if s.Condition().Err == nil {
		t.Error("the error is gone, and nothing has become better")
	}
	s.turn.Lock()
	err := s.base.exec("PRAGMA query_only=0")
	s.turn.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the error is gone", func() bool { return s.Condition().Err == nil })
}

// removeDir removes the directory of a store in one step. os.RemoveAll alone fails if the store
// writes a file at the same time.
func removeDir(dir string) error {
	gone := dir + "-gone"
	return errors.Join(os.Rename(dir, gone), os.RemoveAll(gone))
}
