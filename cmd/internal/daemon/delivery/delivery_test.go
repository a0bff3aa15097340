package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/internal/webhook"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A job that always fails is tried at once and then after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and
// 10 h, each with a random variation. After that it is dead, until a user requeues it.
func TestSchedule(t *testing.T) {
	t.Parallel()
	for random, by := range map[float64]float64{0: 0.85, 0.5: 1, 0.999999: 1.15} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.opts.Rand = func() float64 { return random }
			w.answer = func(string, string, int) answer { return answer{status: 500} }
			w.add(job("a", "m1"))
			d, stop := w.run()
			time.Sleep(72 * time.Hour)
			want := []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour}
			if !slices.Equal(webhook.Schedule(), want) {
				t.Errorf("the schedule is %v", webhook.Schedule())
			}
			at := w.times("m1")
			if len(at) != len(want)+1 {
				t.Fatalf("%d tries, want %d", len(at), len(want)+1)
			}
			for i, wait := range want {
				got := at[i+1].Sub(at[i])
				if exact := time.Duration(float64(wait) * by); got < exact-time.Second || got > exact+2*time.Second {
					t.Errorf("with random %v: wait %d is %v, want %v", random, i, got, exact)
				}
			}
			j := w.job("m1")
			if j.State != delivery.Dead || j.Status != 500 || j.Tries != 8 || !strings.Contains(j.Error, "500") || j.Ended.IsZero() {
				t.Errorf("%+v", j)
			}
			w.mu.Lock()
			w.answer = nil
			w.mu.Unlock()
			if n, err := w.queue.Retry(t.Context(), "m1"); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			d.Wake()
			time.Sleep(time.Second)
			if j := w.job("m1"); j.State != delivery.Delivered || j.Error != "" || j.Status != 200 {
				t.Errorf("after it was retried: %+v", j)
			}
			stop()
		})
	}
}

// A target that hangs uses only its own share of the concurrent attempts.
func TestSlowTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(target, _ string, _ int) answer {
			if target == "slow" {
				return answer{status: 200, after: 9 * time.Second}
			}
			return answer{status: 200, after: 10 * time.Millisecond}
		}
		slow, slowIDs := many("slow", 500)
		fast, fastIDs := many("fast", 200)
		w.add(slow...)
		w.add(fast...)
		_, stop := w.run()
		time.Sleep(time.Second)
		if n := w.states(fastIDs...); n[delivery.Delivered] != 200 {
			t.Errorf("after a second: %v of the fast one, which heard %d", n, len(w.ids("fast")))
		}
		time.Sleep(20 * time.Minute)
		if n := w.states(slowIDs...); n[delivery.Delivered] != 500 {
			t.Errorf("the slow one: %v", n)
		}
		if got := w.ids("slow"); len(got) != 500 || !same(got, slowIDs) {
			t.Errorf("the slow one heard %d", len(got))
		}
		if w.most["slow"] != 8 || w.most["fast"] != 8 {
			t.Errorf("under way were at most %v", w.most)
		}
		stop()
	})
}

// The number of concurrent attempts is limited for one target and for all, and one target cannot
// use all of them.
func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.opts.MaxInFlight = 10
		w.opts.Resolve = func(_ context.Context, j *delivery.Job) (policyfile.HTTP, error) {
			return policyfile.HTTP{URL: "http://" + j.Target + ".example.com/", Most: map[string]int{"one": 1, "three": 3, "all": 1000}[j.Target]}, nil
		}
		w.answer = func(string, string, int) answer { return answer{status: 200, after: time.Second} }
		for _, target := range []string{"one", "three", "all", "x", "y"} {
			jobs, _ := many(target, 60)
			w.add(jobs...)
		}
		_, stop := w.run()
		time.Sleep(10 * time.Minute)
		stop()
		if len(w.heard) != 300 || w.most["one"] != 1 || w.most["three"] != 3 || w.most["all"] != 5 || w.peak != 10 {
			t.Errorf("%d tries, at most %v, and %d of all", len(w.heard), w.most, w.peak)
		}
	})
}

