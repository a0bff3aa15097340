package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int][2]time.Duration{ // without jitter, and with the maximum jitter
		0: {0, 0}, 1: {0, 0}, 2: {50 * time.Millisecond, 100 * time.Millisecond}, 3: {100 * time.Millisecond, 200 * time.Millisecond},
		6: {800 * time.Millisecond, 1600 * time.Millisecond}, 11: {15 * time.Second, 30 * time.Second}, 1000: {15 * time.Second, 30 * time.Second},
	} {
		if least, most := backoff(failures, 0), backoff(failures, 0.999999); least != want[0] || most > want[1] || most < want[1]*99/100 {
			t.Errorf("after %d failures the pause is from %v to %v, want from %v to %v", failures, least, most, want[0], want[1])
		}
	}
}

// After a program has worked for a while, its next failure is counted as the first.
func TestSteadyForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			worked time.Duration
			want   int
		}{{steady, 1}, {steady - 1, 8}} {
			w := &Worker{failures: 7}
			i := &instance{worker: w, broken: make(chan struct{}), stop: func(error) {}, greeted: time.Now()}
			time.Sleep(tt.worked)
			i.fail(io.EOF)
			if i.fail(io.ErrUnexpectedEOF); w.failures != tt.want || !errors.Is(i.err, io.EOF) {
				t.Errorf("after %v of work: %d failures in a row, %v; want %d", tt.worked, w.failures, i.err, tt.want)
			}
		}
	})
}

// Close does not wait for callers that wait for the end of a pause: it ends with ctx. It also does
// not report a program as killed if the program had ended before.
func TestCloseInPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{retry: time.Now().Add(longestPause)}
		w.now = &instance{worker: w, err: io.EOF, ended: make(chan struct{})}
		w.now.lines.more.L = &w.now.lines.mu
		close(w.now.ended)
		w.asking.Add(1)
		waited := make(chan error, 1)
		go func() {
			defer w.asking.Done()
			_, err := w.instance(context.Background(), w.now)
			waited <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		err := w.Close(ctx)
		if took := time.Since(begin); took != time.Second || err != nil {
			t.Errorf("Close took %v, %v; want a second", took, err)
		}
		if err := <-waited; !errors.Is(err, errClosed) {
			t.Errorf("who waited is told %v, want that it was closed", err)
		}
	})
}

func TestQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q queue
		q.more.L = &q.mu
		var got []byte
		go func() {
			p := make([]byte, 3)
			for {
				n, err := q.Read(p)
				if got = append(got, p[:n]...); err != nil {
					got = append(got, "EOF"...)
					return
				}
			}
		}()
		synctest.Wait()
		q.push([]byte("one\n"))
		synctest.Wait()
		q.push([]byte("two\n"))
		_ = q.Close()
		synctest.Wait()
		if string(got) != "one\ntwo\nEOF" {
			t.Errorf("read %q", got)
		}
	})
}

func TestTail(t *testing.T) {
	t.Parallel()
	var also bytes.Buffer
	stderr := tail{also: &also}
	text := strings.Repeat("0123456789", 1000)
	for _, part := range []string{text, text[:100], "\xffend\n"} {
		if n, err := stderr.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if len(stderr.kept) != tailSize || !strings.HasSuffix(stderr.last(), "789\ufffdend") || also.Len() != 10_105 {
		t.Errorf("kept %d bytes, %q, and passed %d on", len(stderr.kept), stderr.last(), also.Len())
	}
}

// FuzzSplitter: however output is cut into pieces, the lines are the same. A line that is too long
// is reported once, with its beginning only.
func FuzzSplitter(f *testing.F) {
	f.Add([]byte("{}\n\n{\"a\":1}\r\nlong long line\nx"), 3, 8)
	f.Add([]byte("\n\n \n"), 1, 0)
	f.Fuzz(func(t *testing.T, output []byte, piece, limit int) {
		if piece < 1 || limit < 0 || limit > 1<<20 {
			return
		}
		var want []string
		for line := range bytes.SplitSeq(output, []byte("\n")) {
			switch {
			case len(line) > limit:
				want = append(want, "cut "+string(line[:limit]))
			case len(bytes.TrimSpace(line)) > 0:
				want = append(want, string(line))
			}
		}
		var got []string
		s := splitter{head: head{limit: limit}, each: func(line []byte, cut bool) {
			if cut {
				got = append(got, "cut "+string(line))
			} else {
				got = append(got, string(line))
			}
		}}
		for rest := output; len(rest) > 0; {
			n := min(piece, len(rest))
			if wrote, err := s.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("Write = %d, %v, want all %d", wrote, err, n)
			}
			rest = rest[n:]
		}
		s.flush()
		if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
			t.Errorf("%q in pieces of %d gives\n%q, want\n%q", output, piece, a, b)
		}
	})
}
