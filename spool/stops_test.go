package spool

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
)

func TestBlocked(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	stop := func(session string, active bool) *grapnel.Event {
		return &grapnel.Event{Kind: grapnel.AgentAfter, Session: grapnel.Session{ID: session}, Stop: &grapnel.Stop{Active: active}}
	}
	want := func(ev *grapnel.Event, n int) {
		t.Helper()
		again, err := Open(dir, nil) // each event is another process
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.Blocked(ev); got != n || err != nil {
			t.Errorf("Blocked = %d, %v, want %d", got, err, n)
		}
	}
	want(stop("a", false), 1)
	want(stop("a", true), 2)
	want(stop("b", true), 1) // nobody knows of it: it begins anew
	want(stop("a", true), 3)
	want(stop("a", false), 1)

	files, err := os.ReadDir(filepath.Join(dir, stopsDir))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v, want a file for each session", files, err)
	}
	old := time.Now().Add(-2 * stopsAge)
	for _, file := range files {
		if err := os.Chtimes(filepath.Join(dir, stopsDir, file.Name()), old, old); err != nil {
			t.Fatal(err)
		}
	}
	want(stop("c", false), 1)
	if files, _ := os.ReadDir(filepath.Join(dir, stopsDir)); len(files) != 1 {
		t.Errorf("%d counts are kept, want those of sessions that are over to be gone", len(files))
	}

	want(stop("d", false), 1)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := s.Blocked(stop("d", true)); err != nil {
				t.Errorf("Blocked: %v", err)
			}
		})
	}
	all.Wait()
	want(stop("d", true), 10)

	blocker := filepath.Join(dir, "file")
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere, err := Open(filepath.Join(blocker, "spool"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nowhere.Blocked(stop("a", true)); err == nil {
		t.Error("a count that cannot be kept is no error")
	}
}
