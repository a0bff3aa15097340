// Package deliverytest is the test suite for delivery queues, [Queue], and has one that is in memory,
// for other tests.
package deliverytest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
)

// A Memory is a queue in memory. The zero value is empty. Set Fail and Settled before the first
// use.
type Memory struct {
	Fail    func(method string) error // called before each method, which returns the error
	Settled func([]delivery.Result)   // called after each successful Settle

	mu   sync.Mutex
	jobs []*kept
	off  map[string]bool
}

type kept struct {
	delivery.Job
	leased time.Time // until this time
}

var _ delivery.Queue = (*Memory)(nil)

func (m *Memory) fail(method string) error {
	if m.Fail == nil {
		return nil
	}
	return m.Fail(method)
}

// Add adds jobs. If one of them is invalid, it adds none. It ignores jobs with an existing ID.
func (m *Memory) Add(_ context.Context, jobs ...delivery.Job) error {
	for i := range jobs {
		if j := &jobs[i]; j.ID == "" || j.Target == "" || j.State != "" && !known(j.State) || len(j.Event) > 0 && !json.Valid(j.Event) {
			return fmt.Errorf("delivery %q for %q in the state %q is not valid", j.ID, j.Target, j.State)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range jobs {
		if m.find(j.ID) != nil {
			continue
		}
		if j.State == "" {
			j.State = delivery.Waiting
		}
		m.jobs = append(m.jobs, &kept{Job: j})
	}
	return nil
}

func known(s delivery.State) bool {
	return s == delivery.Waiting || s == delivery.Delivered || s == delivery.Dead
}

func (m *Memory) find(id string) *kept {
	for _, k := range m.jobs {
		if k.ID == id {
			return k
		}
	}
	return nil
}

// Lease implements delivery.Queue.
func (m *Memory) Lease(ctx context.Context, now time.Time, lease time.Duration, n int, except []string) ([]delivery.Job, error) {
	if err := m.fail("Lease"); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var jobs []delivery.Job
	for _, k := range m.ready(except) {
		if len(jobs) < n && !k.Next.After(now) && !k.leased.After(now) {
			k.leased = now.Add(lease)
			jobs = append(jobs, k.Job)
		}
	}
	return jobs, nil
}

// ready returns the jobs that only wait for their time.
func (m *Memory) ready(except []string) []*kept {
	var ready []*kept
	first := make(map[[2]string]bool)
	for _, k := range m.jobs {
		if k.State != delivery.Waiting {
			continue
		}
		line := [2]string{k.Target, k.Session}
		behind := k.Ordered && first[line]
		if first[line] = true; behind {
			continue
		}
		if !m.off[k.Target] && !slices.Contains(except, k.Target) {
			ready = append(ready, k)
		}
	}
	return ready
}

// Settle implements delivery.Queue.
func (m *Memory) Settle(_ context.Context, results []delivery.Result) error {
	if err := m.fail("Settle"); err != nil {
		return err
	}
	for _, r := range results {
		if !known(r.State) {
			return fmt.Errorf("unknown state %q", r.State)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range results {
		k := m.find(r.ID)
		if k == nil {
			continue
		}
		if r.Off {
			m.switchOff(k.Target)
		}
		if k.State != delivery.Waiting && (k.State != delivery.Dead || r.State != delivery.Delivered) {
			continue
		}
		k.leased = time.Time{}
		if r.Untried {
			continue
		}
		k.State, k.Next, k.Status, k.Error = r.State, r.Next, r.Status, r.Error
		k.Tries++
		if k.State != delivery.Waiting {
			k.Ended = r.At
		}
	}
	if m.Settled != nil {
		m.Settled(results)
	}
	return nil
}

func (m *Memory) switchOff(target string) {
	if m.off == nil {
		m.off = make(map[string]bool)
	}
	m.off[target] = true
}

// NextDue implements delivery.Queue.
func (m *Memory) NextDue(context.Context) (time.Time, error) {
	if err := m.fail("NextDue"); err != nil {
		return time.Time{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var next time.Time
	for i, k := range m.ready(nil) {
		at := k.Next
		if k.leased.After(at) {
			at = k.leased
		}
		if at.IsZero() {
			at = time.Unix(0, 0)
		}
		if i == 0 || at.Before(next) {
			next = at
		}
	}
	return next, nil
}

// Retry makes dead jobs due again, with as many attempts as new jobs. It returns their number.
func (m *Memory) Retry(_ context.Context, ids ...string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, id := range ids {
		if k := m.find(id); k != nil && k.State == delivery.Dead {
			k.State, k.Tries, k.Next, k.Ended = delivery.Waiting, 0, time.Time{}, time.Time{}
			n++
		}
	}
	return n, nil
}

// SwitchOn resumes deliveries to a target.
func (m *Memory) SwitchOn(_ context.Context, target string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.off, target)
	return nil
}

// Job returns a job, and whether it exists.
func (m *Memory) Job(id string) (delivery.Job, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.find(id); k != nil {
		return k.Job, true
	}
	return delivery.Job{}, false
}

// Off returns the targets that are off, sorted.
func (m *Memory) Off() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.off))
}
