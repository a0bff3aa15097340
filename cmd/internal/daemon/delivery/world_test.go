package delivery_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery/deliverytest"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// An answer is the reply of a receiver, with its delay.
type answer struct {
	status int
	header string // complete lines
	after  time.Duration
}

// A heard is one attempt, as received.
type receivedAttempt struct {
	target, id string
	at         time.Time
}

// A world has receivers that are connected by pipes, so that it works with a fake clock.
type world struct {
	t      *testing.T
	queue  *deliverytest.Memory
	opts   delivery.Options
	answer func(target, id string, try int) answer // nil: 200 at once

	mu    sync.Mutex
	heard []receivedAttempt
	under map[string]int // number of current attempts by target
	most  map[string]int
	all   int
	peak  int
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, queue: &deliverytest.Memory{}, under: map[string]int{}, most: map[string]int{}}
	client := outbound.NewClient(&outbound.Options{
		Guard: outbound.Guard{Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, KeepIdle: 10 * time.Second,
		Resolver: resolver{}, Dial: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go w.serve(there)
			return here, nil
		},
	})
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	w.opts = delivery.Options{
		Client: client, Log: slog.New(slog.DiscardHandler),
		Resolve: func(_ context.Context, j *delivery.Job) (policyfile.HTTP, error) {
			return policyfile.HTTP{URL: "http://" + j.Target + ".example.com/"}, nil
		},
	}
	return w
}

type resolver struct{}

func (resolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
}

func (w *world) serve(conn net.Conn) {
	defer conn.Close()
	for r := bufio.NewReader(conn); ; {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		target, _, _ := strings.Cut(req.Host, ".")
		id := req.Header.Get("Webhook-Id")
		a := answer{status: 200}
		w.mu.Lock()
		w.heard = append(w.heard, receivedAttempt{target, id, time.Now()})
		if w.answer != nil {
			a = w.answer(target, id, w.tries(id))
		}
		w.all++
		w.under[target]++
		w.peak, w.most[target] = max(w.peak, w.all), max(w.most[target], w.under[target])
		w.mu.Unlock()
		gone := false
		if a.after > 0 { // until then, or until the client disconnects
			_ = conn.SetReadDeadline(time.Now().Add(a.after))
			_, err := r.Peek(1)
			var timeout net.Error
			gone = !errors.As(err, &timeout) || !timeout.Timeout()
			_ = conn.SetReadDeadline(time.Time{})
		}
		w.mu.Lock()
		w.all--
		w.under[target]--
		w.mu.Unlock()
		if gone {
			return
		}
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 %d X\r\nContent-Length: 0\r\n%s\r\n", a.status, a.header); err != nil {
			return
		}
	}
}

// tries returns the number of attempts of a job. The caller must hold mu.
func (w *world) tries(id string) (n int) {
	for _, h := range w.heard {
		if h.id == id {
			n++
		}
	}
	return n
}

// times lists the times of the attempts of a job.
func (w *world) times(id string) (at []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.heard {
		if h.id == id {
			at = append(at, h.at)
		}
	}
	return at
}

// ids lists the jobs that a target received, in that order.
func (w *world) ids(target string) (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.heard {
		if h.target == target {
			ids = append(ids, h.id)
		}
	}
	return ids
}

const event = `{"id":"e1","kind":"tool.before","time":"2026-11-21T20:00:00Z","agent":{"name":"claude-code"},"session":{"id":"s1"},"tool":{"name":"Bash","class":"shell","input":{"command":"ls <a>"}},"verdict":{"decision":"block"}}`

func job(target, id string) delivery.Job {
	return delivery.Job{ID: id, Record: "r", Target: target, Session: "s", Event: json.RawMessage(event), Created: time.Now()}
}

func (w *world) add(jobs ...delivery.Job) {
	w.t.Helper()
	if err := w.queue.Add(context.Background(), jobs...); err != nil {
		w.t.Fatal(err)
	}
}

// run runs a Deliverer until the caller calls stop, which waits for its end.
func (w *world) run() (d *delivery.Deliverer, stop func()) {
	w.t.Helper()
	d = delivery.New(w.queue, w.opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.t.Errorf("Run: %v", err)
			}
		})
	}
	w.t.Cleanup(stop)
	return d, stop
}

func (w *world) job(id string) delivery.Job {
	w.t.Helper()
	j, ok := w.queue.Job(id)
	if !ok {
		w.t.Fatalf("there is no job %s", id)
	}
	return j
}

// states counts the jobs of a target by their state.
func (w *world) states(ids ...string) map[delivery.State]int {
	n := map[delivery.State]int{}
	for _, id := range ids {
		n[w.job(id).State]++
	}
	return n
}

func many(target string, n int) (jobs []delivery.Job, ids []string) {
	for i := range n {
		jobs = append(jobs, job(target, fmt.Sprintf("%s-%03d", target, i)))
		ids = append(ids, jobs[i].ID)
	}
	return jobs, ids
}

func same(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
