package policy_test

import (
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/policy"
)

// A date is valid until its end in UTC, and a time until that second.
func TestExpires(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2031-12-31":                  "2032-01-01T00:00:00Z",
		"2031-12-31T18:00:00Z":        "2031-12-31T18:00:00Z",
		"2031-12-31T18:00:00+02:00":   "2031-12-31T16:00:00Z",
		`"2031-12-31T18:00:00-02:00"`: "2031-12-31T20:00:00Z",
	} {
		p, errs := policy.Parse("p.yaml", []byte("version: 1\nrevision: 7\nexpires: "+text+"\n"))
		if len(errs) > 0 {
			t.Errorf("%s: %v", text, errs)
			continue
		}
		if got := time.Unix(p.Expires, 0).UTC().Format(time.RFC3339); got != want || p.Revision != 7 {
			t.Errorf("%s = %s, revision %d, want %s, revision 7", text, got, p.Revision, want)
		}
	}
}
