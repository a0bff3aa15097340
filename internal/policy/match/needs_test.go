package match

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func TestRepeatedPatterns(t *testing.T) {
	t.Parallel()
	texts := []policyfile.Pattern{{Text: "/alpha.*beta/"}, {Text: "gamma"}, {Text: "/beta.*alpha/"}, {Text: "/(?:alpha|delta)/"}, {Text: "gamma"}}
	for i := range texts {
		if expression, ok := strings.CutPrefix(texts[i].Text, "/"); ok {
			texts[i].Near = prefilter.RequiredTexts(strings.TrimSuffix(expression, "/"))
		}
	}
	all := nearText(newTextPatterns(texts))
	if got := strings.Split(all, prefilter.NextPattern); len(got) != 3 {
		t.Errorf("%q has %d lists, want one for each different set of words: 3", all, len(got))
	}
}
