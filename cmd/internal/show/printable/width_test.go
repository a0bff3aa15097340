package printable

import (
	"strings"
	"testing"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text        string
		width       int
		right, left string
	}{
		{"short", 5, "short", "short"},
		{"longer", 5, "long…", "…nger"},
		{"日本語", 6, "日本語", "日本語"},
		{"日本語", 5, "日本…", "…本語"},
		{"日本語", 4, "日…", "…語"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301", "e\u0301e\u0301e\u0301"},
		{"ab", 1, "…", "…"},
		{"ab", 0, "", ""},
		{"", 3, "", ""},
	} {
		if got := Cut(c.text, c.width); got != c.right {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.text, c.width, got, c.right)
		}
		if got := CutLeft(c.text, c.width); got != c.left {
			t.Errorf("CutLeft(%q, %d) = %q, want %q", c.text, c.width, got, c.left)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"one two three", 0, "one two three"},
		{"one two three", 8, "one two|  three"},
		{"one two three four", 9, "one two|  three|  four"},
		{"longerthanthis word", 8, "longerth|  anthis|  word"},
		{"exactly8 more", 8, "exactly8|  more"},
		{"", 8, ""},
		{"日本語日本語", 8, "日本語日|  本語"},
	} {
		if got := strings.Join(Wrap(c.text, c.width, "  "), "|"); got != c.want {
			t.Errorf("Wrap(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
