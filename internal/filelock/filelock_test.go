package filelock_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/filelock"
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

func try(t *testing.T, name string, kind filelock.Kind) *filelock.Lock {
	t.Helper()
	l, err := filelock.Try(open(t, name), kind)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestKinds(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	a, b := try(t, name, filelock.Shared), try(t, name, filelock.Shared)
	if _, err := filelock.Try(open(t, name), filelock.Exclusive); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("exclusive beside shared = %v, want %v", err, filelock.ErrLocked)
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	c := try(t, name, filelock.Exclusive)
	for _, kind := range []filelock.Kind{filelock.Shared, filelock.Exclusive} {
		if _, err := filelock.Try(open(t, name), kind); !errors.Is(err, filelock.ErrLocked) {
			t.Errorf("kind %d beside exclusive = %v, want %v", kind, err, filelock.ErrLocked)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
