//go:build unix && !darwin

package home

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHomeFromPasswd(t *testing.T) {
	t.Parallel()
	const passwd = "root:x:0:0:root:/root:/bin/sh\n" +
		"+@net:x:1000:1000::/evil:/bin/sh\n" +
		"short:x:1000\n" +
		"ann:x:1000:1000:Ann,,,:/home/ann:/bin/zsh\n" +
		"again:x:1000:1000::/second:/bin/sh\n" +
		"empty:x:7:7:::\n"
	tests := map[string]struct {
		uid  int
		want string
		err  error
	}{
		"first user":               {uid: 0, want: "/root"},
		"first line of a uid wins": {uid: 1000, want: "/home/ann"},
		"no home":                  {uid: 7, want: ""},
		"no prefix match":          {uid: 100, err: ErrNoUser},
		"unknown":                  {uid: 4242, err: ErrNoUser},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := fromPasswd(strings.NewReader(passwd), tt.uid)
			if got[5] != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("fromPasswd(%d) = %q, %v, want %q, %v", tt.uid, got, err, tt.want, tt.err)
			}
		})
	}
}

// An image can have no user database at all.
func TestNoPasswd(t *testing.T) {
	t.Parallel()
	if got, err := fromFile(filepath.Join(t.TempDir(), "passwd"), 7); !errors.Is(err, ErrNoUser) {
		t.Errorf("fromFile = %q, %v, want %v", got, err, ErrNoUser)
	}
}

// Environment variables from an agent's project settings must not change the home directory.
func TestHomeIgnoresEnvironment(t *testing.T) {
	before, errBefore := find()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("USER", "mallory")
	after, errAfter := find()
	if before != after || (errBefore == nil) != (errAfter == nil) {
		t.Errorf("find changed with the environment: %q, %v became %q, %v", before, errBefore, after, errAfter)
	}
}

// The file for unknown users must have one absolute path, and only root may be able to change it.
func TestUnknownUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can write a file of root")
	}
	why := fmt.Errorf("user 7 is %w", ErrNoUser)
	for text, want := range map[string]string{
		"/home/agent\n":      "/home/agent",
		" /home/../agent/ ":  "/agent",
		"":                   "does not have one absolute path",
		"home/agent\n":       "does not have one absolute path",
		"~\n":                "does not have one absolute path",
		"/home/a\n/home/b\n": "does not have one absolute path",
		"/home/a\x00\n":      "does not have one absolute path",
	} {
		file := filepath.Join(t.TempDir(), "home")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := unknown(file, why)
		if got != want && (err == nil || !errors.Is(err, ErrNoUser) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "home")
	if _, err := unknown(file, why); !errors.Is(err, ErrNoUser) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(file, []byte("/evil\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func() error{
		"a file of another user":      func() error { return os.Chown(file, 4711, -1) },
		"a file that others write":    func() error { return os.Chmod(file, 0o666) },
		"a directory of another user": func() error { return os.Chown(dir, 4711, -1) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if got, err := unknown(file, why); err == nil || !errors.Is(err, ErrNoUser) {
			t.Errorf("%s: %q, %v, want an error", what, got, err)
		}
		if err := errors.Join(os.Chown(file, 0, -1), os.Chown(dir, 0, -1), os.Chmod(file, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := unknown(file, why); got != "/evil" || err != nil {
		t.Errorf("after the repair: %q, %v", got, err)
	}
}
