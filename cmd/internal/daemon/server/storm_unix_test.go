//go:build linux || darwin

package server

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// If many daemons listen at once, exactly one succeeds and can be reached: the others do not take
// its socket for a stale one.
//
// chaos: daemons
func TestListenAtOnce(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "gr-") //nolint:usetesting // a socket path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "daemon", "socket")
	for range 20 {
		listeners := make([]*Listener, 16)
		var wait sync.WaitGroup
		for i := range listeners {
			wait.Go(func() {
				l, err := Listen(socket)
				if err != nil && !errors.Is(err, ErrRunning) {
					t.Errorf("Listen = %v", err)
				}
				listeners[i] = l
			})
		}
		wait.Wait()
		n := 0
		for _, l := range listeners {
			if l == nil {
				continue
			}
			n++
			conn, err := net.Dial("unix", socket)
			if err != nil {
				t.Fatalf("it cannot be reached: %v", err)
			}
			_ = conn.Close()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if n != 1 {
			t.Fatalf("%d listen", n)
		}
		if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the socket is left behind: %v", err)
		}
	}
}
