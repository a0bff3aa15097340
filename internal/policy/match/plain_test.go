package match

import (
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// A text with letters of another form, or with invisible characters, is also compared in its plain
// form.
func TestPlainTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                           {""},
		"Ignore all":                 {"Ignore all"},
		"Straße, 日本, é":              {"Straße, 日本, é"},
		"\uff29gnore \uff41ll":       {"\uff29gnore \uff41ll", "Ignore all"},
		"Ign\u200bore\U000e0041 all": {"Ign\u200bore\U000e0041 all", "Ignore all"},
		"e\u0301":                    {"e\u0301", "é"},
	} {
		f := &Facts{Event: &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: text}}}
		if got := f.texts(); !slices.Equal(got, want) {
			t.Errorf("texts of %q = %q, want %q", text, got, want)
		}
		if got := f.allTexts(); !slices.Equal(got, []string{text}) {
			t.Errorf("allTexts of %q = %q", text, got)
		}
	}
}
