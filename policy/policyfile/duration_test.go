package policyfile_test

import (
	"math"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"1d": day, "2w": 14 * day, "1w2d12h": 9*day + 12*time.Hour, "1.5d": 36 * time.Hour, "0d": 0, "-1d": -day, "+1d": day, "-1d1h": -25 * time.Hour,
	} {
		if d, err := policyfile.ParseDuration(text); d != want || err != nil {
			t.Errorf("%s is %v, %v, want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "d", "w", "1", "1h1d", "1d2w", "1d-1h", "1d+1h", "+-1h", "--1d", "1e3d", ".d", "NaNd", "infd", "1d1", "100000000w", "106751d24h", "1 d"} {
		if d, err := policyfile.ParseDuration(text); err == nil {
			t.Errorf("%q is %v, want an error", text, d)
		}
	}
}

// Texts of time.ParseDuration keep their meaning.
func TestParseDurationLikeTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[-+]?([0-9]{0,4}(\.[0-9]{0,3})?(ns|us|ms|s|m|h)){0,3}`),
			rapid.Custom(func(t *rapid.T) string {
				return time.Duration(rapid.Int64Range(math.MinInt64+1, math.MaxInt64).Draw(t, "ns")).String()
			}),
		).Draw(t, "text")
		got, gotErr := policyfile.ParseDuration(text)
		want, wantErr := time.ParseDuration(text)
		if got != want || (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%q is %v, %v; time.ParseDuration returns %v, %v", text, got, gotErr, want, wantErr)
		}
	})
}
