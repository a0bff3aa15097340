package typeset

import (
	"strings"
	"testing"
)

func drawn(t *Tree, width int) string {
	var b strings.Builder
	for _, row := range t.Rows(width) {
		b.WriteString(marked(row) + "\n")
	}
	return b.String()
}

// marked returns the text of a row with <STYLE:...> around styled spans.
func marked(row Row) string {
	var b strings.Builder
	for _, s := range row {
		if s.Style == Normal {
			b.WriteString(s.Text)
		} else {
			b.WriteString("<" + string(s.Style) + ":" + s.Text + ">")
		}
	}
	return b.String()
}

func TestTree(t *testing.T) {
	t.Parallel()
	root := &Tree{Row: Row{Bold.Span("event"), Text(" tool.before")}}
	root.Note(Text("command: make\nall"))
	rules := root.Add(Text("rules"))
	rules.Add(Text("one "), Red.Span("blocks")).Note(Text("it is so"))
	rules.Add(Text("two")).Add(Text("inner"))
	root.Add(Text("reply")).Note(Text("a line of several words that does not fit"))
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
		t.Errorf("drawn in 28 columns\n%s\nwant it to end with\n%s", got, want)
	}
}
