package shell_test

import (
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel/shell"
)

// A redirection into the home directory is found for every spelling of that directory.
func TestRedirectHome(t *testing.T) {
	t.Parallel()
	for _, line := range []string{`echo x > ~/.a/b`, `echo x > $HOME/.a/b`, `echo x >> "$HOME/.a/b"`, `echo x > "${HOME}"/.a/b`} {
		if s := shell.Parse(line); !slices.Contains(s.Writes, "~/.a/b") {
			t.Errorf("%s writes %q, want ~/.a/b", line, s.Writes)
		}
	}
	if s := shell.Parse(`echo x > "$OTHER/.a/b"`); len(s.Writes) > 0 {
		t.Errorf("a computed name is told as %q", s.Writes)
	}
}
