package counts_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/counts"
	"github.com/grapnel-dev/grapnel/internal/files"
)

func add(m *counts.Memory, owner, key string, size int) error {
	return m.Count(owner, key, func([]byte) ([]byte, time.Duration) { return make([]byte, size), time.Hour })
}

func TestMemory(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	m := &counts.Memory{Now: func() time.Time { return now }}
	for i := range counts.MaxKeys {
		if err := add(m, "o", strconv.Itoa(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(m, "o", "more", 1); !errors.Is(err, files.ErrFull) {
		t.Errorf("%v, want that the share is full", err)
	}
	if err := errors.Join(add(m, "o", "7", 2), add(m, "p", "more", 1)); err != nil {
		t.Errorf("a known value, and another owner: %v", err)
	}
	now = now.Add(2 * time.Hour)
	if err := add(m, "o", "more", 1); err != nil {
		t.Errorf("after the others expired: %v", err)
	}
	if data, _ := m.Counted("o", "7"); data != nil {
		t.Error("an expired value has the place of a new one")
	}
	if err := add(m, "o", "large", counts.MaxBytes+1); err == nil {
		t.Error("a value without limits is stored")
	}
	m.Reset()
	if data, _ := m.Counted("o", "more"); data != nil {
		t.Error("something is left after Reset")
	}
}

// Values of owners that are over do not stay in memory.
func TestMemoryForgetsOwners(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	m := &counts.Memory{Now: func() time.Time { return now }}
	if err := add(m, "first", "k", 1); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	for i := range 1 << 10 {
		if err := add(m, strconv.Itoa(i), "k", 1); err != nil {
			t.Fatal(err)
		}
	}
	if data, _ := m.Counted("first", "k"); data != nil {
		t.Error("the value of an owner that is over is left")
	}
	if data, _ := m.Counted("0", "k"); data == nil {
		t.Error("a value that holds is gone")
	}
}

func TestBlocked(t *testing.T) {
	t.Parallel()
	m := &counts.Memory{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := counts.Blocked(m, "s", true); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, err := counts.Blocked(m, "s", true); n != 9 || err != nil {
		t.Errorf("%d, %v, want 9", n, err)
	}
	if n, err := counts.Blocked(m, "s", false); n != 1 || err != nil {
		t.Errorf("a new turn begins with %d, %v", n, err)
	}
}
