package match

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// texts returns all texts in the event, the texts of files that the session wrote and that the event
// runs, and the plain form of each text that has another one. A
// model reads both forms alike, so that a rule for one must match the other.
func (f *Facts) texts() []string {
	return f.keptPlain.get(func() []string {
		texts := f.allTexts()
		if f.past() != nil {
			for _, script := range f.Scripts() {
				texts = append(slices.Clip(texts), script.Ran()...)
			}
		}
		for _, text := range texts {
			if p := plain(text); p != text {
				texts = append(slices.Clip(texts), p)
			}
		}
		return texts
	})
}

// plain returns a text with compatibility characters, for example fullwidth letters, replaced by
// common ones, and without invisible format characters.
func plain(text string) string {
	first := 0
	for first < len(text) && text[first] < utf8.RuneSelf {
		first++
	}
	if first == len(text) {
		return text
	}
	return norm.NFKC.String(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, text))
}
