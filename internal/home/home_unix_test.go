//go:build unix && !darwin

package home

import (
	"errors"
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
		"no prefix match":          {uid: 100, err: errNoUser},
		"unknown":                  {uid: 4242, err: errNoUser},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := fromPasswd(strings.NewReader(passwd), tt.uid, 5)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("fromPasswd(%d, 5) = %q, %v, want %q, %v", tt.uid, got, err, tt.want, tt.err)
			}
		})
	}
}

// Environment variables from an agent's project settings must not change the home directory.
func TestDirIgnoresEnvironment(t *testing.T) {
	before, errBefore := Dir()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("USER", "mallory")
	after, errAfter := Dir()
	if before != after || (errBefore == nil) != (errAfter == nil) {
		t.Errorf("Dir changed with the environment: %q, %v became %q, %v", before, errBefore, after, errAfter)
	}
}
