package prefilter

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// heads are words of which one is at the beginning of each match. Trying the pattern only at these
// words reduces the time for a pattern with a hundred alternatives to a tenth.
type heads struct {
	words  []string // folded to one letter case
	before lead

	behind, first func() *regexp.Regexp // the pattern after one character, and at the beginning of the text
}

// A lead describes what can precede the word in a match.
type lead struct {
	chars int
	skip  []rune // ranges of characters that can additionally occur any number of times
}

const (
	minHead  = 2 // bytes: one-letter words occur everywhere
	maxLead  = 4 // characters
	maxHeads = 512
)

// headsOf returns the heads of a pattern, or nil if they are unknown.
func headsOf(pattern string, re *syntax.Regexp) *heads {
	words, before := headsOfPart(re)
	if words == nil {
		return nil
	}
	slices.Sort(words)
	h := &heads{before: before}
	for _, word := range words { // a word with another word as prefix is found with that word
		if last := len(h.words) - 1; last < 0 || !strings.HasPrefix(word, h.words[last]) {
			h.words = append(h.words, word)
		}
	}
	h.behind = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A(?s:.)(?:` + pattern + `)`) })
	h.first = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A(?:` + pattern + `)`) })
	return h
}

func (l lead) and(m lead) lead {
	return lead{l.chars + m.chars, append(slices.Clip(l.skip), m.skip...)}
}

func (l lead) or(m lead) lead {
	return lead{max(l.chars, m.chars), append(slices.Clip(l.skip), m.skip...)}
}

func headsOfPart(re *syntax.Regexp) ([]string, lead) {
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return headsOfPart(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return headsOfPart(re.Sub[0])
		}
	case syntax.OpAlternate:
		var all []string
		var most lead
		for _, sub := range re.Sub {
			words, before := headsOfPart(sub)
			if words == nil || len(all)+len(words) > maxHeads {
				return nil, lead{}
			}
			all, most = append(all, words...), most.or(before)
		}
		return all, most
	case syntax.OpConcat:
		return headsOfRow(re.Sub)
	case syntax.OpCharClass:
		if len(re.Rune) > 0 && re.Rune[0] >= utf8.RuneSelf {
			var words []string
			for _, set := range headLiterals(re.Rune) {
				for _, word := range set {
					words = append(words, bytesOf(word))
				}
			}
			return words, lead{}
		}
	}
	if t := literalsOf(re); shortestOf(t.begins()) >= minHead {
		return t.begins(), lead{}
	}
	return nil, lead{}
}

func headsOfRow(row []*syntax.Regexp) ([]string, lead) {
	var before lead
	for i, part := range row {
		if t := concat(row[i:]); shortestOf(t.begins()) >= minHead {
			return t.begins(), before
		}
		words, more := headsOfPart(part)
		if words != nil {
			return words, before.and(more)
		}
		if part.Op == syntax.OpQuest || part.Op == syntax.OpStar || part.Op == syntax.OpRepeat && part.Min == 0 {
			if words, more = headsOfPart(part.Sub[0]); words != nil { // the optional part, or the part after it
				others, most := headsOfRow(row[i+1:])
				if others == nil || len(words)+len(others) > maxHeads {
					break
				}
				return append(others, words...), before.and(more.or(most))
			}
		}
		more, ok := leadOf(part)
		if before = before.and(more); !ok || before.chars > maxLead {
			break
		}
	}
	return nil, lead{}
}

// leadOf returns a part as a lead, if possible.
func leadOf(re *syntax.Regexp) (lead, bool) {
	switch re.Op {
	case syntax.OpCapture, syntax.OpQuest:
		return leadOf(re.Sub[0])
	case syntax.OpAlternate, syntax.OpConcat:
		var all lead
		for _, sub := range re.Sub {
			more, ok := leadOf(sub)
			if !ok {
				return all, false
			}
			if re.Op == syntax.OpConcat {
				all = all.and(more)
			} else {
				all = all.or(more)
			}
		}
		return all, true
	case syntax.OpStar, syntax.OpPlus:
		class := re.Sub[0]
		return lead{skip: class.Rune}, class.Op == syntax.OpCharClass && !inRanges('a', class.Rune)
	}
	w := widthOf(re)
	return lead{chars: w.chars}, w == width{chars: w.chars}
}

func inRanges(r rune, ranges []rune) bool {
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] <= r && r <= ranges[i+1] {
			return true
		}
	}
	return false
}

// in reports whether a match begins in a window of a text. It gives up after the time end, and then
// returns sure = false: a text with very many of these words is faster to search as a whole.
func (h *heads) in(l *Text, w window, bytes int, end time.Time) (found, sure bool) {
	lower := l.lower[:w.to]
	for _, word := range h.words {
		for at := w.from; ; at++ {
			next := strings.Index(lower[at:], word)
			if next < 0 {
				break
			}
			at += next
			if h.at(l.text[:min(len(l.text), at+bytes)], at) {
				return true, true
			}
			if time.Now().After(end) {
				return false, false
			}
		}
	}
	return false, true
}

// at reports whether a match begins at the word at index at, or at a lead before it.
func (h *heads) at(text string, at int) bool {
	for chars := h.before.chars; ; {
		if at == 0 {
			return h.first().MatchString(text)
		}
		r, size := utf8.DecodeLastRuneInString(text[:at])
		if h.behind().MatchString(text[at-size:]) {
			return true
		}
		if at -= size; !inRanges(r, h.before.skip) {
			if chars--; chars < 0 {
				return false
			}
		}
	}
}
