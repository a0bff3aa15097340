package host_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/internal/scramble"
)

// Whatever a caller does to returned Manners, the next caller and every host see their own.
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
