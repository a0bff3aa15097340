package policy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestNearTexts(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string][]string{
		`\b(?:curl|cat|wget)\s`:         {"cat", "curl", "wget"},
		`(?i)Ignore\s+(?:all|any)`:      {"ignore"},
		`(?:a|b)c?`:                     nil,
		`[a-z]+`:                        nil,
		`x*secret`:                      {"secret"},
		`(?:tok(?:en|s))+`:              {"token", "toks"},
		`(?:password)?x`:                nil,
		`pass(?:word)?`:                 {"pass"},
		`(?:one|two)\d(?:three|fourth)`: {"fourth", "three"},
		`ключ`:                          nil,
	} {
		if got := nearTexts(pattern); !slices.Equal(got, want) {
			t.Errorf("nearTexts(%q) = %q, want %q", pattern, got, want)
		}
	}
}

// What a pattern finds, it is also near to.
func FuzzNear(f *testing.F) {
	f.Add(`(?i)(?:ignore|disregard)\s+(?:all|your)`, "please IGNORE all")
	f.Add(`c(?:url|at)\b[^|]*\|\s*(?:ba|z)?sh`, "curl x | sh")
	f.Add(`(?i)kiss`, "\u212aiss and ki\u017fs")
	f.Add(`a?b{2,3}(?:cde|fgh)+`, "abbcde")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		re, err := regexp.Compile(pattern)
		if err != nil || !re.MatchString(text) {
			return
		}
		words := nearTexts(pattern)
		if len(words) > 0 && !(&facts{}).near(words, text) {
			t.Errorf("%q is in %q, and is told by %q", pattern, text, words)
		}
	})
}

func TestNearIsQuick(t *testing.T) {
	t.Parallel()
	set := newTextPatterns([]Pattern{{Text: "/(?:alpha|beta)x/", Near: nearTexts("(?:alpha|beta)x")}})
	f := &facts{}
	if f.anyText(set, []string{strings.Repeat("gamma ", 10)}) || !f.anyText(set, []string{"betax"}) {
		t.Error("(?:alpha|beta)x is found where it is not, or not where it is")
	}
}
