package match

import (
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Each row is complete.
func TestMatchKeys(t *testing.T) {
	t.Parallel()
	for _, k := range Keys {
		if (k.Words == nil) == (k.Texts == nil) || (k.Words != nil) != (k.Form != formText) || k.covers == nil {
			t.Errorf("the row of %s is not complete", k.Name)
		}
	}
	if keys := KeysOf((&policyfile.Match{Agent: []string{"claude", "codex"}})); len(keys) != 1 || keys[0].Covered([]string{"claude", "codex"}, 0, Reading{}) != "" {
		t.Error("one agent covers another")
	}
}

// A row in the table is enough for a key: every key is compiled into a match. A key that is not
// compiled would match every event.
func TestEveryKeyIsCompiled(t *testing.T) {
	t.Parallel()
	for i := range Keys {
		k := &Keys[i]
		of := &policyfile.Match{}
		if k.Words != nil {
			*k.Words(of) = []string{"unknown"}
		} else {
			*k.Texts(of) = []policyfile.Pattern{{Text: "unknown"}}
		}
		m, err := (&FactCache{}).Matcher(of, nil, "", Reading{})
		if err != nil {
			t.Fatal(err)
		}
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Session: grapnel.Session{CWD: "/"}, Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Commands: []string{"ls /"}}}
		if fits, err := m.Match(ev, nil); fits || err != nil {
			t.Errorf("%s: Match = %v, %v, want false, nil", k.Name, fits, err)
		}
	}
}
