//go:build system

package journal_test

import "testing"

// TestManyBytes is TestSomeBytes with 5,000 changes, other ones each time.
func TestManyBytes(t *testing.T) {
	t.Parallel()
	everyByte(t, 4)
}
