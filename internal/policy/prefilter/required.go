package prefilter

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The required literals of a pattern are encoded as alternatives, one for each way to match. An
// alternative is a list of sets; a match contains a word of each set. Words are folded to one
// letter case. An empty encoding requires nothing.

// Separators of an encoding.
const (
	NextWord    = "\x03" // between the words of a set
	NextSet     = "\x02" // between the sets of an alternative
	NextList    = "\x01" // between alternatives
	NextPattern = "\x05" // between the encodings of patterns
	headOf      = "\x04" // prefix of a word with bytes that may be invalid UTF-8, one byte per character
)

// Limits of required literals: shorter ones occur everywhere, and many take long to search.
const (
	minLiteral  = 3 // bytes
	maxLiterals = 128
	maxRun      = maxLiterals // number of texts that a concatenation may expand to
	maxSets     = 4
)

// RequiredTexts returns the encoded required literals of the pattern, or "" if none are known.
func RequiredTexts(pattern string) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	alternatives := []*syntax.Regexp{re}
	if re.Op == syntax.OpAlternate {
		alternatives = re.Sub
	}
	var lists []string
	for _, alternative := range alternatives {
		var sets []string
		for _, set := range literalsOf(alternative).sets {
			set = slices.Clone(set)
			slices.Sort(set)
			sets = append(sets, strings.Join(slices.Compact(set), NextWord))
		}
		if len(sets) == 0 {
			return ""
		}
		slices.Sort(sets)
		lists = append(lists, strings.Join(slices.Compact(sets), NextSet))
	}
	slices.Sort(lists)
	return strings.Join(slices.Compact(lists), NextList)
}

// literals describes the matches of a part of a pattern.
type literals struct {
	exact []string   // all possible matches, folded; nil = too many
	heads []string   // prefixes of which each match has one; nil = unknown, or see exact
	sets  [][]string // each match contains a word of every set; nil = unknown
}

func literalsOf(re *syntax.Regexp) literals {
	switch re.Op {
	case syntax.OpLiteral:
		return exactly(Fold(string(re.Rune)))
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return exactly("")
	case syntax.OpCapture:
		return literalsOf(re.Sub[0])
	case syntax.OpPlus:
		return repeated(literalsOf(re.Sub[0]))
	case syntax.OpRepeat:
		if re.Min > 0 {
			return repeated(literalsOf(re.Sub[0]))
		}
	case syntax.OpQuest:
		if t := literalsOf(re.Sub[0]); t.exact != nil {
			return literals{exact: append(t.exact, "")}
		}
	case syntax.OpCharClass:
		return classLiterals(re.Rune)
	case syntax.OpAlternate:
		return alternate(re.Sub)
	case syntax.OpConcat:
		return concat(re.Sub)
	}
	return literals{}
}

// repeated returns the literals of one or more repetitions of a part.
func repeated(t literals) literals {
	return literals{heads: t.begins(), sets: t.sets}
}

// begins returns prefixes of which each match has one, or nil.
func (t *literals) begins() []string {
	if t.exact != nil {
		return t.exact
	}
	return t.heads
}

func exactly(text string) literals {
	if strings.ContainsAny(text, NextList+NextSet+NextWord+headOf+NextPattern) {
		return literals{}
	}
	if text == "" {
		return literals{exact: []string{""}}
	}
	return literals{exact: []string{text}, sets: enough([]string{text})}
}

// enough returns a list with only this set, or nil if its words are too short or too many.
func enough(set []string) [][]string {
	if shortestOf(set) < minLiteral || len(set) > maxLiterals {
		return nil
	}
	return [][]string{set}
}

// classLiterals returns the literals of a small character class.
func classLiterals(ranges []rune) literals {
	if len(ranges) > 0 && ranges[0] >= utf8.RuneSelf {
		return literals{sets: headLiterals(ranges)}
	}
	var exact []string
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] < ' ' || ranges[i+1] >= utf8.RuneSelf || ranges[i+1]-ranges[i] > 3 {
			return literals{}
		}
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			exact = append(exact, strings.ToLower(string(r)))
		}
	}
	if len(exact) > 4 {
		return literals{}
	}
	return literals{exact: exact}
}

