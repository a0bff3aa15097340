//go:build unix

package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/counts"
)

// If something other than a file is in the place of a count, Count does not wait for it,
// returns one error, and removes it. If the directory or the lock is something else, a person
// must repair it, and the error names it.
func TestCountIsNoFile(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(string) error{
		"a pipe":      func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"a directory": func(name string) error { return os.Mkdir(name, 0o700) },
		"a link":      func(name string) error { return os.Symlink("/etc/passwd", name) },
		"of nobody":   func(name string) error { return os.WriteFile(name, []byte("1"), 0o000) },
		"without end": func(name string) error { return os.WriteFile(name, make([]byte, counts.MaxBytes+1), 0o600) },
		"a killed rest": func(name string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(name), "..", "..", "..", countsFresh), []byte("1"), 0o400)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := open(t, nil)
			count(t, s, "k", "1")
			if name != "a killed rest" {
				if err := os.Remove(s.countFile("o", "k")); err != nil {
					t.Fatal(err)
				}
			}
			if err := put(s.countFile("o", "k")); err != nil {
				t.Fatal(err)
			}
			change := func(kept []byte) ([]byte, time.Duration) { return append(kept, '2'), time.Hour }
			err := s.Count("o", "k", change)
			readable := name == "a killed rest" || name == "of nobody" && os.Geteuid() == 0
			if (err == nil) != readable {
				t.Errorf("%v", err)
			}
			if err := s.Count("o", "k", change); err != nil {
				t.Errorf("the second time: %v", err)
			}
			if data, err := s.Counted("o", "k"); !strings.HasSuffix(string(data), "2") || err != nil {
				t.Errorf("Counted = %q, %v", data, err)
			}
		})
	}
	elsewhere := t.TempDir()
	s, dir := open(t, nil)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Symlink(elsewhere, filepath.Join(dir, countsDir))); err != nil {
		t.Fatal(err)
	}
	if err := s.Count("o", "k", func([]byte) ([]byte, time.Duration) { return []byte("1"), time.Hour }); err == nil {
		t.Error("it counts where a link leads to")
	}
	if files, _ := os.ReadDir(elsewhere); len(files) > 0 {
		t.Errorf("%v was made where a link leads to", files)
	}
	for _, name := range []string{countsDir, countsLock} {
		s, dir := open(t, nil)
		place := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(place), 0o700), syscall.Mkfifo(place, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := s.Count("o", "k", func([]byte) ([]byte, time.Duration) { return []byte("1"), time.Hour }); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a pipe in place of %s: %v, want an error that names it", name, err)
		}
	}
}

// If the callback panics, the count stays unchanged and the lock is released.
func TestCountPanics(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil)
	count(t, s, "k", "1")
	func() {
		defer func() { _ = recover() }()
		_ = s.Count("o", "k", func([]byte) ([]byte, time.Duration) { panic("at the count") })
	}()
	if was := count(t, s, "k", "2"); was != "1" {
		t.Errorf("it was %q, want 1", was)
	}
}
