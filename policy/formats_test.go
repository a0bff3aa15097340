package policy

import (
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel/policy/hookfiles"
)

// The parser accepts exactly the formats that exist.
func TestFormatNames(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range hookfiles.All() {
		names = append(names, f.Name)
	}
	if !slices.Equal(names, hookfiles.Names) {
		t.Errorf("formatNames are %v, and the formats %v", hookfiles.Names, names)
	}
}
