package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery/deliverytest"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	deliverytest.Queue(t, func(t deliverytest.TB) deliverytest.Opened {
		dir, err := os.MkdirTemp("", "queue") //nolint:usetesting // a case of a property has no t.TempDir
		if err != nil {
			t.Fatal(err)
		}
		q, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		})
		return deliverytest.Opened{Queue: q, Put: q.Put}
	})
}

// epoch is the start time of these tests.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func openTest(t testing.TB, dir string, opts *Options) *Queue {
	t.Helper()
	q, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return q
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

// opened ends the test at every error.
type opened struct {
	*Queue
	t   *testing.T
	ctx context.Context
	dir string
}

func begin(t *testing.T) *opened {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "queue")
	return &opened{openTest(t, dir, nil), t, t.Context(), dir}
}

func job(id, target string) delivery.Job {
	return delivery.Job{ID: id, Record: "r", Target: target, Session: "s", Event: []byte(`{"kind":"tool.before"}`), Created: epoch, State: delivery.Waiting}
}

func ordered(id, target, session string) delivery.Job {
	j := job(id, target)
	j.Ordered, j.Session = true, session
	return j
}

func delivered(id string) delivery.Result {
	return delivery.Result{ID: id, State: delivery.Delivered, Status: 200, At: epoch}
}

// leases leases at most n jobs for a minute, which must be these.
func (s *opened) leases(at time.Duration, n int, ids ...string) {
	s.t.Helper()
	jobs, err := s.Lease(s.ctx, epoch.Add(at), time.Minute, n, nil)
	if got := idsOf(jobs); err != nil || !slices.Equal(got, ids) {
		s.t.Fatalf("Lease of %d at %v = %v, %v, want %v", n, at, got, err, ids)
	}
}

func idsOf(jobs []delivery.Job) (ids []string) {
	for i := range jobs {
		ids = append(ids, jobs[i].ID)
	}
	return ids
}

// stored checks which jobs are stored, newest first.
func (s *opened) stored(ids ...string) {
	s.t.Helper()
	jobs, err := s.Deliveries(s.ctx, Query{})
	if got := idsOf(jobs); err != nil || !slices.Equal(got, ids) {
		s.t.Errorf("Deliveries = %v, %v, want %v", got, err, ids)
	}
}

func (s *opened) settle(results ...delivery.Result) {
	s.t.Helper()
	if err := s.Settle(s.ctx, results); err != nil {
		s.t.Fatalf("Settle(%+v): %v", results, err)
	}
}

func (s *opened) put(jobs ...delivery.Job) {
	s.t.Helper()
	if err := s.Put(s.ctx, jobs...); err != nil {
		s.t.Fatalf("Put: %v", err)
	}
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	s := begin(t)
	a, b, c := job("a", "x"), job("b", "y"), ordered("c", "x", "s2")
	b.Record, b.Created = "r2", epoch.Add(-time.Hour)
	s.put(a, b, c, ordered("d", "x", "s2"))
	s.settle(delivered("a"), delivery.Result{ID: "c", State: delivery.Dead, Status: 410, Error: "410 Gone", At: epoch.Add(time.Second), Off: true})
	for _, c := range []struct {
		query Query
		want  []string
	}{
		{Query{}, []string{"d", "c", "b", "a"}},
		{Query{Limit: 2}, []string{"d", "c"}},
		{Query{State: delivery.Waiting}, []string{"d", "b"}},
		{Query{Target: "x", State: delivery.Dead}, []string{"c"}},
		{Query{Session: "s2"}, []string{"d", "c"}},
		{Query{ID: "a"}, []string{"a"}},
		{Query{Record: "r2"}, []string{"b"}},
		{Query{ID: "z"}, nil},
	} {
		jobs, err := s.Deliveries(s.ctx, c.query)
		var got []string
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("Deliveries(%+v) = %v, %v, want %v", c.query, got, err, c.want)
		}
	}
	targets := func(want ...Target) {
		t.Helper()
		got, err := s.Targets(s.ctx)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Targets differ (- want + got): %v\n%s", err, diff)
		}
	}
	y := Target{Name: "y", Waiting: 1, Oldest: epoch.Add(-time.Hour)}
	targets(Target{Name: "x", Off: true, Since: epoch.Add(time.Second), Why: "410 Gone", Waiting: 1, Dead: 1, Delivered: 1, Oldest: epoch}, y)

	if err := s.SwitchOn(s.ctx, "z"); !errors.Is(err, ErrNoTarget) {
		t.Errorf("SwitchOn of an unknown target = %v", err)
	}
	if err := errors.Join(s.SwitchOn(s.ctx, "x"), s.SwitchOn(s.ctx, "x"), s.SwitchOn(s.ctx, "y")); err != nil {
		t.Error(err)
	}
	targets(Target{Name: "x", Waiting: 1, Dead: 1, Delivered: 1, Oldest: epoch}, y)

	// A job that is tried again takes its old position.
	for i, want := range []int{1, 0} {
		if n, err := s.Retry(s.ctx, "a", "b", "c", "unknown"); n != want || err != nil {
			t.Errorf("Retry %d = %d, %v, want %d", i, n, err, want)
		}
	}
	jobs, err := s.Lease(s.ctx, epoch, time.Minute, 9, []string{"y"})
	if err != nil || len(jobs) != 1 || jobs[0].ID != "c" || jobs[0].Tries != 0 || !jobs[0].Ended.IsZero() {
		t.Errorf("Lease = %+v, %v, want c from the start", jobs, err)
	}
	s.settle(delivered("c"))
	s.leases(time.Second, 9, "b", "d")
}

