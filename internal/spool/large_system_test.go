//go:build system

// These tests start no program, but they take too long with the race detector, which the system
// tier does not use.

package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Counts are removed when they expire, when a wrong clock gave them a time too far in the
// future, and when there are too many.
func TestCountsAreSwept(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	keys := func() []string {
		t.Helper()
		var keys []string
		for _, key := range []string{"over", "too far", "holds", "new"} {
			if data, _ := s.Counted(key); data != nil {
				keys = append(keys, key)
			}
		}
		return keys
	}
	untils := map[string]time.Duration{"over": -time.Second, "too far": 2 * MaxCountAge, "holds": time.Hour}
	for key := range untils {
		count(t, s, key, "1")
	}
	for key, until := range untils {
		at := time.Now().Add(until)
		if err := os.Chtimes(s.countFile(key), at, at); err != nil {
			t.Fatal(err)
		}
	}
	count(t, s, "holds", "2") // increases an existing count, which removes nothing
	if got := keys(); len(got) != 3 {
		t.Errorf("%q are left", got)
	}
	count(t, s, "new", "1")
	if got := keys(); !slices.Equal(got, []string{"holds", "new"}) {
		t.Errorf("%q are left, want holds and new", got)
	}

	for i := range MaxCounts { // create the files directly
		put(t, filepath.Join(dir, countsDir), fmt.Sprintf("%032x", i), nil)
	}
	soon := time.Now().Add(MaxCountAge / 2)
	entries, err := os.ReadDir(filepath.Join(dir, countsDir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Chtimes(filepath.Join(dir, countsDir, e.Name()), soon, soon); err != nil {
			t.Fatal(err)
		}
	}
	count(t, s, "one more", "1")
	if entries, _ = os.ReadDir(filepath.Join(dir, countsDir)); len(entries) > MaxCounts {
		t.Errorf("%d counts are kept, want at most %d", len(entries), MaxCounts)
	}
}
