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
	if strings.Count(all, asBefore) != 2 {
		t.Errorf("%q names an earlier pattern %d times, want 2", all, strings.Count(all, asBefore))
	}
	got := WithoutPrefilter(texts)
	RestorePrefilter(got, all)
	for i, p := range got {
		if want := []string{texts[0].Near, "gamma", texts[0].Near, texts[3].Near, "gamma"}[i]; p.Near != want {
			t.Errorf("pattern %d is told by %q, want %q", i, p.Near, want)
		}
	}
}
