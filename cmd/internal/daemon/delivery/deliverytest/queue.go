package deliverytest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// epoch is the start time of the queue tests.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// TB is the part of testing.TB that a queue needs: from a test, or from one case of a property.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// An Opened queue is empty at first. Put adds jobs.
type Opened struct {
	delivery.Queue
	Put func(ctx context.Context, jobs ...delivery.Job) error
}

// Queue runs the tests that every queue must pass. open returns a new empty queue at each call.
func Queue(t *testing.T, open func(t TB) Opened) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *queue){
		"Lease":      testLease,
		"Settle":     testSettle,
		"Ordered":    testOrdered,
		"Untried":    testUntried,
		"Off":        testOff,
		"Once":       testOnce,
		"Kept":       testKept,
		"Concurrent": testConcurrent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &queue{t, open(t)})
		})
	}
	t.Run("Model", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) { testModel(t, open(t)) })
	})
}

// queue ends the test at every error.
type queue struct {
	t TB
	Opened
}

func (q *queue) put(jobs ...delivery.Job) {
	q.t.Helper()
	if err := q.Put(context.Background(), jobs...); err != nil {
		q.t.Fatalf("Put(%+v): %v", jobs, err)
	}
}

// lease leases jobs for a minute and returns their IDs.
func (q *queue) lease(at time.Duration, n int, except ...string) []string {
	q.t.Helper()
	jobs, err := q.Lease(context.Background(), epoch.Add(at), time.Minute, n, except)
	if err != nil {
		q.t.Fatalf("Lease at %v: %v", at, err)
	}
	ids := []string{}
	for _, j := range jobs {
		if j.State != delivery.Waiting {
			q.t.Fatalf("Lease at %v returned %s, which is %s", at, j.ID, j.State)
		}
		ids = append(ids, j.ID)
	}
	return ids
}

func (q *queue) settle(results ...delivery.Result) {
	q.t.Helper()
	if err := q.Settle(context.Background(), results); err != nil {
		q.t.Fatalf("Settle(%+v): %v", results, err)
	}
}

func (q *queue) want(at time.Duration, n int, ids ...string) {
	q.t.Helper()
	if got := q.lease(at, n); !slices.Equal(got, ids) {
		q.t.Fatalf("Lease of %d at %v = %v, want %v", n, at, got, ids)
	}
}

