//go:build system

package docs

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/pty"
)

// newTerminal returns the name of a terminal at which no person types.
func newTerminal(t *testing.T) string {
	t.Helper()
	person, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = person.Close(), program.Close() })
	return program.Name()
}
