//go:build unix

package process

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// All output that a program wrote before its end is read, even if the reader needed longer than the
// grace time and a child holds the pipe: the answer may be in it.
func TestSettleLosesNothing(t *testing.T) {
	t.Parallel()
	file, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	written := strings.Repeat("x", 40<<10)
	if _, err := io.WriteString(writer, written); err != nil {
		t.Fatal(err)
	}
	h := &head{limit: 1 << 20}
	p := &pipes{input: io.NopCloser(strings.NewReader("")), outputs: []*output{{file, h}}}
	if p.stdin, err = os.Open(os.DevNull); err != nil {
		t.Fatal(err)
	}
	p.settle(0) // no other goroutine has read the pipe
	if got := string(h.kept); got != written {
		t.Errorf("settle read %d bytes, want all %d", len(got), len(written))
	}
	if _, err := file.Stat(); err == nil {
		t.Error("settle left the pipe open")
	}
}

// settle ends even if a child writes without end.
func TestSettleEnds(t *testing.T) {
	t.Parallel()
	file, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 32<<10)
	if _, err := writer.Write(noise); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := writer.Write(noise); err != nil {
				return
			}
		}
	}()
	h := &head{limit: 1 << 10}
	p := &pipes{input: io.NopCloser(strings.NewReader("")), outputs: []*output{{file, h}}}
	p.reading.Go(func() { _, _ = io.Copy(h, file) })
	if p.stdin, err = os.Open(os.DevNull); err != nil {
		t.Fatal(err)
	}
	p.settle(10 * time.Millisecond)
	<-ended // the read end is closed
	if h.cut == 0 || len(h.kept) != 1<<10 {
		t.Errorf("settle kept %d bytes and cut %d, want the first 1024 kept", len(h.kept), h.cut)
	}
	if err := writer.Close(); err != nil {
		t.Error(err)
	}
}
