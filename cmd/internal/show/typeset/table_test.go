package typeset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Columns are left out by rank, then the first column is cut, so that each line fits.
func TestTable(t *testing.T) {
	t.Parallel()
	columns := []Column{{Head: "name", Left: true}, {Head: "times"}, {Head: "p50", Rank: 1}, {Head: "source", Left: true, Rank: 2}}
	rows := [][]string{{"short", "1", "0.5", "~/a.yaml"}, {"a-name-that-is-longer-than-24", "1000", "12.5", "~/b.yaml"}, {"日本", "2", "1.0", ""}}
	for width, want := range map[int][]string{
		0: {
			"  name                           times   p50  source",
			"  short                              1   0.5  ~/a.yaml",
			"  a-name-that-is-longer-than-24   1000  12.5  ~/b.yaml",
			"  日本                               2   1.0",
		},
		49: {
			"  name                      times   p50  source",
			"  short                         1   0.5  ~/a.yaml",
			"  a-name-that-is-longer-t…   1000  12.5  ~/b.yaml",
			"  日本                          2   1.0",
		},
		39: {
			"  name                      times   p50",
			"  short                         1   0.5",
			"  a-name-that-is-longer-t…   1000  12.5",
			"  日本                          2   1.0",
		},
		20: {
			"  name         times",
			"  short            1",
			"  a-name-tha…   1000",
			"  日本             2",
		},
	} {
		if diff := cmp.Diff(want, Table(width, columns, rows)); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", width, diff)
		}
	}
}
