//go:build system

package hooktest_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/hooktest"
)

func TestLight(t *testing.T) {
	t.Parallel()
	hooktest.OnlyImports(t, "github.com/grapnel-dev/grapnel", "std", "github.com/grapnel-dev/grapnel/internal/...")
	hooktest.NeverImports(t, "github.com/grapnel-dev/grapnel/cmd/grapnel-hook", map[string]string{
		"net/http": "0.7 ms at every event",
	})
}
