package jsregexp

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
)

// cases has the results of new RegExp(pattern).test(text) in Node.js 20; see TestNode.
var cases = map[string]struct {
	match, no []string
	invalid   bool
}{
	`write_file|read_file`:  {match: []string{"read_file", "xwrite_filex"}, no: []string{"Write_File"}},
	`^shell$`:               {match: []string{"shell"}, no: []string{"shell\n", "a shell"}},
	`.`:                     {match: []string{"é", " "}, no: []string{"", "\n"}},
	`a.+?b`:                 {match: []string{"axb", "axxb"}, no: []string{"ab"}},
	`(?<n>a)(?:b){2,}`:      {match: []string{"abb", "abbb"}, no: []string{"ab"}},
	`[^]`:                   {match: []string{"\n", "x"}, no: []string{""}},
	`[]`:                    {no: []string{"", "x", "]"}},
	`[]]`:                   {no: []string{"]"}},
	`[[:alpha:]]`:           {match: []string{"a]", ":]", "[]"}, no: []string{"a", "b]"}},
	`[\d-x]`:                {match: []string{"5", "-", "x"}, no: []string{"y"}},
	`[\b]`:                  {match: []string{"\b"}, no: []string{"b"}},
	`[\s]x[\S]`:             {match: []string{"\vxa", "\u00a0xa"}, no: []string{"axa"}},
	`\x41\x4\u0042\u{2}`:    {match: []string{"Ax4Buu"}, no: []string{"Ax4B\x02"}},
	`\Qa\E\A\z\Z\p{L}\a`:    {match: []string{"QaEAzZp{L}a"}, no: []string{"a"}},
	`\0\1\12\8\400\k<n>`:    {match: []string{"\x00\x01\n8 0k<n>"}, no: []string{"0"}},
	`{a}b{,2}c{`:            {match: []string{"{a}b{,2}c{"}, no: []string{"abc"}},
	`}]`:                    {match: []string{"}]"}},
	`^(?!write_file$).*`:    {match: []string{"read_file", "write_file2", ""}, no: []string{"write_file"}},
	`^(?!mcp_)`:             {match: []string{"bash"}, no: []string{"mcp_a"}},
	`a(?=b)*`:               {match: []string{"ab", "ac"}, no: []string{"b"}},
	`(?<=a)b`:               {match: []string{"ab"}, no: []string{"b", "cb"}},
	`(?<!a)b`:               {match: []string{"b", "cb"}, no: []string{"ab"}},
	`^(a|b)\1$`:             {match: []string{"aa", "bb"}, no: []string{"ab"}},
	`^(?<n>a|b)\k<n>$`:      {match: []string{"aa", "bb"}, no: []string{"ab"}},
	`^\1(a)$`:               {match: []string{"a"}, no: []string{"aa"}},
	`^a{1001}$`:             {match: []string{strings.Repeat("a", 1001)}, no: []string{"a"}},
	`\w\W`:                  {match: []string{"aé"}, no: []string{"éa"}},
	`^\S$`:                  {match: []string{"é"}, no: []string{"\ufeff", "\u2003"}},
	`[(?#]`:                 {match: []string{"?", "#"}, no: []string{"a"}},
	`\(?#`:                  {match: []string{"(#", "#"}, no: []string{"("}},
	`a|*`:                   {invalid: true},
	`{2}`:                   {invalid: true},
	`a{3,2}`:                {invalid: true},
	`a**`:                   {invalid: true},
	`a++`:                   {invalid: true},
	`(`:                     {invalid: true},
	`(?`:                    {invalid: true},
	`a)`:                    {invalid: true},
	`[a`:                    {invalid: true},
	`[z-a]`:                 {invalid: true},
	`a\`:                    {invalid: true},
	`[\`:                    {invalid: true},
	`(?i)a`:                 {invalid: true},
	`(?P<n>a)`:              {invalid: true},
	`(?'n'a)`:               {invalid: true},
	`(?>a)`:                 {invalid: true},
	`(?#a)`:                 {invalid: true},
	`(?(1)a|b)`:             {invalid: true},
	`(?<n>a)\k`:             {invalid: true},
	`(?<n-m>a)`:             {invalid: true},
	`(?<m>a)(?<n>b)\k<x>`:   {invalid: true},
	`(?<n>a)(?(n)b|c)`:      {invalid: true},
	`(?<=(?<n>a))(?<!(?#))`: {invalid: true},
}

func TestCompile(t *testing.T) {
	t.Parallel()
	for pattern, tt := range cases {
		search, err := Compile(pattern)
		if (err != nil) != tt.invalid || errors.Is(err, grapnel.ErrUndecided) {
			t.Errorf("Compile(%q) = %v, want an error: %v", pattern, err, tt.invalid)
		}
		if err != nil {
			continue
		}
		for _, text := range tt.match {
			if ok, err := search(text); !ok || err != nil {
				t.Errorf("%q does not match %q (%v)", pattern, text, err)
			}
		}
		for _, text := range tt.no {
			if ok, err := search(text); ok || err != nil {
				t.Errorf("%q matches %q (%v)", pattern, text, err)
			}
		}
	}
}

// differences has texts that match here, and not in Node.js 20. If one of them disappears, remove it
// from the page about Gemini CLI.
var differences = map[string]string{
	`^.$`: "\u2028", `^^*x`: "x", `^\b+x`: "x", `(?<1>a)`: "a", `(?<n>a)(?<n>b)`: "ab", `^[^é]{2}$`: "a😀", `^x😀?$`: "x", `\bé`: "é", `\cé`: "cé",
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	for pattern, text := range differences {
		search, err := Compile(pattern)
		if err != nil {
			t.Errorf("Compile(%q) = %v", pattern, err)
			continue
		}
		if ok, err := search(text); !ok || err != nil {
			t.Errorf("%q does not match %q (%v)", pattern, text, err)
		}
	}
	if _, err := Compile(`[a-\d]`); err == nil {
		t.Error("the engine accepts [a-\\d], as JavaScript does")
	}
}

// A pattern that backtracks for too long, or is too large to compile, is undecided.
func TestCompileLimits(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{`(a+)+b`, `^(\w+)+$`, `^(?=(a*)*b)`} {
		search, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := search(strings.Repeat("a", 60) + "!"); ok || !errors.Is(err, grapnel.ErrUndecided) || strings.Contains(err.Error(), "aaa") {
			t.Errorf("%q: %v, %v", pattern, ok, err)
		}
		if _, err := search("c"); err != nil {
			t.Errorf("%q finds nothing after a timeout: %v", pattern, err)
		}
	}
	for _, pattern := range []string{
		strings.Repeat("a|", maxLength), strings.Repeat("(", maxNested+1) + strings.Repeat(")", maxNested+1), strings.Repeat("(?=a|", 200),
	} {
		if _, err := Compile(pattern); !errors.Is(err, grapnel.ErrUndecided) {
			t.Errorf("Compile(%.20q...) = %v", pattern, err)
		}
	}
	if _, err := Compile(strings.Repeat("(?:a)", maxNested+1)); err != nil {
		t.Errorf("groups next to each other: %v", err)
	}
}

// Compile never panics, and a quoted text matches itself.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{`^(?:a|b)+$`, `(?<n>[^\d-x]){2,3}?\k<n>`, `\u00e9\x4\cA\377[\c_]`, `(?!`, `[^]]{`, "\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if search, err := Compile(text); err == nil {
			_, _ = search(text)
		}
		if !utf8.ValidString(text) || len(text) > maxLength/2 {
			return
		}
		search, err := Compile(strings.ReplaceAll(regexp.QuoteMeta(text), `-`, `\-`))
		if err != nil {
			t.Fatalf("%q, quoted: %v", text, err)
		}
		if ok, err := search(text); !ok || err != nil {
			t.Errorf("%q, quoted, does not find itself: %v", text, err)
		}
	})
}
