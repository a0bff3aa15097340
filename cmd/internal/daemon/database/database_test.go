package database_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/notes"
)

func TestMain(m *testing.M) { await.Main(m) }

const schema = "CREATE TABLE word (n INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)"

func options(dir string) database.Options {
	return database.Options{Dir: dir, Name: "words", Schema: schema, Version: 1}
}

func openTest(t testing.TB, o database.Options) *database.DB {
	t.Helper()
	db, err := database.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTest(t, db) })
	return db
}

func closeTest(t testing.TB, db *database.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func add(db *database.DB, words ...string) error {
	return db.Write(context.Background(), func(tx *database.Tx) error {
		for _, word := range words {
			if err := tx.Run("INSERT INTO word(text) VALUES (?)", word); err != nil {
				return err
			}
		}
		return nil
	})
}

func put(t testing.TB, db *database.DB, words ...string) {
	t.Helper()
	if err := add(db, words...); err != nil {
		t.Fatal(err)
	}
}

// words returns all words in the order in which they were written.
func words(r *database.Reader) (all string, err error) {
	err = r.Read(context.Background(), func(v *database.View) error {
		return v.Each("SELECT text FROM word ORDER BY n", nil, func(scan func(into ...any) error) error {
			var word string
			err := scan(&word)
			all += word + " "
			return err
		})
	})
	return strings.TrimSpace(all), err
}

func want(t testing.TB, r *database.Reader, all string) {
	t.Helper()
	if got, err := words(r); err != nil || got != all {
		t.Errorf("the words are %q, %v, want %q", got, err, all)
	}
}

func TestReadAndWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "dir")
	if _, err := database.OpenReader(options(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenReader of a missing database = %v", err)
	}
	o, created := options(dir), 0
	o.Created = func() { created++ }
	db := openTest(t, o)
	other, err := database.OpenReader(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	put(t, db, "first", "a", "b")
	if err := add(db, "c", "a"); err == nil {
		t.Error("a word was stored twice")
	}
	failed := errors.New("no")
	if err := db.Write(t.Context(), func(tx *database.Tx) error {
		return errors.Join(tx.Run("DELETE FROM word"), failed)
	}); !errors.Is(err, failed) {
		t.Errorf("Write = %v, want the error of the caller", err)
	}
	want(t, other, "first a b")
	err = db.Write(t.Context(), func(tx *database.Tx) error {
		n, err := tx.Change("DELETE FROM word WHERE text IN ("+database.Marks(2)+")", "a", "first")
		if err != nil || n != 2 {
			return fmt.Errorf("%d rows were changed: %w", n, err)
		}
		var text string
		found, err := tx.Row("SELECT text FROM word", nil, &text)
		none, errNone := tx.Row("SELECT text FROM word WHERE n > ?", []any{99}, &text)
		if !found || none || text != "b" {
			return fmt.Errorf("found %v, %v, %q", found, none, text)
		}
		return errors.Join(err, errNone)
	})
	if err != nil {
		t.Error(err)
	}
	if err := db.Flush(); err != nil {
		t.Error(err)
	}
	closeTest(t, db)
	if err := errors.Join(add(db, "late")); !errors.Is(err, database.ErrClosed) {
		t.Errorf("Write after Close = %v", err)
	}
	db = openTest(t, o)
	want(t, db.Reader, "b")
	if created != 1 {
		t.Errorf("Created was called %d times, want once", created)
	}
	for _, suffix := range []string{".db", ".db-wal", ".lock"} {
		if info, err := os.Lstat(filepath.Join(dir, "words"+suffix)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", suffix, info, err)
		}
	}
}

func TestContext(t *testing.T) {
	t.Parallel()
	db := openTest(t, options(t.TempDir()))
	gone, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the agent left")
	began, end := make(chan bool), make(chan bool)
	wrote := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		wrote <- db.Write(ctx, func(tx *database.Tx) error {
			close(began)
			<-end
			return tx.Run("INSERT INTO word(text) VALUES ('kept')")
		})
	}()
	<-began
	stop() // after the transaction has begun: it is committed
	waits := make(chan error, 1)
	go func() { waits <- db.Write(gone, func(*database.Tx) error { return errors.New("it ran") }) }()
	cancel(cause)
	if err := <-waits; !errors.Is(err, cause) {
		t.Errorf("Write = %v, want %v", err, cause)
	}
	close(end)
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	want(t, db.Reader, "kept")
}

func TestPanic(t *testing.T) {
	t.Parallel()
	db := openTest(t, options(t.TempDir()))
	func() {
		defer func() { _ = recover() }()
		_ = db.Write(t.Context(), func(tx *database.Tx) error {
			_ = tx.Run("INSERT INTO word(text) VALUES ('lost')")
			panic("a bug")
		})
	}()
	put(t, db, "next")
	want(t, db.Reader, "next")
}

func TestLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openTest(t, options(dir))
	if _, err := database.Open(options(dir)); !errors.Is(err, database.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("Open = %v, want %v and the process", err, database.ErrLocked)
	}
	closeTest(t, db)
	openTest(t, options(dir))
}

// tamper changes a database like another program.
func tamper(t testing.TB, dir, script string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "words.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), script); err != nil {
		t.Fatal(err)
	}
}

func TestUnusable(t *testing.T) {
	t.Parallel()
	text := func(t *testing.T, dir string) {
		if err := os.WriteFile(filepath.Join(dir, "words.db"), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		do      func(t *testing.T, dir string)
		version bool
	}{
		"text": {text, false},
		"a damaged page": {func(t *testing.T, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, "words.db"), os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteAt([]byte(strings.Repeat("x", 4000)), 4096)
			}
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}, false},
		"a short file":        {func(t *testing.T, dir string) { truncate(t, filepath.Join(dir, "words.db"), 5000) }, false},
		"a newer version":     {func(t *testing.T, dir string) { tamper(t, dir, "PRAGMA user_version=2") }, true},
		"a negative version":  {func(t *testing.T, dir string) { tamper(t, dir, "PRAGMA user_version=-1") }, true},
		"of no known program": {func(t *testing.T, dir string) { tamper(t, dir, "PRAGMA user_version=0") }, true},
	} {
		for _, discard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, discard %v", name, discard), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				o := options(dir)
				db := openTest(t, o)
				put(t, db, "a", "b")
				closeTest(t, db)
				test.do(t, dir)
				if r, err := database.OpenReader(o); err == nil {
					if _, err = words(r); err == nil {
						t.Error("a reader reads it")
					}
					_ = r.Close()
				}
				var noted notes.Notes
				o.Note, o.Discard = noted.Add, discard
				db, err := database.Open(o)
				if test.version && !discard {
					if !errors.Is(err, database.ErrVersion) || noted.String() != "" {
						t.Errorf("Open = %v, with the notes %q", err, &noted)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer closeTest(t, db)
				put(t, db, "new")
				want(t, db.Reader, "new")
				aside, err := filepath.Glob(filepath.Join(dir, "words.db.*"))
				if err != nil || len(aside) > 0 == discard || !strings.Contains(noted.String(), "created a new database") {
					t.Errorf("put aside are %q, %v; notes: %s", aside, err, &noted)
				}
			})
		}
	}
}

func truncate(t testing.TB, name string, size int64) {
	t.Helper()
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
}

// A damaged page that a Write finds replaces the database, and the Write continues.
func TestDamagedWhileOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options(dir)
	var noted notes.Notes
	o.Note = noted.Add
	db := openTest(t, o)
	calls := 0
	err := db.Write(t.Context(), func(tx *database.Tx) error {
		if calls++; calls == 1 {
			return errors.Join(tx.Run("PRAGMA writable_schema=1"), tx.Run("UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'word'"),
				tx.Run("PRAGMA schema_version=77"), tx.Run("INSERT INTO word(text) VALUES ('x')"))
		}
		return tx.Run("INSERT INTO word(text) VALUES ('y')")
	})
	if err != nil || calls != 2 {
		t.Fatalf("Write = %v after %d calls", err, calls)
	}
	want(t, db.Reader, "y")
	if !strings.Contains(noted.String(), "is damaged") {
		t.Errorf("notes: %s", &noted)
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openTest(t, options(dir))
	r, err := database.OpenReader(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 20 {
				if err := errors.Join(add(db, fmt.Sprint(w, "a", i), fmt.Sprint(w, "b", i)), db.Flush()); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for _, r := range []*database.Reader{r, db.Reader} {
				for range 20 {
					if got, err := words(r); err != nil || len(strings.Fields(got))%2 != 0 {
						t.Errorf("%q, %v: a part of a transaction", got, err)
					}
				}
			}
		})
	}
	all.Wait()
	if got, err := words(r); err != nil || len(strings.Fields(got)) != 8*20*2 {
		t.Errorf("%d words, %v", len(strings.Fields(got)), err)
	}
}

func TestNotAbsolute(t *testing.T) {
	t.Parallel()
	if _, err := database.Open(options("words")); err == nil {
		t.Error("Open accepts a path that depends on the working directory")
	}
	if _, err := database.OpenReader(options("words")); err == nil {
		t.Error("OpenReader accepts a path that depends on the working directory")
	}
}
