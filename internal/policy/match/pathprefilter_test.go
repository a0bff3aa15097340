package match

import (
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func TestNearTexts(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		`\b(?:curl|cat|wget)\s`:                  "cat curl wget",
		`(?i)Ignore\s+(?:all|any)\s`:             "all any & ignore",
		`(?:a|b)c?`:                              "",
		`[a-z]+`:                                 "",
		`x*secret`:                               "secret",
		`(?:tok(?:en|s))+`:                       "token toks",
		`(?:password)?x`:                         "",
		`pass(?:word)?`:                          "pass password",
		`(?:one|two)\d(?:three|fourth)`:          "fourth three & one two",
		`(?i)Ключ`:                               "КЛЮЧ",
		`curl\s.*token|(?:wget|nc)\s.*key`:       "curl & token | key",
		`[\x{200b}-\x{200d}\x{feff}]{9}`:         "\x04\u00e2\u0080 \x04\u00ef\u00bb\u00bf",
		`(?:\s|^)(?:env|export(?:\s+-p)?|set)\s`: "env export set",
		`(?:ab|b\d)+c`:                           "",
		`[à-ý]{9}`:                               "",
	} {
		got := strings.NewReplacer(prefilter.NextWord, " ", prefilter.NextSet, " & ", prefilter.NextList, " | ").Replace(prefilter.RequiredTexts(pattern))
		if got != want {
			t.Errorf("RequiredTexts(%q) = %q, want %q", pattern, got, want)
		}
	}
}

// If a pattern matches a text, the text contains the pattern's required literals.
func FuzzNear(f *testing.F) {
	f.Add(`(?i)(?:ignore|disregard)\s+(?:all|your)`, "please IGNORE all")
	f.Add(`c(?:url|at)\b[^|]*\|\s*(?:ba|z)?sh`, "curl x | sh")
	f.Add(`(?i)kiss`, "\u212aiss and ki\u017fs")
	f.Add(`(?i)забудь|[\x{e0020}-\x{e007e}]{2}`, "ЗАБУДЬ \U000e0021\U000e0022")
	f.Add(`x(?:env|export(?: -p)?|set)+\s|(?:one\d|on)+e`, "xexport -p ")
	f.Add(`a?b{2,3}(?:cde|fgh)+`, "abbcde")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		re, err := regexp.Compile(pattern)
		if err != nil || !re.MatchString(text) {
			return
		}
		lists := prefilter.RequiredTexts(pattern)
		for _, text := range []string{text, strings.Repeat("other words\n", 50) + text} { // long texts use another algorithm
			if re.MatchString(text) && !(&Facts{}).lower(text).Holds(lists) {
				t.Errorf("%q is in %q, and is told by %q", pattern, text, lists)
			}
		}
	})
}

func TestNearIsQuick(t *testing.T) {
	t.Parallel()
	set := newTextPatterns([]policyfile.Pattern{{Text: "/(?:alpha|beta)x/", Near: prefilter.RequiredTexts("(?:alpha|beta)x")}})
	f := &Facts{}
	if f.anyText(set, []string{strings.Repeat("gamma ", 10)}) || !f.anyText(set, []string{"betax"}) {
		t.Error("(?:alpha|beta)x is found where it is not, or not where it is")
	}
}