// An event is not masked: it must not stay longer than it is needed. A dead job needs it for Retry.
func TestEventDeleted(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.put(job("done", "a"), job("dead", "a"), job("waits", "a"))
	s.settle(delivered("done"), delivery.Result{ID: "dead", State: delivery.Dead, At: epoch}, delivery.Result{ID: "waits", State: delivery.Waiting, Next: epoch})
	jobs, err := s.Deliveries(s.ctx, Query{})
	if err != nil || len(jobs) != 3 {
		t.Fatalf("Deliveries = %v, %v", jobs, err)
	}
	for _, j := range jobs {
		if (len(j.Event) == 0) != (j.State == delivery.Delivered) {
			t.Errorf("job %s has the event %s", j.ID, j.Event)
		}
	}
	if err := s.Flush(); err != nil {
		t.Error(err)
	}
	// A dead job that was delivered after all.
	s.settle(delivered("dead"))
	jobs, err = s.Deliveries(s.ctx, Query{ID: "dead"})
	if err != nil || len(jobs) != 1 || len(jobs[0].Event) > 0 {
		t.Errorf("Deliveries = %v, %v, want no event", jobs, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(s.dir, "queue.db"))
	if n := strings.Count(string(data), "tool.before"); err != nil || n != 1 {
		t.Errorf("the file has %d events, %v, want that of the waiting job", n, err)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	s := begin(t)
	var jobs []delivery.Job
	var results []delivery.Result
	for i := range 2*pruneBatch + 1 {
		jobs = append(jobs, job(fmt.Sprint(i), "a"))
		results = append(results, delivery.Result{ID: fmt.Sprint(i), State: delivery.Delivered, At: epoch.Add(-time.Second)})
	}
	s.put(jobs...)
	s.put(job("dead", "a"), job("young", "a"), job("waits", "a"))
	s.settle(results...)
	s.settle(delivery.Result{ID: "dead", State: delivery.Dead, At: epoch.Add(-1)}, delivered("young"))
	if err := s.Prune(s.ctx, epoch); err != nil {
		t.Fatal(err)
	}
	s.stored("waits", "young")
	if err := s.Prune(s.ctx, epoch.Add(1000*time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.stored("waits")
}

func TestDue(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	q := openTest(t, t.TempDir(), &Options{Due: func() { calls.Add(1) }})
	want := func(what string, n int32, err error) {
		t.Helper()
		if got := calls.Swap(0); got != n || err != nil {
			t.Errorf("%s: Due was called %d times, %v, want %d", what, got, err, n)
		}
	}
	ctx := t.Context()
	want("Put", 1, q.Put(ctx, job("a", "x"), job("b", "x")))
	want("Put of a known job", 0, q.Put(ctx, job("a", "x")))
	want("Put of no job", 0, q.Put(ctx))
	want("Settle", 0, q.Settle(ctx, []delivery.Result{{ID: "a", State: delivery.Dead, Off: true, At: epoch}}))
	_, err := q.Retry(ctx, "a")
	want("Retry", 1, err)
	want("SwitchOn", 1, q.SwitchOn(ctx, "x"))
	want("SwitchOn again", 0, q.SwitchOn(ctx, "x"))
}

// The loss of waiting deliveries is visible.
func TestLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var notes atomic.Int32
	o := &Options{Note: func(error) { notes.Add(1) }}
	file := filepath.Join(dir, "queue.db")
	remove := func() {
		t.Helper()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	q := openTest(t, dir, o)
	if err := q.Put(t.Context(), job("a", "x")); err != nil || q.Condition() != (Condition{}) || notes.Load() > 0 {
		t.Fatalf("a new queue: %v, %+v, %d notes", err, q.Condition(), notes.Load())
	}
	remove()
	await.Until(t, "the loss is noticed", func() bool {
		if _, err := q.Lease(t.Context(), epoch, time.Minute, 1, nil); err != nil {
			t.Fatal(err)
		}
		return q.Condition() == Condition{Lost: 1}
	})
	if _, err := Open(dir, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("Open = %v, want %v", err, ErrLocked)
	}
	if err := q.Put(t.Context(), job("b", "x")); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if err := q.Put(t.Context(), job("c", "x")); err == nil || q.Condition().Err == nil {
		t.Errorf("Put after Close = %v, %+v", err, q.Condition())
	}
	remove()
	if _, err := OpenReader(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenReader = %v", err)
	}
	q = openTest(t, dir, o)
	if q.Condition() != (Condition{Lost: 1}) {
		t.Errorf("Condition after the removal of a closed database = %+v", q.Condition())
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if q = openTest(t, dir, o); q.Condition() != (Condition{}) || notes.Load() != 3 {
		t.Errorf("Condition of an intact queue = %+v, %d notes", q.Condition(), notes.Load())
	}
}

// An error of the caller is not an error of the database.
func TestConditionOfCallers(t *testing.T) {
	t.Parallel()
	s := begin(t)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if s.Put(ctx, job("a", "x")) == nil || s.Put(s.ctx, delivery.Job{}) == nil || s.SwitchOn(s.ctx, "x") == nil {
		t.Error("a call succeeded")
	}
	if c := s.Condition(); c != (Condition{}) {
		t.Errorf("Condition = %+v", c)
	}
}
