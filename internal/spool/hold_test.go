package spool

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// Only one holder of a key can access its value at a time.
func TestHold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			s, err := Open(dir, nil)
			if err != nil {
				t.Error(err)
				return
			}
			for range 25 {
				h, err := s.Hold("key", time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				n, _ := strconv.Atoi(string(h.Kept)) // an empty value is 0
				if err := errors.Join(h.Keep(strconv.AppendInt(nil, int64(n+1), 10)), h.Close(), h.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	h := holdNow(t, dir)
	if string(h.Kept) != "200" {
		t.Errorf("200 times one more is %s", h.Kept)
	}
	if err := h.Keep(bytes.Repeat([]byte("x"), maxHeld)); err == nil {
		t.Error("more than can be read again is kept")
	}
	if err := h.Keep([]byte("7\x00")); err == nil {
		t.Error("what would end early is kept")
	}
	if err := h.Keep([]byte("7")); err != nil { // shorter than before
		t.Error(err)
	}
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := s.Hold("key", 0); !errors.Is(err, files.ErrLocked) {
		t.Errorf("what is held is held by another: %v, %v", other, err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if h := holdNow(t, dir); string(h.Kept) != "7" {
		t.Errorf("7 was kept, and is %q", h.Kept)
	}
}

// A truncated or foreign value is treated as no value.
func TestHoldBroken(t *testing.T) {
	t.Parallel()
	for name, content := range map[string][]byte{"empty": nil, "torn": []byte(`[{"id":"x"`), "large": append(bytes.Repeat([]byte("x"), maxHeld+1), 0)} {
		dir := t.TempDir()
		h := holdNow(t, dir)
		file := h.file.Name()
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		h = holdNow(t, dir)
		if h.Kept != nil {
			t.Errorf("%s: %.20q is kept", name, h.Kept)
		}
		if err := errors.Join(h.Keep([]byte("new")), h.Close()); err != nil {
			t.Error(err)
		}
		if h := holdNow(t, dir); string(h.Kept) != "new" {
			t.Errorf("%s: then %q is kept", name, h.Kept)
		}
	}
}

// The number of files is fixed, for any number of keys.
func TestHoldFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		h, err := s.Hold(strconv.Itoa(i), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_ = h.Close()
	}
	files, err := os.ReadDir(filepath.Join(dir, heldDir))
	if err != nil || len(files) > 256 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func holdNow(t *testing.T, dir string) *Held {
	t.Helper()
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Hold("key", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}
