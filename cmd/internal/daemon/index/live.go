package index

import (
	"context"
	"sync"
)

// Live is a message to a subscriber: a Row, and how many earlier rows were dropped for it.
type Live struct {
	Row
	Dropped int // rows before this one that were dropped
}

// waitingRows is how many rows are queued for a slow subscriber.
const waitingRows = 1024

// hub passes rows to subscribers.
type hub struct {
	mu     sync.Mutex
	subs   map[*sub]struct{}
	closed bool
	wait   sync.WaitGroup
}

// sub is one subscription. Its rows wait in a slice and not in the channel, so that the oldest
// can be dropped.
type sub struct {
	mu      sync.Mutex
	rows    []*Row // shared with other subscriptions
	dropped int
	more    chan struct{}
	end     context.CancelFunc
}

// Subscribe returns a channel that receives rows in order after they were appended. Input is
// left out. The channel is closed when ctx is done or the Index is closed. If the subscriber is
// slow, its oldest waiting rows are dropped, and the next Live has their number.
func (x *Index) Subscribe(ctx context.Context) <-chan Live { return x.live.subscribe(ctx) }

func (h *hub) subscribe(ctx context.Context) <-chan Live {
	out := make(chan Live)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(out)
		return out
	}
	if h.subs == nil {
		h.subs = map[*sub]struct{}{}
	}
	ctx, end := context.WithCancel(ctx)
	q := &sub{more: make(chan struct{}, 1), end: end}
	h.subs[q] = struct{}{}
	h.wait.Go(func() {
		defer close(out)
		defer end()
		q.pass(ctx, out)
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, q)
	})
	return out
}

// pass sends queued rows to the channel.
func (q *sub) pass(ctx context.Context, out chan<- Live) {
	for {
		select {
		case <-q.more:
		case <-ctx.Done():
			return
		}
		for {
			next, ok := q.take()
			if !ok {
				break
			}
			select {
			case out <- next:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (q *sub) take() (Live, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.rows) == 0 {
		return Live{}, false
	}
	next := Live{Row: *q.rows[0], Dropped: q.dropped}
	q.rows[0] = nil
	q.rows, q.dropped = q.rows[1:], 0
	return next, true
}

// any reports whether there are subscribers.
func (h *hub) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs) > 0
}

// publish passes new rows to all subscribers.
func (h *hub) publish(rows []Row) {
	if len(rows) == 0 {
		return
	}
	all := make([]*Row, len(rows))
	for i := range rows {
		all[i] = &rows[i]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for q := range h.subs {
		q.mu.Lock()
		q.rows = append(q.rows, all...)
		if over := len(q.rows) - waitingRows; over > 0 {
			clear(q.rows[:over])
			q.rows, q.dropped = q.rows[over:], q.dropped+over
		}
		q.mu.Unlock()
		select {
		case q.more <- struct{}{}:
		default:
		}
	}
}

// close ends all subscriptions and waits for them.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	for q := range h.subs {
		q.end()
	}
	h.mu.Unlock()
	h.wait.Wait()
}
