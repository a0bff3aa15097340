package policy

import (
	"testing"

	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// TestAdviceInReason checks the text that the model gets from a hook with advice.
func TestAdviceInReason(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]policyfile.Hook{
		"":                         {},
		"No.":                      {Reason: "No."},
		"No.\nInstead: ls":         {Reason: "No.", Advice: []string{"ls"}},
		"No.\nInstead: ls\nor: ps": {Reason: "No.", Advice: []string{"ls", "ps"}},
		"Instead: ls":              {Advice: []string{"ls"}},
	} {
		if got := reasonOf(&h); got != want {
			t.Errorf("the reason of %+v is %q, want %q", h, got, want)
		}
	}
}
