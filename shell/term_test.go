package shell

import (
	"path"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// The short form of a path is what path.Clean says, for any path.
func TestShortest(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"/", "//", ".", "..", "a", ".a", "a.", ":", "b c"})
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(piece, 1, 8).Draw(t, "pieces"), "")
		want := s
		if strings.Contains(s, "/") && !strings.Contains(s, "://") {
			want = path.Clean(s)
		}
		if got := shortest(s); got != want {
			t.Fatalf("shortest(%q) = %q, want %q", s, got, want)
		}
	})
}
