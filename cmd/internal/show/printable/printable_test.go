package printable

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
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

// JSON keeps the value, and no character of the text can control a terminal.
func TestJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"{\n\t\"a\": \"é日\"\n}\n":                       "{\n\t\"a\": \"é日\"\n}\n",
		"\"\u009b2J\u009d0;x\u007f\u202e\u2028\u2029\"": `"\u009b2J\u009d0;x\u007f\u202e\u2028\u2029"`,
		"\"a\u200b\U000e0041\"":                         `"a\u200b\udb40\udc41"`,
	} {
		got := JSON(in)
		if got != want {
			t.Errorf("JSON(%q) = %q, want %q", in, got, want)
		}
		var before, after any
		if err := errors.Join(json.Unmarshal([]byte(in), &before), json.Unmarshal([]byte(got), &after)); err != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("JSON(%q) has another value: %v", in, err)
		}
	}
}

func TestDense(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                    "",
		"a b\n\n\tc\n":                        "a b\n\n\tc\n",
		"a" + strings.Repeat(" ", 40) + "b":   "a" + strings.Repeat(" ", 40) + "b",
		"a" + strings.Repeat(" ", 6000) + "b": "a[6000 spaces]b",
		"a" + strings.Repeat("\u3000\t", 30) + "b": "a[60 spaces]b",
		"a" + strings.Repeat("\u2800", 41) + "b":   "a[41 spaces]b",
		"a" + strings.Repeat("\n", 300) + "b":      "a\n[300 line breaks]\nb",
		"a" + strings.Repeat("\n ", 9) + "b":       "a\n[9 line breaks and 9 spaces]\nb",
		"a\n" + strings.Repeat(" ", 99) + "b":      "a\n[99 spaces]b",
		"a" + strings.Repeat("\r", 50) + "\x1b[2J": "a" + strings.Repeat("\uFFFD", 51) + "[2J",
		strings.Repeat("\n", 5):                    "\n[5 line breaks]\n",
	} {
		if got := Dense(in); got != want {
			t.Errorf("Dense(%q) = %q, want %q", in, got, want)
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
