//go:build system

package bundle

import (
	"strings"
	"testing"
)

// A key of the real minisign, encrypted with scrypt in 1 GiB of memory.
func TestLockedKey(t *testing.T) {
	t.Parallel()
	key, err := ReadSecret("testdata/locked.key", func() (string, error) { return "correct horse", nil })
	if err != nil || keyID(key.ID()) != "4828682E25580B00" {
		t.Errorf("the right password: %v, %v", keyID(key.ID()), err)
	}
	if _, err := ReadSecret("testdata/locked.key", func() (string, error) { return "wrong", nil }); err == nil || !strings.Contains(err.Error(), "cannot decrypt") {
		t.Errorf("a wrong password: %v", err)
	}
}
