package prefilter

import (
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// A long pattern takes a tenth of a second for the output of one tool. If the length of its matches
// is bounded, it is tried only in windows around its required literals.

// minWindows is the minimum length in bytes of a text that is searched in windows.
const minWindows = 2 << 10

// Time limit for searching in windows; after it, the whole text is searched.
const (
	trying        = time.Millisecond
	tryingForByte = 250 * time.Nanosecond
)

// A plan describes how to search a long text for a pattern.
type plan struct {
	width width
	heads *heads // nil = unknown
}

func planFor(pattern string) plan {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return plan{width: width{endless: true}}
	}
	return plan{widthOf(re), headsOf(pattern, re)}
}

// MatchLong reports whether a text that may be long contains a match. near contains the required
// literals of the pattern; they must occur in the text.
func (l *Regexp) MatchLong(low *Text, near string) bool {
	if near == "" || !low.Aligned || len(low.text) < minWindows {
		return l.Compile().MatchString(low.text)
	}
	return l.Search(low, near)
}

// Search is MatchLong for an aligned text of any length.
func (l *Regexp) Search(low *Text, near string) bool {
	l.planOnce.Do(func() { l.plan = planFor(l.source) })
	bytes := low.bytes(l.plan.width)
	end := time.Now().Add(trying + time.Duration(len(low.text))*tryingForByte)
	for _, w := range low.windows(near, bytes) {
		found, sure := false, false
		if h := l.plan.heads; h != nil {
			found, sure = h.in(low, w, bytes, end)
		} else if w.to-w.from < len(low.text) {
			found, sure = l.Compile().MatchString(low.text[w.from:w.to]), true
		}
		if found || !sure { // anchors and word boundaries at the edges of a window may be wrong, so confirm in the whole text
			return l.Compile().MatchString(low.text)
		}
	}
	return false
}

// A width is the maximum length of the matches of a pattern: a number of characters, plus numbers
// of runs of white space, of word characters, and of characters in one line.
type width struct {
	chars, spaces, words, lines int
	endless                     bool
}

func (w width) and(v width) width {
	return width{w.chars + v.chars, w.spaces + v.spaces, w.words + v.words, w.lines + v.lines, w.endless || v.endless}
}

func (w width) or(v width) width {
	return width{max(w.chars, v.chars), max(w.spaces, v.spaces), max(w.words, v.words), max(w.lines, v.lines), w.endless || v.endless}
}

func (w width) times(n int) width {
	return width{w.chars * n, w.spaces * n, w.words * n, w.lines * n, w.endless}
}

func widthOf(re *syntax.Regexp) width {
	var all width
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
	case syntax.OpLiteral:
		all.chars = len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		all.chars = 1
	case syntax.OpCapture, syntax.OpQuest:
		return widthOf(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus:
		return endlessly(re.Sub[0])
	case syntax.OpRepeat:
		if re.Max < 0 {
			return widthOf(re.Sub[0]).times(re.Min).and(endlessly(re.Sub[0]))
		}
		return widthOf(re.Sub[0]).times(re.Max)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			all = all.and(widthOf(sub))
		}
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			all = all.or(widthOf(sub))
		}
	default:
		all.endless = true
	}
	return all
}

// endlessly returns the width of a part that repeats without limit.
func endlessly(re *syntax.Regexp) width {
	ranges := []rune{'\n', '\n', 'a', 'a'}
	switch {
	case re.Op == syntax.OpCharClass:
		ranges = re.Rune
	case re.Op == syntax.OpLiteral && len(re.Rune) == 1 && re.Rune[0] != '\n':
		return width{lines: 1}
	case re.Op == syntax.OpAnyCharNotNL:
		return width{lines: 1}
	}
	switch {
	case onlyOf(ranges, isSpace):
		return width{spaces: 1}
	case onlyOf(ranges, isWord):
		return width{words: 1}
	}
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] <= '\n' && '\n' <= ranges[i+1] {
			return width{endless: true}
		}
	}
	return width{lines: 1}
}