// Ordered jobs of one session are delivered one after another, even if one fails, and do not
// delay other jobs.
func TestOrdered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(_, id string, try int) answer {
			switch {
			case id == "s1-1" && try < 3:
				return answer{status: 503, after: time.Second}
			case id == "s2-0":
				return answer{status: 400}
			}
			return answer{status: 200, after: time.Second}
		}
		for i := range 4 {
			for _, session := range []string{"s1", "s2", "s3"} {
				j := job("a", fmt.Sprintf("%s-%d", session, i))
				j.Session, j.Ordered = session, true
				w.add(j)
			}
		}
		_, stop := w.run()
		of := func(session string) (ids []string) {
			for _, id := range w.ids("a") {
				if strings.HasPrefix(id, session) {
					ids = append(ids, id)
				}
			}
			return ids
		}
		time.Sleep(time.Minute)
		if got := fmt.Sprint(of("s3")); got != "[s3-0 s3-1 s3-2 s3-3]" {
			t.Errorf("a session without trouble: %s", got)
		}
		time.Sleep(time.Hour)
		if got := fmt.Sprint(of("s1")); got != "[s1-0 s1-1 s1-1 s1-1 s1-2 s1-3]" {
			t.Errorf("one that is late: %s", got)
		}
		if got := of("s2"); slices.Contains(got, "s2-1") {
			t.Errorf("the second comes before the first is done: %s", got)
		}
		time.Sleep(72 * time.Hour)
		if got := fmt.Sprint(of("s2")); got != "[s2-0 s2-0 s2-0 s2-0 s2-0 s2-0 s2-0 s2-0 s2-1 s2-2 s2-3]" || w.job("s2-0").State != delivery.Dead {
			t.Errorf("behind one that died: %s", got)
		}
		stop()
	})
}

// If a target is gone, it gets no more requests, and its jobs wait until a user enables it.
func TestGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(target, _ string, _ int) answer {
			if target == "gone" {
				return answer{status: 410}
			}
			return answer{status: 200}
		}
		jobs, ids := many("gone", 100)
		other, _ := many("other", 3)
		w.add(append(jobs, other...)...)
		d, stop := w.run()
		time.Sleep(100 * time.Hour)
		if n := w.states(ids...); n[delivery.Waiting] != 100 || fmt.Sprint(w.queue.Off()) != "[gone]" || len(w.ids("other")) != 3 {
			t.Errorf("%v, off are %v", n, w.queue.Off())
		}
		if n := len(w.ids("gone")); n == 0 || n > 8 {
			t.Errorf("%d tries", n)
		}
		w.mu.Lock()
		w.answer, w.heard = nil, nil
		w.mu.Unlock()
		_ = w.queue.SwitchOn(t.Context(), "gone")
		d.Wake()
		time.Sleep(time.Second)
		if n := w.states(ids...); n[delivery.Delivered] != 100 {
			t.Errorf("switched on: %v", n)
		}
		stop()
	})
}

// If a target sends Retry-After, none of its jobs is tried before that time.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status     int
		after      string
		from, till time.Duration
	}{
		"429":        {429, "600", 10 * time.Minute, 12 * time.Minute},
		"503":        {503, "600", 10 * time.Minute, 12 * time.Minute},
		"a date":     {503, "Sat, 01 Jan 2000 01:00:00 GMT", time.Hour, 75 * time.Minute}, // the time of synctest begins in 2000
		"for ever":   {429, "99999999999", 24 * time.Hour, 24*time.Hour + time.Minute},
		"soon":       {429, "1", 4 * time.Second, 7 * time.Second},
		"no number":  {429, "soon", 4 * time.Second, 7 * time.Second},
		"not of 500": {500, "600", 4 * time.Second, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				begun := time.Now()
				w.answer = func(_, id string, try int) answer {
					if id == "a-000" && try == 1 {
						return answer{status: tt.status, header: "Retry-After: " + tt.after + "\r\n"}
					}
					return answer{status: 200}
				}
				jobs, ids := many("a", 20)
				w.add(jobs[0])
				d, stop := w.run()
				time.Sleep(time.Second)
				w.add(jobs[1:]...)
				d.Wake()
				time.Sleep(26 * time.Hour)
				at := w.times("a-000")
				if len(at) != 2 || at[1].Sub(begun) < tt.from || at[1].Sub(begun) > tt.till {
					t.Errorf("tried at %v after %v", at, begun)
				}
				if n := w.states(ids...); n[delivery.Delivered] != 20 {
					t.Errorf("%v", n)
				}
				if first := w.times("a-001")[0].Sub(begun); tt.from >= time.Minute && first < tt.from {
					t.Errorf("another one is tried after %v", first)
				}
				stop()
			})
		})
	}
}

