package state_test

import (
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

// TestAfterBlocked checks `blocked: true` and `same: below`.
func TestAfterBlocked(t *testing.T) {
	t.Parallel()
	rules := noDelete + `  - name: another-way
    on: tool.before
    match: {command: [rm, mv, find]}
    after: {event: tool.before, blocked: true, match: {command: rm}, same: below, within: 10m}
    ask: really?
`
	s := newPastSession(t, rules)
	if got := s.shell("rm src/a.go"); got != grapnel.None {
		t.Errorf("before the block: %v", got)
	}
	if got := s.shell("rm src/b.go"); got != grapnel.None {
		t.Errorf("a call that was not blocked counts: %v", got)
	}
	if got := s.shell("rm -rf src"); got != grapnel.Block {
		t.Fatalf("no block: %v", got)
	}
	for line, want := range map[string]grapnel.Decision{
		"rm src/a.go":                    grapnel.Ask,
		"mv ./src /tmp/x":                grapnel.Ask,
		"find src -exec rm {} +":         grapnel.Ask,
		"for f in src/*; do rm $f; done": grapnel.Ask,
		"cd src && rm a.go":              grapnel.Ask,
		"cd src && find -delete":         grapnel.Ask,
		"rm -rf ./src/":                  grapnel.Block,
		"rm source":                      grapnel.None,
		"mv a b":                         grapnel.None,
		"ls src":                         grapnel.None,
	} {
		if got := s.shell(line); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
	s.now = s.now.Add(10 * time.Minute)
	if got := s.shell("rm src/a.go"); got != grapnel.None {
		t.Errorf("after ten minutes: %v", got)
	}
	if _, errs := policy.Parse("p.yaml", []byte("version: 1\nhooks:\n  - {name: x, on: tool.before, after: {event: tool.after, blocked: true}, block: no}\n")); len(errs) != 1 || !strings.Contains(errs[0].Error(), "tool.after cannot be blocked") {
		t.Errorf("an event that cannot be blocked: %v", errs)
	}
}
