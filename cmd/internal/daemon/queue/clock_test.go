package queue

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
)

// If the clock was a month ahead when a job was postponed or leased, the job does not wait for a
// month after the clock is corrected: neither while the Queue is open nor after it is opened
// again.
func TestLeaseClock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx := context.Background()
	right := time.Now()
	wrong := right.Add(30 * 24 * time.Hour)
	s := openTest(t, dir, nil)
	if err := s.Put(ctx, []delivery.Job{{ID: "late", Target: "a"}, {ID: "leased", Target: "b"}}...); err != nil {
		t.Fatal(err)
	}
	lease := func(s *Queue, now time.Time, want int) {
		t.Helper()
		jobs, err := s.Lease(ctx, now, time.Minute, 10, nil)
		if err != nil || len(jobs) != want {
			t.Fatalf("Lease(%v) = %v, %v, want %d jobs", now, jobs, err, want)
		}
	}
	lease(s, wrong, 2)
	if err := s.Settle(ctx, []delivery.Result{{ID: "late", State: delivery.Waiting, Next: wrong.Add(5 * time.Second), At: wrong}}); err != nil {
		t.Fatal(err)
	}
	lease(s, right, 2)
	lease(s, wrong, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, dir, nil)
	lease(s, right, 2)
	// A job that must wait for a day still waits.
	if err := s.Settle(ctx, []delivery.Result{{ID: "late", State: delivery.Waiting, Next: right.Add(24 * time.Hour), At: right}}); err != nil {
		t.Fatal(err)
	}
	lease(s, right.Add(-time.Second), 0)
	lease(s, right.Add(25*time.Hour), 2)
}

// Only one process opens the queue for writing. Jobs that its predecessor had leased and not
// settled are due as before, and jobs with a later time still wait.
func TestLeasesOfTheDead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx := context.Background()
	now := time.Now()
	s := openTest(t, dir, nil)
	var jobs []delivery.Job
	for _, id := range []string{"1", "2", "3", "4"} {
		jobs = append(jobs, delivery.Job{ID: id, Target: "a", Session: "s", Ordered: id < "3", Created: now})
	}
	if err := s.Put(ctx, jobs...); err != nil {
		t.Fatal(err)
	}
	want := func(at time.Time, want ...string) {
		t.Helper()
		jobs, err := s.Lease(ctx, at, time.Hour, 10, nil)
		var got []string
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("Lease = %v, %v, want %v", got, err, want)
		}
	}
	anew := func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, dir, nil)
	}
	want(now, "1", "3", "4")
	want(now)
	if err := s.Settle(ctx, []delivery.Result{{ID: "4", State: delivery.Waiting, Next: now.Add(10 * time.Minute), At: now}}); err != nil {
		t.Fatal(err)
	}
	anew()
	want(now, "1", "3")
	want(now)
	anew()
	want(now.Add(10*time.Minute), "1", "3", "4")
	if err := s.Settle(ctx, []delivery.Result{{ID: "1", State: delivery.Delivered, At: now}}); err != nil {
		t.Fatal(err)
	}
	anew()
	want(now, "2", "3")
}
