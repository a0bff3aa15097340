package yaml

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestRefused checks the message and the position for everything that the reader rejects.
func TestRefused(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a:\n\tb: 1":                "2:1: a tab cannot indent: write spaces",
		"a:\n  - b\n \t- c":         "3:2: a tab cannot indent",
		"-\t- a":                    "1:2: a tab cannot indent",
		"-\ta: b":                   "1:2: a tab cannot indent",
		"a: b: c":                   "1:5: a mapping cannot start on this line",
		"--- a: b":                  "1:6: a mapping cannot start on this line",
		"a: - b":                    "1:4: a list cannot start on this line",
		"a: b\n  c: d":              "2:4: a key must be on one line",
		"a: b\n  - c":               "2:3: this line would be part of the text above it",
		"[a\n- b]":                  "2:1: this line would be part of the text above it",
		"a: 1\n b: 2":               "2:3: a key must be on one line",
		"a: 'x'\n b: 2":             "2:2: this line is indented by 1 spaces",
		"a:\n  b: 1\n c: 2":         "3:2: this line is indented by 1 spaces",
		"a:\n  - b\n  c: d":         "3:3: this line is indented by 2 spaces",
		"a: 'b'\n- c":               "2:1: a list item is between the keys",
		"- a\nb: c":                 "2:1: this line does not fit the lines above it",
		"a: b\nc":                   "2:1: a key of a mapping ends with",
		"a: [1, 2":                  `1:4: "[" is not closed`,
		"a: {b: 1\n---\n":           `1:4: "{" is not closed`,
		"[a: b":                     `1:1: "[" is not closed`,
		"[1, 2}":                    `1:6: write a comma or "]" here: the "[" of line 1 is open`,
		"[[a]\n, {b]]":              `2:5: write a comma or "}" here: the "{" of line 2 is open`,
		"a: ]":                      `1:4: "]" closes no bracket`,
		"[a,,b]":                    `1:4: "," closes no bracket`,
		"{a:1}":                     `1:2: "a:1" would be a key`,
		"{a:1, b: 2}":               `1:2: "a:1" would be a key`,
		"[a:]":                      `1:3: write a space after ":"`,
		"[a:, b]":                   `1:3: write a space after ":"`,
		"[a\n: b]":                  "2:1: a key in a list must be on one line",
		"a: \"x":                    "1:4: the quote that starts here is not closed",
		"a: 'x\nb: 'y'":             "1:4: the quote that starts here is not closed on its line",
		"'x\n---\n'":                "1:1: the quote that starts here is not closed",
		`a: "\q"`:                   `1:5: \q is not a valid escape`,
		`a: "\é"`:                   `1:5: \é is not a valid escape`,
		`a: "\`:                     `1:5: \ is not a valid escape`,
		`a: "\x4"`:                  `1:5: \x needs 2 hexadecimal digits`,
		`a: "\u-123"`:               `1:5: \u needs 4 hexadecimal digits`,
		`a: "\ud83d"`:               "1:5: this escape is not a Unicode character",
		`a: "\ud83d\u0041"`:         "1:5: this escape is not a Unicode character",
		`a: "\UFFFFFFFF"`:           "1:5: this escape is not a Unicode character",
		"a: 'b'c":                   "1:7: only a comment may follow this value",
		"a: 'b'#c":                  "1:7: a comment needs a space before #",
		"a: [b] c":                  "1:8: only a comment may follow this value",
		"a: @b":                     `1:4: text that starts with "@" must be in quotes`,
		"a: %b":                     `1:4: text that starts with "%" must be in quotes`,
		"[|]":                       `1:2: text that starts with "|" must be in quotes`,
		"a: | b":                    "1:6: only a comment may follow |",
		"a: |0\n  b":                "1:5: only a comment may follow |",
		"a: |\n    \n  b":           "2:1: this empty line has more spaces",
		"|1\n b":                    "1:1: a document that contains only a text needs no digit",
		"a: !!str b":                "1:4: tags such as !!str are not supported",
		"a: !!null":                 "1:4: tags such as !!null are not supported",
		"? a\n: b":                  `1:1: keys that start with "? " are not supported`,
		"a: &x {}\nb: {<<: *x}":     "2:5: merge keys (<<) are not supported",
		"&x <<: a":                  "1:4: merge keys (<<) are not supported",
		"a: 1\nb: 2\n'a': 3":        `3:1: key "a" is defined twice, first in line 1`,
		"{a, a}":                    `1:5: key "a" is defined twice, first in line 1`,
		"true: a\nTrue: b":          `2:1: key "true" is defined twice`,
		"[a]: b":                    "1:1: a key must be text",
		"~: a":                      "1:1: a key must be text: put null in quotes",
		": a":                       `1:1: a key is missing before ":"`,
		"a: *x":                     "1:4: alias *x has no anchor before it",
		"&x [*x]":                   "1:5: alias *x has no anchor before it",
		"a: * b":                    `1:4: "*" starts the name of an anchor`,
		"*.go: b":                   `1:1: "*" starts the name of an anchor`,
		"- &x &y a":                 "1:6: a value can have only one anchor",
		"- &x - a":                  "1:6: a list must start on the line below its anchor",
		"%TAG ! x\n---\na":          "1:1: this directive is not supported",
		"%YAML 1.2\n%YAML 1.2\n---": "2:1: this directive is not supported",
		"%YAML 2.0\n---\na":         "1:1: this directive is not supported",
		"%YAML 1.2\na":              "2:1: a line --- must follow a directive",
		"a: 1\n--- b":               "2:5: a second document",
		"a: 1\n...\nb: 1":           "3:1: a second document",
		"a: 1\n... b":               "2:5: only a comment may follow the end",
		"a: \xff":                   "1:4: the byte 0xff is not UTF-8",
		"é: \x80":                   "1:4: the byte 0x80 is not UTF-8",
		"a: 1\nb: \x00":             "2:4: the control character U+0000",
		"a: \x1b[2J":                "1:4: the control character U+001B",
		"a: \u0081":                 "1:4: the control character U+0081",
		"a: b\ufeff":                "1:5: a byte order mark",
		"a: \uffff":                 "1:4: U+FFFF is not a character",
	} {
		_, err := Parse([]byte(in))
		var at *Error
		if !errors.As(err, &at) {
			t.Errorf("Parse(%q): error = %v, want %q", in, err, want)
			continue
		}
		if got := fmt.Sprintf("%d:%d: %s", at.Line, at.Col, at.Msg); !strings.HasPrefix(got, want) {
			t.Errorf("Parse(%q): error = %q, want %q", in, got, want)
		}
	}
}

// TestAnchors checks the results of aliases: a key that is an alias does not change its value.
func TestAnchors(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a: &x 1\n*x : b\nc: *x":         `{"a":1,"1":"b","c":1}`,
		"a:\n- &x\nb: *x":                `{"a":[null],"b":null}`,
		"a:\n- b\n-\nc: d":               `{"a":["b",null],"c":"d"}`, // the key is not swallowed by the item
		"- &x\n  a: b\n- *x":             `[{"a":"b"},{"a":"b"}]`,
		"&x a: &y b\nc: *x\nd: *y":       `{"a":"b","c":"a","d":"b"}`,
		"&x\n&y a: b\nc: *y":             "", // two anchors in a row are rejected
		"a: \"\\ud83d\\ude00\"":          `{"a":"😀"}`,
		"a: |+\n\n\nb: 1":                `{"a":"\n\n","b":1}`,
		"a: >\n\n  b\n  c\n\n    d\n  e": `{"a":"\nb c\n\n  d\ne"}`,
		"---\n---\na: 1\n---\n...\n":     `{"a":1}`, // empty documents do not hide the only other one
		"a: 1\rb: 2\r\n":                 `{"a":1,"b":2}`,
		"a: +-1":                         `{"a":"+-1"}`,
	} {
		n, err := Parse([]byte(in))
		got := ""
		if err == nil {
			got = string(n.JSON())
		}
		if got != want {
			t.Errorf("Parse(%q) = %s, %v, want %s", in, got, err, want)
		}
	}
}

func policy(rules int) []byte {
	b := "version: 1\nhooks:\n"
	for i := range rules {
		b += fmt.Sprintf("  # why %d\n  - name: rule-%d\n    on: tool.before\n    match: {tool: [Bash, \"Edit|Write\"], command: 'rm *'}\n    block: |\n      Not here,\n      ask first.\n    timeout: 5s\n", i, i)
	}
	return []byte(b)
}

func BenchmarkParse(b *testing.B) {
	data := policy(50)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}
