package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// entry returns a firing of a shell tool that a hook blocks.
func entry(id string) spool.Entry {
	return spool.Entry{Record: grapnel.Record{
		ID: id, Time: epoch, Agent: "claude-code", Session: "s1", Event: grapnel.ToolBefore, Tool: "Bash",
		Decision: grapnel.Block, Hooks: []grapnel.HookRun{{Name: "no-ls", Source: "user", Decision: grapnel.Block, Cause: grapnel.CauseDecision, MS: 0.25}},
		Reasons: []grapnel.Reason{{Hook: "user::no-ls", Text: "No listing here, says Zoë.", Cause: grapnel.CauseDecision}}, MS: 1.5,
		Input: &grapnel.Event{ID: id, Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Input: []byte(`{"command":"ls wintermute"}`)}},
	}}
}

// lineOf returns the line of an entry in the log.
func lineOf(e spool.Entry) []byte {
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err) // an Entry has only strings and numbers
	}
	return append(raw, '\n')
}

func item(id string) Item { return Item{Line: lineOf(entry(id))} }

// notes collects the calls of Options.Note.
type notes struct {
	mu   sync.Mutex
	list []string
}

func (n *notes) add(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, err.Error())
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.list, "\n")
}

func openTest(t testing.TB, dir string, opts *Options) *Store {
	t.Helper()
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTest(t, s) })
	return s
}

