package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// writer returns a spool for writing Records, like grapnel-hook uses.
func writer(t testing.TB, dir string, opts *spool.Options) *spool.Spool {
	t.Helper()
	s, err := spool.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// fresh returns a Record with the current time.
func fresh(id string) spool.Entry {
	e := entry(id)
	e.Time = time.Now().UTC()
	return e
}

func write(t testing.TB, s *spool.Spool, ids ...string) {
	t.Helper()
	for _, id := range ids {
		e := fresh(id)
		s.Observe(context.Background(), &e.Record)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t testing.TB, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// places returns the directories of a spool and a store below a directory.
func places(dir string) (spool, store string) {
	return filepath.Join(dir, "spool"), filepath.Join(dir, "store")
}

// ids returns the IDs of all Records of a store in order, with a mark for each torn one.
func ids(t testing.TB, r *Reader) []string {
	t.Helper()
	var ids []string
	for row, err := range r.Records(context.Background(), Query{Oldest: true, Lean: true}) {
		if err != nil {
			t.Error(err)
		}
		if row.Event == spool.Torn {
			row.ID = "torn"
		}
		ids = append(ids, row.ID)
	}
	return ids
}

func once(t testing.TB, in *Intake) int {
	t.Helper()
	n, err := patient(in.Once)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// patient calls once again while a child process of another test still has the lock open, which
// it inherited.
func patient(once func(context.Context) (int, error)) (n int, err error) {
	for range 1000 {
		if n, err = once(context.Background()); !errors.Is(err, spool.ErrBusy) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return n, err
}

// spoolFiles returns the names of the files with Records.
func spoolFiles(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "records*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		names[i] = filepath.Base(name)
	}
	return names
}

func wantIDs(t testing.TB, r *Reader, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, ids(t, r)); diff != "" {
		t.Errorf("in the store (-want +got):\n%s", diff)
	}
}

func TestIntake(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	in := &Intake{Spool: spoolDir, Store: s, Grace: time.Hour}
	if n := once(t, in); n != 0 {
		t.Errorf("of nothing, %d lines were taken", n)
	}
	w := writer(t, spoolDir, nil)
	write(t, w, "a", "b")
	if n := once(t, in); n != 2 {
		t.Errorf("%d lines were taken, want 2", n)
	}
	if n := once(t, in); n != 0 {
		t.Errorf("%d lines were taken again", n)
	}
	write(t, w, "c")
	name := filepath.Join(spoolDir, "records.jsonl")
	appendTo(t, name, `{"id":"to`)
	once(t, in)
	wantIDs(t, s.Reader, "a", "b", "c") // the rest of the line may come later
	write(t, w, "d")
	appendTo(t, name, "\n\n")
	once(t, in)
	once(t, in)
	wantIDs(t, s.Reader, "a", "b", "c", "torn", "d")
	if got := spoolFiles(t, spoolDir); len(got) != 1 {
		t.Errorf("files are %q: what is small and young stays", got)
	}
	report, err := s.Verify(context.Background())
	if err != nil || !report.OK() {
		t.Errorf("Verify = %+v, %v", report, err)
	}
}

// No Record is lost when a writer renames the file, keeps a renamed file open, or writes into it
// late.
func TestIntakeFilesMove(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	in := &Intake{Spool: spoolDir, Store: s, Grace: time.Nanosecond}
	w := writer(t, spoolDir, nil)
	write(t, w, "a")
	once(t, in)
	current := filepath.Join(spoolDir, "records.jsonl")
	aside := filepath.Join(spoolDir, "records-20260304T050607.000000000Z.jsonl")
	late, err := os.OpenFile(current, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if err := os.Rename(current, aside); err != nil {
		t.Skipf("a file that is open cannot be renamed here: %v", err)
	}
	write(t, w, "b")
	once(t, in)
	once(t, in)
	if _, err := os.Stat(aside); err != nil && runtime.GOOS == "linux" {
		t.Errorf("a file that somebody writes into is gone: %v", err)
	}
	if runtime.GOOS == "linux" {
		if _, err := late.Write(lineOf(fresh("late"))); err != nil {
			t.Fatal(err)
		}
		once(t, in)
		wantIDs(t, s.Reader, "a", "b", "late")
	}
	_ = late.Close()
	for range 3 {
		once(t, in)
	}
	if got := spoolFiles(t, spoolDir); !slices.Equal(got, []string{"records.jsonl"}) {
		t.Errorf("files are %q, want only the current one", got)
	}
	if n, err := s.Mark(context.Background(), "x"); n != 0 || err != nil {
		t.Errorf("Mark of an unknown file: %d, %v", n, err)
	}
	marks := 0
	err = s.read(context.Background(), func(v *view) error {
		_, err := v.row("SELECT count(*) FROM mark", nil, &marks)
		return err
	})
	if err != nil || marks != 1 {
		t.Errorf("%d marks are left, %v; want that of the current file", marks, err)
	}
}

// The same content under the same name is not read again; another file with the same name is.
func TestIntakeFileReplaced(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	in := &Intake{Spool: spoolDir, Store: s, Grace: time.Hour}
	name := filepath.Join(spoolDir, "records.jsonl")
	write(t, writer(t, spoolDir, nil), "a", "b")
	once(t, in)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(spoolDir, "records-20260304T050607.000000000Z.jsonl"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := once(t, in); n != 0 {
		t.Errorf("of a copy, %d lines were taken", n)
	}
	var first int64 // end of the first line
	replace := func(ids ...string) {
		t.Helper()
		var text []byte
		for i, id := range ids {
			if text = append(text, lineOf(fresh(id))...); i == 0 {
				first = int64(len(text))
			}
		}
		if err := os.WriteFile(name+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	replace("c") // shorter than before
	once(t, in)
	replace("d", "e", "f") // longer
	once(t, in)
	wantIDs(t, s.Reader, "a", "b", "c", "d", "e", "f")

	// If the file is truncated, later lines are taken in, and earlier lines are not repeated.
	var noted []string
	in.Note = func(err error) { noted = append(noted, err.Error()) }
	if err := os.Truncate(name, first); err != nil {
		t.Fatal(err)
	}
	once(t, in)
	appendTo(t, name, string(lineOf(fresh("g"))))
	once(t, in)
	wantIDs(t, s.Reader, "a", "b", "c", "d", "e", "f", "g")
	if len(noted) != 1 || !strings.Contains(noted[0], "another program truncated it") {
		t.Errorf("noted were %q", noted)
	}
}

// If the marks are lost or the store is new, an intake only takes more time.
func TestIntakeRepeated(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	in := &Intake{Spool: spoolDir, Store: s, Grace: time.Hour}
	write(t, writer(t, spoolDir, nil), "a", "b")
	appendTo(t, filepath.Join(spoolDir, "records.jsonl"), "torn\n")
	once(t, in)
	if err := s.write(context.Background(), 0, func(c *change) error { return c.run("DELETE FROM mark") }); err != nil {
		t.Fatal(err)
	}
	once(t, in)
	wantIDs(t, s.Reader, "a", "b", "torn")
	again := openTest(t, storeDir+"2", nil)
	once(t, &Intake{Spool: spoolDir, Store: again, Grace: time.Hour})
	wantIDs(t, again.Reader, "a", "b", "torn")
}

func TestIntakeLock(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	lock, err := spool.LockIntake(spoolDir)
	if err != nil {
		t.Fatal(err)
	}
	in := &Intake{Spool: spoolDir, Store: s}
	if _, err := in.Once(context.Background()); !errors.Is(err, spool.ErrBusy) {
		t.Errorf("Once beside another: %v, want ErrBusy", err)
	}
	_ = lock.Close()
	once(t, in)
	once(t, in)
}

// A file is put aside when it is old or large. Only a few such files exist.
func TestIntakePutsAside(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	in := &Intake{Spool: spoolDir, Store: s, Grace: time.Hour}
	w := writer(t, spoolDir, &spool.Options{MaxAge: 1 << 62})
	old := func(id string) {
		t.Helper()
		e := entry(id)
		e.Time = time.Now().Add(-2 * time.Hour)
		w.Observe(context.Background(), &e.Record)
		if err := w.Err(); err != nil {
			t.Fatal(err)
		}
		_ = w.Close() // for systems that cannot rename an open file
	}
	var want []string
	for i := range maxAside + 3 {
		want = append(want, fmt.Sprint("r", i))
		old(want[i])
		once(t, in)
	}
	wantIDs(t, s.Reader, want...)
	if got := spoolFiles(t, spoolDir); len(got) != maxAside+1 {
		t.Errorf("files are %q, want %d aside", got, maxAside)
	}
	in.Grace = time.Nanosecond
	for range 4 {
		once(t, in)
	}
	if got := spoolFiles(t, spoolDir); len(got) > 1 {
		t.Errorf("files are %q, want at most one", got)
	}
	wantIDs(t, s.Reader, want...)
}

// A torn end is taken in when no writer can complete it.
func TestIntakeTornEnd(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"behind a line": string(lineOf(fresh("a"))) + `{"id":"b`, "alone": `{"id":"b`, "whole": strings.TrimSpace(string(lineOf(fresh("a"))))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spoolDir, storeDir := places(t.TempDir())
			s := openTest(t, storeDir, nil)
			in := &Intake{Spool: spoolDir, Store: s, Grace: time.Nanosecond}
			write(t, writer(t, spoolDir, nil), "current")
			appendTo(t, filepath.Join(spoolDir, "records-20260304T050607.000000000Z.jsonl"), text)
			for range 4 {
				once(t, in)
			}
			want := map[string][]string{"behind a line": {"a", "torn", "current"}, "alone": {"torn", "current"}, "whole": {"a", "current"}}[name]
			wantIDs(t, s.Reader, want...)
			if got := spoolFiles(t, spoolDir); len(got) != 1 {
				t.Errorf("files are %q", got)
			}
		})
	}
}

// stop ends an Intake between two steps.
type stop struct{}

// New lines are in the store after a short time, and Run ends when its context is done.
func TestIntakeRun(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	ctx, cancel := context.WithCancel(context.Background())
	in := &Intake{Spool: spoolDir, Store: s, Note: func(err error) { t.Errorf("noted: %v", err) }}
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	rows := s.Subscribe(ctx)
	w := writer(t, spoolDir, nil)
	for i := range 20 {
		id := fmt.Sprint("r", i)
		time.Sleep(time.Duration(i) * time.Millisecond)
		write(t, w, id)
		if row := await.Receive(t, id+" in the store", rows); row.ID != id {
			t.Fatalf("received %s, want %s", row.ID, id)
		}
	}
	if err := os.RemoveAll(spoolDir); err != nil { // the writer creates the directory again
		t.Fatal(err)
	}
	write(t, w, "later")
	if row := await.Receive(t, "a Record from the new directory", rows); row.ID != "later" {
		t.Errorf("received %s, want later", row.ID)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// Run reports an error once, and continues after the cause is fixed.
func TestIntakeRunWaits(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	lock, err := spool.LockIntake(spoolDir)
	if err != nil {
		t.Fatal(err)
	}
	write(t, writer(t, spoolDir, nil), "a")
	noted := make(chan error, 10)
	in := &Intake{Spool: spoolDir, Store: s, Note: func(err error) { noted <- err }}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	rows := s.Subscribe(ctx)
	go func() { done <- in.Run(ctx) }()
	if err := <-noted; !errors.Is(err, spool.ErrBusy) {
		t.Errorf("noted was %v", err)
	}
	_ = lock.Close()
	if row := <-rows; row.ID != "a" {
		t.Errorf("came %q", row.ID)
	}
	cancel()
	if err := <-done; err != nil || len(noted) > 0 {
		t.Errorf("Run = %v, and %d more were noted", err, len(noted))
	}
}

// A closed Store ends Run.
func TestIntakeRunEnds(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s, err := Open(storeDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	write(t, writer(t, spoolDir, nil), "a")
	if err := (&Intake{Spool: spoolDir, Store: s}).Run(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("Run = %v, want ErrClosed", err)
	}
}

// A line that the store rejects does not stop the intake of other lines.
func TestIntakeRefused(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	w := writer(t, spoolDir, nil)
	write(t, w, "a")
	name := filepath.Join(spoolDir, "records.jsonl")
	for _, text := range []string{
		strings.Repeat("[", 20_000) + "\n",
		`{"id":"deep","time":"2026-03-04T05:06:07Z","input":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "}\n",
		`{"id":"long","time":"2026-03-04T05:06:07Z","error":"` + strings.Repeat("x", 1<<20) + "\"}\n",
		`{"id":"` + strings.Repeat("y", 900_000) + `","time":"2026-03-04T05:06:07Z"}` + "\n",
		`{"id":"far","time":"9999-03-04T05:06:07Z","decision":"none","hooks":null}` + "\n",
		"{\"id\":\"nul\\u0000\",\"time\":\"0001-03-04T05:06:07Z\",\"session\":\"\xff\xfe\"}\n",
	} {
		appendTo(t, name, text)
	}
	write(t, w, "z")
	once(t, &Intake{Spool: spoolDir, Store: s})
	got := ids(t, s.Reader)
	if len(got) == 0 || got[0] != "a" || got[len(got)-1] != "z" || !slices.Contains(got, "far") || !slices.Contains(got, "torn") {
		t.Errorf("%d records, from %.20q to %.20q", len(got), got[0], got[len(got)-1])
	}
}
