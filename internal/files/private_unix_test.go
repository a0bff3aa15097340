//go:build unix

package files

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// A directory of another user is refused, for root and for others.
func TestPrivateDirOfAnotherUser(t *testing.T) {
	t.Parallel()
	dir := "/" // of root
	if os.Geteuid() == 0 {
		dir = t.TempDir()
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	if err := PrivateDir(dir); !errors.Is(err, ErrPlace) || !strings.Contains(err.Error(), "is owned by user") {
		t.Errorf("PrivateDir = %v, want that it is of another user", err)
	}
}