// onlyOf reports whether all characters in ranges are in a small class.
func onlyOf(ranges []rune, class func(rune) bool) bool {
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i+1]-ranges[i] > utf8.RuneSelf {
			return false
		}
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			if !class(r) {
				return false
			}
		}
	}
	return true
}

// isSpace reports whether r matches \s.
func isSpace(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' && r != '\v' }

func isWord(r rune) bool {
	r = foldRune(r)
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_'
}

// runs holds the lengths in bytes of the longest runs in a text, and of its longest character.
type runs struct {
	once                    sync.Once
	char, space, word, line int
}

// bytes returns the maximum number of bytes that a width has in the text, including the adjacent
// characters that decide about word boundaries.
func (l *Text) bytes(w width) int {
	if w.endless {
		return len(l.text)
	}
	r := &l.runs
	r.once.Do(func() {
		r.char = 1
		space, word, line := 0, 0, 0
		for i := range len(l.lower) {
			c := rune(l.lower[i])
			space, word, line = space+1, word+1, line+1
			switch {
			case c == '\n':
				word, line = 0, 0
			case isSpace(c):
				word = 0
			case c >= utf8.RuneSelf:
				r.char, space, word = utf8.UTFMax, 0, 0
			case isWord(c):
				space = 0
			default:
				space, word = 0, 0
			}
			r.space, r.word, r.line = max(r.space, space), max(r.word, word), max(r.line, line)
		}
	})
	return w.chars*r.char + w.spaces*r.space + w.words*r.word + w.lines*r.line + utf8.UTFMax
}

// A window is a part of a text, as a range of indexes.
type window struct{ from, to int }

// windows returns the parts of a text in which a match of at most the given number of bytes can be.
// Each contains all required literals of an alternative.
func (l *Text) windows(near string, bytes int) []window {
	whole := []window{{0, len(l.lower)}}
	if bytes > len(l.lower)/4 {
		return whole
	}
	var all []int
	for list := range strings.SplitSeq(near, NextList) {
		if !l.hasList(list) {
			continue
		}
		places, few := l.fewest(list)
		if !few {
			return whole
		}
		for _, at := range places {
			w := l.around(at, bytes)
			if (&Text{lower: l.lower[w.from:w.to]}).hasList(list) {
				all = append(all, at)
			}
		}
	}
	slices.Sort(all)
	var joined []window
	for _, at := range all {
		w := l.around(at, bytes)
		if last := len(joined) - 1; last >= 0 && w.from <= joined[last].to {
			joined[last].to = w.to
		} else {
			joined = append(joined, w)
		}
	}
	return joined
}

// around returns the window in which a match that includes the index at must be.
func (l *Text) around(at, bytes int) window {
	w := window{max(0, at-bytes), min(len(l.lower), at+bytes)}
	for w.from > 0 && !utf8.RuneStart(l.text[w.from]) {
		w.from--
	}
	return w
}

// fewest returns the positions of the words of the rarest set in the list; few is false if even
// these are too many.
func (l *Text) fewest(list string) (places []int, few bool) {
	most := l.mostPlaces()
	for set := range strings.SplitSeq(list, NextSet) {
		var found []int
		for word := range strings.SplitSeq(set, NextWord) {
			if found = append(found, l.places(word)...); len(found) > most {
				break
			}
		}
		if len(found) <= most {
			places, few, most = found, true, len(found)
		}
	}
	return places, few
}

// mostPlaces returns the number of positions up to which a word is rare in the text.
func (l *Text) mostPlaces() int { return min(len(l.lower)/256, 2048) }

// places returns the positions of a word, at most mostPlaces()+1 of them. They are cached, because
// patterns share words.
func (l *Text) places(word string) []int {
	l.placing.Lock()
	defer l.placing.Unlock()
	places, known := l.placed[word]
	if known {
		return places
	}
	text := word
	if strings.HasPrefix(word, headOf) {
		text = bytesOf(word)
	}
	for at := 0; len(places) <= l.mostPlaces(); at++ {
		next := strings.Index(l.lower[at:], text)
		if next < 0 {
			break
		}
		at += next
		places = append(places, at)
	}
	if l.placed == nil {
		l.placed = map[string][]int{}
	}
	l.placed[word] = places
	return places
}
