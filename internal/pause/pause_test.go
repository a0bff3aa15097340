package pause_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/pause"
)

func TestPauseLength(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for length, ok := range map[time.Duration]bool{
		-time.Hour: false, 0: false, time.Millisecond: false, time.Second: true, 24 * time.Hour: true, 24*time.Hour + 1: false,
	} {
		p, err := pause.New(now, length)
		if (err == nil) != ok || ok && p.Until.After(now.Add(length)) {
			t.Errorf("New(%v) = %v, %v", length, p, err)
		}
	}
}

// A pause is active from its start to its end. After a moment at which it was not active, it is
// never active again. For any clock changes, it lasts at most a day.
func TestPauseAndTheClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 500, time.UTC)
	for _, tt := range []struct {
		at   time.Duration // time since it was written
		want bool
	}{
		{0, true},
		{time.Minute, true},
		{10*time.Minute - time.Second, true},
		{10 * time.Minute, false},
		{time.Hour, false},
		{40_000 * time.Hour, false},
		{-time.Minute, false},
		{-25 * time.Hour, false},
	} {
		name := filepath.Join(t.TempDir(), "state", "pause.json")
		p, err := pause.New(now, 10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Write(name); err != nil {
			t.Fatal(err)
		}
		got, ok := pause.Read(name, now.Add(tt.at))
		if ok != tt.want || ok && !got.Until.Equal(p.Until) {
			t.Errorf("after %v Read = %v, %v, want %v", tt.at, got, ok, tt.want)
		}
		if _, ok := pause.Read(name, now.Add(time.Minute)); ok != tt.want {
			t.Errorf("once read after %v it holds a minute after it was written: %v, want %v", tt.at, ok, tt.want)
		}
	}
}

func TestPauseFile(t *testing.T) {
	t.Parallel()
	now := time.Now()
	name := filepath.Join(t.TempDir(), "pause.json")
	if _, ok := pause.Read(name, now); ok {
		t.Error("a file that is not there is a pause")
	}
	for _, length := range []time.Duration{time.Hour, time.Minute} { // the second replaces the first
		p, err := pause.New(now, length)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Write(name); err != nil {
			t.Fatal(err)
		}
		if got, ok := pause.Read(name, now); !ok || got != p {
			t.Errorf("Read = %v, %v, want %v", got, ok, p)
		}
	}
	info, err := os.Stat(name)
	if err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v, want -rw-------", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
		t.Errorf("beside it there is more: %v, %v", left, err)
	}
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range [][]byte{nil, good[:len(good)/2], []byte("true"), []byte("{}"), []byte(`{"since":"x"}`), append(slices.Clone(good), good...), []byte(`{"until":"2100-01-01T00:00:00Z"}`)} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok := pause.Read(name, now); ok {
			t.Errorf("ReadPause of %q = %v", content, got)
		}
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q does not hold and is still there: %v", content, err)
		}
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, ok := pause.Read(name, now); ok {
		t.Errorf("ReadPause of a directory = %v", got)
	}
}

// During a pause hooks observe, except for hooks of managed policies and Grapnel's own notices.
func TestPauseApply(t *testing.T) {
	t.Parallel()
	p, err := pause.New(time.Now(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	spec := func(name string, scope grapnel.Scope) grapnel.Spec {
		return grapnel.Spec{Name: name, Source: grapnel.Source{Name: name, Scope: scope}}
	}
	var specs []grapnel.Spec
	for scope := grapnel.ScopeManaged; scope <= grapnel.ScopeSession; scope++ {
		specs = append(specs, spec(scope.String(), scope))
	}
	specs = append(specs, spec("policy-notice", grapnel.ScopeUser)) // it has the name of a notice, but is not from Grapnel
	specs = append(specs, notice.Locked("a test")...)
	enforced := []string{"managed::managed", "grapnel:grapnel::policy-notice", "grapnel:pause::policy-notice"}
	var got []string
	for _, s := range p.Apply(specs) {
		if !s.Observe {
			got = append(got, s.FullName())
		}
	}
	if !slices.Equal(got, enforced) {
		t.Errorf("Apply leaves %q, want %q", got, enforced)
	}
}

// No content of the file causes a pause that lasts longer than a day or is active at a wrong
// time.
func FuzzPause(f *testing.F) {
	f.Add([]byte(`{"since":"2026-11-21T12:00:00Z","until":"2026-11-21T12:10:00Z"}`), int64(1795262400))
	f.Add([]byte(`{"since":"0001-01-01T00:00:00Z","until":"9999-12-31T23:59:59+14:00"}`), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, unix int64) {
		name := filepath.Join(t.TempDir(), "pause.json")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		now := time.Unix(unix, 0)
		p, ok := pause.Read(name, now)
		if ok && (now.Before(p.Since) || !now.Before(p.Until) || p.Until.After(now.Add(pause.Max))) {
			t.Errorf("%s holds at %v", data, now)
		}
		if _, err := os.Lstat(name); ok != (err == nil) {
			t.Errorf("%s holds: %v, and its file: %v", data, ok, err)
		}
	})
}
