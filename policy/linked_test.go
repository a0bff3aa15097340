package policy

import (
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/tree/toml"
)

func init() { LinkForeign(toml.Parse) }

// What the parser takes for a format is one.
func TestFormatNames(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	if !slices.Equal(names, formatNames) {
		t.Errorf("formatNames are %v, and the formats %v", formatNames, names)
	}
}
