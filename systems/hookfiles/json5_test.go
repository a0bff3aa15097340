package hookfiles

import (
	"encoding/json"
	"strings"
	"testing"
)

// Removing comments does not move any other text.
func TestWithoutComments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{// a\n}":              "{    \n}",
		"{/* a\n b */ \"c\":1}": "{    \n      \"c\":1}",
		`{"//": "/* \" // */"}`: `{"//": "/* \" // */"}`,
		"/":                     "/",
		"/* open":               "       ",
		"{'//'}":                "{'    ",
	} {
		if got := string(WithoutComments([]byte(text))); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestFromJSON5(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{a: 1, 'b': "c",}`:          `{"a": 1, "b": "c"}`,
		`[1, 2, ]`:                   `[1, 2 ]`,
		`{$x_1: +1, y: .5, z: 5.,}`:  `{"$x_1": 1, "y": 0.5, "z": 5}`,
		`[0xFF, -0x10, Infinity]`:    `[255, -16, null]`,
		`['it\'s', 'a"b', '\x41\v']`: `["it's", "a\"b", "\u0041\u000b"]`,
		`['a // b', /* c */ "d"]`:    `["a // b",         "d"]`,
		"['a\\\nb', 1]":              "[\"ab\"\n, 1]",
		`{null: null, true: true}`:   `{"null": null, "true": true}`,
		`[1e5, 1.50]`:                `[1e5, 1.50]`,
	} {
		got := string(FromJSON5([]byte(text)))
		if got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"{a: b}", "'", "[1,,2]", "{a 1}", "'a\nb'", "[,]", `"\`} {
		if got := FromJSON5([]byte(text)); json.Valid(got) {
			t.Errorf("%q becomes %s, which is JSON", text, got)
		}
	}
}

// A hook without a name gets the name of its program.
func TestCalledAfter(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`python3 "$CLAUDE_PROJECT_DIR"/.claude/hooks/check.py --strict`: "check.py",
		`cd /x && ./run.sh`:          "x",
		`FOO=1 env BAR=2 /opt/guard`: "guard",
		`$(cat x)`:                   "x",
		`bash -c 'exit 2'`:           "exit",
		`node`:                       "node",
		`"${A}" "${B}"`:              "otherwise",
		``:                           "otherwise",
		`C:\tools\guard.exe -x`:      "guard.exe",
		strings.Repeat("x", 100):     "otherwise",
	} {
		if got := CalledAfter(line, "otherwise"); got != want {
			t.Errorf("%s is called %q, want %q", line, got, want)
		}
	}
}
