package printable

import (
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestTextAndLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, text, line string }{
		"plain":          {"a b", "a b", "a b"},
		"lines":          {"a\n\tb", "a\n\tb", "a\uFFFD\uFFFDb"},
		"escapes":        {"\x1b[2Ja\u009b2J", "\uFFFD[2Ja\uFFFD2J", "\uFFFD[2Ja\uFFFD2J"},
		"carriage":       {"safe\rrm", "safe\uFFFDrm", "safe\uFFFDrm"},
		"direction":      {"a\u202eb\u200bc", "a\uFFFDb\uFFFDc", "a\uFFFDb\uFFFDc"},
		"not UTF-8":      {"a\xffb", "a\uFFFDb", "a\uFFFDb"},
		"other scripts":  {"日本 é", "日本 é", "日本 é"},
		"nothing at all": {"", "", ""},
	} {
		if got := Text(c.in); got != c.text {
			t.Errorf("%s: Text(%q) = %q, want %q", name, c.in, got, c.text)
		}
		if got := Line(c.in); got != c.line {
			t.Errorf("%s: Line(%q) = %q, want %q", name, c.in, got, c.line)
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add("\x1b]0;title\a\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		got := Line(text)
		if !utf8.ValidString(got) {
			t.Errorf("Line(%q) = %q, which is not UTF-8", text, got)
		}
		for _, r := range got {
			if unicode.Is(unicode.C, r) {
				t.Errorf("Line(%q) = %q holds %U", text, got, r)
			}
		}
	})
}