// due checks when the next job is due; below 0 = never.
func (q *queue) due(at time.Duration) {
	q.t.Helper()
	next, err := q.NextDue(context.Background())
	switch {
	case err != nil:
		q.t.Fatalf("NextDue: %v", err)
	case at < 0 && !next.IsZero():
		q.t.Fatalf("NextDue = %v, want none", next)
	case at == 0 && (next.IsZero() || next.After(epoch)):
		q.t.Fatalf("NextDue = %v, want at once", next)
	case at > 0 && !next.Equal(epoch.Add(at)):
		q.t.Fatalf("NextDue = %v, want %v", next, epoch.Add(at))
	}
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

func later(id string, next time.Duration) delivery.Result {
	return delivery.Result{ID: id, State: delivery.Waiting, Next: epoch.Add(next), Status: 503, Error: "busy", At: epoch}
}

func testLease(_ *testing.T, q *queue) {
	q.due(-1)
	q.want(0, 10)
	late := job("late", "a")
	late.Next = epoch.Add(time.Hour)
	q.put(late, job("1", "a"), job("2", "b"))
	q.put(job("3", "a"))
	q.due(0)
	q.want(0, 0)
	q.want(0, 2, "1", "2")
	q.want(time.Second, 10, "3")
	q.want(2*time.Second, 10)
	q.due(time.Minute)
	q.want(59*time.Second, 10)
	q.want(time.Minute, 10, "1", "2") // they were not settled
	q.settle(delivered("1"), delivered("2"), delivered("3"))
	q.due(time.Hour)
	q.want(time.Hour-time.Nanosecond, 10)
	q.want(time.Hour, 10, "late")

	q.put(job("4", "a"), job("5", "b"), job("6", "c"))
	if got := q.lease(time.Hour, 10, "a", "c", "unknown"); !slices.Equal(got, []string{"5"}) {
		q.t.Fatalf("Lease except a and c = %v", got)
	}
	q.want(time.Hour, 10, "4", "6")
}

func testSettle(_ *testing.T, q *queue) {
	q.put(job("1", "a"), job("2", "a"), job("3", "a"))
	q.want(0, 3, "1", "2", "3")
	q.settle(delivered("1"), later("2", time.Second), delivery.Result{ID: "3", State: delivery.Dead, Error: "gone", At: epoch}, delivered("unknown"))
	q.due(time.Second)
	jobs, err := q.Lease(context.Background(), epoch.Add(time.Second), time.Minute, 9, nil)
	if err != nil || len(jobs) != 1 {
		q.t.Fatalf("Lease = %+v, %v, want the waiting job", jobs, err)
	}
	if j := jobs[0]; j.ID != "2" || j.Tries != 1 || j.Status != 503 || j.Error != "busy" || !j.Next.Equal(epoch.Add(time.Second)) {
		q.t.Fatalf("Lease = %+v, want the job with its settled result", j)
	}
	q.settle(later("1", 0), later("3", 0)) // a job that has ended stays so
	q.want(time.Second, 9)
	q.settle(later("2", 0), later("2", 0))
	q.want(time.Second, 9, "2") // settled before its lease ended
	q.settle()
	if err := q.Settle(context.Background(), []delivery.Result{{ID: "2", State: "lost"}}); err == nil {
		q.t.Fatal("Settle accepted an unknown state")
	}
	q.settle(delivered("2"))
	q.due(-1)
}

// A job that was not tried is due as before, and the attempt is not counted.
func testUntried(_ *testing.T, q *queue) {
	q.put(job("1", "a"), ordered("2", "a", "x"), ordered("3", "a", "x"))
	q.settle(later("1", time.Second))
	q.want(time.Second, 9, "1", "2")
	before := delivery.Result{State: delivery.Waiting, Next: epoch.Add(time.Second), Status: 503, Error: "busy", Untried: true}
	for _, id := range []string{"1", "2", "unknown"} {
		r := before
		if r.ID = id; id == "2" {
			r.Next, r.Status, r.Error = time.Time{}, 0, ""
		}
		q.settle(r)
	}
	q.want(0, 9, "2")
	jobs, err := q.Lease(context.Background(), epoch.Add(time.Second), time.Minute, 9, nil)
	if err != nil || len(jobs) != 1 || jobs[0].ID != "1" || jobs[0].Tries != 1 || jobs[0].Status != 503 || jobs[0].Error != "busy" || !jobs[0].Next.Equal(before.Next) {
		q.t.Fatalf("Lease = %+v, %v, want the first as it was before", jobs, err)
	}
	q.settle(delivered("1"), delivered("2"))
	r := before
	r.ID = "1"
	q.settle(r)
	q.want(time.Minute, 9, "3")
}

func testOrdered(_ *testing.T, q *queue) {
	q.put(ordered("1", "a", "x"), ordered("2", "a", "x"), ordered("3", "a", "y"), ordered("4", "b", "x"), ordered("5", "a", "x"))
	q.want(0, 9, "1", "3", "4")
	q.want(0, 9)
	q.settle(later("1", time.Hour), delivered("3"), delivered("4"))
	q.due(time.Hour) // 2 and 5 wait for 1, even if they are due
	q.want(time.Minute, 9)
	q.put(ordered("6", "a", "y"))
	q.want(time.Minute, 9, "6")
	q.settle(delivered("6"))
	q.want(time.Hour, 9, "1")
	q.settle(delivery.Result{ID: "1", State: delivery.Dead, At: epoch})
	q.want(time.Hour, 9, "2")
	q.settle(delivered("2"))
	q.want(time.Hour, 9, "5")
	// Only ordered jobs wait for each other; other jobs pass.
	free := job("7", "a")
	free.Session = "x"
	q.put(free, ordered("8", "a", "x"))
	q.want(time.Hour, 9, "7")
}

func testOff(_ *testing.T, q *queue) {
	q.put(job("1", "a"), job("2", "a"), job("3", "b"))
	q.want(0, 1, "1")
	q.settle(delivery.Result{ID: "1", State: delivery.Dead, Status: 410, At: epoch, Off: true})
	q.want(0, 9, "3")
	q.settle(delivered("3"))
	q.put(job("4", "a"))
	q.want(time.Hour, 9)
	q.due(-1)
}

func testOnce(_ *testing.T, q *queue) {
	q.put(job("1", "a"))
	q.put(job("1", "b"), job("2", "b"), job("2", "c"))
	q.want(0, 9, "1", "2")
	q.settle(delivered("1"), delivered("2"))
	q.put(job("1", "a"))
	q.want(time.Hour, 9)
}

func testKept(t *testing.T, q *queue) {
	want := delivery.Job{
		ID: "id\x00\n'", Record: "rec", Target: "user::tell \"them\"", Session: "s ü", Ordered: true,
		Hook:  delivery.Hook{Name: "tell", Source: "user", File: "/p.yaml", Digest: "abc", Scope: "user"},
		Event: []byte("{\"n\": 1.0,\"b\":\"<\u2028>\"}"), Created: epoch.Add(1), State: delivery.Waiting, Tries: 2, Next: epoch.Add(-time.Nanosecond),
		Status: 500, Error: "it said no",
	}
	q.put(want)
	jobs, err := q.Lease(context.Background(), epoch, time.Minute, 9, nil)
	if diff := cmp.Diff([]delivery.Job{want}, jobs, cmpopts.EquateApproxTime(0)); diff != "" || err != nil {
		t.Fatalf("Lease differs from the stored jobs (- want + got): %v\n%s", err, diff)
	}
	for _, bad := range []delivery.Job{{Target: "a"}, {ID: "x"}, {ID: "x", Target: "a", Event: []byte(`{`)}, {ID: "x", Target: "a", State: "odd"}} {
		if err := q.Put(context.Background(), job("good", "a"), bad); err == nil {
			t.Errorf("Put(%+v) = nil, want an error", bad)
		}
	}
	q.want(0, 9) // good was rejected together with bad
}

func testConcurrent(t *testing.T, q *queue) {
	const jobs = 200
	var mu sync.Mutex
	seen := map[string]int{}
	count := func(leased []delivery.Job) (all bool) {
		mu.Lock()
		defer mu.Unlock()
		for _, j := range leased {
			seen[j.ID]++
		}
		return len(seen) == jobs
	}
	var wait sync.WaitGroup
	for w := range 8 {
		wait.Go(func() {
			for i := range jobs / 8 {
				if err := q.Put(context.Background(), job(fmt.Sprintf("%d-%d", w, i), fmt.Sprint("t", i%3))); err != nil {
					t.Error(err)
				}
			}
		})
		wait.Go(func() { consume(t, q, count) })
	}
	wait.Wait()
	if len(seen) != jobs {
		t.Errorf("%d of %d jobs were leased", len(seen), jobs)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was leased %d times", id, n)
		}
	}
}

