// Package glob compares the patterns of the library with those of bmatcuk/doublestar.
package glob

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/grapnel-dev/grapnel/internal/glob"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// Some texts mean something else to doublestar: it takes a brace in a class inside braces for the
// end, does not see the ** that braces after a * complete, and lets a/{b,**} and **/{a,} not match what
// a/** and **/ match. It keeps a backslash in the base
// before a character that needs none.
var (
	different = regexp.MustCompile(`(?s)\{.*(\[|\*\*)|\*\{|\*\*/\{+(.*,)?[,}]`)
	kept      = regexp.MustCompile(`(?s)\\[^*?\[\]{}]`)
)

func compare(t testing.TB, pattern, name string) {
	t.Helper()
	valid := glob.Valid(pattern)
	if want := doublestar.ValidatePattern(pattern); valid != want {
		t.Errorf("Valid(%q) = %v, want %v", pattern, valid, want)
	}
	base, rest := glob.Split(pattern)
	if wantBase, wantRest := doublestar.SplitPattern(pattern); !kept.MatchString(pattern) && (base != wantBase || rest != wantRest) {
		t.Errorf("Split(%q) = %q, %q, want %q, %q", pattern, base, rest, wantBase, wantRest)
	}
	got := glob.Match(pattern, name)
	if !valid || different.MatchString(pattern) {
		return
	}
	if want := doublestar.MatchUnvalidated(pattern, name); got != want {
		t.Errorf("Match(%q, %q) = %v, want %v", pattern, name, got, want)
	}
}

func TestSameAsTheLibrary(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"a", "b", "/", "*", "**", "**/", "/**", "?", "[a-b]", "[!a]", `[\]/b]`, "[", "]", "{", "}", "{a,b}", "{a/,**}", ",", "-", `\`, "é", "\xff", "^"})
	letter := rapid.SampledFrom([]string{"a", "b", "/", "a/b", "*", "é", "\xff", `\`, "-", "]"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pattern"), "")
		name := strings.Join(rapid.SliceOfN(letter, 0, 6).Draw(t, "name"), "")
		compare(t, pattern, name)
	})
}

func FuzzSameAsTheLibrary(f *testing.F) {
	f.Add("**/{a,b}/[a-z]*", "x/b/c")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if strings.Count(pattern, "{") < 8 {
			compare(t, pattern, name)
		}
	})
}
