package yaml_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// tricky are documents with the features of YAML, one per entry. "⇥" represents a tab.
var tricky = strings.Split(strings.TrimPrefix(`
a
===
a b c
===
a: 1
===
a : 1
===
a   :   1
===
"a": 1
===
'a': 1
===
"a" : 1
===
a:
===
a:
b:
===
a:
  b:
===
a:
  b:
    c:
d:
===
a: b
c: d
e: f
===
a:
  b: c
d: e
===
a:
    b: c
    d:
     e: f
     g: h
    i: j
===
- a
===
- a
- b
===
-
===
-
-
===
-
  a
===
- a: b
===
- a: b
  c: d
===
- a: b
  c:
  - d
  - e
- f
===
-   a: b
    c: d
===
-
  a: b
  c: d
-
  e: f
===
- - a
  - b
- - c
===
- - - a
    - b
  - c
- d
===
- -
  - a
===
a:
- b
===
a:
- b
- c
d: e
===
a:
- b: c
  d: e
- f: g
h: i
===
a:
  - b
  - c
===
a:
    - b
    - c
d:
  - e
===
a:

  b
===
a:
  b
  c
===
a: b
  c
===
a: b
 c
===
a: b

  c
===
a: b


  c
  d
===
- a
  b
===
- a

  b
- c
===
a
b
===
a

b
===
# comment
===
# comment
a: b
===
a: b # comment
===
a: # comment
  b
===
a: # comment
  b: c
===
a:
  # comment
  b: c
===
a:
# comment
  b: c
===
a:
      # comment
  b: c
===
a: b
# comment
c: d
===
a: b
  # comment
c: d
===
a:
  b: c
# comment
  d: e
===
- a
# comment
- b
===
- # comment
  a
===
- a # comment
- b
===
a: b#c
===
a#b: c
===
a: #b
===
a: 'b' # c
===
a: "b" # c
===
a: [b] # c
===
a: {b: c} # d
===
a: | # c
  b
===
a: b:c
===
a: b:c:d
===
a:b: c
===
a: :b
===
a: -b
===
a: ?b
===
a: --b
===
a: ---b
===
a: ...
===
a: http://example.com:80/x?y=z#w
===
a: b, c
===
a: b [c]
===
a: b {c}
===
a: b]
===
a: b & c
===
a: b * c
===
a: b!
===
a: b | c
===
a: b > c
===
a: b'c
===
a: b"c
===
a: it's
===
a: 50%
===
a: b@c
===
a: \n
===
a: C:\b\c
===
a: ''
===
a: ""
===
a: 'it''s'
===
a: ''''
===
a: ''''''
===
a: '"'
===
a: "'"
===
a: "\""
===
a: '\n'
===
a: "\n"
===
a: "\t\r\0\a\b\v\f\e"
===
a: "\\"
===
a: "\/"
===
a: "\N\_\L\P"
===
a: "\x41"
===
a: "\xe9"
===
a: "\u00e9"
===
a: "\u20ac"
===
a: "\U0001F600"
===
a: "\ud83d\ude00"
===
a: "# b"
===
a: '# b'
===
a: "b: c"
===
a: ": "
===
a: '- b'
===
"a b": c
===
'a: b': c
===
"a\nb": c
===
a: "b
  c"
===
a: "b

  c"
===
a: "b


  c"
===
a: "b  
  c"
===
a: "b \
  c"
===
a: "b\
  c"
===
a: "b\n
  c"
===
a: "b
  \  c"
===
a: 'b
  c'
===
a: 'b

  c'
===
a: 'b  
    c  '
===
a: ' b '
===
a: " b "
===
a: |
  b
===
a: |
  b
  c
===
a: |
  b

  c
===
a: |

  b
===
a: |


  b
===
a: |
  b

===
a: |
  b


===
a: |-
  b
===
a: |-
  b

===
a: |+
  b
===
a: |+
  b

===
a: |+
  b


c: d
===
a: |-
  b
c: d
===
a: |
  b
c: d
===
a: |
    b
      c
    d
===
a: |
  b
   c
  d
===
a: |2
    b
===
a: |1
  b
===
a: |2-
    b
===
a: |-2
    b
===
a: |+1
  b
===
a: |
c: d
===
a: |
  # b
===
a: |
  b
# c
===
a: |
  b
 # c
===
a: |
  b: c
  - d
===
a: |
  ---
===
a: |
  b
  ⇥c
===
a: |
  b⇥c
===
a: >
  b
===
a: >
  b
  c
===
a: >
  b

  c
===
a: >
  b


  c
===
a: >
  b
    c
  d
===
a: >
  b
    c
    d
  e
===
a: >

  b
  c
===
a: >-
  b
  c
===
a: >+
  b

===
a: >
  b

    c

  d
===
- |
  a
- >
  b
===
- |
 a
- b
===
- a: |
    b
  c: d
===
a:
- |
  b
===
a:
  b: |
    c
  d: e
===
- - |
    a
===
[]
===
{}
===
[ ]
===
{ }
===
[a]
===
[a, b]
===
[a, b,]
===
[a,b]
===
[ a , b ]
===
[[a], [b, [c]]]
===
{a: b}
===
{a: b, c: d}
===
{a: b, c: d,}
===
{a: {b: {c: d}}}
===
{a: [b, c], d: [e]}
===
[{a: b}, {c: d}]
===
[a: b]
===
[a: b, c]
===
["a": b]
===
["a":b]
===
{"a":1}
===
{"a":1,"b":[2,3],"c":{"d":null}}
===
{'a': b}
===
{'a':b}
===
{a, b}
===
{a, b: c}
===
{"a", b}
===
{a: , b: }
===
{a: }
===
{a:}
===
{a:, b: c}
===
[a
 b]
===
[a,
 b]
===
[
  a,
  b
]
===
[
  a,
  b,
]
===
{
  a: b,
  c: d
}
===
{
  a:
    b,
}
===
{
  "a": [
    1,
    2
  ],
  "b": {}
}
===
a: [
  b
]
===
a: [b,
  c]
===
a: {
  b: c
}
===
a: {b: c,
  d: e}
===
[ # c
  a, # d
  # e
  b # f
]
===
{ # c
  a: b, # d
  c: d
}
===
[a#b]
===
[a:b]
===
[a::b]
===
[http://x/y]
===
["a, b", 'c, d']
===
["a]"]
===
[-1, - 1x]
===
[-a, ?b, :c]
===
[a b, c d]
===
- [a, b]
- {c: d}
===
- [a,
   b]
===
[a]: b
===
{a: b}: c
===
--- a
===
---
a
===
---
a: b
===
--- # c
a: b
===
---
- a
===
--- [a]
===
--- "a"
===
--- |
  a
===
--- >
  a
  b
===
---
===
---
...
===
a: b
...
===
a: b
---
===
a: b
---
c: d
===
---
a: b
...
---
c: d
===
a: &x b
c: *x
===
a: &x [b]
c: *x
===
a: &x {b: c}
c: *x
===
a: &x
  b: c
d: *x
===
a: &x
  - b
c: *x
===
- &x a
- *x
===
- &x
  a: b
- *x
===
[&x a, *x]
===
{a: &x b, c: *x}
===
&x a: b
c: *x
===
&x
a: b
===
a: &x "b"
c: *x
===
a: &x |
  b
c: *x
===
a: &x 1
b: &x 2
c: *x
===
a: *x
===
a: &x
b: *x
===
&x [a]
===
&x {a: b}
===
a: !!str b
===
a: !b c
===
!!map {a: b}
===
a: !!null
===
<<: a
===
a: <<
===
"<<": a
===
? a
: b
===
? a
===
{? a : b}
===
[? a : b]
===
a: null
===
a: Null
===
a: NULL
===
a: nULL
===
a: ~
===
a: true
===
a: True
===
a: TRUE
===
a: tRUE
===
a: false
===
a: False
===
a: FALSE
===
a: yes
===
a: no
===
a: on
===
a: off
===
on: a
===
y: a
===
true: a
===
True: a
===
1: a
===
1.5: a
===
a: 0
===
a: -0
===
a: +1
===
a: -1
===
a: 01
===
a: 08
===
a: 0o17
===
a: 0o8
===
a: 0x1F
===
a: 0xG
===
a: 0X1F
===
a: 0b101
===
a: 0b2
===
a: -0x1
===
a: 1_000
===
a: _1
===
a: 1_
===
a: 1.0
===
a: 1.
===
a: .1
===
a: .
===
a: ..
===
a: -.5
===
a: +.5
===
a: 1e3
===
a: 1.0e3
===
a: 1.0e+3
===
a: 1.e3
===
a: 1.5e999
===
a: 1.2.3
===
a: 18446744073709551615
===
a: 18446744073709551616
===
a: -9223372036854775808
===
a: -9223372036854775809
===
a: .inf
===
a: -.inf
===
a: .nan
===
a: 2024-01-02
===
a: 12:30
===
a: 1 2
===
a: -
===
a: +
===
a: 0x
===
a: 1,000
===
a: 5s
===
a: '1'
===
a: "true"
===
a: é
===
é: a
===
[é, ü: ö]
===
"é": "ü" # ö
===
日本: 語
===
a:⇥b
===
a: b⇥# c
===
a: b⇥
===
-⇥a
===
⇥a: b
===
a:
⇥b: c
===
a:
  b
⇥
c: d
===
{a: b,
⇥c: d}
===
a: "b
⇥c"
===
a: "b⇥c"
===
a: b⇥c
===
a: b: c
===
a: - b
===
a: b
 c: d
===
a:
  b: c
 d: e
===
  a: b
c: d
===
  a: b
  c: d
===
- a
 - b
===
 - a
 - b
===
- a
b: c
===
a: b
- c
===
a:
  - b
  c: d
===
a: 1
a: 2
===
{a: 1, a: 2}
===
a: 1
"a": 2
===
[a
===
{a
===
{a: b
===
a]
===
a: }
===
[a}
===
{a]
===
[a] b
===
"a" b
===
"a
===
'a
===
a: "b\q"
===
a: "\x4"
===
a: "\u12"
===
a: "\ud83d"
===
a: "\U00110000"
===
a: @b
===
a: %b
===
a: |x
  b
===
a: |0
  b
===
a: | b
===
[,]
===
[a,,b]
===
{,}
===
a: , b
===
a: & b
===
a: * b
===
&x
===
%YAML 1.2
---
a: b
===
%YAML 1.1
---
a
===
%TAG ! x
---
a
===
%YAML 1.2
a
===
a: 'b'c
===
a: {b: c}d
===
a
b: c
===
a: b
c
===
a: b
  - c
===
a: >
 b
   c

 d
===
a: [b
c]
===
a: "b
c"
===
a: {b: |
  c}
===
version: 1
hooks:
  - name: x
    on: tool.before
    match: {tool: [Bash, "Edit|Write"], command: 'rm *'}
    block: "no: ${tool}"
  - name: y
    on: [tool.before, tool.after]
    when: event.tool == "a" && !x
    command: [sh, -c, 'echo "hi"']
    timeout: 5s
===
a: b
---
...
# c
===
...
a: b
===
a:
  - b

  - c


d: e
===
a: "b" 
c: 'd'  
e: f  
===
a: |
  b  
   
  c
===
a: |
   
  b
===
a: |
     
  b
===
a:   |
  b
===
a:   "b"
===
-   a
===
a: "\
  b"
===
a: "b \n c"
===
a: ' 
  b'
===
a: "
  b
  "
===
a: '

  b

  '
===
- a:
  - b
  c: d
===
- a:
    - b
  c: d
===
- a:
    b: c
  d:
  - e:
    - f
===
a:
  b:
    - c
  d: e
===
a: [{b: c}, [d: e, f], "g": h]
===
a: {b: {c}, d: [e: f]}
`, "\n"), "\n===\n")

