package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/files"
)

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func try(t *testing.T, name string, kind files.LockKind) *files.Lock {
	t.Helper()
	l, err := files.TryLock(open(t, name), kind)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestKinds(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	a, b := try(t, name, files.Shared), try(t, name, files.Shared)
	if _, err := files.TryLock(open(t, name), files.Exclusive); !errors.Is(err, files.ErrLocked) {
		t.Errorf("exclusive beside shared = %v, want %v", err, files.ErrLocked)
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	c := try(t, name, files.Exclusive)
	for _, kind := range []files.LockKind{files.Shared, files.Exclusive} {
		if _, err := files.TryLock(open(t, name), kind); !errors.Is(err, files.ErrLocked) {
			t.Errorf("kind %d beside exclusive = %v, want %v", kind, err, files.ErrLocked)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
