//go:build system

// These tests start no program. They write so many rows that they take minutes under the
// race detector, which the system tier does not use.

package store

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/spool"
)

// chaos: size
func TestBehind(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir(), &Options{unsafe: true})
	var items []Item
	for i := range maxBehind + 2*indexBatch {
		items = append(items, item(fmt.Sprint(i)))
	}
	if err := s.Put(t.Context(), items...); err != nil {
		t.Fatal(err)
	}
	fill(t, s, 1) // make the writer busy with the index first
	var indexed int64
	err := s.read(t.Context(), func(v *view) error {
		_, err := v.row("SELECT seq FROM indexed", nil, &indexed)
		return err
	})
	if err != nil || indexed < indexBatch {
		t.Errorf("%d rows are indexed (%v), want at least %d although somebody writes all the time", indexed, err, indexBatch)
	}
}

// Growth of an index after a check is not damage.
func TestVerifyGrown(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir(), &Options{unsafe: true})
	for i := range 10 {
		var items []Item
		for j := range 300 {
			items = append(items, item(fmt.Sprint(i, "-", j)))
		}
		if err := s.Put(t.Context(), items...); err != nil {
			t.Fatal(err)
		}
		for row, err := range s.Records(t.Context(), Query{Text: "wintermute", Limit: 1}) {
			if want := int64(i+1) * 300; row.Seq != want || err != nil {
				t.Fatalf("the newest row is %d, %v, want %d", row.Seq, err, want)
			}
		}
		indexedTest(t, s, int64(i+1)*300)
		if report, err := s.Verify(t.Context()); err != nil || !report.OK() {
			t.Fatalf("Verify = %+v, %v", report, err)
		}
	}
}

// An Intake may be stopped at any step: each line is in the store once after the next intake,
// also with concurrent writers.
func TestIntakeStops(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		spoolDir, storeDir := places(t.TempDir())
		s := openTest(t, storeDir, &Options{unsafe: true}) // no flush, because the disk does not fail here
		w := writer(t, spoolDir, &spool.Options{MaxAge: 1 << 62})
		n := 0
		var want []string
		add := func() {
			e := entry(fmt.Sprintf("r%02d", n))
			e.Time = time.Now().Add(-2 * time.Hour)
			w.Observe(context.Background(), &e.Record)
			want = append(want, e.ID)
			n++
		}
		add()
		appendTo(t, segment(spoolDir, 1), "\n{torn\n")
		add()
		steps, stopped := 0, ""
		pass := func() {
			in := &Intake{Spool: spoolDir, Store: s, age: 1}
			defer in.release()
			in.step = func(name string) {
				add() // the file grows while it is read
				if steps++; steps == at {
					stopped = name
					panic(stop{})
				}
			}
			defer func() {
				if r := recover(); r != nil && r != (stop{}) {
					panic(r)
				}
			}()
			for range 4 {
				if _, err := patient(in.once); err != nil {
					t.Errorf("step %d: %v", at, err)
				}
			}
		}
		pass()
		reached := steps >= at
		at := at
		steps = -1 << 30
		pass()
		_ = w.Close()
		last := &Intake{Spool: spoolDir, Store: s, age: 1}
		for range 6 {
			once(t, last)
		}
		got := ids(t, s.Reader)
		torn := 0
		got = slices.DeleteFunc(got, func(id string) bool {
			if id == "torn" {
				torn++
			}
			return id == "torn"
		})
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || torn != 1 {
			t.Errorf("stopped at step %d (%s), %d torn lines (-want +got):\n%s", at, stopped, torn, diff)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !reached {
			if at < 10 {
				t.Errorf("there are only %d steps", at)
			}
			return
		}
	}
}