// otherwise are the tricky documents that the library reads differently, each with the reason. A
// document that both read in the same way must not be in the list.
var otherwise = map[string]string{
	"a: >\n  b\n  c":              "a folded text without a line end behind it: the library does not fold it",
	"a: >\n  b\n\n  c":            "a folded text without a line end behind it: the library does not fold it",
	"a: >\n  b\n\n\n  c":          "a folded text without a line end behind it: the library does not fold it",
	"a: >\n\n  b\n  c":            "a folded text without a line end behind it: the library does not fold it",
	"a: >-\n  b\n  c":             "a folded text without a line end behind it: the library does not fold it",
	"--- >\n  a\n  b":             "a folded text without a line end behind it: the library does not fold it",
	"[\"a\":b]":                   "after a key in quotes no space is needed (YAML 1.2, 7.4.2): JSON is YAML",
	"[-1, - 1x]":                  "a dash and a space do not begin an item in brackets",
	"a: !!null":                   "tags are refused, with and without a value",
	"a:\tb":                       "the library counts the columns of tabs otherwise",
	"-\ta":                        "the library counts the columns of tabs otherwise",
	"a:\n  b\n\t\nc: d":           "a line of blanks is an empty line",
	"a: b\tc":                     "a tab inside of text belongs to it: the library drops it",
	"- a\n - b":                   "by the specification this is the one text \"a - b\": whoever writes it means a list",
	"a: b\n  - c":                 "by the specification this is the one text \"b - c\": whoever writes it means a list",
	"a: }":                        "text does not begin with a bracket (YAML 1.2, 7.3.3)",
	"a: \"\\U00110000\"":          "an escape that is no character: the library reads U+FFFD",
	"a: | b":                      "text behind the bar: the library drops it",
	"{,}":                         "a comma without an entry before it",
	"a: , b":                      "text does not begin with a comma (YAML 1.2, 7.3.3)",
	"&x":                          "an anchor may name a value that is not written",
	"%YAML 1.2\n---\na: b":        "the directive of the version is read",
	"%YAML 1.1\n---\na":           "the directive of the version is read",
	"a: [b\nc]":                   "in brackets, lines may begin anywhere",
	"a: \"b\nc\"":                 "text in quotes goes on deeper than its key (YAML 1.2, 6.1): a quote that was forgotten swallows no keys",
	"a: \"b\" \nc: 'd'  \ne: f  ": "the library counts blanks at the end of the file as before the text",
	"a: |\n   \n  b":              "an empty line longer than the indentation (YAML 1.2, 8.1.1.1): how deep the text stands would be a guess",
	"a: |\n     \n  b":            "an empty line longer than the indentation (YAML 1.2, 8.1.1.1): how deep the text stands would be a guess",
}

func TestTricky(t *testing.T) {
	t.Parallel()
	if len(tricky) < 300 {
		t.Fatalf("%d documents, want more", len(tricky))
	}
	met := map[string]bool{}
	for _, in := range tricky {
		in = strings.ReplaceAll(in, "⇥", "\t")
		for _, doc := range []string{in, in + "\n"} {
			own, err := yaml.Parse([]byte(doc))
			library, libraryErr := libraryParse([]byte(doc))
			if err == nil && libraryErr == nil && dump(own) == dump(library) || err != nil && libraryErr != nil {
				continue
			}
			met[in] = true
			if otherwise[in] == "" {
				t.Errorf("Parse(%q) = %s%v, the library: %s%v", doc, read(yaml.Parse, doc), err, read(libraryParse, doc), libraryErr)
			}
		}
	}
	for in := range otherwise {
		if !met[in] {
			t.Errorf("%q is read as the library reads it: it is not read otherwise", in)
		}
	}
}
