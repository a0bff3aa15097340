package stats

import (
	"maps"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// Quarters has how often each decision was made in each quarter of an hour, by its begin in seconds since 1970. In every
// time zone a day begins with a quarter.
type Quarters map[int64]map[grapnel.Decision]int

// quarter is the length of a quarter of an hour.
const quarter = 15 * time.Minute

// Add counts n decisions at a time.
func (q Quarters) Add(at time.Time, d grapnel.Decision, n int) {
	begin := at.Truncate(quarter).Unix()
	if q[begin] == nil {
		q[begin] = map[grapnel.Decision]int{}
	}
	q[begin][d] += n
}

// A Day is how often each decision was made on one day.
type Day struct {
	Begin     time.Time
	Decisions map[grapnel.Decision]int
}

// Days returns the days of a time zone on which a decision was made, oldest first.
func (q Quarters) Days(zone *time.Location) (days []Day) {
	for _, at := range slices.Sorted(maps.Keys(q)) {
		y, m, d := time.Unix(at, 0).In(zone).Date()
		begin := time.Date(y, m, d, 0, 0, 0, 0, zone)
		if len(days) == 0 || !days[len(days)-1].Begin.Equal(begin) {
			days = append(days, Day{begin, map[grapnel.Decision]int{}})
		}
		addCounts(days[len(days)-1].Decisions, q[at])
	}
	return days
}
