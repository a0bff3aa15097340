//go:build unix

package logfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// The log has a maximum size and one older file, and contains the last output of a process.
func TestLogFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	l := &File{name: name, file: f, max: 100}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() { fmt.Fprintf(l, "line %02d\n", i) })
	}
	wg.Wait()
	now, err := os.ReadFile(name)
	old, oldErr := os.ReadFile(Old(name))
	if err != nil || oldErr != nil || len(now) > 100 || len(old) > 100 || len(old) < 90 {
		t.Errorf("the log has %d bytes, the old one %d (%v, %v)", len(now), len(old), err, oldErr)
	}
	if long := strings.Repeat("x", 300) + "\n"; true { // a line that is longer than the limit is kept completely
		fmt.Fprint(l, long)
		if now, err = os.ReadFile(name); err != nil || string(now) != long {
			t.Errorf("the log holds %q, %v", now, err)
		}
	}
	// If the log cannot be renamed, it continues to grow.
	if err := os.Remove(Old(name)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(Old(name), "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(l, "after\n")
	if now, err = os.ReadFile(name); err != nil || !strings.HasSuffix(string(now), "x\nafter\n") {
		t.Errorf("the log ends with %q, %v", now[max(0, len(now)-20):], err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(pipe); err == nil {
		t.Error("a pipe is taken for a log")
	}
}

// A shared is a buffer that a test can read at any time.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// Tail prints every line once and in order, across rotations of the file, and without control
// characters.
func TestTail(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	put := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	for n, want := range map[int]string{0: "", 1: "d", 2: "c\nd", 9: "a\nb\nc\nd"} {
		put(Old(name), "a\nb\n")
		put(name, "c\nd")
		var out bytes.Buffer
		tail := &Tail{name: name, out: &out}
		if err := tail.Last(n); err != nil || out.String() != want {
			t.Errorf("the last %d lines are %q, %v, want %q", n, out.String(), err, want)
		}
		tail.Close()
	}
	if err := errors.Join(os.Remove(name), os.Remove(Old(name))); err != nil {
		t.Fatal(err)
	}
	var out shared
	tl := &Tail{name: name, out: &out}
	defer tl.Close()
	if err := tl.Last(3); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("last, without a log = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tl.Follow(ctx) }()
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	l := &File{name: name, file: f, max: 1000}
	var want strings.Builder
	for i := range 120 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		fmt.Fprint(l, line)
		if i%40 == 39 { // so that the reader sees each file before it is removed
			await.Until(t, "all lines are printed", func() bool { return out.String() == want.String() })
		}
	}
	fmt.Fprint(l, "\x1b[31mred\xff\n")
	await.Until(t, "the last line is printed without control characters", func() bool { return strings.HasSuffix(out.String(), "\uFFFD[31mred\uFFFD\n") })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = l.Close()
}
