package typeset

import (
	"strings"
	"testing"
)

// Wrapping changes neither the text nor its styles, and no row is too wide.
func TestWrap(t *testing.T) {
	t.Parallel()
	x := strings.Repeat("x", 30)
	for name, tt := range map[string]struct {
		row   Row
		width int
		want  string
	}{
		"fits":                {Row{Text("abc def")}, 21, "abc def"},
		"no limit":            {Row{Text("%s", x+x)}, NoLimit, x + x},
		"between words":       {Row{Text("the quick brown fox jumps")}, 21, "the quick brown fox|jumps"},
		"to the letter":       {Row{Text("the quick brown foxes")}, 21, "the quick brown foxes"},
		"a long word":         {Row{Text("a %s b", x)}, 21, "a|" + x[:21] + "|" + x[21:] + " b"},
		"several spaces":      {Row{Text("a  b")}, 21, "a  b"},
		"spaces at the end":   {Row{Text("the quick brown foxes  ")}, 21, "the quick brown foxes"},
		"styles":              {Row{Text("the quick "), Red.Span("brown fox jumps")}, 21, "the quick <31:brown fox>|<31:jumps>"},
		"two styles, one row": {Row{Red.Span("a"), Bold.Span("b"), Text("c")}, 21, "<31:a><1:b>c"},
		"letters, not bytes":  {Row{Text("%s", strings.Repeat("é", 21))}, 21, strings.Repeat("é", 21)},
		"columns":             {Row{Text("日本語日本語 日本語日本語")}, 14, "日本語日本語|日本語日本語"},
		"nothing":             {nil, 21, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rows []string
			for _, row := range tt.row.Wrap(tt.width, tt.width) {
				if row.Columns() > tt.width {
					t.Errorf("a row of %d columns, more than %d: %q", row.Columns(), tt.width, row.Plain())
				}
				rows = append(rows, marked(row))
			}
			if got := strings.Join(rows, "|"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCutAndFill(t *testing.T) {
	t.Parallel()
	row := Row{Red.Span("日本"), Text(" abc  ")}
	for width, want := range map[int][2]string{
		0: {"", ""}, 3: {"<31:日…>", "<31:日…>"}, 7: {"<31:日本> a…", "<31:日本> a…"}, 10: {"<31:日本> abc  ", "<31:日本> abc  "}, 12: {"<31:日本> abc  ", "<31:日本> abc    "},
	} {
		if got := marked(row.Cut(width)); got != want[0] {
			t.Errorf("cut to %d: %q, want %q", width, got, want[0])
		}
		if got := marked(row.Fill(width)); got != want[1] {
			t.Errorf("filled to %d: %q, want %q", width, got, want[1])
		}
	}
	if got := marked(row.TrimRight()); got != "<31:日本> abc" {
		t.Errorf("trimmed: %q", got)
	}
	if got := row.In(true); got != "\x1b[31m日本\x1b[0m abc  " {
		t.Errorf("painted: %q", got)
	}
}
