package service

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store/storetest"
)

// Old Records are removed, also after a night in which the machine slept. Records that only look
// old because the clock was changed are kept, unless the clock stays that way.
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
				e := storetest.Entry(fmt.Sprint(days))
				e.Time = begun.clock.Add(-time.Duration(days) * day)
				if err := s.Put(ctx, store.Item{Line: storetest.Line(e)}); err != nil {
					t.Fatal(err)
				}
			}
			var logs bytes.Buffer
			d := &daemon{store: s, log: slog.New(slog.NewTextHandler(&logs, nil))}
			watch := &clockwatch{base: begun}
			if looks[0].clock != 0 { // like after a start
				d.prune(ctx, watch, begun)
			}
			for _, look := range looks {
				logs.Reset()
				d.prune(ctx, watch, moment{clock: begun.clock.Add(look.clock), up: begun.up + look.up})
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