// After several failures in a row a target gets no requests for some time. Its jobs wait and do
// not lose an attempt.
func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		down := true
		w.opts.Resolve = func(_ context.Context, j *delivery.Job) (policyfile.HTTP, error) {
			return policyfile.HTTP{URL: "http://" + j.Target + ".example.com/", Most: 2, Breaker: policyfile.Breaker{Failures: 3, Cooldown: policyfile.Duration(time.Minute)}}, nil
		}
		w.answer = func(string, string, int) answer {
			if down {
				return answer{status: 502}
			}
			return answer{status: 200}
		}
		jobs, ids := many("a", 300)
		w.add(jobs...)
		_, stop := w.run()
		time.Sleep(50 * time.Second)
		if n := len(w.ids("a")); n < 3 || n > 4 {
			t.Errorf("%d tries before it is left alone", n)
		}
		time.Sleep(10 * time.Minute)
		n := len(w.ids("a"))
		if n < 10 || n > 16 {
			t.Errorf("%d tries in ten minutes, want one each", n)
		}
		tries := 0
		for _, id := range ids {
			tries += w.job(id).Tries
		}
		if tries != n {
			t.Errorf("%d tries are counted, and there were %d", tries, n)
		}
		w.mu.Lock()
		down = false
		w.mu.Unlock()
		time.Sleep(time.Hour)
		if n := w.states(ids...); n[delivery.Delivered] != 300 {
			t.Errorf("it is back: %v", n)
		}
		stop()
	})
}

// If the address of a job is unknown, temporarily or permanently, the job is retried like any
// other. At the end it is dead, not lost.
func TestResolveFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ok := w.opts.Resolve
		begun := time.Now()
		w.opts.Resolve = func(ctx context.Context, j *delivery.Job) (policyfile.HTTP, error) {
			switch {
			case j.ID == "gone":
				return policyfile.HTTP{}, errors.New("the policy is gone")
			case j.ID == "panics":
				panic("at the resolver")
			case j.ID == "slow":
				<-ctx.Done()
				return policyfile.HTTP{}, ctx.Err()
			case j.ID == "bad":
				return policyfile.HTTP{URL: "http://169.254.169.254/"}, nil
			case j.ID == "words":
				return policyfile.HTTP{URL: "http://a.example.com/", Body: "esperanto"}, nil
			case time.Since(begun) < time.Hour:
				return policyfile.HTTP{}, errors.New("the secret is missing")
			}
			return ok(ctx, j)
		}
		wantErrs := map[string]string{"gone": "policy is gone", "panics": "at the resolver", "slow": "deadline", "bad": "cloud providers", "words": "esperanto"}
		for id := range wantErrs {
			w.add(job("target-"+id, id))
		}
		broken := job("b", "event")
		broken.Event = []byte(`["no event"]`)
		wantErrs["event"] = "cannot read the event"
		w.add(broken, job("a", "later"))
		_, stop := w.run()
		time.Sleep(100 * time.Hour)
		for id, text := range wantErrs {
			if j := w.job(id); j.State != delivery.Dead || j.Tries != 8 || !strings.Contains(j.Error, text) || j.Status != 0 {
				t.Errorf("%s: %+v", id, j)
			}
		}
		if j := w.job("later"); j.State != delivery.Delivered || j.Tries < 2 {
			t.Errorf("%+v", j)
		}
		stop()
	})
}

// At a stop the Deliverer waits a short time for current attempts. A longer attempt does not
// count, and the next Deliverer repeats it.
func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(target, _ string, try int) answer {
			switch {
			case target == "quick":
				return answer{status: 200, after: 3 * time.Second}
			case try == 1:
				return answer{status: 200, after: time.Hour}
			}
			return answer{status: 200}
		}
		quick, _ := many("quick", 1)
		slow, ids := many("slow", 50)
		w.add(append(quick, slow...)...)
		_, stop := w.run()
		time.Sleep(time.Second)
		begun := time.Now()
		stop()
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("it takes %v to stop", took)
		}
		if j := w.job("quick-000"); j.State != delivery.Delivered {
			t.Errorf("%+v", j)
		}
		for _, id := range ids {
			if j := w.job(id); j.State != delivery.Waiting || j.Tries != 0 || j.Error != "" {
				t.Errorf("%+v", j)
			}
		}
		w.mu.Lock()
		w.answer = nil
		w.mu.Unlock()
		_, stop = w.run()
		time.Sleep(time.Second)
		if n := w.states(ids...); n[delivery.Delivered] != 50 {
			t.Errorf("another one: %v", n)
		}
		stop()
	})
}

// A new job is tried at once after Wake, and without Wake after a short time.
func TestWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, stop := w.run()
		time.Sleep(time.Minute)
		begun := time.Now()
		w.add(job("a", "m1"))
		for range 10 {
			d.Wake()
		}
		time.Sleep(time.Millisecond)
		w.add(job("a", "m2"))
		time.Sleep(time.Minute)
		if at := w.times("m1"); len(at) != 1 || at[0] != begun {
			t.Errorf("%v after %v", at, begun)
		}
		if at := w.times("m2"); len(at) != 1 || at[0].Sub(begun) > 31*time.Second {
			t.Errorf("%v after %v", at, begun)
		}
		stop()
	})
}

