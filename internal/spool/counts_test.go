package spool

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestBlocked(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	want := func(key string, again bool, n int) {
		t.Helper()
		s, err := Open(dir, nil) // each event is handled by another process
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Blocked(key, again); got != n || err != nil {
			t.Errorf("Blocked = %d, %v, want %d", got, err, n)
		}
	}
	want("a", false, 1)
	want("a", true, 2)
	want("b", true, 1) // an unknown session starts at 1
	want("a", true, 3)
	want("a", false, 1)

	files, err := os.ReadDir(filepath.Join(dir, countsDir))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v, want a file for each session", files, err)
	}
	old := time.Now().Add(-2 * stopsAge)
	for _, file := range files {
		if err := os.Chtimes(filepath.Join(dir, countsDir, file.Name()), old, old); err != nil {
			t.Fatal(err)
		}
	}
	want("c", false, 1)
	if files, _ := os.ReadDir(filepath.Join(dir, countsDir)); len(files) != 1 {
		t.Errorf("%d counts are kept, want those of sessions that are over to be gone", len(files))
	}

	want("d", false, 1)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := s.Blocked("d", true); err != nil {
				t.Errorf("Blocked: %v", err)
			}
		})
	}
	all.Wait()
	want("d", true, 10)

	blocker := filepath.Join(dir, "file")
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere, err := Open(filepath.Join(blocker, "spool"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nowhere.Blocked("a", true); err == nil {
		t.Error("a count that cannot be kept is no error")
	}
}

func count(t testing.TB, s *Spool, key, now string) string {
	t.Helper()
	was := ""
	if err := s.Count(key, func(kept []byte) ([]byte, time.Duration) {
		was = string(kept)
		return []byte(now), time.Hour
	}); err != nil {
		t.Errorf("Count(%q): %v", key, err)
	}
	return was
}

func TestCount(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	if data, err := s.Counted("a"); data != nil || err != nil {
		t.Errorf("Counted = %q, %v, want nothing", data, err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("looking at what is not there made something")
	}
	if was := count(t, s, "a", "1"); was != "" {
		t.Errorf("a was %q", was)
	}
	count(t, s, "b", "7")
	if was := count(t, s, "a", "2"); was != "1" {
		t.Errorf("a was %q, want 1", was)
	}
	if err := s.Count("a", func([]byte) ([]byte, time.Duration) { return nil, 0 }); err != nil {
		t.Error(err)
	}
	if data, err := s.Counted("a"); string(data) != "2" || err != nil {
		t.Errorf("Counted = %q, %v, want what was kept before", data, err)
	}
	if err := s.Count("a", func([]byte) ([]byte, time.Duration) { return make([]byte, MaxCount+1), time.Hour }); err == nil {
		t.Error("a count without end is kept")
	}
}

// If nothing can be stored, the error names the place.
func TestCountWithoutAPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "file", nil)
	s, err := Open(filepath.Join(dir, "file", "spool"), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Count("a", func([]byte) ([]byte, time.Duration) {
		t.Error("it was counted all the same")
		return nil, 0
	})
	if err == nil || !strings.Contains(err.Error(), "file") {
		t.Errorf("%v, want an error that says where", err)
	}
}
