package state

import (
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// Up to 64 calls in the window, the count is exact.
func TestLimitIsExactForFew(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		per := time.Minute
		most := rapid.IntRange(1, exact).Draw(t, "most")
		now := time.Unix(1_800_000_000, 0)
		var u usage
		var all []time.Time
		for range rapid.IntRange(1, 300).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "pause")))
			within := 0
			for _, at := range all {
				if now.Sub(at) < per {
					within++
				}
			}
			u.age(now, per)
			_, free := u.take(now, per, float64(most), 1, call{})
			if free != (within < most) {
				t.Fatalf("%d of %d within the window: free = %v", within, most, free)
			}
			if free {
				all = append(all, now)
			}
		}
	})
}

// FuzzReadUsage: with any stored bytes, a limit can be used again after its period.
func FuzzReadUsage(f *testing.F) {
	for _, text := range []string{"", "{}", "null", `{"used":[{"at":1800000000000000000,"amount":5}],"calls":[{"at":1,"amount":1,"id":"x"}]}`, `{"used":[{"at":9223372036854775807,"amount":1e308},{"at":9223372036854775807,"amount":1e308}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, kept []byte) {
		u, err := readUsage(kept)
		if err != nil && (u.Used != nil || u.Calls != nil) {
			t.Errorf("%q is broken, and something of it counts: %v", kept, u)
		}
		now := time.Unix(1_800_000_000, 0)
		u.age(now, time.Minute)
		u.take(now, time.Minute, 1, 1, call{ID: "a"})
		again, err := readUsage(u.bytes())
		if err != nil {
			t.Fatalf("%q becomes %q, which cannot be read: %v", kept, u.bytes(), err)
		}
		again.age(now.Add(time.Minute), time.Minute)
		if _, free := again.take(now.Add(time.Minute), time.Minute, 1, 1, call{ID: "b"}); !free {
			t.Errorf("%q locks it for longer than a minute", kept)
		}
	})
}
