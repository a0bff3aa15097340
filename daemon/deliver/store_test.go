package deliver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/daemon/deliver"
	"github.com/grapnel-dev/grapnel/daemon/store"
	"github.com/grapnel-dev/grapnel/internal/await"
)

// Over the store: what came is delivered once, in its order, across a stop in the middle,
// and what a target wants no more waits.
func TestOverTheStore(t *testing.T) {
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
	open := func() *store.Store {
		s, err := store.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	var jobs []deliver.Job
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
	if err := s.Put(t.Context(), store.Item{Jobs: jobs}); err != nil {
		t.Fatal(err)
	}
	count := func(target string, state deliver.State) int {
		jobs, err := s.Deliveries(t.Context(), store.DeliveryQuery{Target: target, State: state})
		if err != nil {
			t.Fatal(err)
		}
		return len(jobs)
	}
	for round, want := range []map[string]int{{"a": 50, "b": 50, "line": 30, "gone": 0, "hangs": 0}, {"gone": 0, "hangs": 50}} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		d := deliver.New(s, opts)
		go func() { done <- d.Run(ctx) }()
		ok := func() bool {
			for target, n := range want {
				if count(target, deliver.Delivered) != n {
					return false
				}
			}
			return true
		}
		await.Until(t, "all jobs of this round are delivered", ok)
		cancel()
		if err := <-done; err != nil || !ok() {
			t.Errorf("round %d: %v, hangs: %d delivered, line: %d", round, err, count("hangs", deliver.Delivered), count("line", deliver.Delivered))
		}
		if n := count("gone", deliver.Waiting); n != 50 {
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
