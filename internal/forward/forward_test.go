package forward_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/forward"
)

// log is a Source in memory.
type log struct {
	mu      sync.Mutex
	lines   []forward.Line
	removed int64 // rows up to this one are gone
}

// add adds lines. A text is ID, ID-PART or ID-PART-MORE.
func (l *log) add(texts ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range texts {
		words := strings.Split(text+"-", "-")
		l.lines = append(l.lines, forward.Line{Seq: int64(len(l.lines) + 1), ID: words[0], Part: words[1], Text: []byte(text), Digest: sha256.Sum256([]byte(text))})
	}
}

func (l *log) Lines(_ context.Context, after int64, n int) ([]forward.Line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := min(max(after, l.removed), int64(len(l.lines)))
	return slices.Clone(l.lines[from:min(int(from)+n, len(l.lines))]), nil
}

func (l *log) Keys(_ context.Context, upTo int64) (keys []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.lines[:upTo] {
		keys = append(keys, l.lines[i].Key())
	}
	return keys, nil
}

func (l *log) DigestAt(_ context.Context, seq int64) (h forward.Hash, found bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq <= l.removed || seq > int64(len(l.lines)) {
		return h, false, nil
	}
	return l.lines[seq-1].Digest, true, nil
}

func (l *log) RemovedAfter(_ context.Context, seq int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.removed-max(seq, 0)), nil
}

// server is what outlives connections.
type server struct {
	mu      sync.Mutex
	away    bool
	at      forward.Position
	keys    []string
	texts   []string
	rewound bool // the connection leaves out keys that it has
	missed  int64
	rewinds int
	move    int // how many Sends fail because another process has sent first
	dials   int
}

var errAway = errors.New("the server is away")

func (s *server) dial(context.Context) (forward.Target, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials++
	if s.away {
		return nil, errAway
	}
	s.rewound = false
	return connection{s}, nil
}

func (s *server) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *server) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.texts)
}

type connection struct{ *server }

func (c connection) Position(context.Context) (forward.Position, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at, nil
}

func (c connection) Rewind(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rewinds++
	c.rewound = true
	return nil
}

func (c connection) Send(_ context.Context, from forward.Position, lines []forward.Line, missed int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	moved := c.move > 0
	switch {
	case c.away:
		return errAway
	case from != c.at:
		return fmt.Errorf("from %v, but the position is %v", from, c.at)
	case moved:
		c.move--
		lines = lines[:1]
	}
	for i := range lines {
		if key := lines[i].Key(); !c.rewound || !slices.Contains(c.keys, key) {
			c.keys, c.texts = append(c.keys, key), append(c.texts, string(lines[i].Text))
		}
	}
	last := lines[len(lines)-1]
	c.at = forward.Position{Seq: last.Seq, Digest: last.Digest}
	c.missed += missed
	if moved {
		return forward.ErrMoved
	}
	return nil
}

func (c connection) Warning() string { return "" }
func (c connection) Close() error    { return nil }

func once(t *testing.T, l *log, s *server) *forward.Forwarder {
	t.Helper()
	f := &forward.Forwarder{Source: l, Dial: s.dial}
	if err := f.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func ids(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("id%05d", i))
	}
	return all
}

