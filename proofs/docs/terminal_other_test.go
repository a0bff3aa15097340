//go:build system && unix && !linux

package docs

import "testing"

func newTerminal(t *testing.T) string {
	t.Helper()
	t.Skip("these tests know the pseudo terminals of Linux only")
	return ""
}
