package policy

import (
	"testing"

	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Each row is complete, and its code in snapshots is its own.
func TestMatchKeys(t *testing.T) {
	t.Parallel()
	codes := map[byte]string{'F': "failed"}
	for _, k := range matchKeys {
		if (k.words == nil) == (k.texts == nil) || (k.words != nil) != (k.parse != nil) || k.covers == nil {
			t.Errorf("the row of %s is not complete", k.name)
		}
		if other := codes[k.code]; k.code == 0 || other != "" {
			t.Errorf("%s has the code %q of %q", k.name, k.code, other)
		}
		codes[k.code] = k.name
	}
	if keys := matchKeysOf((&policyfile.Match{Agent: []string{"claude", "codex"}})); len(keys) != 1 || keys[0].covered([]string{"claude", "codex"}, 0, reading{}) != "" {
		t.Error("one agent covers another")
	}
}