func closeTest(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func readerTest(t testing.TB, dir string) *Reader {
	t.Helper()
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// fill stores records with the IDs 1 to n.
func fill(t testing.TB, s *Store, n int) {
	t.Helper()
	for i := range n {
		if err := s.Put(t.Context(), item(fmt.Sprint(i+1))); err != nil {
			t.Fatal(err)
		}
	}
}

func count(t testing.TB, r *Reader) (n int) {
	t.Helper()
	for _, err := range r.Records(t.Context(), Query{Lean: true}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// tamper changes the database like an attacker with access to it.
func tamper(t testing.TB, dir string, script string) {
	t.Helper()
	db, err := sql.Open("sqlite", source(dir, "mode=rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), script); err != nil {
		t.Fatal(err)
	}
}

// forge recomputes the chain from a row on, like an attacker who knows the format.
func forge(t testing.TB, dir string, from int64) Head {
	t.Helper()
	db, err := sql.Open("sqlite", source(dir, "mode=rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	var head Head
	var hash []byte
	if err := db.QueryRowContext(t.Context(), "SELECT seq, hash FROM record WHERE seq = ?", from-1).Scan(&head.Seq, &hash); err != nil {
		t.Fatal(err)
	}
	copy(head.Hash[:], hash)
	for {
		var raw []byte
		err := db.QueryRowContext(t.Context(), "SELECT line FROM line WHERE seq = ?", head.Seq+1).Scan(&raw)
		if errors.Is(err, sql.ErrNoRows) {
			return head
		}
		l, errParse := parse(raw)
		if err := errors.Join(err, errParse); err != nil {
			t.Fatal(err)
		}
		head = head.next(head.Seq+1, stamp(l.Time), l.digest)
		if _, err := db.ExecContext(t.Context(), "UPDATE record SET digest = ?, hash = ? WHERE seq = ?", l.digest[:], head.Hash[:], head.Seq); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	anchor := func(text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, headFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	script := func(text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { tamper(t, dir, text) }
	}
	edit := "UPDATE line SET line = CAST(replace(CAST(line AS TEXT), 'block', 'allow') AS BLOB) WHERE seq = 4;"
	remove := func(cond string) string {
		return "DELETE FROM record WHERE " + cond + "; DELETE FROM line WHERE " + cond + "; DELETE FROM hook WHERE " + cond + ";"
	}
	for name, test := range map[string]struct {
		do   func(*testing.T, string)
		want []string // all findings; none = the change cannot be detected
		head bool     // a head that was stored elsewhere shows the change
	}{
		"nothing":           {func(*testing.T, string) {}, nil, false},
		"a line":            {script(edit), []string{"row 4: its line was changed"}, false},
		"a line's spaces":   {script("UPDATE line SET line = line || x'20' WHERE seq = 4"), []string{"row 4: its line was changed"}, false},
		"a line is missing": {script("DELETE FROM line WHERE seq = 4"), []string{"row 4: its line is missing"}, false},
		"decision":          {script("UPDATE record SET decision = 1 WHERE seq = 4"), []string{"row 4: columns differ from the line: decision"}, false},
		"some columns": {
			script("UPDATE record SET agent = 'x', time = time + 1, session = '', late = 1, error = 'e', would = 2, tool = 't', event = 'x', id = 'y' WHERE seq = 4"),
			[]string{"row 4: columns differ from the line: id, late, time, agent, session, event, tool, would, error", "row 4: its hash does not match the previous row"},
			false,
		},
		"a hook":           {script("UPDATE hook SET decision = 0 WHERE seq = 4"), []string{"row 4: columns differ from the line: hooks"}, false},
		"a hook's absence": {script("DELETE FROM hook WHERE seq = 4"), []string{"row 4: columns differ from the line: hooks"}, false},
		"a hook too many": {
			script("INSERT INTO hook SELECT 40, n, name, source, decision, cause, error, fail_open, async, ms FROM hook WHERE seq = 4"),
			[]string{"1 hooks refer to rows that do not exist"},
			false,
		},
		"a digest":       {script("UPDATE record SET digest = x'00' WHERE seq = 4"), []string{"row 4: its line was changed", "row 4: its hash does not match the previous row"}, false},
		"a hash":         {script("UPDATE record SET hash = zeroblob(32) WHERE seq = 4"), []string{"row 4: its hash does not match the previous row", "row 5: its hash does not match the previous row"}, false},
		"a row":          {script(remove("seq = 4")), []string{"row 4: rows 4 to 4 are missing"}, false},
		"the first rows": {script(remove("seq < 4")), []string{"row 1: rows 1 to 3 are missing"}, false},
		"the last rows":  {script(remove("seq > 7")), []string{"row 8: rows 8 to 10 are missing at the end"}, false},
		"all rows":       {script(remove("1")), []string{"row 1: rows 1 to 10 are missing at the end"}, false},
		"renumbered rows": {
			script(remove("seq = 4") + "UPDATE record SET seq = seq - 1 WHERE seq > 4; UPDATE line SET seq = seq - 1 WHERE seq > 4; UPDATE hook SET seq = seq - 1 WHERE seq > 4"),
			[]string{
				"row 4: its hash", "row 5: its hash", "row 6: its hash", "row 7: its hash", "row 8: its hash", "row 9: its hash",
				"row 10: rows 10 to 10 are missing at the end",
			},
			false,
		},
		"order": {
			script("UPDATE record SET seq = 99 WHERE seq = 4; UPDATE record SET seq = 4 WHERE seq = 5; UPDATE record SET seq = 5 WHERE seq = 99;" +
				"UPDATE line SET seq = 99 WHERE seq = 4; UPDATE line SET seq = 4 WHERE seq = 5; UPDATE line SET seq = 5 WHERE seq = 99"),
			[]string{"row 4: its hash", "row 5: its hash", "row 6: its hash"},
			false,
		},
		"a forged chain": {
			func(t *testing.T, dir string) {
				tamper(t, dir, edit+"UPDATE record SET decision = 1 WHERE seq = 4; UPDATE hook SET decision = 1 WHERE seq = 4")
				forge(t, dir, 4)
			},
			[]string{"row 10: the row does not match grapnel.head"},
			true,
		},
		"a forged chain and anchor": {
			func(t *testing.T, dir string) {
				tamper(t, dir, edit+"UPDATE record SET decision = 1 WHERE seq = 4; UPDATE hook SET decision = 1 WHERE seq = 4")
				anchor(forge(t, dir, 4).String())(t, dir)
			}, nil, true,
		},
		"the anchor": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, headFile)); err != nil {
				t.Fatal(err)
			}
		}, []string{"cannot check the end of the log: grapnel.head is missing"}, false},
		"the anchor's text": {anchor("nonsense"), []string{`cannot check the end of the log: grapnel.head: "nonsense" is not`}, false},
		"an older anchor":   {anchor("0:" + strings.Repeat("0", 64)), nil, false}, // as after a crash
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openTest(t, dir, nil)
			fill(t, s, 10)
			head, err := s.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			closeTest(t, s)
			test.do(t, dir)
			r := readerTest(t, dir)
			report, err := r.Verify(t.Context())
			if err != nil || len(report.Findings) != len(test.want) {
				t.Fatalf("Verify = %+v, %v, want %q", report, err, test.want)
			}
			for i, f := range report.Findings {
				if !strings.HasPrefix(f.String(), test.want[i]) {
					t.Errorf("finding %d = %q, want %q", i, f, test.want[i])
				}
			}
			report, err = r.Verify(t.Context(), head)
			if got := len(report.Findings) > len(test.want); err != nil || test.head && !got {
				t.Errorf("Verify with a head that was kept = %+v, %v", report, err)
			}
		})
	}
}

// A missing database is not the same as a log that never existed.
func TestVerifyAbsent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if report, err := VerifyAbsent(dir); !errors.Is(err, ErrNothing) || !report.OK() {
		t.Errorf("nothing was there: %+v, %v, want %v", report, err, ErrNothing)
	}
	s := openTest(t, dir, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, dir, nil)
	fill(t, s, 10)
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closeTest(t, s)
	later := head
	later.Seq = 12
	finds := func(want string, heads ...Head) {
		t.Helper()
		if _, err := OpenReader(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("OpenReader = %v, want %v", err, fs.ErrNotExist)
		}
		report, err := VerifyAbsent(dir, heads...)
		if err != nil || len(report.Findings) != 1 || !strings.HasPrefix(report.Findings[0].String(), want) {
			t.Errorf("VerifyAbsent = %+v, %v, want %q", report, err, want)
		}
	}
	if err := os.Truncate(filepath.Join(dir, baseFile), 0); err != nil {
		t.Fatal(err)
	}
	finds("row 1: rows 1 to 10 are missing: the database does not exist, but grapnel.head covers them")
	if err := os.Remove(filepath.Join(dir, baseFile)); err != nil {
		t.Fatal(err)
	}
	finds("row 1: rows 1 to 10 are missing: the database does not exist, but grapnel.head covers them", head)
	finds("row 1: rows 1 to 12 are missing: the database does not exist, but the head 12:", later)
	if err := os.Remove(filepath.Join(dir, headFile)); err != nil {
		t.Fatal(err)
	}
	finds("row 1: rows 1 to 10 are missing: the database does not exist, but the head 10:", head)
	if err := os.WriteFile(filepath.Join(dir, headFile), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	finds("the database does not exist, and its end is unknown: grapnel.head: ")
}

// A daemon reports problems at its start. They are not lost when it replaces the anchor.
func TestOpenTells(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	fill(t, s, 10)
	closeTest(t, s)
	tamper(t, dir, "DELETE FROM record WHERE seq > 7; DELETE FROM line WHERE seq > 7; DELETE FROM hook WHERE seq > 7")
	var reported notes
	s = openTest(t, dir, &Options{Note: reported.add})
	if !strings.Contains(reported.String(), "rows 8 to 10 were missing at the end") {
		t.Errorf("Note = %q", &reported)
	}
	if err := s.Put(t.Context(), item("more")); err != nil {
		t.Fatal(err)
	}
	for row, err := range s.Records(t.Context(), Query{Limit: 1}) {
		if row.Seq != 11 || err != nil {
			t.Errorf("the next row is %+v, %v, want number 11", row, err)
		}
	}
	closeTest(t, s)
	s = openTest(t, dir, nil)
	report, err := s.Verify(t.Context())
	if err != nil || len(report.Findings) != 2 || !strings.HasPrefix(report.Findings[0].String(), "row 7: rows 8 to 10 were missing at the end (seen") ||
		report.Findings[1].String() != "row 8: rows 8 to 10 are missing" {
		t.Errorf("Verify = %+v, %v", report, err)
	}
	later := time.Now().Add(91 * 24 * time.Hour)
	s.Reader.now = func() time.Time { return later }
	if err := s.Prune(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if report, err := s.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("Verify = %+v, %v, want that retention ends it", report, err)
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(db []byte) []byte{
		"no database":  func([]byte) []byte { return bytes.Repeat([]byte("nonsense\n"), 1000) },
		"short":        func(db []byte) []byte { return db[:5000] },
		"a few bytes":  func([]byte) []byte { return []byte("SQLite") },
		"its header":   func(db []byte) []byte { clear(db[:100]); return db },
		"in its midst": func(db []byte) []byte { copy(db[len(db)/2:], bytes.Repeat([]byte{0xa5}, 20000)); return db },
		"its schema":   func(db []byte) []byte { copy(db[100:], bytes.Repeat([]byte{0xff}, 3000)); return db },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openTest(t, dir, nil)
			fill(t, s, 100)
			closeTest(t, s)
			file := filepath.Join(dir, baseFile)
			db, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			spoilt := spoil(db)
			if err := os.WriteFile(file, spoilt, 0o600); err != nil {
				t.Fatal(err)
			}
			var reported notes
			s = openTest(t, dir, &Options{Note: reported.add})
			fill(t, s, 3)
			if n := count(t, s.Reader); n != 3 {
				t.Errorf("%d records, want the new ones", n)
			}
			aside, err := filepath.Glob(file + ".broken-*Z")
			if err != nil || len(aside) != 1 || !strings.Contains(reported.String(), aside[0]) {
				t.Fatalf("put aside: %v, %v; told: %s", aside, err, &reported)
			}
			if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(kept, spoilt) {
				t.Errorf("what was put aside is not what was there: %v", err)
			}
			report, err := s.Verify(t.Context())
			if err != nil || report.OK() || report.First != 101 {
				t.Errorf("Verify = %+v, %v, want that the first 100 rows are missing", report, err)
			}
		})
	}
}

// A database can turn out to be broken during a write.
func TestBreaks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var reported notes
	s := openTest(t, dir, &Options{Note: reported.add})
	if s.head.Load() == &s.base.head {
		t.Error("the anchor would be written from what the next commit changes")
	}
	r := readerTest(t, dir)
	fill(t, s, 10)
	if n := count(t, r); n != 10 {
		t.Fatalf("%d records, want 10", n)
	}
	tries := 0
	err := s.write(t.Context(), 0, func(c *change) error {
		if tries++; tries == 1 {
			return fmt.Errorf("reading a page: %w", errBroken)
		}
		l, err := parse(item("after").Line)
		if err != nil {
			return err
		}
		return c.putLine(&l, false)
	})
	if err != nil || tries != 2 || !strings.Contains(reported.String(), "is damaged") {
		t.Fatalf("write = %v after %d tries; told: %s", err, tries, &reported)
	}
	if got := count(t, s.Reader); got != 1 {
		t.Errorf("%d records, want the one in the new database", got)
	}
	if got := count(t, r); got != 1 {
		t.Errorf("a reader sees %d records, want those of the new database", got)
	}
	// The database is permanently broken: every Put returns the error, with no other effect.
	for range 3 {
		if err := s.write(t.Context(), 0, func(*change) error { return errBroken }); !errors.Is(err, errBroken) {
			t.Errorf("write = %v", err)
		}
	}
	fill(t, s, 2)
}

func TestVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	fill(t, s, 1)
	closeTest(t, s)
	for _, unknown := range []int{99, -1} {
		tamper(t, dir, fmt.Sprintf("PRAGMA user_version = %d", unknown))
		if _, err := Open(dir, nil); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), fmt.Sprintf("database version %d,", unknown)) {
			t.Errorf("Open of version %d = %v", unknown, err)
		}
		if _, err := OpenReader(dir); !errors.Is(err, ErrVersion) {
			t.Errorf("OpenReader of version %d = %v", unknown, err)
		}
	}
	tamper(t, dir, fmt.Sprintf("PRAGMA user_version = %d", version()))
	closeTest(t, openTest(t, dir, nil)) // the files are unchanged and unlocked
}

func TestLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	if _, err := Open(dir, nil); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("the second Open = %v, want who has it", err)
	}
	fill(t, s, 1)
	closeTest(t, s)
	fill(t, openTest(t, dir, nil), 1)
}

func TestReader(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a b?c#d%20e", "deep")
	if _, err := OpenReader(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenReader of nothing = %v", err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a reader made %s", dir)
	}
	for _, bad := range []string{"", "relative"} {
		if _, err := OpenReader(bad); err == nil {
			t.Errorf("OpenReader(%q) = nil", bad)
		}
		if _, err := Open(bad, nil); err == nil {
			t.Errorf("Open(%q) = nil", bad)
		}
	}
	s := openTest(t, dir, nil)
	r := readerTest(t, dir)
	for i := range 5 {
		if err := s.Put(t.Context(), item(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if n := count(t, r); n != i+1 {
			t.Errorf("beside a writer: %d records, want %d", n, i+1)
		}
	}
	closeTest(t, s)
	if n := count(t, r); n != 5 {
		t.Errorf("after the writer: %d records, want 5", n)
	}
	r = readerTest(t, dir)
	if n := count(t, r); n != 5 {
		t.Errorf("without a writer: %d records, want 5", n)
	}
	if _, err := r.open(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.db.ExecContext(t.Context(), "DELETE FROM record"); err == nil {
		t.Error("a reader could write")
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, baseFile), bytes.Repeat([]byte("no database "), 500), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReader(other); err == nil || !strings.Contains(err.Error(), filepath.Join(other, baseFile)) || !strings.Contains(err.Error(), "renames it") {
		t.Errorf("OpenReader of what is no database = %v", err)
	}
}

// If a caller's context ends while others write, its record is not written, and it does not wait.
func TestGoesAway(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir(), nil)
	entered, leave := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := s.write(context.Background(), 0, func(*change) error { close(entered); <-leave; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-entered
	why := errors.New("the agent went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- s.Put(ctx, item("1")) }()
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("Put = %v, want %v", err, why)
	}
	close(leave)
	wait.Wait()
	if err := s.Put(ctx, item("2")); !errors.Is(err, why) {
		t.Errorf("Put = %v, want %v", err, why)
	}
	if n := count(t, s.Reader); n != 0 {
		t.Errorf("%d records, want none", n)
	}
}

// An error of one caller does not affect other callers.
func TestApart(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir(), nil)
	entered, leave := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := s.write(t.Context(), 0, func(*change) error { close(entered); <-leave; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-entered
	wrong := errors.New("wrong")
	for i := range 20 {
		wait.Go(func() {
			if i%5 == 0 {
				if err := s.write(t.Context(), 0, func(c *change) error {
					return errors.Join(c.run("DELETE FROM record"), wrong)
				}); !errors.Is(err, wrong) {
					t.Errorf("write = %v", err)
				}
			} else if err := s.Put(t.Context(), item(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	for len(s.work) < 19 { // the writer has taken one
		time.Sleep(time.Millisecond)
	}
	close(leave)
	wait.Wait()
	if report, err := s.Verify(t.Context()); err != nil || !report.OK() || report.Rows != 16 {
		t.Errorf("Verify = %+v, %v, want 16 rows", report, err)
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir(), nil)
	fill(t, s, 10)
	limit := func(pages int) {
		t.Helper()
		err := s.write(t.Context(), 0, func(c *change) error {
			_, err := c.row(fmt.Sprintf("PRAGMA max_page_count=%d", pages), nil, new(int))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(1) // the limit cannot be below the current size
	kept := 10
	var err error
	for ; err == nil && kept < 10000; kept++ {
		err = s.Put(t.Context(), item(fmt.Sprint(kept+1)))
	}
	if kept--; err == nil || !strings.Contains(err.Error(), "full") {
		t.Fatalf("Put = %v after %d records, want that it is full", err, kept)
	}
	if n := count(t, s.Reader); n != kept {
		t.Errorf("%d records, want %d", n, kept)
	}
	limit(1 << 30)
	fill(t, s, kept+20)
	if report, err := s.Verify(t.Context()); err != nil || !report.OK() || report.Rows != kept+20 {
		t.Errorf("Verify = %+v, %v, want %d rows", report, err, kept+20)
	}
}

func TestParseHead(t *testing.T) {
	t.Parallel()
	h := Head{Seq: 7, Hash: Hash{1, 2, 0xff}}
	if got, err := ParseHead(h.String()); got != h || err != nil {
		t.Errorf("ParseHead(%q) = %v, %v", h, got, err)
	}
	for _, bad := range []string{"", ":", "7", "7:", ":00", "7:zz", "-1:" + strings.Repeat("0", 64), "7:" + strings.Repeat("0", 63), "7:" + strings.Repeat("0", 66), "x:" + strings.Repeat("0", 64)} {
		if got, err := ParseHead(bad); err == nil {
			t.Errorf("ParseHead(%q) = %v, want an error", bad, got)
		}
	}
}
