package install

import (
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/installation"
)

func TestNewToken(t *testing.T) {
	t.Parallel()
	var seen []string
	for range 100 {
		id := newToken()
		if !installation.ValidID(id) || slices.Contains(seen, id) {
			t.Fatalf("newToken() = %q: not valid or not new", id)
		}
		seen = append(seen, id)
	}
}
