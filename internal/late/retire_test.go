package late_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/testhelp/segments"
	"github.com/grapnel-dev/grapnel/local"
)

// Without a daemon, segments are sealed and removed when one was closed, or when the policy has other limits. Nothing is
// removed if the clock may be wrong, or the limits are unknown.
func TestRetire(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		policy string
		idle   time.Duration // since the last write to the newest closed segment
		want   []int         // segments that are left
	}{
		"default":    {"", 0, []int{2, 3}},
		"a policy":   {"version: 1\nretention: {days: 10}\n", 0, []int{3}},
		"no policy":  {"version: 1\nretention: {days: 10\n", 0, []int{1, 2, 3}},
		"long pause": {"", 31 * 24 * time.Hour, []int{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			place := local.Place{Policy: filepath.Join(dir, "grapnel.yaml"), State: filepath.Join(dir, "state")}
			if c.policy != "" {
				if err := os.WriteFile(place.Policy, []byte(c.policy), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for i, days := range []int{120, 100, 20} {
				segments.Write(t, place.Journal(), i+1, now.AddDate(0, 0, -days), `{"id":"a","time":"2026-03-04T05:06:07Z"}`)
			}
			written := now.Add(-c.idle)
			if err := os.Chtimes(filepath.Join(place.Journal(), "00000002.jsonl"), written, written); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := late.Retire(place, now); err != nil {
					t.Fatal(err)
				}
				left, err := journal.Numbers(place.Journal())
				if err != nil {
					t.Fatal(err)
				}
				if len(left) > 0 && left[len(left)-1] == 4 { // the open segment was old, and closed
					left = left[:len(left)-1]
				}
				if diff := cmp.Diff(c.want, left); diff != "" {
					t.Errorf("segments (-want +got):\n%s", diff)
				}
			}
			m, err := journal.ReadManifest(place.Journal())
			if err != nil || len(m.Segments) < 2 {
				t.Errorf("%d segments are sealed, %v", len(m.Segments), err)
			}
		})
	}
}
