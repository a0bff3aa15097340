package glob_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/glob"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"*.go", "a.go", true},
		{"*.go", "a/b.go", false},
		{"**/*.go", "a.go", true},
		{"**/*.go", "a/b/c.go", true},
		{"a/**", "a", true},
		{"a/**", "a/b/c", true},
		{"a/**", "ab", false},
		{"a/**/z", "a/z", true},
		{"a/**/z", "a/b/c/z", true},
		{"a/**z", "a/b/z", false},
		{"**/a/**/b*c", "x/a/a/bcbd/b.c", true},
		{"a?c", "a/c", false},
		{"[a-c]x", "bx", true},
		{"[!a-c]x", "bx", false},
		{`[\]-]x`, "]x", true},
		{"{a,b/{c,d}}.go", "b/d.go", true},
		{"{a,b/{c,d}}.go", "b/e.go", false},
		{"{[}],b}", "}", true},
		{`\*\\\{`, `*\{`, true},
		{"*", "", true},
		{"", "", true},
		{"é?", "éö", true},
		{"a/{**,b}", "a", true},
		{strings.Repeat("{a,b}", 60) + "c", strings.Repeat("b", 60) + "d", false}, // in little time
	} {
		if got := glob.Match(test.pattern, test.name); got != test.want {
			t.Errorf("Match(%q, %q) = %v", test.pattern, test.name, got)
		}
	}
}

func TestValid(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{"a": true, "": true, "{a,[b-]}": true, `\{`: true, "{a": false, "a}": false, "[a": false, "[]": false, "[!]": false, `a\`: false, "[]a]": false} {
		if got := glob.Valid(pattern); got != want {
			t.Errorf("Valid(%q) = %v", pattern, got)
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string][2]string{"a/b*/c": {"a", "b*/c"}, "*": {".", "*"}, "/a": {"/", "a"}, `a\*/b/c`: {"a*/b", "c"}, "a": {".", "a"}, "/x/{a}": {"/x", "{a}"}} {
		if base, rest := glob.Split(pattern); base != want[0] || rest != want[1] {
			t.Errorf("Split(%q) = %q, %q, want %q", pattern, base, rest, want)
		}
	}
}
