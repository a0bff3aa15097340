//go:build system

package journal_test

import "testing"

// TestEveryByte is TestSomeBytes for all bytes: 20,000 changes.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	everyByte(t, 1)
}
