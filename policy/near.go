package policy

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// A pattern of many alternatives has no single text that every match holds, and takes
// longer to compile than most events take to answer. It is told from afar by a few
// texts, one of which every match holds: only where one is found is it compiled.

// Bounds of what a pattern is told by: shorter texts are found everywhere, and looking
// for many takes time, too.
const (
	minNear = 3
	maxNear = 48

	maxLowered = 16 // texts of an event that are kept in lower case
)

// nearTexts returns texts in lower case, one of which is in the lower case of every
// match; nil = none are known.
func nearTexts(pattern string) []string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	best := told(re).need
	if shortestOf(best) < minNear {
		return nil
	}
	slices.Sort(best)
	return slices.Compact(best)
}

// telling is what is known of the matches of a part of a pattern.
type telling struct {
	exact []string // all of them, in lower case; nil = too many
	need  []string // one of which each holds; nil = unknown
}

func told(re *syntax.Regexp) telling {
	switch re.Op {
	case syntax.OpLiteral:
		text := strings.ToLower(string(re.Rune))
		for i := range len(text) {
			if text[i] >= utf8.RuneSelf {
				return telling{}
			}
		}
		return exactly(text)
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return exactly("")
	case syntax.OpCapture:
		return told(re.Sub[0])
	case syntax.OpPlus:
		return telling{need: told(re.Sub[0]).need}
	case syntax.OpRepeat:
		if re.Min > 0 {
			return telling{need: told(re.Sub[0]).need}
		}
	case syntax.OpQuest:
		if t := told(re.Sub[0]); t.exact != nil {
			return telling{exact: append(t.exact, "")}
		}
	case syntax.OpCharClass:
		return classTold(re.Rune)
	case syntax.OpAlternate:
		return alternate(re.Sub)
	case syntax.OpConcat:
		return concat(re.Sub)
	}
	return telling{}
}

func exactly(text string) telling {
	if text == "" {
		return telling{exact: []string{""}}
	}
	return telling{exact: []string{text}, need: []string{text}}
}

// classTold is that of a few ASCII characters.
func classTold(ranges []rune) telling {
	var exact []string
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i+1] >= utf8.RuneSelf || ranges[i+1]-ranges[i] > 3 {
			return telling{}
		}
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			exact = append(exact, strings.ToLower(string(r)))
		}
	}
	if len(exact) > 4 {
		return telling{}
	}
	return telling{exact: exact, need: exact}
}

func alternate(subs []*syntax.Regexp) telling {
	all := telling{exact: []string{}, need: []string{}}
	for _, sub := range subs {
		t := told(sub)
		if t.exact == nil || all.exact == nil || len(all.exact)+len(t.exact) > maxNear {
			all.exact = nil
		} else {
			all.exact = append(all.exact, t.exact...)
		}
		if t.need == nil || all.need == nil || len(all.need)+len(t.need) > maxNear {
			all.need = nil
		} else {
			all.need = append(all.need, t.need...)
		}
	}
	return all
}

// concat joins what is exact as far as it stays small: of c(url|at) it is curl and cat.
func concat(subs []*syntax.Regexp) telling {
	var best []string
	run, whole := []string{""}, true
	better := func(set []string) {
		if shortestOf(set) > shortestOf(best) {
			best = set
		}
	}
	for _, sub := range subs {
		t := told(sub)
		if t.exact != nil && len(run)*len(t.exact) <= maxNear {
			var longer []string
			for _, head := range run {
				for _, tail := range t.exact {
					longer = append(longer, head+tail)
				}
			}
			better(run)
			run = longer
			continue
		}
		better(run)
		better(t.need)
		run, whole = []string{""}, false
		if t.exact != nil {
			run = t.exact
		}
	}
	better(run)
	if !whole {
		run = nil
	}
	return telling{exact: run, need: best}
}

func shortestOf(set []string) int {
	if len(set) == 0 {
		return 0
	}
	least := len(set[0])
	for _, s := range set {
		least = min(least, len(s))
	}
	return least
}

// A loweredText is a text of the event and what it is in lower case.
type loweredText struct {
	text, lower string
	ascii       bool // other characters have letters of another case in ASCII
}

// anyText reports whether one of the patterns is in one of the texts.
func (f *facts) anyText(patterns []textPattern, texts []string) bool {
	for i := range patterns {
		p := &patterns[i]
		for _, text := range texts {
			if (len(p.near) == 0 || f.near(p.near, text)) && p.in(text) {
				return true
			}
		}
	}
	return false
}

func (f *facts) near(words []string, text string) bool {
	low := f.lower(text)
	return !low.ascii || slices.ContainsFunc(words, func(w string) bool { return strings.Contains(low.lower, w) })
}

func (f *facts) lower(text string) loweredText {
	f.lowering.Lock()
	defer f.lowering.Unlock()
	for i := range f.lowered {
		if f.lowered[i].text == text { // the same bytes in memory, mostly: that is quick
			return f.lowered[i]
		}
	}
	low := loweredText{text: text, ascii: true}
	for i := 0; i < len(text) && low.ascii; i++ {
		low.ascii = text[i] < utf8.RuneSelf
	}
	if low.ascii {
		low.lower = strings.ToLower(text)
	}
	if len(f.lowered) < maxLowered {
		f.lowered = append(f.lowered, low)
	}
	return low
}
