package policy

import (
	"strings"
	"testing"
)

// What is kept of a hook is what was said: phrases come back, whatever stands beside them,
// and bytes that stand for one are refused.
func TestPhrases(t *testing.T) {
	t.Parallel()
	phrases := 0
	for code := range 256 {
		phrase := phraseOf(byte(code))
		if phrase == "" {
			continue
		}
		phrases++
		if holdsPhrase(phrase) {
			t.Errorf("the phrase of %#x, %q, holds a byte that stands for another", code, phrase)
		}
		for _, text := range []string{phrase, phrase + phrase, phrase[1:] + phrase, phrase + "é" + phrase[:len(phrase)-1]} {
			short := shorten(text)
			if got := lengthen(short); got != text {
				t.Errorf("%q is kept as %q, which is read as %q", text, short, got)
			}
			if strings.Contains(text, phrase) && len(short) >= len(text) {
				t.Errorf("%q is kept as %q: no shorter", text, short)
			}
		}
		if _, plain := keepText(&keptHook{Reason: "a" + string([]byte{byte(code)})}); plain {
			t.Errorf("a text with %#x is kept, and would be read as %q", code, phrase)
		}
	}
	if phrases == 0 {
		t.Error("no byte stands for a phrase")
	}
	for _, sign := range endField + endItem + endPart + "\t\n\r aé" {
		if holdsPhrase(string(sign)) {
			t.Errorf("%q stands for a phrase, and packs need it", sign)
		}
	}
}
