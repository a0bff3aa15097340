package jsregexp

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// The results of new RegExp(pattern).test(text) in Node.js 20. Without a translation, RE2 reads
// each of these patterns differently or rejects it.
func TestCompileJS(t *testing.T) {
	t.Parallel()
	for pattern, tt := range map[string]struct {
		match, no []string
		err       error
	}{
		`write_file|read_file`: {match: []string{"read_file", "xwrite_filex"}, no: []string{"Write_File"}},
		`^shell$`:              {match: []string{"shell"}, no: []string{"shell\n", "a shell"}},
		`.`:                    {match: []string{"é", " "}, no: []string{"", "\n", "\r", "\u2028"}},
		`a.+?b`:                {match: []string{"axb", "axxb"}, no: []string{"ab"}},
		`(?<n>a)(?:b){2,}`:     {match: []string{"abb", "abbb"}, no: []string{"ab"}},
		`[^]`:                  {match: []string{"\n", "x"}, no: []string{""}},
		`[]`:                   {no: []string{"", "x", "]"}},
		`[]]`:                  {no: []string{"]"}},
		`[[:alpha:]]`:          {match: []string{"a]", ":]", "[]"}, no: []string{"a", "b]"}},
		`[\d-x]`:               {match: []string{"5", "-", "x"}, no: []string{"y"}},
		`[\b]`:                 {match: []string{"\b"}, no: []string{"b"}},
		`[\s]x[\S]`:            {match: []string{"\vxa"}, no: []string{"axa"}},
		`[\c_\cA\c]`:           {match: []string{"\x1f", "\x01", `\`, "c"}, no: []string{"A", "_"}},
		`\cA\c1`:               {match: []string{"\x01\\c1"}, no: []string{"A\x11"}},
		`\x41\x4\u0042\u{2}`:   {match: []string{"Ax4Buu"}, no: []string{"Ax4B\x02"}},
		`\Qa\E\A\z\Z\p{L}\a`:   {match: []string{"QaEAzZp{L}a"}, no: []string{"a"}},
		`\0\1\12\8\400\k<n>`:   {match: []string{"\x00\x01\n8 0k<n>"}, no: []string{"0"}},
		`{a}b{,2}c{`:           {match: []string{"{a}b{,2}c{"}, no: []string{"abc"}},
		`}]`:                   {match: []string{"}]"}},
		`a|*`:                  {err: errNotJS},
		`{2}`:                  {err: errNotJS},
		`a{3,2}`:               {err: errNotJS},
		`a**`:                  {err: errNotJS},
		`^*`:                   {err: errNotJS},
		`\b+`:                  {err: errNotJS},
		`(?<=a)*`:              {err: errNotJS},
		`(`:                    {err: errNotJS},
		`a)`:                   {err: errNotJS},
		`[a`:                   {err: errNotJS},
		`[z-a]`:                {err: errNotJS},
		`a\`:                   {err: errNotJS},
		`[\`:                   {err: errNotJS},
		`(?i)a`:                {err: errNotJS},
		`(?P<n>a)`:             {err: errNotJS},
		`(?<1>a)`:              {err: errNotJS},
		`(?<n>a)(?<n>b)`:       {err: errNotJS},
		`(?<n>a)\k`:            {err: errNotJS},
		`^(?!mcp_)`:            {err: ErrNoRE2},
		`a(?=b)*`:              {err: ErrNoRE2},
		`(?<=a)b`:              {err: ErrNoRE2},
		`(?<!a)b`:              {err: ErrNoRE2},
		`(a)\1`:                {err: ErrNoRE2},
		`(?<n>a)\k<n>`:         {err: ErrNoRE2},
		`a{1001}`:              {err: ErrNoRE2},
	} {
		re, err := Compile(pattern)
		if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("compileJS(%q) = %v, want %v", pattern, err, tt.err)
			continue
		}
		if err != nil {
			continue
		}
		for _, text := range tt.match {
			if !re.MatchString(text) {
				t.Errorf("%q does not match %q (as %s)", pattern, text, re)
			}
		}
		for _, text := range tt.no {
			if re.MatchString(text) {
				t.Errorf("%q matches %q (as %s)", pattern, text, re)
			}
		}
	}
}

// Any matcher is either translated or rejected, and a quoted text matches itself.
func FuzzCompileJS(f *testing.F) {
	for _, seed := range []string{`^(?:a|b)+$`, `(?<n>[^\d-x]){2,3}?\k<n>`, `\u00e9\x4\cA\377[\c_]`, `(?!`, `[^]]{`, "\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := Compile(text); err != nil && !errors.Is(err, errNotJS) && !errors.Is(err, ErrNoRE2) {
			t.Errorf("compileJS(%q) = %v, which is neither wrong nor beyond us", text, err)
		}
		if !utf8.ValidString(text) {
			return // JavaScript has no such text
		}
		re, err := Compile(strings.ReplaceAll(regexp.QuoteMeta(text), `-`, `\-`))
		if err != nil || !re.MatchString(text) {
			t.Errorf("%q, quoted, does not find itself: %v", text, err)
		}
	})
}
