package main

import "testing"

func TestTooSlow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rate, limit float64
		want        bool
	}{
		"budget met":             {20000, 1, false},
		"as today":               {4900, 1, false},
		"worse than today":       {4899, 1, true},
		"within the limit":       {4300, 1.15, false},
		"below the limit":        {4200, 1.15, true},
		"shared machine":         {2451, 2, false},
		"shared machine, slower": {2449, 2, true},
	} {
		if got := tooSlow(tt.rate, tt.limit); got != tt.want {
			t.Errorf("%s: tooSlow(%g, %g) = %v, want %v", name, tt.rate, tt.limit, got, tt.want)
		}
	}
}