// consume leases and settles jobs until count reports that these were all.
func consume(t *testing.T, q *queue, count func([]delivery.Job) (all bool)) {
	for range 1000 {
		leased, err := q.Lease(context.Background(), epoch, time.Minute, 7, nil)
		if err != nil {
			t.Error(err)
		}
		var results []delivery.Result
		for _, j := range leased {
			results = append(results, delivered(j.ID))
		}
		done := count(leased)
		if err := q.Settle(context.Background(), results); err != nil {
			t.Error(err)
		}
		if done {
			return
		}
		time.Sleep(time.Millisecond) // give other workers time for the disk
	}
}

// model is the simplest possible queue: it follows the text of the contract.
type model struct {
	jobs []modelJob
	off  map[string]bool
}

type modelJob struct {
	delivery.Job
	leased time.Time
}

// blocked reports whether an ordered job has to wait for another.
func (m *model) blocked(i int) bool {
	j := &m.jobs[i]
	return j.Ordered && slices.ContainsFunc(m.jobs[:i], func(o modelJob) bool {
		return o.State == delivery.Waiting && o.Target == j.Target && o.Session == j.Session
	})
}

// at returns when a job can be leased; ok = false means never.
func (m *model) at(i int) (at time.Time, ok bool) {
	j := &m.jobs[i]
	at = j.Next
	if j.leased.After(at) {
		at = j.leased
	}
	return at, j.State == delivery.Waiting && !m.off[j.Target] && !m.blocked(i)
}

