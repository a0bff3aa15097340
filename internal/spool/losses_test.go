package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Lost Records are counted in a file of a fixed size, until seven days after the last one.
func TestLosses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	if err := ReserveLosses(dir); err != nil {
		t.Fatal(err)
	}
	if l := ReadLosses(dir, now); l.Replies != 0 || l.Unshown() {
		t.Errorf("a new file has %+v", l)
	}
	full := errors.New("no space left on device " + strings.Repeat("\x01", 2*lossError))
	for i := range 3 {
		if err := AddLoss(dir, full, now.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if err := ReserveLosses(dir); err != nil { // it changes nothing
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, lossFile)); err != nil || info.Size() != lossSize {
		t.Errorf("the file has %v bytes, want %d: it may need space on a full disk", info, lossSize)
	}
	l := ReadLosses(dir, now)
	if l.Replies != 3 || !l.First.Equal(now) || !l.Last.Equal(now.Add(2*time.Minute)) || !strings.HasPrefix(l.Error, "no space left") || !l.Unshown() {
		t.Errorf("losses = %+v", l)
	}
	if err := AddLoss(dir, full, now.Add(3*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := LossesShown(dir, l, now); err != nil {
		t.Fatal(err)
	}
	if l = ReadLosses(dir, now); !l.Unshown() {
		t.Errorf("a loss after the message is not shown: %+v", l)
	}
	if err := LossesShown(dir, l, now); err != nil {
		t.Fatal(err)
	}
	if l = ReadLosses(dir, now); l.Unshown() || l.Replies != 4 {
		t.Errorf("after the message: %+v", l)
	}
	for _, other := range []time.Duration{8 * 24 * time.Hour, -8 * 24 * time.Hour} {
		if l := ReadLosses(dir, now.Add(other)); l.Replies != 0 {
			t.Errorf("at %v: %+v", other, l)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, lossFile), []byte("{broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := AddLoss(dir, full, now); err != nil || ReadLosses(dir, now).Replies != 1 {
		t.Errorf("a damaged file is not replaced: %v, %+v", err, ReadLosses(dir, now))
	}
}

// The first Record creates the file, so that losses can be counted when the disk is full later.
func TestLossesReserved(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	observe(t, s, record("1"))
	if info, err := os.Stat(filepath.Join(dir, lossFile)); err != nil || info.Size() != lossSize {
		t.Errorf("after the first Record: %v, %v", info, err)
	}
	if err := Unwritable(dir); err != nil {
		t.Error(err)
	}
	if err := Unwritable(filepath.Join(dir, "missing", "spool")); err != nil {
		t.Error(err)
	}
}
