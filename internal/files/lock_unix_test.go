//go:build unix

package files_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// A process that is being started has a copy of the descriptor until it runs its program. The lock
// still ends with Close.
func TestCloseEndsTheLockOfACopy(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	f := open(t, name)
	l, err := files.TryLock(f, files.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(copied) }()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := try(t, name, files.Exclusive).Close(); err != nil {
		t.Fatal(err)
	}
}
