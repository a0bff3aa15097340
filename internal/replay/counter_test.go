package replay

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/spool"
)

// Counters are kept as long as in a Spool, and not more of them.
func TestCounterIsBounded(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	clock := clock{begin}
	c := counter{now: clock.now}
	count := func(key string, keep time.Duration) error {
		return c.Count(key, func([]byte) ([]byte, time.Duration) { return []byte(key), keep })
	}
	kept := func(key string) bool {
		data, err := c.Counted(key)
		return string(data) == key && err == nil
	}
	most := 0
	for i := range 3 * spool.MaxCounts { // all of them are still valid
		if err := count(fmt.Sprint(i), time.Hour+time.Duration(i)*time.Second); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(c.kept))
	}
	if most > spool.MaxCounts || most < spool.MaxCounts*9/10 {
		t.Errorf("kept %d, of which a Spool keeps %d", most, spool.MaxCounts)
	}
	if last := 3*spool.MaxCounts - 1; kept("0") || !kept(fmt.Sprint(last)) || !kept(fmt.Sprint(last-spool.MaxCounts/2)) {
		t.Error("those did not go that would have gone next")
	}
	clock.at = begin.Add(48 * time.Hour) // all of them have expired
	for i := range spool.MaxCounts {
		if err := count(fmt.Sprint("late", i), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.kept) > spool.MaxCounts || !kept("late0") {
		t.Errorf("kept %d, and what is needed: %v", len(c.kept), kept("late0"))
	}
	large := make([]byte, spool.MaxCount+1)
	if err := c.Count("large", func([]byte) ([]byte, time.Duration) { return large, time.Hour }); err == nil || kept("large") {
		t.Errorf("%d bytes are kept: %v", len(large), err)
	}
	if err := c.Count("none", func([]byte) ([]byte, time.Duration) { return nil, 0 }); err != nil || kept("none") {
		t.Error(errors.Join(errors.New("nothing is kept as something"), err))
	}
}
