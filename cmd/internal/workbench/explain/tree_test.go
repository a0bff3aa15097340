package explain

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
)

func drawn(t *tree, width int) string {
	var b bytes.Buffer
	(&pen{out: &b, width: width, paint: func(code, text string) string { return "<" + code + ":" + text + ">" }}).draw(t)
	return b.String()
}

func TestTree(t *testing.T) {
	t.Parallel()
	root := &tree{line: []span{{"event", cli.Bold}, text(" tool.before")}}
	root.note(text("command: make\nall"))
	rules := root.add(text("rules"))
	rules.add(text("one "), span{"blocks", cli.Red}).note(text("it is so"))
	rules.add(text("two")).add(text("inner"))
	root.add(text("reply")).note(text("a line of several words that does not fit"))
	if got, want := drawn(root, 0), `<1:event> tool.before
│  command: make
│  all
├─ rules
│  ├─ one <31:blocks>
│  │    it is so
│  └─ two
│     └─ inner
└─ reply
     a line of several words that does not fit
`; got != want {
		t.Errorf("drawn\n%s\nwant\n%s", got, want)
	}
	if got, want := drawn(root, 28), `     a line of several words
       that does not fit
`; !strings.HasSuffix(got, want) {
		t.Errorf("drawn in 28 letters\n%s\nwant it to end with\n%s", got, want)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		line  []span
		width int
		want  string // rows, each color before its text
	}{
		"fits":               {[]span{text("abc def")}, 30, "abc def"},
		"no end":             {[]span{text("%s", strings.Repeat("x", 200))}, 0, strings.Repeat("x", 200)},
		"between words":      {[]span{text("the quick brown fox jumps")}, 25, "the quick brown fox|jumps"},
		"to the letter":      {[]span{text("the quick brown foxes")}, 25, "the quick brown foxes"},
		"a long word":        {[]span{text("a %s b", strings.Repeat("x", 30))}, 25, "a " + strings.Repeat("x", 19) + "|" + strings.Repeat("x", 11) + " b"},
		"several spaces":     {[]span{text("a  b")}, 25, "a  b"},
		"colours":            {[]span{text("the quick "), {"brown fox jumps", cli.Red}}, 25, "the quick 31brown fox|31jumps"},
		"letters, not bytes": {[]span{text("%s", strings.Repeat("é", 21))}, 25, strings.Repeat("é", 21)},
		"nothing":            {nil, 25, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rows []string
			for _, row := range wrap(tt.line, tt.width, 4, 4) {
				var b strings.Builder
				n := 4
				for _, s := range row {
					b.WriteString(s.code + s.text)
					n += utf8.RuneCountInString(s.text)
				}
				if tt.width > 0 && n > tt.width {
					t.Errorf("a row of %d letters, more than %d: %q", n, tt.width, b.String())
				}
				rows = append(rows, b.String())
			}
			if got := strings.Join(rows, "|"); got != tt.want {
				t.Errorf("wrap(%q, %d) = %q, want %q", tt.line, tt.width, got, tt.want)
			}
		})
	}
}