func TestOnce(t *testing.T) {
	t.Parallel()
	l, s := &log{}, &server{}
	once(t, l, s)
	all := ids(2500) // more than two batches
	l.add(all...)
	f := once(t, l, s)
	if got := f.State(); got.Sent != 2500 || got.At.Seq != 2500 || !got.Reached || got.Error != "" {
		t.Errorf("State: %+v", got)
	}
	once(t, l, s)
	if diff := cmp.Diff(all, s.list()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// A large line does not stop others.
func TestLargeLines(t *testing.T) {
	t.Parallel()
	l, s := &log{}, &server{}
	l.add("a", strings.Repeat("b", 3<<20), strings.Repeat("c", 3<<20), "d")
	once(t, l, s)
	if got := s.list(); len(got) != 4 {
		t.Errorf("%d lines, want 4", len(got))
	}
}

// Retention has removed lines: before the position they are not needed, after it they are
// counted.
func TestRemoved(t *testing.T) {
	t.Parallel()
	l, s := &log{}, &server{}
	l.add(ids(10)...)
	once(t, l, s)
	l.removed = 10
	l.add("a", "b", "c", "d")
	once(t, l, s)
	if s.rewinds != 0 || s.missed != 0 || len(s.keys) != 14 {
		t.Fatalf("%d rewinds, %d missed, %d lines, want 0, 0, 14", s.rewinds, s.missed, len(s.keys))
	}
	l.add("e", "f", "g")
	l.removed = 16
	f := once(t, l, s)
	if s.rewinds != 0 || s.missed != 2 || f.State().Missed != 2 || s.list()[14] != "g" {
		t.Errorf("%d rewinds, %d missed, lines %q, want 0, 2 and g", s.rewinds, s.missed, s.list()[14:])
	}
}

// The log is another one than before: a restored backup, or a new database.
func TestAnotherLog(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{"shorter": {"x", "y"}, "longer": ids(30), "restored": slices.Concat(ids(3), []string{"x", "y"}), "empty": nil} {
		l, s := &log{}, &server{}
		l.add("a", "b", "c")
		l.add(ids(3)...)
		once(t, l, s)
		before := len(s.keys)
		l = &log{}
		l.add(lines...)
		once(t, l, s)
		once(t, l, s)
		if s.rewinds == 0 {
			t.Errorf("%s: no rewind", name)
		}
		for _, id := range lines {
			if !slices.Contains(s.texts, id) {
				t.Errorf("%s: line %s is missing", name, id)
			}
		}
		if unique := slices.Compact(slices.Sorted(slices.Values(s.keys))); len(unique) != len(s.keys) || len(s.keys) < before {
			t.Errorf("%s: lines %q", name, s.keys)
		}
	}
}

// The target has lines without a position, and retention has removed lines.
func TestNoPosition(t *testing.T) {
	t.Parallel()
	l, s := &log{}, &server{at: forward.Position{Seq: -1}, keys: []string{"id00003-"}}
	l.add(ids(5)...)
	l.removed = 2
	once(t, l, s)
	if s.rewinds != 1 || s.missed != 0 || len(s.keys) != 3 {
		t.Errorf("%d rewinds, %d missed, lines %q, want 1, 0 and three lines", s.rewinds, s.missed, s.keys)
	}
}

// Lines of a process that was killed arrive late.
func TestMoved(t *testing.T) {
	t.Parallel()
	l, s := &log{}, &server{move: 3}
	l.add(ids(10)...)
	once(t, l, s)
	if diff := cmp.Diff(ids(10), s.list()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	s.move = 100
	l.add("a", "b", "c", "d", "e", "f", "g", "h")
	if err := (&forward.Forwarder{Source: l, Dial: s.dial}).Once(t.Context()); !errors.Is(err, forward.ErrMoved) {
		t.Errorf("with another process that sends all the time: %v, want ErrMoved", err)
	}
}

// An hour without the server loses nothing, and the server gets few attempts.
func TestServerAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := &log{}, &server{}
		l.add(ids(3)...)
		ctx, stop := context.WithCancel(t.Context())
		var states []forward.State
		f := &forward.Forwarder{Source: l, Dial: s.dial, Changed: func(st forward.State) { states = append(states, st) }}
		done := make(chan struct{})
		go func() { f.Run(ctx); close(done) }()
		time.Sleep(2 * time.Second)
		s.setAway(true)
		l.add(ids(50)[3:]...)
		time.Sleep(time.Hour)
		if got := f.State(); got.Error != errAway.Error() || got.Sent != 3 {
			t.Errorf("while the server is away: %+v", got)
		}
		if s.dials > 100 {
			t.Errorf("%d attempts in an hour, want about one a minute", s.dials)
		}
		s.setAway(false)
		time.Sleep(2 * time.Minute)
		if diff := cmp.Diff(ids(50), s.list()); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
		if got := f.State(); got.Error != "" || got.Sent != 50 || states[len(states)-1] != got {
			t.Errorf("after that: %+v", got)
		}
		l.add("new")
		time.Sleep(2 * time.Second)
		if len(s.list()) != 51 {
			t.Error("a new line is not sent within two seconds")
		}
		stop()
		<-done
	})
}

