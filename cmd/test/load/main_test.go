package main

import "testing"

func TestTooSlow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rate, limit float64
		want        bool
	}{
		"budget met":             {8000, 1, false},
		"as today":               {5400, 1, false},
		"worse than today":       {5399, 1, true},
		"within the limit":       {4700, 1.15, false},
		"below the limit":        {4600, 1.15, true},
		"shared machine":         {2701, 2, false},
		"shared machine, slower": {2699, 2, true},
	} {
		if got := tooSlow(tt.rate, tt.limit); got != tt.want {
			t.Errorf("%s: tooSlow(%g, %g) = %v, want %v", name, tt.rate, tt.limit, got, tt.want)
		}
	}
}
