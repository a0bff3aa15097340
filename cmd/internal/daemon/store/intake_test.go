package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/journal"
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

// segment returns the name of a segment of a spool.
func segment(dir string, number int) string {
	return filepath.Join(dir, "journal", fmt.Sprintf("%08d.jsonl", number))
}

// putLine appends a line to a spool as it is, with its checksum.
func putLine(t testing.TB, dir string, line []byte) {
	t.Helper()
	w := journal.Writer{Dir: filepath.Join(dir, "journal"), MaxAge: 1 << 62}
	defer w.Close()
	if _, err := w.Append(bytes.TrimSuffix(line, []byte{'\n'})); err != nil {
		t.Fatal(err)
	}
}

// spoolFiles returns the names of the segments of a spool.
func spoolFiles(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "journal", "*.jsonl"))
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
	in := &Intake{Spool: spoolDir, Store: s}
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
	appendTo(t, segment(spoolDir, 1), "\n{\"id\":\"to")
	once(t, in)
	wantIDs(t, s.Reader, "a", "b", "c") // the rest of the line may come later
	write(t, w, "d")
	appendTo(t, segment(spoolDir, 1), "\n\n")
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

// No Record is lost when a writer closes a segment. A closed one is removed after it was taken in.
func TestIntakeSegments(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	in := &Intake{Spool: spoolDir, Store: s}
	w := writer(t, spoolDir, &spool.Options{MaxSize: 1})
	var want []string
	for i := range 12 {
		want = append(want, fmt.Sprint("r", i))
		write(t, w, want[i])
		if i%5 == 4 {
			once(t, in)
			wantIDs(t, s.Reader, want...)
			if got := spoolFiles(t, spoolDir); len(got) != 1 {
				t.Errorf("segments are %q, want only the open one", got)
			}
		}
	}
	once(t, in)
	wantIDs(t, s.Reader, want...)
	marks := 0
	err := s.read(context.Background(), func(v *view) error {
		_, err := v.row("SELECT count(*) FROM mark", nil, &marks)
		return err
	})
	if err != nil || marks != 1 {
		t.Errorf("%d marks are left, %v; want that of the open segment", marks, err)
	}
}

// Another segment with the same name is read from its beginning.
func TestIntakeFileReplaced(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	in := &Intake{Spool: spoolDir, Store: s}
	name := segment(spoolDir, 1)
	write(t, writer(t, spoolDir, nil), "a", "b")
	once(t, in)
	replace := func(ids ...string) {
		t.Helper()
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			putLine(t, spoolDir, lineOf(fresh(id)))
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
	size, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, size.Size()/2); err != nil {
		t.Fatal(err)
	}
	once(t, in)
	putLine(t, spoolDir, lineOf(fresh("g")))
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
	in := &Intake{Spool: spoolDir, Store: s}
	write(t, writer(t, spoolDir, nil), "a", "b")
	appendTo(t, segment(spoolDir, 1), "\ntorn\n")
	once(t, in)
	if err := s.write(context.Background(), 0, func(c *change) error { return c.run("DELETE FROM mark") }); err != nil {
		t.Fatal(err)
	}
	once(t, in)
	wantIDs(t, s.Reader, "a", "b", "torn")
	again := openTest(t, storeDir+"2", nil)
	once(t, &Intake{Spool: spoolDir, Store: again})
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

// A segment is closed when it is old or large.
func TestIntakeCloses(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	in := &Intake{Spool: spoolDir, Store: s, age: 1}
	var want []string
	w := writer(t, spoolDir, &spool.Options{MaxAge: 1 << 62})
	for i := range 3 {
		want = append(want, fmt.Sprint("r", i))
		write(t, w, want[i])
		once(t, in)
		if got := spoolFiles(t, spoolDir); len(got) != 2 {
			t.Errorf("segments are %q, want a closed one and a new one", got)
		}
		once(t, in)
		if got := spoolFiles(t, spoolDir); len(got) != 1 {
			t.Errorf("segments are %q, want the new one", got)
		}
	}
	wantIDs(t, s.Reader, want...)
}

// A torn end is taken in when no writer can complete it.
func TestIntakeTornEnd(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	in := &Intake{Spool: spoolDir, Store: s}
	write(t, writer(t, spoolDir, nil), "a")
	appendTo(t, segment(spoolDir, 1), "\n{\"id\":\"b")
	once(t, in)
	wantIDs(t, s.Reader, "a")
	in.age = 1
	once(t, in)
	in.age = 0
	once(t, in)
	wantIDs(t, s.Reader, "a", "torn")
	write(t, writer(t, spoolDir, nil), "c")
	once(t, in)
	wantIDs(t, s.Reader, "a", "torn", "c")
	if got := spoolFiles(t, spoolDir); len(got) != 1 {
		t.Errorf("segments are %q", got)
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
	appendTo(t, segment(spoolDir, 1), "\n"+strings.Repeat("[", 20_000)+"\n")
	for _, text := range []string{
		`{"id":"deep","time":"2026-03-04T05:06:07Z","input":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "}",
		`{"id":"long","time":"2026-03-04T05:06:07Z","error":"` + strings.Repeat("x", 1<<20-100) + "\"}",
		`{"id":"` + strings.Repeat("y", 900_000) + `","time":"2026-03-04T05:06:07Z"}`,
		`{"id":"far","time":"9999-03-04T05:06:07Z","decision":"none","hooks":null}`,
		"{\"id\":\"nul\\u0000\",\"time\":\"0001-03-04T05:06:07Z\",\"session\":\"\xff\xfe\"}",
	} {
		putLine(t, spoolDir, []byte(text))
	}
	write(t, w, "z")
	once(t, &Intake{Spool: spoolDir, Store: s})
	got := ids(t, s.Reader)
	if len(got) == 0 || got[0] != "a" || got[len(got)-1] != "z" || !slices.Contains(got, "far") || !slices.Contains(got, "torn") {
		t.Errorf("%d records, from %.20q to %.20q", len(got), got[0], got[len(got)-1])
	}
}