// An event was answered twice: a target gets the first line with each key, wherever a batch or a connection ends.
func TestAnsweredTwice(t *testing.T) {
	t.Parallel()
	lines := []string{"x-none", "y-block", "x-none-again", "x-block", "y-block-again", "x-block-again", "x-none", "z-none"}
	want := []string{"x-none", "y-block", "x-block", "z-none"}
	for split := range len(lines) + 1 {
		l, s := &log{}, &server{}
		l.add(lines[:split]...)
		f := once(t, l, s)
		if at := f.State().At; at.Seq != int64(split) {
			t.Errorf("after %d lines: the target has all up to line %d", split, at.Seq)
		}
		l.add(lines[split:]...)
		once(t, l, s)
		f = once(t, l, s)
		if diff := cmp.Diff(want, s.list()); diff != "" || s.rewinds != 0 || s.missed != 0 || f.State().At.Seq != 8 || f.State().Sent != 0 {
			t.Errorf("in two parts, after line %d: %d rewinds, %d missed, %+v, lines (-want +got):\n%s", split, s.rewinds, s.missed, f.State(), diff)
		}
		s.at.Seq = 100 // of another log
		once(t, l, s)
		if diff := cmp.Diff(want, s.list()); diff != "" || s.rewinds != 1 {
			t.Errorf("after a rewind, %d: lines (-want +got):\n%s", s.rewinds, diff)
		}
	}
	// A whole batch that is not sent does not end the log, and retention has not removed it unsent.
	l, s := &log{}, &server{}
	l.add("x-none")
	l.add(slices.Repeat([]string{"x-none-again"}, 2500)...)
	l.add("x-block")
	f := once(t, l, s)
	l.removed = 2502
	l.add("y-none")
	once(t, l, s)
	if diff := cmp.Diff([]string{"x-none", "x-block", "y-none"}, s.list()); diff != "" || f.State().Sent != 2 || s.missed != 0 {
		t.Errorf("%d missed, %+v, lines (-want +got):\n%s", s.missed, f.State(), diff)
	}
}

// Retention removes lines behind others that were not sent because of their keys.
func TestRemovedAfterSecondAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := &log{}, &server{}
		l.add("x")
		ctx, stop := context.WithCancel(t.Context())
		f := &forward.Forwarder{Source: l, Dial: s.dial}
		done := make(chan struct{})
		go func() { f.Run(ctx); close(done) }()
		time.Sleep(2 * time.Second)
		l.add("x--again")
		time.Sleep(2 * time.Second)
		l.add("y", "z")
		l.mu.Lock()
		l.removed = 3
		l.mu.Unlock()
		time.Sleep(2 * time.Second)
		stop()
		<-done
		if diff := cmp.Diff([]string{"x", "z"}, s.list()); diff != "" || s.missed != 1 {
			t.Errorf("%d missed, want 1; lines (-want +got):\n%s", s.missed, diff)
		}
	})
}

// Two firings never have the same key.
func TestKey(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]forward.Line{
		{{ID: "x", Part: "none"}, {ID: "x", Part: "block"}},
		{{ID: "x-none", Part: "block"}, {ID: "x", Part: "none"}},
		{{ID: "x-none", Part: "none"}, {ID: "x", Part: "none"}},
		{{ID: "", Part: "none"}, {ID: "x", Part: "none"}},
	} {
		if pair[0].Key() == pair[1].Key() {
			t.Errorf("%+v and %+v have the key %s", pair[0], pair[1], pair[0].Key())
		}
	}
}
