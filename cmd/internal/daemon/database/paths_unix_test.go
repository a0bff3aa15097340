//go:build unix

package database_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/notes"
)

// Nothing may be written into a file without a path: it would be lost.
func TestFilesChanged(t *testing.T) {
	t.Parallel()
	remove := func(suffixes ...string) func(dir string) error {
		return func(dir string) error {
			var errs []error
			for _, suffix := range suffixes {
				errs = append(errs, os.Remove(filepath.Join(dir, "words"+suffix)))
			}
			return errors.Join(errs...)
		}
	}
	replace := func(content []byte) func(dir string) error {
		return func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "other"), content, 0o600), os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, "words.db")))
		}
	}
	for name, test := range map[string]struct {
		do    func(dir string) error
		words string // which words are left
		aside int    // files that were put aside
	}{
		"database removed":          {remove(".db"), "", 0},
		"all files removed":         {remove(".db", ".db-wal", ".db-shm", ".lock"), "", 0},
		"log removed":               {remove(".db-wal"), "a b ", 0},
		"memory removed":            {remove(".db-shm"), "a b ", 0},
		"lock removed":              {remove(".lock"), "a b ", 0},
		"directory removed":         {func(dir string) error { return os.RemoveAll(dir) }, "", 0},
		"moved away":                {func(dir string) error { return os.Rename(filepath.Join(dir, "words.db"), filepath.Join(dir, "moved")) }, "", 0},
		"replaced by text":          {replace([]byte(strings.Repeat("text", 5000))), "", 1},
		"replaced by an empty file": {replace(nil), "", 0},
		"replaced by an older copy": {func(dir string) error {
			old, err := os.ReadFile(filepath.Join(dir, "old"))
			return errors.Join(err, replace(old)(dir))
		}, "a ", 0},
		"truncated": {func(dir string) error { return os.Truncate(filepath.Join(dir, "words.db"), 0) }, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "dir")
			o, created := options(dir), 0
			var noted notes.Notes
			o.Note = noted.Add
			o.Created = func() { created++ }
			db := openTest(t, o)
			put(t, db, "a")
			closeTest(t, db)
			old, err := os.ReadFile(filepath.Join(dir, "words.db"))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "old"), old, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			db = openTest(t, o)
			put(t, db, "b")
			if err := test.do(dir); err != nil {
				t.Fatal(err)
			}
			before := created
			await.Until(t, "the files are noticed", func() bool {
				if err := db.Write(t.Context(), func(*database.Tx) error { return nil }); err != nil {
					t.Fatal(err)
				}
				_, err := os.Lstat(filepath.Join(dir, "words.lock"))
				return (noted.String() != "" || name == "lock removed") && err == nil
			})
			if _, err := database.Open(options(dir)); !errors.Is(err, database.ErrLocked) {
				t.Errorf("another Open = %v, want %v", err, database.ErrLocked)
			}
			put(t, db, "c")
			if err := db.Flush(); err != nil {
				t.Error(err)
			}
			want(t, db.Reader, test.words+"c")
			if again := created > before; again != (test.words == "") {
				t.Errorf("Created was called: %v", again)
			}
			if aside, err := filepath.Glob(filepath.Join(dir, "words.db.broken-*")); err != nil || len(aside) != test.aside {
				t.Errorf("put aside: %q, %v, want %d", aside, err, test.aside)
			}
			closeTest(t, db)
			want(t, openTest(t, o).Reader, test.words+"c")
		})
	}
}

// A file that cannot be a database is an error of each Write until it is removed.
func TestNotAFile(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(name string) error{
		"link":      func(name string) error { return os.Symlink("/dev/null", name) },
		"pipe":      func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"directory": func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, suffix := range []string{".db", ".lock"} {
				dir := t.TempDir()
				if err := create(filepath.Join(dir, "words"+suffix)); err != nil {
					t.Fatal(err)
				}
				if db, err := database.Open(options(dir)); err == nil {
					t.Error("Open accepts a " + name + " as words" + suffix)
					closeTest(t, db)
				}
			}
			dir := t.TempDir()
			db := openTest(t, options(dir))
			file := filepath.Join(dir, "words.db")
			if err := errors.Join(os.Remove(file), create(file)); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "the "+name+" is noticed", func() bool { return db.Write(t.Context(), func(*database.Tx) error { return nil }) != nil })
			if err := db.Flush(); err == nil {
				t.Error("Flush succeeds without a database")
			}
			if _, err := words(db.Reader); err == nil {
				t.Error("a reader reads a " + name)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			put(t, db, "again")
			want(t, db.Reader, "again")
		})
	}
}

// If its parent is removed too, the whole state was removed on purpose.
func TestStateRemoved(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	db := openTest(t, options(filepath.Join(state, "dir")))
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is noticed", func() bool { return errors.Is(add(db, "x"), fs.ErrNotExist) })
	if _, err := os.Lstat(state); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the state was created again: %v", err)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	db, err := database.Open(options(filepath.Join(dir, "below")))
	if err == nil {
		closeTest(t, db)
	}
	if (err == nil) != (os.Geteuid() == 0) { // root can write everywhere
		t.Errorf("Open in a read-only directory = %v", err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := database.Open(options(dir)); err == nil {
		t.Error("Open accepts a directory that others can write")
	}
}
