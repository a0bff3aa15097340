package yaml_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, want string }{
		"empty":          {"", "null"},
		"comment only":   {"# nothing\n", "null"},
		"scalars":        {"a: 1\nb: true\nc: ~\nd: text\ne: '1'\nf: 1.50\ng: 9007199254740993\n", `{"a":1,"b":true,"c":null,"d":"text","e":"1","f":1.50,"g":9007199254740993}`},
		"flow":           {"{a: [1, x], b: {c: d}}", `{"a":[1,"x"],"b":{"c":"d"}}`},
		"one pair":       {"a: b", `{"a":"b"}`},
		"list of maps":   {"- a: 1\n  b: 2\n- c: 3\n", `[{"a":1,"b":2},{"c":3}]`},
		"block text":     {"a: |\n  one\n  two\n", `{"a":"one\ntwo\n"}`},
		"folded text":    {"a: >-\n  one\n  two\n", `{"a":"one two"}`},
		"anchor":         {"a: &x [1]\nb: *x\n", `{"a":[1],"b":[1]}`},
		"no HTML escape": {"a: '<&>'", `{"a":"<&>"}`},
		"BOM":            {"\xef\xbb\xbfa: 1", `{"a":1}`},
		"CRLF":           {"a: 1\r\nb: 2\r\n", `{"a":1,"b":2}`},
		"null value":     {"a:\nb: 1\n", `{"a":null,"b":1}`},
		"document start": {"---\na: 1\n", `{"a":1}`},
		"hex":            {"a: 0x10", `{"a":"0x10"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, err := yaml.Parse([]byte(tt.in))
			if err != nil {
				t.Fatalf("Parse(%q): %v", tt.in, err)
			}
			if got := string(n.JSON()); got != tt.want {
				t.Errorf("Parse(%q) = %s, want %s", tt.in, got, tt.want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		in   string
		line int
		want string
	}{
		"tab":           {"a:\n\tb: 1\n", 2, ""},
		"open bracket":  {"a: [1, 2\n", 1, ""},
		"duplicate":     {"a: 1\nb: 2\na: 3\n", 3, "a"},
		"two documents": {"a: 1\n---\nb: 2\n", 3, "second document"},
		"tag":           {"a: !!str 1\n", 1, "tags"},
		"merge key":     {"a: &x {b: 1}\nc:\n  <<: *x\n", 3, "merge"},
		"no anchor":     {"a: *x\n", 1, ""},
		"deep":          {strings.Repeat("[", 200_000), 1, "deep"},
		"too large":     {strings.Repeat("a", yaml.MaxSize+1), 1, "more than"},
		"bomb":          {bomb(), 0, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := yaml.Parse([]byte(tt.in))
			var at *yaml.Error
			if !errors.As(err, &at) {
				t.Fatalf("error = %v, want a *yaml.Error", err)
			}
			if tt.line > 0 && at.Line != tt.line || !strings.Contains(at.Msg, tt.want) {
				t.Errorf("error = %d:%d: %s, want line %d and %q", at.Line, at.Col, at.Msg, tt.line, tt.want)
			}
		})
	}
}

func TestPositions(t *testing.T) {
	t.Parallel()
	n, err := yaml.Parse([]byte("version: 1\nhooks:\n  - name: x\n    match: {tool: [a]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	hook := n.Get("hooks").Items[0]
	name, match := hook.Get("name"), hook.Get("match")
	tool := match.Get("tool")
	got := fmt.Sprint(hook.Line, hook.Col, name.Line, name.Col, match.Line, match.Col, tool.Line, tool.Items[0].Col)
	if want := fmt.Sprint(3, 5, 3, 11, 4, 13, 4, 20); got != want {
		t.Errorf("positions = %s, want %s", got, want)
	}
}

func bomb() string {
	b := "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n"
	for i := 1; i < 9; i++ {
		b += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	return b
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("version: 1\nhooks: [{name: a, on: b}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := yaml.Parse(data)
		if err == nil && len(n.JSON()) == 0 {
			t.Errorf("Parse(%q) gives no JSON", data)
		}
	})
}