func (m *model) lease(now time.Time, n int, except []string) []string {
	ids := []string{}
	var which []int
	for i := range m.jobs {
		if at, ok := m.at(i); ok && !at.After(now) && len(ids) < n && !slices.Contains(except, m.jobs[i].Target) {
			ids, which = append(ids, m.jobs[i].ID), append(which, i)
		}
	}
	for _, i := range which {
		m.jobs[i].leased = now.Add(time.Minute)
	}
	return ids
}

func (m *model) settle(r delivery.Result) {
	for i := range m.jobs {
		j := &m.jobs[i]
		if j.ID != r.ID {
			continue
		}
		m.off[j.Target] = m.off[j.Target] || r.Off
		if r.Untried {
			j.leased = time.Time{}
			continue
		}
		if j.State == delivery.Waiting || j.State == delivery.Dead && r.State == delivery.Delivered {
			j.State, j.Next, j.leased = r.State, r.Next, time.Time{}
		}
	}
}

func (m *model) next() time.Time {
	var next time.Time
	for i := range m.jobs {
		at, ok := m.at(i)
		if at.IsZero() {
			at = time.Unix(0, 0)
		}
		if ok && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// testModel runs the same operations on a queue and on the model, and compares the results.
func testModel(t *rapid.T, opened Opened) {
	q, m := &queue{t, opened}, &model{off: map[string]bool{}}
	now := time.Duration(0)
	targets := rapid.SampledFrom([]string{"a", "b", "c"})
	states := rapid.SampledFrom([]delivery.State{delivery.Waiting, delivery.Waiting, delivery.Delivered, delivery.Dead})
	t.Repeat(map[string]func(*rapid.T){
		"put": func(t *rapid.T) {
			j := job(fmt.Sprint(len(m.jobs)), targets.Draw(t, "target"))
			j.Session = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "session")
			j.Ordered = rapid.Bool().Draw(t, "ordered")
			if rapid.Bool().Draw(t, "timed") {
				j.Next = epoch.Add(now + time.Duration(rapid.IntRange(-5, 90).Draw(t, "next"))*time.Second)
			}
			q.put(j)
			m.jobs = append(m.jobs, modelJob{Job: j})
		},
		"lease": func(t *rapid.T) {
			n := rapid.IntRange(1, 4).Draw(t, "n")
			except := rapid.SliceOfN(targets, 0, 1).Draw(t, "except")
			want := m.lease(epoch.Add(now), n, except)
			if got := q.lease(now, n, except...); !slices.Equal(got, want) {
				t.Fatalf("Lease of %d at %v except %v = %v, want %v", n, now, except, got, want)
			}
		},
		"settle": func(t *rapid.T) {
			if len(m.jobs) == 0 {
				t.Skip("nothing to settle")
			}
			id := fmt.Sprint(rapid.IntRange(0, len(m.jobs)-1).Draw(t, "id"))
			r := delivery.Result{ID: id, State: states.Draw(t, "state"), At: epoch, Off: rapid.IntRange(0, 9).Draw(t, "off") == 0}
			if r.Untried = rapid.IntRange(0, 3).Draw(t, "untried") == 0; r.Untried {
				r.State, r.Off = delivery.Waiting, false
			}
			if r.State == delivery.Waiting {
				r.Next = epoch.Add(now + time.Duration(rapid.IntRange(0, 90).Draw(t, "next"))*time.Second)
			}
			q.settle(r)
			m.settle(r)
		},
		"wait": func(t *rapid.T) { now += time.Duration(rapid.IntRange(0, 61).Draw(t, "seconds")) * time.Second },
		"": func(t *rapid.T) {
			next, err := q.NextDue(context.Background())
			if err != nil || !next.Equal(m.next()) && (next.IsZero() || next.After(epoch) || m.next().IsZero() || m.next().After(epoch)) {
				t.Fatalf("NextDue = %v, %v, want %v", next, err, m.next())
			}
		},
	})
}
