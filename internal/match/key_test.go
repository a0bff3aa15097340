package match

import (
	"testing"

	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Each row is complete, and its code in snapshots is its own.
func TestMatchKeys(t *testing.T) {
	t.Parallel()
	codes := map[byte]string{'F': "failed"}
	for _, k := range Keys {
		if (k.Words == nil) == (k.Texts == nil) || (k.Words != nil) != (k.Form != formText) || k.covers == nil {
			t.Errorf("the row of %s is not complete", k.Name)
		}
		if other := codes[k.Code]; k.Code == 0 || other != "" {
			t.Errorf("%s has the code %q of %q", k.Name, k.Code, other)
		}
		codes[k.Code] = k.Name
	}
	if keys := KeysOf((&policyfile.Match{Agent: []string{"claude", "codex"}})); len(keys) != 1 || keys[0].Covered([]string{"claude", "codex"}, 0, Reading{}) != "" {
		t.Error("one agent covers another")
	}
}
