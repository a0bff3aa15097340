package prefilter

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A Text is a text that is searched for the required literals of many patterns. It is safe for
// concurrent use.
type Text struct {
	text, lower string // lower is text, folded
	Aligned     bool   // each byte of lower has the same index as its byte in text
	grams       *grams // nil = the text is short
	runs        runs

	placing sync.Mutex
	placed  map[string][]int // positions by word, see places
}

// grams is a Bloom filter of the three-byte sequences in a text.
type grams [1 << 15 / 32]uint32

// NewText prepares a text for searching.
func NewText(text string) *Text {
	const short = 48
	low := &Text{text: text, lower: Fold(text)}
	low.Aligned = len(low.lower) == len(text) && utf8.ValidString(text) // folding changed no length
	if len(low.lower) > short {
		low.grams = &grams{}
		for i := 0; i+3 <= len(low.lower); i++ {
			at, bit := gram(low.lower, i)
			low.grams[at] |= bit
		}
	}
	return low
}

// Is reports whether text is equal to this text. This is fast, because both usually share memory.
func (l *Text) Is(text string) bool { return l.text == text }

func gram(text string, i int) (at, bit uint32) {
	h := (uint32(text[i]) | uint32(text[i+1])<<8 | uint32(text[i+2])<<16) * 0x9e3779b1 >> 17
	return h >> 5, 1 << (h & 31)
}

// has reports whether a word is in the text.
func (l *Text) has(word string) bool {
	if strings.HasPrefix(word, headOf) {
		return strings.Contains(l.lower, bytesOf(word))
	}
	if l.grams != nil {
		for i := 0; i+3 <= len(word); i++ {
			if at, bit := gram(word, i); l.grams[at]&bit == 0 {
				return false
			}
		}
	}
	return strings.Contains(l.lower, word)
}

// bytesOf returns the bytes of a word with the prefix headOf.
func bytesOf(word string) string {
	var b [utf8.UTFMax]byte
	n := 0
	for _, r := range word[len(headOf):] {
		b[n] = byte(r & 0xff)
		n++
	}
	return string(b[:n])
}

// Holds reports whether the text contains the encoded required literals of a pattern, so that the
// pattern may match.
func (l *Text) Holds(lists string) bool {
	if lists == "" {
		return true
	}
	for more := true; more; {
		var list string
		if list, lists, more = strings.Cut(lists, NextList); l.hasList(list) {
			return true
		}
	}
	return false
}

func (l *Text) hasList(list string) bool {
	for more := true; more; {
		var set string
		set, list, more = strings.Cut(list, NextSet)
		if !l.hasOne(set) {
			return false
		}
	}
	return true
}

func (l *Text) hasOne(set string) bool {
	for more := true; more; {
		var word string
		if word, set, more = strings.Cut(set, NextWord); l.has(word) {
			return true
		}
	}
	return false
}

// Fold folds a text to one letter case: texts that are equal under (?i) become equal.
func Fold(text string) string {
	for i := 0; i < len(text); i++ {
		if text[i] >= utf8.RuneSelf {
			return strings.Map(foldRune, text)
		}
	}
	return strings.ToLower(text)
}

func foldRune(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	case r >= 0x2e80 && r < 0xa000: // Chinese and Japanese characters have no letter case
		return r
	}
	least := r
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		least = min(least, o)
	}
	if least >= 'A' && least <= 'Z' { // the smallest equivalent of the Kelvin sign is K
		least += 'a' - 'A'
	}
	return least
}
