package stats_test

import (
	"testing"
	"time"
	_ "time/tzdata" // a machine can have no time zones

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
)

// TestDays: a decision is on the day of its reader, also in a zone of 45 minutes and on the long day of autumn.
func TestDays(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		zone  *time.Location
		times []string
		want  map[string]int
	}{
		"UTC":     {time.UTC, []string{"2026-10-24T23:59:59.9Z", "2026-10-25T00:00:00Z", "2026-10-25T00:15:00Z"}, map[string]int{"2026-10-24": 1, "2026-10-25": 2}},
		"Nepal":   {time.FixedZone("", 5*3600+45*60), []string{"2026-10-24T18:14:59Z", "2026-10-24T18:15:00Z"}, map[string]int{"2026-10-24": 1, "2026-10-25": 1}},
		"Germany": {berlin, []string{"2026-10-24T21:59:00Z", "2026-10-24T22:00:00Z", "2026-10-25T22:59:00Z", "2026-10-25T23:00:00Z"}, map[string]int{"2026-10-24": 1, "2026-10-25": 2, "2026-10-26": 1}},
		"old":     {time.UTC, []string{"1969-12-31T23:59:59Z"}, map[string]int{"1969-12-31": 1}},
		"none":    {time.UTC, nil, map[string]int{}},
	} {
		q := stats.Quarters{}
		for _, text := range c.times {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				t.Fatal(err)
			}
			q.Add(at, grapnel.Block, 1)
		}
		got := map[string]int{}
		for _, d := range q.Days(c.zone) {
			if h, m, s := d.Begin.Clock(); h+m+s != 0 || d.Begin.Location() != c.zone {
				t.Errorf("%s: a day begins at %v", name, d.Begin)
			}
			got[d.Begin.Format(time.DateOnly)] = d.Decisions[grapnel.Block]
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