// Once tries each due job once, including the jobs that follow in an order, and leaves the rest.
func TestOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var seen atomic.Int32
		w.opts.Observe = func(delivery.Job, delivery.Result, time.Duration) { seen.Add(1) }
		w.answer = func(target, _ string, _ int) answer {
			return map[string]answer{"bad": {status: 400, after: 5 * time.Second}, "gone": {status: 410}, "down": {status: 500}, "busy": {status: 429, header: "Retry-After: 100\r\n"}}[target].or(200)
		}
		good, goodIDs := many("good", 150)
		bad, badIDs := many("bad", 20)
		gone, goneIDs := many("gone", 40)
		down, downIDs := many("down", 40)
		busy, busyIDs := many("busy", 40)
		later := job("good", "later")
		later.Next = time.Now().Add(time.Second)
		old := job("bad", "old")
		old.Tries = 7
		line := make([]delivery.Job, 5)
		for i := range line {
			line[i] = job("line", fmt.Sprint("line-", i))
			line[i].Ordered = true
		}
		w.add(slices.Concat(good, bad, gone, down, busy, line, []delivery.Job{later, old})...)
		d := delivery.New(w.queue, w.opts)
		sum, err := d.Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if sum.Delivered != 155 || sum.Dead != 1 || sum.Off < 1 || sum.Failed < 20+3+1 || sum.Tries() != int(seen.Load()) || sum.Tries() != len(w.heard) {
			t.Errorf("%+v; %d seen, %d heard", sum, seen.Load(), len(w.heard))
		}
		if n := len(w.ids("down")) + len(w.ids("busy")) + len(w.ids("gone")); n > 12+8+8 {
			t.Errorf("%d tries at targets that want none", n)
		}
		if got := fmt.Sprint(w.ids("line")); got != "[line-0 line-1 line-2 line-3 line-4]" {
			t.Error(got)
		}
		for _, id := range slices.Concat(badIDs, goneIDs, downIDs, busyIDs, []string{"later"}) {
			if j := w.job(id); j.State != delivery.Waiting || j.Tries > 1 || len(w.times(id)) != j.Tries {
				t.Errorf("%+v", j)
			}
		}
		if n := w.states(goodIDs...); n[delivery.Delivered] != 150 {
			t.Error(n)
		}
		// The remaining jobs are available at once, not only after a lease has ended.
		w.mu.Lock()
		w.answer, w.heard = nil, nil
		w.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if sum, err := d.Once(t.Context()); err != nil || sum.Delivered != 20+40+40+1 {
			t.Errorf("again: %+v, %v", sum, err)
		}
		if sum, err := d.Once(t.Context()); err != nil || sum != (delivery.Summary{}) {
			t.Errorf("nothing is due: %+v, %v", sum, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.Once(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func (a answer) or(status int) answer {
	if a.status == 0 {
		a.status = status
	}
	return a
}

// A job that Once did not try is due at once.
func TestOnceGivesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(string, string, int) answer { return answer{status: 500} }
		jobs, ids := many("down", 64)
		w.add(jobs...)
		d := delivery.New(w.queue, w.opts)
		first, err := d.Once(t.Context())
		if err != nil || first.Failed == 0 || first.Failed > 15 {
			t.Fatal(first, err)
		}
		w.mu.Lock()
		w.answer = nil
		w.mu.Unlock()
		second, err := d.Once(t.Context())
		if err != nil || second.Delivered != len(ids)-first.Failed {
			t.Errorf("%+v, then %+v, %v", first, second, err)
		}
	})
}

// If the queue fails sometimes, attempts are repeated, but no job is lost.
func TestQueueFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var calls atomic.Int32
		var well atomic.Bool
		w.queue.Fail = func(string) error {
			if calls.Add(1)%3 != 0 && !well.Load() {
				return errors.New("disk full")
			}
			return nil
		}
		jobs, ids := many("a", 200)
		w.add(jobs...)
		_, stop := w.run()
		time.Sleep(time.Hour)
		well.Store(true) // otherwise the last result could be a failure
		stop()
		if n := w.states(ids...); n[delivery.Delivered] != 200 || len(w.ids("a")) != 200 {
			t.Errorf("%v, %d tries", n, len(w.ids("a")))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.queue.Fail = func(method string) error {
			if method == "Settle" {
				return errors.New("disk full")
			}
			return nil
		}
		w.add(job("a", "m1"))
		if sum, err := delivery.New(w.queue, w.opts).Once(t.Context()); err == nil || !strings.Contains(err.Error(), "disk full") || sum.Delivered != 1 {
			t.Errorf("%+v, %v", sum, err)
		}
	})
}
