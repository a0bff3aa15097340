package systems_test

import (
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel/systems"
)

// The parser accepts exactly the formats that exist.
func TestFormatNames(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range systems.Formats() {
		names = append(names, f.Name)
	}
	if !slices.Equal(names, systems.Names) {
		t.Errorf("formatNames are %v, and the formats %v", systems.Names, names)
	}
}
