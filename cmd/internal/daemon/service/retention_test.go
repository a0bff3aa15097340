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
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/segments"
	"github.com/grapnel-dev/grapnel/local"
)

// putRecords writes a segment for each age in days. Its Record has that age, and its ID. The last segment is open.
func putRecords(t *testing.T, place local.Place, now time.Time, days ...int) {
	t.Helper()
	begun := now.AddDate(0, 0, -days[0]-1)
	for i, age := range days {
		at := now.AddDate(0, 0, -age)
		text, err := json.Marshal(spool.Entry{Record: grapnel.Record{ID: fmt.Sprint(age), Time: at, Agent: "claude-code", Session: "s1", Event: grapnel.ToolBefore, Tool: "Bash"}})
		if err != nil {
			t.Fatal(err)
		}
		segments.Write(t, place.Journal(), i+1, begun, string(text))
		begun = at
	}
}

// left returns the IDs of the Records that are left.
func left(t *testing.T, place local.Place) string {
	t.Helper()
	var ids []string
	r := records.Log(place).Open()
	defer r.Close()
	for row, err := range r.Records(context.Background(), index.Query{Oldest: true}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, row.ID)
	}
	return strings.Join(ids, " ")
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
			dir := t.TempDir()
			place := local.Place{Policy: filepath.Join(dir, "grapnel.yaml"), State: filepath.Join(dir, "state")}
			putRecords(t, place, begun.clock, 100, 80, 0)
			var logs bytes.Buffer
			d := &daemon{place: place, queue: openTestQueue(t), log: slog.New(slog.NewTextHandler(&logs, nil))}
			watch := &clockwatch{base: begun}
			if looks[0].clock != 0 { // like after a start
				d.retire(ctx, watch, begun)
			}
			for _, look := range looks {
				logs.Reset()
				d.retire(ctx, watch, moment{clock: begun.clock.Add(look.clock), up: begun.up + look.up})
				if got := left(t, place); got != look.left {
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
	now, q := rightNow(), openTestQueue(t)
	putRecords(t, place, now.clock, 80, 20, 0)
	for _, days := range []int{80, 20, 0} {
		job := delivery.Job{ID: fmt.Sprint(days), Target: "a", State: delivery.Dead, Ended: now.clock.AddDate(0, 0, -days)}
		if err := q.Put(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	var logs bytes.Buffer
	d := &daemon{place: place, queue: q, log: slog.New(slog.NewTextHandler(&logs, nil))}
	for _, step := range []struct {
		policy string
		known  bool
		left   string
		jobs   int
	}{
		{"version: 1\nretention: {days: 1\n", false, "80 20 0", 3},
		{"version: 1\nretention: {days: 60}\n", true, "20 0", 2},
		{"version: 1\nretention: {days: 9}\n", true, "0", 1},
	} {
		if err := os.WriteFile(place.Policy, []byte(step.policy), 0o600); err != nil {
			t.Fatal(err)
		}
		old := now.clock.Add(-time.Hour) // a changed policy counts after a moment
		if err := os.Chtimes(place.Policy, old, old); err != nil {
			t.Fatal(err)
		}
		logs.Reset()
		if !d.retire(t.Context(), &clockwatch{base: now}, now) {
			t.Errorf("%q: %s", step.policy, logs.String())
		}
		if known := !strings.Contains(logs.String(), "retention paused"); known != step.known {
			t.Errorf("%q: limits known: %v, want %v", step.policy, known, step.known)
		}
		if got := left(t, place); got != step.left {
			t.Errorf("%q: left are %q, want %q", step.policy, got, step.left)
		}
		if jobs, err := q.Deliveries(t.Context(), queue.Query{}); err != nil || len(jobs) != step.jobs {
			t.Errorf("%q: %d deliveries are left (%v), want %d", step.policy, len(jobs), err, step.jobs)
		}
	}
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
