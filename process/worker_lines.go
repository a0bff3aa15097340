package process

import (
	"bytes"
	"io"
	"sync"
)

// A queue holds lines until a program reads them. Its callers limit its size.
type queue struct {
	mu     sync.Mutex
	more   sync.Cond
	lines  [][]byte
	closed bool
}

func (q *queue) push(line []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = append(q.lines, line)
	q.more.Signal()
}

// Read blocks until a line is available or the queue is closed.
func (q *queue) Read(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.lines) == 0 && !q.closed {
		q.more.Wait()
	}
	if len(q.lines) == 0 {
		return 0, io.EOF
	}
	n := copy(p, q.lines[0])
	if q.lines[0] = q.lines[0][n:]; len(q.lines[0]) == 0 {
		q.lines = q.lines[1:]
	}
	return n, nil
}

// Close marks the end of the lines. Read returns io.EOF after the last one.
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
	return nil
}

// A splitter splits its input into lines and passes them to each, without line ends and blank
// lines. If a line is longer than the limit of head, it passes the beginning immediately and
// drops the rest.
type splitter struct {
	head
	each func(line []byte, cut bool)
}

// Write never fails; see head.Write.
func (s *splitter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		given := s.cut > 0
		_, _ = s.head.Write(line)
		if s.cut > 0 && !given {
			s.each(s.kept, true)
		}
		if whole {
			s.flush()
		}
		rest = after
	}
	return len(p), nil
}

// flush passes the current line to each.
func (s *splitter) flush() {
	if s.cut == 0 && len(bytes.TrimSpace(s.kept)) > 0 {
		s.each(s.kept, false)
	}
	s.kept, s.cut = nil, 0 // a new slice, because each may keep the line
}

// A tail keeps the last bytes of its input.
type tail struct {
	mu   sync.Mutex
	kept []byte
	also io.Writer // gets all of the input; nil = not used
}

const tailSize = 4 << 10

// Write never fails; see head.Write.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.kept = append(t.kept, p[max(0, len(p)-tailSize):]...)
	if over := len(t.kept) - tailSize; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	t.mu.Unlock()
	if t.also != nil {
		_, _ = t.also.Write(p)
	}
	return len(p), nil
}

// last returns the end of the kept bytes, to append to an error.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return (&Output{Head: t.kept}).last()
}
