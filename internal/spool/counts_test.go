package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/counts"
	"github.com/grapnel-dev/grapnel/internal/files"
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

	if files := countFiles(t, dir); len(files) != 2 {
		t.Fatalf("%v, want a file for each session", files)
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
	if err := s.Count("o", key, func(kept []byte) ([]byte, time.Duration) {
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
	if data, err := s.Counted("o", "a"); data != nil || err != nil {
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
	if err := s.Count("o", "a", func([]byte) ([]byte, time.Duration) { return nil, 0 }); err != nil {
		t.Error(err)
	}
	if data, err := s.Counted("o", "a"); string(data) != "2" || err != nil {
		t.Errorf("Counted = %q, %v, want what was kept before", data, err)
	}
	if err := s.Count("o", "a", func([]byte) ([]byte, time.Duration) { return make([]byte, counts.MaxBytes+1), time.Hour }); err == nil {
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
	err = s.Count("o", "a", func([]byte) ([]byte, time.Duration) {
		t.Error("it was counted all the same")
		return nil, 0
	})
	if err == nil || !strings.Contains(err.Error(), "file") {
		t.Errorf("%v, want an error that says where", err)
	}
}

// countFiles returns the files of all counts.
func countFiles(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, countsDir, "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A full share refuses what is new, keeps what it has, and leaves other owners alone. The refusals are
// counted. Regression: the counts of invented sessions removed those of a running one.
func TestShareIsFull(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	count(t, s, "a", "1")
	share := filepath.Dir(s.countFile("o", "a"))
	for i := range counts.MaxKeys - 1 { // create the files directly
		put(t, share, strconv.Itoa(i), []byte("1"))
	}
	expire(t, time.Hour, countFiles(t, dir)...)
	more := func(owner string) error {
		return s.Count(owner, "more", func([]byte) ([]byte, time.Duration) { return []byte("1"), time.Hour })
	}
	if err := more("o"); !errors.Is(err, files.ErrFull) {
		t.Errorf("%v, want that the share is full", err)
	}
	if was := count(t, s, "a", "2"); was != "1" {
		t.Errorf("a known value was %q", was)
	}
	if err := more("p"); err != nil {
		t.Errorf("another owner: %v", err)
	}
	if n, last := CountsRefused(dir, time.Now()); n != 1 || last.IsZero() {
		t.Errorf("%d refusals are counted, the last at %v", n, last)
	}
	expire(t, -time.Minute, filepath.Join(share, "0"))
	if err := more("o"); err != nil {
		t.Errorf("with an expired value: %v", err)
	}
	if left := len(countFiles(t, dir)); left != counts.MaxKeys+1 {
		t.Errorf("%d values are left, want %d", left, counts.MaxKeys+1)
	}
}

// expire sets when files expire.
func expire(t testing.TB, after time.Duration, files ...string) {
	t.Helper()
	at := time.Now().Add(after)
	for _, file := range files {
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// New owners remove the shares that are over, and values with an expiry that is too far away because a
// clock was wrong. Shares with a value that holds stay.
func TestSharesExpire(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	owners := make([]string, 0, 4)
	for i := 0; len(owners) < cap(owners); i++ { // in one directory
		if owner := strconv.Itoa(i); files.Digest([]byte(owner))[:2] == "07" {
			owners = append(owners, owner)
		}
	}
	for i, after := range []time.Duration{-time.Second, 2 * counts.MaxAge, time.Hour} {
		if err := s.Count(owners[i], "k", func([]byte) ([]byte, time.Duration) { return []byte("1"), time.Hour }); err != nil {
			t.Fatal(err)
		}
		expire(t, after, s.countFile(owners[i], "k"))
	}
	for i := range 2 { // the second time, no share needs a look
		if err := s.Count(owners[3], strconv.Itoa(i), func([]byte) ([]byte, time.Duration) { return []byte("1"), time.Hour }); err != nil {
			t.Fatal(err)
		}
	}
	if files := countFiles(t, dir); len(files) != 3 {
		t.Errorf("%d values are left, want the one that holds and the new ones", len(files))
	}
	if kept, _ := s.Counted(owners[2], "k"); kept == nil {
		t.Error("a value that holds is gone")
	}
	share, err := os.Stat(filepath.Dir(s.countFile(owners[2], "k")))
	if err != nil || share.ModTime().Before(time.Now().Add(time.Minute)) {
		t.Errorf("%v, %v, want that nobody looks again before the value expires", share.ModTime(), err)
	}
}
