package tree_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/internal/tree/toml"
)

// outline formats a tree with the position of each value.
func outline(n *tree.Node) string {
	var b strings.Builder
	var walk func(name string, n *tree.Node)
	walk = func(name string, n *tree.Node) {
		fmt.Fprintf(&b, "%s %d:%d %s", name, n.Line, n.Col, n.Kind)
		if n.Kind == tree.Text {
			fmt.Fprintf(&b, " %q", n.Text)
		}
		b.WriteByte('\n')
		for _, member := range n.Names {
			walk(name+"."+member, n.Members[member])
		}
		for i, item := range n.Items {
			walk(fmt.Sprintf("%s[%d]", name, i), item)
		}
	}
	walk("", n)
	return b.String()
}

// Each value of a file has its line and column, in characters. The last of equal names applies,
// as in JavaScript.
func TestParseJSON(t *testing.T) {
	t.Parallel()
	n, err := tree.ParseJSON([]byte("\xef\xbb\xbf{\n \"\u00e4\u00f6\": 1, \"b\" :\t[true ,\r\n\tnull],\n\"\u00e4\u00f6\":\"x\\n\\u0041\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := " 1:1 an object\n.\u00e4\u00f6 4:6 text \"x\\nA\"\n.b 2:17 a list\n.b[0] 2:18 true or false\n.b[1] 3:2 null\n"
	if diff := cmp.Diff(want, outline(n)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"":              "0:0: ",
		"{":             "1:1: is not JSON: unexpected end of JSON input",
		"{\n\"a\": 01}": "2:7: is not JSON: invalid character '1' after object key:value pair",
		"{} {}":         "1:4: is not JSON: invalid character '{' after top-level value",
		"{'a': 1}":      "1:2: is not JSON: invalid character '\\'' looking for beginning of object key string",
		strings.Repeat("[", 300) + strings.Repeat("]", 300): "1:202: its values are nested deeper than 200",
	} {
		got := "0:0: "
		if _, err := tree.ParseJSON([]byte(text)); err != nil {
			got = fmt.Sprintf("%d:%d: %s", err.Line, err.Col, err.Msg)
		}
		if got != want {
			t.Errorf("%.20q: %s, want %s", text, got, want)
		}
	}
}

func TestParseTOML(t *testing.T) {
	t.Parallel()
	n, err := toml.Parse([]byte(`# a comment
title = "T\u0041\tB" # behind
"quoted key".'and more' = 'raw\n'
big = 1_000
hex = 0xFF
float = -1.5e3
inf = inf
when = 2026-11-21 # a date
time = 07:32:00
yes = true
list = [ 1, [2, "three"], # four
  4,
]
inline = {x = 1, y.z = "w", e = {}}
long = """
one \
   two
"three" """
rawlong = '''
a\b
'''
empty = """"""
edge = """a"""""

[a.b]
c = 1
[a]
d = 2
[[a.t]]
n = 1
[a.t.sub]
m = 1
[[a.t]]
n = 2
[ "x y" . z ]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := ` 1:1 an object
.title 2:9 text "TA\tB"
.quoted key 3:1 an object
.quoted key.and more 3:27 text "raw\\n"
.big 4:7 a number
.hex 5:7 a number
.float 6:9 a number
.inf 7:7 a number
.when 8:8 a number
.time 9:8 a number
.yes 10:7 true or false
.list 11:1 a list
.list[0] 11:10 a number
.list[1] 11:1 a list
.list[1][0] 11:14 a number
.list[1][1] 11:17 text "three"
.list[2] 12:3 a number
.inline 14:10 an object
.inline.x 14:15 a number
.inline.y 14:18 an object
.inline.y.z 14:24 text "w"
.inline.e 14:33 an object
.long 15:8 text "one two\n\"three\" "
.rawlong 19:11 text "a\\b\n"
.empty 22:9 text ""
.edge 23:8 text "a\"\""
.a 25:2 an object
.a.b 25:4 an object
.a.b.c 26:5 a number
.a.d 28:5 a number
.a.t 29:5 a list
.a.t[0] 29:5 an object
.a.t[0].n 30:5 a number
.a.t[0].sub 31:6 an object
.a.t[0].sub.m 32:5 a number
.a.t[1] 33:5 an object
.a.t[1].n 34:5 a number
.x y 35:3 an object
.x y.z 35:11 an object
`
	if diff := cmp.Diff(want, outline(n)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"a = ":                            `1:4: expected value, not end of input`,
		"a":                               `1:1: expected '=' after key`,
		"= 1":                             `1:1: invalid character at start of key: U+003D '='`,
		"a = 1\na = 2":                    `2:1: duplicate key "a"`,
		"a = 1\n[a]":                      `2:2: duplicate key "a"`,
		"a = []\n[[a]]":                   `2:3: duplicate key "a"`,
		"a = 1\na.b = 2":                  `2:1: duplicate key "a"`,
		"[a]\n[a]":                        `2:2: duplicate key "a"`,
		"[a":                              `1:2: expected ']' to close table name`,
		"[[a]":                            `1:4: expected ']]' to close array table name`,
		"a = 1 b = 2":                     `1:7: expected newline but got U+0062 'b'`,
		"a = [1 2]":                       `1:8: expected ',' or ']' after array value`,
		"a = [1,":                         `1:7: array is incomplete`,
		"a = {b = 1 c = 2}":               `1:12: expected ',' or '}' after inline table key-value`,
		"a = yes":                         `1:5: unexpected character U+0079 'y' at start of value`,
		"a = 'x":                          `1:6: unterminated literal string`,
		"a = \"x\ny\"":                    `1:7: basic strings cannot have new lines`,
		`a = """x`:                        `1:8: multiline basic string not terminated by """`,
		`a = "\q"`:                        `1:6: invalid escape character U+0071 'q'`,
		`a = "\u00"`:                      `1:6: unicode escape sequence is too short`,
		`a = "\uD800"`:                    `1:6: escape sequence is not a valid unicode code point`,
		"a = \xff":                        `1:5: unexpected character U+00FF 'ÿ' at start of value`,
		"a = " + strings.Repeat("[", 300): `1:304: array is incomplete`,
	} {
		_, err := toml.Parse([]byte(text))
		if err == nil {
			t.Errorf("%q: no error, want %s", text, want)
			continue
		}
		if got := fmt.Sprintf("%d:%d: %s", err.Line, err.Col, strings.TrimPrefix(err.Msg, "is not TOML: ")); got != want {
			t.Errorf("%.30q: %s, want %s", text, got, want)
		}
	}
}

// A file that encoding/json accepts has the same values in a tree.
func FuzzParseJSON(f *testing.F) {
	for _, text := range []string{
		"", " ", "{}", `{"a":[1,-2.5e3,true,false,null,"x\u00e9\n"],"a":{"b":[]}}`, "[ [ ] , { } ]", `"\ud800\"\\"`, "\xef\xbb\xbf{\"a\" :\t1}", `[1 2]`, `{"a"}`, "\"\xff\"",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		root, wrong := tree.ParseJSON(data)
		text := bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
		if len(bytes.TrimSpace(text)) == 0 {
			text = []byte("{}")
		}
		var want any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&want); err != nil || !json.Valid(text) {
			if wrong == nil {
				t.Errorf("%q has a tree, and encoding/json says %v", data, err)
			}
			return
		}
		if wrong != nil {
			if !strings.Contains(wrong.Msg, "nested deeper") {
				t.Errorf("%q: %v", data, wrong)
			}
			return
		}
		if got := plain(t, root); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", data, got, want)
		}
	})
}

// plain returns the value of a node as encoding/json would.
func plain(t *testing.T, n *tree.Node) any {
	t.Helper()
	switch n.Kind {
	case tree.Object:
		all := map[string]any{}
		for _, name := range n.Names {
			all[name] = plain(t, n.Get(name))
		}
		return all
	case tree.List:
		all := []any{}
		for _, item := range n.Items {
			all = append(all, plain(t, item))
		}
		return all
	case tree.Text:
		return n.Text
	case tree.Number:
		return json.Number(n.Raw)
	case tree.Bool:
		return n.IsTrue()
	case tree.Null:
	}
	return nil
}
