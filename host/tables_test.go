package host_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/internal/testhelp/scramble"
)

// For any change that a caller makes to returned Manners, the next caller and every host have
// unchanged ones.
func TestMannersCannotBeChanged(t *testing.T) {
	for name, table := range map[string]func() any{
		"AllManners": func() any { return host.AllManners() },
		"FindManners": func() any {
			m, _ := host.FindManners("flyto")
			return m
		},
	} {
		before := scramble.Print(table())
		scramble.Value(table())
		if after := scramble.Print(table()); after != before {
			t.Errorf("%s: got\n%s\nwant\n%s", name, after, before)
		}
	}
}