// For any distribution of the lines over store and spool, the shown and counted Records are the
// same.
func TestLogAtAnyMoment(t *testing.T) {
	t.Parallel()
	l := Log{}
	l.Spool, l.Store = places(t.TempDir())
	s := openTest(t, l.Store, nil)
	w := writer(t, l.Spool, &spool.Options{MaxAge: 1 << 62})
	var want []string
	check := func(when string) {
		got := shown(t, l, Query{})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	add := func() {
		e := entry(fmt.Sprintf("r%03d", len(want)))
		e.Time = time.Now().Add(-2 * time.Hour).UTC()
		w.Observe(context.Background(), &e.Record)
		want = append(want, e.ID)
	}
	in := &Intake{Spool: l.Spool, Store: s, age: 1}
	in.step = func(name string) {
		check("at " + name)
		add()
		check("at " + name + ", and another")
	}
	for range 6 {
		add()
		check("before a pass")
		once(t, in)
		check("after a pass")
	}
}

// An interrupted retention leaves a log without findings, and continues later.
func TestRetentionInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, &Options{unsafe: true})
	for i := range 3 * pruneBatch {
		aged(t, s, fmt.Sprint(i), 100*day)
	}
	now := time.Now()
	if err := s.writeAnchor(*s.head.Load()); err != nil { // the first step of Prune
		t.Fatal(err)
	}
	err := s.write(t.Context(), 0, func(c *change) error { // the first commit of Prune
		_, err := c.prune(func(*chainRow) class { return remove }, Removal{Time: now.UTC(), Reason: byAge, Limits: DefaultLimits})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if report, err := s.Verify(t.Context()); err != nil || !report.OK() || report.Rows != 2*pruneBatch {
		t.Errorf("Verify in the middle = %+v, %v", report, err)
	}
	closeTest(t, s)
	s = openTest(t, dir, nil)
	if err := s.Prune(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if report, err := s.Verify(t.Context()); err != nil || !report.OK() || report.Rows != 0 {
		t.Errorf("Verify = %+v, %v", report, err)
	}
}

// A reader sees each line while an intake runs.
func TestLogBesideIntake(t *testing.T) {
	t.Parallel()
	l := Log{}
	l.Spool, l.Store = places(t.TempDir())
	s := openTest(t, l.Store, nil)
	ctx, cancel := context.WithCancel(context.Background())
	in := &Intake{Spool: l.Spool, Store: s}
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	w := writer(t, l.Spool, &spool.Options{MaxSize: 20 << 10, MaxAge: 1 << 62, KeepFiles: 1000})
	var want []string
	for i := range 300 {
		id := fmt.Sprintf("r%04d", i)
		write(t, w, id)
		want = append(want, id)
		if i%10 == 0 {
			got := shown(t, l, Query{})
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("after %d (-want +got):\n%s", i+1, diff)
			}
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Many rows with times in the future in a row do not keep retention from the rows after them,
// even if the limit for the number of rows is far away.
func TestRetentionAhead(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir(), &Options{unsafe: true})
	for i := range 3 * pruneBatch {
		aged(t, s, fmt.Sprint("ahead", i), -1000*day)
	}
	aged(t, s, "old", 100*day)
	aged(t, s, "young", 1)
	if err := s.Prune(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s.Reader); n != 1 {
		t.Errorf("%d records are kept, want 1", n)
	}
	if report, err := s.Verify(t.Context()); err != nil || !report.OK() {
		t.Errorf("Verify = %+v, %v", report, err)
	}
}

func TestIntakeSideFiles(t *testing.T) {
	t.Parallel()
	spoolDir, storeDir := places(t.TempDir())
	s := openTest(t, storeDir, nil)
	w := writer(t, spoolDir, &spool.Options{Records: spool.Full})
	big := entry("big")
	big.Input.Tool.Content = strings.Repeat("<big>", 30_000)
	huge := entry("huge")
	huge.Input.Tool.Content = strings.Repeat("huge ", 1_000_000)
	w.Observe(context.Background(), &big.Record)
	w.Observe(context.Background(), &huge.Record)
	if err := w.Err(); err != nil {
		t.Fatal(err)
	}
	once(t, &Intake{Spool: spoolDir, Store: s})
	if err := os.RemoveAll(spoolDir); err != nil {
		t.Fatal(err)
	}
	for row, err := range s.Records(context.Background(), Query{Oldest: true}) {
		switch {
		case err != nil:
			t.Error(err)
		case row.ID == "big" && row.Input.Tool.Content != big.Input.Tool.Content:
			t.Error("the event of a side file is not in the store")
		case row.ID == "huge" && (len(row.Input.Tool.Content) < 100_000 || len(row.Line) > MaxLine):
			t.Errorf("of a huge event %d bytes are in the store", len(row.Input.Tool.Content))
		}
	}
	wantIDs(t, s.Reader, "big", "huge")
}
