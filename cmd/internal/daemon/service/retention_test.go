package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// putRecord stores the Record of a firing at a time.
func putRecord(t *testing.T, s *store.Store, id string, at time.Time) {
	t.Helper()
	text, err := json.Marshal(spool.Entry{Record: grapnel.Record{ID: id, Time: at, Agent: "claude-code", Session: "s1", Event: grapnel.ToolBefore, Tool: "Bash"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), store.Item{Line: append(text, '\n')}); err != nil {
		t.Fatal(err)
	}
}

// Old Records are removed, also after a night in which the machine slept. Records that only look
// old because the clock was changed are kept, unless the clock stays that way.
//
// chaos: clock
func TestRetention(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	begun := rightNow()
	type look struct {
		clock, up time.Duration // since the start of the daemon
		left      string        // Records by age in days, in the order in which they were stored
		logged    string
	}
	for name, looks := range map[string][]look{
		"the years go by":           {{0, 0, "80 0", ""}, {time.Hour, time.Hour, "80 0", ""}, {11 * day, 11 * day, "0", ""}, {91 * day, 91 * day, "", ""}},
		"set ahead":                 {{0, 0, "80 0", ""}, {400 * day, time.Hour, "80 0", "for a day"}, {400*day + time.Hour, 2 * time.Hour, "80 0", ""}},
		"set ahead and back":        {{400 * day, time.Hour, "80 0", "for a day"}, {2 * time.Hour, 2 * time.Hour, "80 0", "for a day"}, {11 * day, 11 * day, "0", ""}},
		"set ahead, and stays":      {{400 * day, time.Hour, "80 0", "for a day"}, {401 * day, 25 * time.Hour, "", ""}},
		"set back":                  {{-400 * day, time.Hour, "80 0", "for a day"}, {-300 * day, 100 * day, "80 0", ""}},
		"a little":                  {{59 * time.Minute, 0, "80 0", ""}, {11*day + 59*time.Minute, 11 * day, "0", ""}},
		"a little, again and again": {{50 * time.Minute, 0, "80 0", ""}, {100 * time.Minute, 0, "80 0", "for a day"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			s, err := store.Open(filepath.Join(t.TempDir(), "store"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, days := range []int{100, 80, 0} {
				putRecord(t, s, fmt.Sprint(days), begun.clock.Add(-time.Duration(days)*day))
			}
			var logs bytes.Buffer
			d := &daemon{store: s, queue: openTestQueue(t), log: slog.New(slog.NewTextHandler(&logs, nil))}
			watch := &clockwatch{base: begun}
			if looks[0].clock != 0 { // like after a start
				d.prune(ctx, watch, begun, store.DefaultLimits.Age())
			}
			for _, look := range looks {
				logs.Reset()
				d.prune(ctx, watch, moment{clock: begun.clock.Add(look.clock), up: begun.up + look.up}, store.DefaultLimits.Age())
				var left []string
				for row, err := range s.Records(ctx, store.Query{Oldest: true}) {
					if err != nil {
						t.Fatal(err)
					}
					left = append(left, row.ID)
				}
				if got := strings.Join(left, " "); got != look.left {
					t.Errorf("after %v by the clock and %v: left are %q, want %q", look.clock, look.up, got, look.left)
				}
				if got := logs.String(); (got != "") != (look.logged != "") || !strings.Contains(got, look.logged) {
					t.Errorf("after %v by the clock and %v it says %q, want %q", look.clock, look.up, got, look.logged)
				}
			}
		})
	}
	for newest, want := range map[time.Time]bool{{}: true, begun.clock.Add(-20 * day): true, begun.clock.Add(-400 * day): false} {
		watch := &clockwatch{base: begun}
		if got := watch.start(newest); got != want || watch.believed(begun) != want {
			t.Errorf("a daemon that starts when the newest record is of %v believes the clock: %v, want %v", newest, got, want)
		}
		if !watch.believed(moment{up: begun.up + 25*time.Hour}) {
			t.Errorf("a daemon that started when the newest record was of %v does not believe the clock a day later", newest)
		}
	}
	if a, b := rightNow(), rightNow(); a.up <= 0 || b.up < a.up || b.up-a.up > time.Minute {
		t.Errorf("the machine has run for %v, and then for %v", a.up, b.up)
	}
}

// The daemon takes the limits from the policies, and removes nothing while they are unknown.
func TestLimitsOfPolicies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place := local.Place{Policy: filepath.Join(dir, "grapnel.yaml"), State: filepath.Join(dir, "state")}
	s, err := store.Open(place.Store(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now, q := rightNow(), openTestQueue(t)
	for _, days := range []int{80, 20, 0} {
		putRecord(t, s, fmt.Sprint(days), now.clock.AddDate(0, 0, -days))
		job := delivery.Job{ID: fmt.Sprint(days), Target: "a", State: delivery.Dead, Ended: now.clock.AddDate(0, 0, -days)}
		if err := q.Put(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	var logs bytes.Buffer
	d := &daemon{place: place, store: s, queue: q, log: slog.New(slog.NewTextHandler(&logs, nil))}
	for _, step := range []struct {
		policy string
		known  bool
		left   int64
	}{
		{"version: 1\nretention: {days: 1\n", false, 3},
		{"version: 1\nretention: {days: 60}\n", true, 2},
		{"version: 1\nretention: {days: 9}\n", true, 1},
	} {
		if err := os.WriteFile(place.Policy, []byte(step.policy), 0o600); err != nil {
			t.Fatal(err)
		}
		old := now.clock.Add(-time.Hour) // a changed policy counts after a moment
		if err := os.Chtimes(place.Policy, old, old); err != nil {
			t.Fatal(err)
		}
		limits, known := d.limit()
		if known {
			d.prune(t.Context(), &clockwatch{base: now}, now, limits.Age())
		}
		size, err := s.Size(t.Context())
		if err != nil || known != step.known || size.Records != step.left {
			t.Errorf("%q: limits known: %v, %d Records are left (%v); want %v, %d", step.policy, known, size.Records, err, step.known, step.left)
		}
		if jobs, err := q.Deliveries(t.Context(), queue.Query{}); err != nil || len(jobs) != int(step.left) {
			t.Errorf("%q: %d deliveries are left (%v), want %d", step.policy, len(jobs), err, step.left)
		}
	}
	if !strings.Contains(logs.String(), "retention paused") {
		t.Errorf("the log is %q", logs.String())
	}
}

func openTestQueue(t *testing.T) *queue.Queue {
	t.Helper()
	q, err := queue.Open(filepath.Join(t.TempDir(), "queue"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

// A removal that failed, for example on a full disk, is tried again soon.
func TestPruneAfter(t *testing.T) {
	t.Parallel()
	for failures, want := range []time.Duration{time.Hour, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour} {
		if got := pruneAfter(failures); got != want {
			t.Errorf("after %d failures, the next removal is in %v, want %v", failures, got, want)
		}
	}
}
