//go:build system

package dialect_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/hooktest"
)

// The package cannot open files, start programs or dial addresses.
func TestImports(t *testing.T) {
	t.Parallel()
	hooktest.OnlyImports(t, ".", "bytes", "cmp", "context", "embed", "encoding/json", "errors", "fmt", "path", "reflect", "runtime", "slices", "strconv", "strings", "time",
		"unicode/utf8", "github.com/grapnel-dev/grapnel", "github.com/grapnel-dev/grapnel/internal/rawjson",
		"github.com/grapnel-dev/grapnel/internal/seam", "github.com/grapnel-dev/grapnel/internal/wire")
}
