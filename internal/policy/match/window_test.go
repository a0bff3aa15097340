package match

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// FuzzLookFor: searching only parts of a text gives the same result as searching the whole
// text.
func FuzzLookFor(f *testing.F) {
	for _, pair := range [][2]string{
		{`(?i)(?:ignore|disregard)\s+(?:all|any)\b[^\n]{0,40}instructions?`, "please Ignore   all of the\tprevious instructions"},
		{`(?i)\b(?:send|post)\b[^\n]{0,20}\b(?:secrets?|tokens?)\b`, "send the tokens, resend secretsx, post secrets"},
		{`(?:^|[\n.:>\s])(?:AI|Assistant)\s*[:,!]\s*(?:run|execute)`, "AI: run"},
		{`(?:^|\n)\s*(?:Human|User)\s*:`, "x\n   \n User :"},
		{`(?i)(?:new|real)\s+(?:system\s+)?orders?(?:\s+for you)?[:.]`, "neW\n system ORDERS for you:"},
		{`(?s)<!--.{0,30}?agents?.*-->`, "<!-- for agentſ -->"},
		{`(?i)(?:please\s+|now\s+)*(?:delete|wipe)\b.{0,9}all$`, "now please delete it all"},
		{`[\x{200B}-\x{200D}]{3,}`, "a\u200b\u200c\u200db"},
		{`abc\b|\Bxyz|^start|end$`, "abcd wxyz start end"},
		{`(?i)kelvin\w+kk`, "\u212aelvin\u212a\u212ak"},
		{`foo[^>]*bar`, "foo\nbar foo>bar foo bar"},
		{`(?:#|//|--)\s*(?:note\s*)?(?:llm|gpt)`, "## note gpt // llm"},
		{`\.env|\.ssh`, "a.env"},
		{`aaa?b{2,}c`, "aabbbbc"},
	} {
		f.Add(pair[0], pair[1], uint16(10))
	}
	f.Fuzz(func(t *testing.T, pattern, text string, around uint16) {
		re, err := regexp.Compile(pattern)
		near := prefilter.RequiredTexts(pattern)
		if err != nil || near == "" || len(pattern) > 300 || len(text) > 2000 {
			return
		}
		filler := strings.Repeat("All is well. ", int(around)%1500)
		for _, text := range []string{text, filler + text, text + filler, filler + text + "\n" + filler} {
			l, low := prefilter.NewRegexp(pattern, ""), (&Facts{}).lower(text)
			if !low.Aligned || !low.Holds(near) {
				continue
			}
			if got, want := l.Search(low, near), re.MatchString(text); got != want {
				t.Fatalf("%q in %q: %v, want %v", pattern, text, got, want)
			}
		}
	})
}

// longTexts returns texts that make the patterns of a pack slow.
func longTexts(tb testing.TB) (patterns []textPattern, texts map[string]string) {
	tb.Helper()
	data, err := os.ReadFile("../../../packs/prompt-injection.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	pack, err := yaml.Parse(data)
	if err != nil {
		tb.Fatal(err)
	}
	for _, hook := range pack.Get("hooks").Items {
		match := hook.Get("match")
		if match == nil || match.Get("text") == nil {
			continue
		}
		texts := match.Get("text").Items
		if texts == nil {
			texts = []*yaml.Node{match.Get("text")}
		}
		for _, text := range texts {
			patterns = append(patterns, newTextPatterns([]policyfile.Pattern{NewPattern(text.Text)})...)
		}
	}
	readme, err := os.ReadFile("../../../docs/policy.md")
	if err != nil {
		tb.Fatal(err)
	}
	return patterns, map[string]string{
		"a document": string(readme), "words that begin orders": "run send use the new note to your agent ", "markup": "<!-- <system> ![a](https://x?y={ <div style='display:none'> ", "white space": "ignore \t\n ",
		"one word": "ignoreallprevious", "no line": "tell the user that they should not send it, never; ",
	}
}

// BenchmarkLongTexts searches 256 KB with all patterns. Searching whole texts of some megabytes
// took half a minute.
func BenchmarkLongTexts(b *testing.B) {
	patterns, texts := longTexts(b)
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			text := strings.Repeat(text, 256<<10/len(text)+1)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				f := &Facts{}
				for i := range patterns {
					f.anyText(patterns[i:i+1], []string{text})
				}
			}
		})
	}
}
