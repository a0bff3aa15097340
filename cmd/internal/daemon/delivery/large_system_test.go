//go:build system

// These tests start no program. They write so many rows that they take minutes under the
// race detector, which the system tier does not use.

package delivery_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// With a real store: each job is delivered once and in order, even with a stop in the middle, and
// jobs of a disabled target wait.
func TestOverTheQueue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var mu sync.Mutex
	seen := map[string]int{}
	var order []string
	var hang atomic.Bool
	hang.Store(true)
	_, _, opts := real(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		id := r.Header.Get("Webhook-Id")
		switch r.URL.Path {
		case "/gone":
			w.WriteHeader(http.StatusGone)
			return
		case "/hangs":
			if hang.Load() {
				<-r.Context().Done()
				return
			}
		case "/line":
			mu.Lock()
			order = append(order, id)
			mu.Unlock()
		}
		mu.Lock()
		seen[id]++
		mu.Unlock()
	})
	opts.Grace = 100 * time.Millisecond
	open := func() *queue.Queue {
		s, err := queue.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	var jobs []delivery.Job
	for _, target := range []string{"a", "b", "gone", "hangs"} {
		some, _ := many(target, 50)
		jobs = append(jobs, some...)
	}
	var want []string
	for i := range 30 {
		j := job("line", fmt.Sprintf("line-%03d", i))
		j.Ordered = true
		jobs, want = append(jobs, j), append(want, j.ID)
	}
	if err := s.Put(t.Context(), jobs...); err != nil {
		t.Fatal(err)
	}
	count := func(target string, state delivery.State) int {
		jobs, err := s.Deliveries(t.Context(), queue.Query{Target: target, State: state})
		if err != nil {
			t.Fatal(err)
		}
		return len(jobs)
	}
	for round, want := range []map[string]int{{"a": 50, "b": 50, "line": 30, "gone": 0, "hangs": 0}, {"gone": 0, "hangs": 50}} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		d := delivery.New(s, opts)
		go func() { done <- d.Run(ctx) }()
		ok := func() bool {
			for target, n := range want {
				if count(target, delivery.Delivered) != n {
					return false
				}
			}
			return true
		}
		await.Until(t, "all jobs of this round are delivered", ok)
		cancel()
		if err := <-done; err != nil || !ok() {
			t.Errorf("round %d: %v, hangs: %d delivered, line: %d", round, err, count("hangs", delivery.Delivered), count("line", delivery.Delivered))
		}
		if n := count("gone", delivery.Waiting); n != 50 {
			t.Errorf("of the one that wants no more wait %d", n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		hang.Store(false)
		s = open()
	}
	targets, err := s.Targets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		if target.Off != (target.Name == "gone") {
			t.Errorf("%+v", target)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(order) != fmt.Sprint(want) {
		t.Errorf("in the order %v", order)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was heard %d times", id, n)
		}
	}
}

// Many jobs over real connections: each is received once, over few connections, and no goroutine
// is left.
func TestManyOverTLS(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var conns sync.Map
	seen := map[string]int{}
	_, q, opts := real(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conns.Store(r.RemoteAddr, true)
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("Webhook-Id")]++
	})
	jobs, ids := many("a", 300)
	_ = q.Add(t.Context(), jobs...)
	if sum := once(t, q, opts); sum.Delivered != 300 {
		t.Error(sum)
	}
	for _, id := range ids {
		if seen[id] != 1 {
			t.Errorf("%s was heard %d times", id, seen[id])
		}
	}
	n := 0
	conns.Range(func(any, any) bool { n++; return true })
	if n > 2*8 {
		t.Errorf("%d connections", n)
	}
}

// With any behavior of receivers, repeated restarts and a failing queue: no job is lost, no job
// is tried twice at the same time, ordered jobs keep their order, and every delivered job was
// received.
func TestChaos(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			chance := func(of int) bool { mu.Lock(); defer mu.Unlock(); return rng.IntN(of) == 0 }
			w := newWorld(t)
			w.opts.MaxInFlight = 1 + rng.IntN(8)
			var calm atomic.Bool
			busy, line := map[string]bool{}, map[string]string{}
			w.opts.Resolve = func(_ context.Context, j *delivery.Job) (policyfile.HTTP, error) {
				mu.Lock()
				defer mu.Unlock()
				if busy[j.ID] {
					t.Errorf("%s is tried twice at once", j.ID)
				}
				busy[j.ID] = true
				if key := j.Target + "/" + j.Session; j.Ordered {
					if line[key] != "" && line[key] > j.ID {
						t.Errorf("%s after %s", j.ID, line[key])
					}
					line[key] = j.ID
				}
				return policyfile.HTTP{URL: "http://" + j.Target + ".example.com/", Most: 1 + len(j.Target)}, nil
			}
			w.opts.Observe = func(j delivery.Job, _ delivery.Result, _ time.Duration) { mu.Lock(); delete(busy, j.ID); mu.Unlock() }
			w.queue.Fail = func(string) error {
				if !calm.Load() && chance(20) {
					return context.DeadlineExceeded
				}
				return nil
			}
			w.answer = func(string, string, int) answer {
				switch {
				case calm.Load() || !chance(3):
					return answer{status: 200}
				case chance(4):
					return answer{status: 429, header: "Retry-After: 30\r\n"}
				case chance(3):
					return answer{status: 200, after: time.Duration(1+rngInt(&mu, rng, 20)) * time.Second}
				}
				return answer{status: 500}
			}
			var ids []string
			for i := range 40 {
				j := job([]string{"a", "bb", "ccc"}[rng.IntN(3)], fmt.Sprintf("m%03d", i))
				j.Session, j.Ordered = fmt.Sprint("s", rng.IntN(2)), rng.IntN(2) == 0
				if j.Ordered {
					j.Session += "-ordered"
				}
				ids = append(ids, j.ID)
				w.add(j)
			}
			for range 3 {
				_, stop := w.run()
				time.Sleep(time.Duration(1+rngInt(&mu, rng, 100)) * time.Second)
				calmly := calm.Swap(true) // the last attempt is received
				stop()
				calm.Store(calmly)
				mu.Lock()
				clear(busy)
				mu.Unlock()
			}
			calm.Store(true)
			_, stop := w.run()
			time.Sleep(40 * time.Hour)
			stop()
			for _, id := range ids {
				if j := w.job(id); j.State != delivery.Delivered || len(w.times(id)) == 0 {
					t.Errorf("%+v, heard %d times", j, len(w.times(id)))
				}
			}
		})
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}
