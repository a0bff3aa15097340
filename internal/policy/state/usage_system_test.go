//go:build system

// These tests start no program, but they take too long with the race detector, which the system
// tier does not use.

package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// For any timing of calls, no window lets more through than the limit. A limit that was not
// used for its period lets a call through, for any change of the clock.
func TestLimitLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		per := time.Duration(rapid.Int64Range(int64(MinPer), int64(time.Hour)).Draw(t, "per"))
		most := float64(rapid.IntRange(1, 200).Draw(t, "most"))
		now := time.Unix(1_800_000_000, 0)
		type through struct {
			at     time.Time
			amount float64
		}
		var all []through
		var u usage
		for i := range rapid.IntRange(1, 400).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(per)/rapid.SampledFrom([]int64{1, 10, 100, 1000}).Draw(t, "pace")).Draw(t, "pause")))
			amount := float64(rapid.IntRange(0, 3).Draw(t, "amount"))
			if i%50 == 49 { // like another process
				kept := u.bytes()
				var err error
				if u, err = readUsage(kept); err != nil || len(kept) > 16<<10 {
					t.Fatalf("%d bytes that were kept cannot be read: %v\n%s", len(kept), err, kept)
				}
			}
			u.age(now, per)
			wait, free := u.take(now, per, most, amount, call{ID: fmt.Sprint(i)})
			if len(u.Used) > exact+coarse+1 {
				t.Fatalf("%d entries are kept", len(u.Used))
			}
			if !free {
				if wait < 0 || wait > per || wait == 0 && amount <= most {
					t.Fatalf("%v of %v are to wait %v", amount, most, wait)
				}
				later := usage{Used: slices.Clone(u.Used)}
				later.age(now.Add(wait), per)
				if _, free := later.take(now.Add(wait), per, most, amount, call{}); !free && wait > 0 {
					t.Fatalf("after the %v it was told to wait, it is not free", wait)
				}
				continue
			}
			all = append(all, through{now, amount})
			sum := 0.0
			for _, c := range all {
				if now.Sub(c.at) < per {
					sum += c.amount
				}
			}
			if sum > most {
				t.Fatalf("%v were let through in %v, and the limit is %v", sum, per, most)
			}
		}
		jump := time.Duration(rapid.Int64Range(-int64(1000*time.Hour), int64(1000*time.Hour)).Draw(t, "jump"))
		u.age(now.Add(jump), per)
		u.age(now.Add(jump+per), per)
		if _, free := u.take(now.Add(jump+per), per, most, 1, call{ID: "new"}); !free {
			t.Fatalf("a clock that jumped by %v locks it for longer than %v: %s", jump, per, u.bytes())
		}
	})
}