// headLiterals returns the first bytes of non-ASCII characters without letter case. A text without
// these bytes need not be searched for such characters, for example invisible ones.
func headLiterals(ranges []rune) [][]string {
	const most = 256
	var heads []string
	for i := 0; i+1 < len(ranges); i += 2 {
		low, high := ranges[i], ranges[i+1]
		if high-low > most || i > 16 {
			return nil
		}
		for r := low; r <= high; r++ {
			if unicode.SimpleFold(r) != r {
				return nil
			}
		}
		first, last := string(low), string(high)
		n := 0
		for n < len(first) && n < len(last) && first[n] == last[n] {
			n++
		}
		if n < 2 {
			return nil
		}
		head := []rune(headOf)
		for _, b := range []byte(first[:n]) {
			head = append(head, rune(b))
		}
		heads = append(heads, string(head))
	}
	return [][]string{heads}
}

func alternate(subs []*syntax.Regexp) literals {
	exact, heads, need := []string{}, []string{}, []string{}
	for _, sub := range subs {
		t := literalsOf(sub)
		if t.exact == nil || exact == nil || len(exact)+len(t.exact) > maxLiterals {
			exact = nil
		} else {
			exact = append(exact, t.exact...)
		}
		if begins := t.begins(); begins == nil || heads == nil || len(heads)+len(begins) > maxLiterals {
			heads = nil
		} else {
			heads = append(heads, begins...)
		}
		if best := bestOf(t.sets); best == nil || need == nil {
			need = nil
		} else {
			need = append(need, best...)
		}
	}
	return literals{exact: exact, heads: heads, sets: enough(need)}
}

// bestOf returns the most selective set.
func bestOf(sets [][]string) []string {
	var best []string
	for _, set := range sets {
		if best == nil || len(set) < len(best) || len(set) == len(best) && shortestOf(set) > shortestOf(best) {
			best = set
		}
	}
	return best
}

// concat returns the literals of a concatenation. It multiplies out exact parts while the result
// stays small: c(url|at) gives curl and cat.
func concat(subs []*syntax.Regexp) literals {
	var sets [][]string
	var heads []string
	run, whole := []string{""}, true
	flush := func(next []string) {
		if whole {
			heads = run
		}
		whole = false
		sets = append(sets, enough(run)...)
		run = next
	}
	for _, sub := range subs {
		t := literalsOf(sub)
		begins := t.begins()
		switch {
		case t.exact != nil && len(run)*len(t.exact) <= maxRun:
			run = joined(run, t.exact)
			continue
		case t.exact != nil:
			flush(t.exact)
			continue
		case begins != nil && len(run)*len(begins) <= maxLiterals:
			run = joined(run, begins) // the regexp parser rewrites rm|rsync to r(m|sync)
		}
		flush([]string{""})
		sets = append(sets, t.sets...)
	}
	sets = append(sets, enough(run)...)
	var exact []string
	if whole {
		exact = run
	}
	if len(sets) > maxSets {
		sets = smallest(sets, maxSets)
	}
	return literals{exact: exact, heads: heads, sets: sets}
}

// smallest returns the n sets with the fewest texts.
func smallest(sets [][]string, n int) [][]string {
	order := make([]*[]string, len(sets)) // avoids another instance of the generic sort function in the program
	for i := range sets {
		order[i] = &sets[i]
	}
	slices.SortStableFunc(order, func(a, b *[]string) int { return len(*a) - len(*b) })
	few := make([][]string, n)
	for i := range few {
		few[i] = *order[i]
	}
	return few
}

func joined(heads, tails []string) []string {
	var all []string
	for _, head := range heads {
		for _, tail := range tails {
			all = append(all, head+tail)
		}
	}
	return all
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
