package policy

import (
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A pattern of many alternatives has no single text that every match holds, and takes
// longer to compile than most events take to answer. It is told from afar by the texts
// that its matches hold: only where they are found is it compiled.

// A string says what a text that a pattern matches holds: of one of some lists of sets a
// word of each set. Words are in one letter case. Empty = anything.

// What stands between the words of a set, the sets of a list, and the lists.
const (
	nextWord = "\x03"
	nextSet  = "\x02"
	nextList = "\x01"
	headOf   = "\x04" // before bytes that are no text of their own, each written as a character
)

// Bounds of what a pattern is told by: shorter texts are found everywhere, and looking
// for many takes time, too.
const (
	minNear = 3 // bytes
	maxNear = 128
	maxRun  = 16 // texts that a row of parts may be
	maxSets = 4

	maxLowered = 16 // texts of an event that are kept in one letter case
)

// nearTexts returns what tells a pattern from afar.
func nearTexts(pattern string) string {
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
		for _, set := range told(alternative).sets {
			set = slices.Clone(set)
			slices.Sort(set)
			sets = append(sets, strings.Join(slices.Compact(set), nextWord))
		}
		if len(sets) == 0 {
			return ""
		}
		slices.Sort(sets)
		lists = append(lists, strings.Join(slices.Compact(sets), nextSet))
	}
	slices.Sort(lists)
	return strings.Join(slices.Compact(lists), nextList)
}

// telling is what is known of the matches of a part of a pattern.
type telling struct {
	exact []string   // all of them, in one letter case; nil = too many
	heads []string   // with one of which each begins; nil = unknown, or exact
	sets  [][]string // of which each holds a word of every one; nil = unknown
}

func told(re *syntax.Regexp) telling {
	switch re.Op {
	case syntax.OpLiteral:
		return exactly(foldText(string(re.Rune)))
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return exactly("")
	case syntax.OpCapture:
		return told(re.Sub[0])
	case syntax.OpPlus:
		return repeated(told(re.Sub[0]))
	case syntax.OpRepeat:
		if re.Min > 0 {
			return repeated(told(re.Sub[0]))
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

// repeated is what is known of a part that stands there at least once.
func repeated(t telling) telling {
	return telling{heads: t.begins(), sets: t.sets}
}

// begins are the texts with one of which each match begins.
func (t *telling) begins() []string {
	if t.exact != nil {
		return t.exact
	}
	return t.heads
}

func exactly(text string) telling {
	if strings.ContainsAny(text, nextList+nextSet+nextWord+headOf+nextPattern) {
		return telling{}
	}
	if text == "" {
		return telling{exact: []string{""}}
	}
	return telling{exact: []string{text}, sets: enough([]string{text})}
}

// enough is a set as the only one, if its words are long enough to tell anything.
func enough(set []string) [][]string {
	if shortestOf(set) < minNear || len(set) > maxNear {
		return nil
	}
	return [][]string{set}
}

// classTold is that of a few characters.
func classTold(ranges []rune) telling {
	if len(ranges) > 0 && ranges[0] >= utf8.RuneSelf {
		return telling{sets: headsTold(ranges)}
	}
	var exact []string
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] < ' ' || ranges[i+1] >= utf8.RuneSelf || ranges[i+1]-ranges[i] > 3 {
			return telling{}
		}
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			exact = append(exact, strings.ToLower(string(r)))
		}
	}
	if len(exact) > 4 {
		return telling{}
	}
	return telling{exact: exact}
}

// headsTold are the bytes that characters beyond ASCII begin with which have no letter
// case: a text that has none of them need not be searched for those that nobody sees.
func headsTold(ranges []rune) [][]string {
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

func alternate(subs []*syntax.Regexp) telling {
	exact, heads, need := []string{}, []string{}, []string{}
	for _, sub := range subs {
		t := told(sub)
		if t.exact == nil || exact == nil || len(exact)+len(t.exact) > maxNear {
			exact = nil
		} else {
			exact = append(exact, t.exact...)
		}
		if begins := t.begins(); begins == nil || heads == nil || len(heads)+len(begins) > maxNear {
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
	return telling{exact: exact, heads: heads, sets: enough(need)}
}

// bestOf is the set that tells most.
func bestOf(sets [][]string) []string {
	var best []string
	for _, set := range sets {
		if best == nil || len(set) < len(best) || len(set) == len(best) && shortestOf(set) > shortestOf(best) {
			best = set
		}
	}
	return best
}

// concat joins what is exact as far as it stays small: of c(url|at) it is curl and cat.
func concat(subs []*syntax.Regexp) telling {
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
		t := told(sub)
		begins := t.begins()
		switch {
		case t.exact != nil && len(run)*len(t.exact) <= maxRun:
			run = joined(run, t.exact)
			continue
		case t.exact != nil:
			flush(t.exact)
			continue
		case begins != nil && len(run)*len(begins) <= maxNear:
			run = joined(run, begins) // the parser writes rm|rsync as r(m|sync)
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
	return telling{exact: exact, heads: heads, sets: sets}
}

// smallest returns the n sets that have the fewest texts.
func smallest(sets [][]string, n int) [][]string {
	order := make([]*[]string, len(sets)) // sorting pointers is in the program anyway
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

// A loweredText is a text of the event and what it is in one letter case.
type loweredText struct {
	text, lower string
	aligned     bool   // each byte of the one stands where it does in the other
	grams       *grams // nil = the text is short
	runs        runs

	placing sync.Mutex
	placed  map[string][]int // by word, see places
}

// grams tell which three bytes stand side by side in a text. They may say yes where it is
// no, and never the other way round.
type grams [1 << 15 / 32]uint32

func gram(text string, i int) (at, bit uint32) {
	h := (uint32(text[i]) | uint32(text[i+1])<<8 | uint32(text[i+2])<<16) * 0x9e3779b1 >> 17
	return h >> 5, 1 << (h & 31)
}

// has reports whether a word is in the text.
func (l *loweredText) has(word string) bool {
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

// bytesOf are those of a word with headOf.
func bytesOf(word string) string {
	var b [utf8.UTFMax]byte
	n := 0
	for _, r := range word[len(headOf):] {
		b[n] = byte(r & 0xff)
		n++
	}
	return string(b[:n])
}

// near reports whether a pattern that nearTexts says that of may match the text.
func (l *loweredText) near(lists string) bool {
	if lists == "" {
		return true
	}
	for more := true; more; {
		var list string
		if list, lists, more = strings.Cut(lists, nextList); l.hasList(list) {
			return true
		}
	}
	return false
}

func (l *loweredText) hasList(list string) bool {
	for more := true; more; {
		var set string
		set, list, more = strings.Cut(list, nextSet)
		if !l.hasOne(set) {
			return false
		}
	}
	return true
}

func (l *loweredText) hasOne(set string) bool {
	for more := true; more; {
		var word string
		if word, set, more = strings.Cut(set, nextWord); l.has(word) {
			return true
		}
	}
	return false
}

// anyText reports whether one of the patterns is in one of the texts.
func (f *facts) anyText(patterns []textPattern, texts []string) bool {
	for i := range patterns {
		p := &patterns[i]
		for _, text := range texts {
			switch {
			case p.near != "" && !f.lower(text).near(p.near):
			case p.re == nil && p.in(text), p.re != nil && p.re.near(text) && p.re.inLong(f.lower(text), p.near):
				return true
			}
		}
	}
	return false
}

func (f *facts) lower(text string) *loweredText {
	f.lowering.Lock()
	defer f.lowering.Unlock()
	for _, l := range f.lowered {
		if l.text == text { // the same bytes in memory, mostly: that is quick
			return l
		}
	}
	const short = 48
	low := &loweredText{text: text, lower: foldText(text)}
	low.aligned = len(low.lower) == len(text) && utf8.ValidString(text) // no character grows
	if len(low.lower) > short {
		low.grams = &grams{}
		for i := 0; i+3 <= len(low.lower); i++ {
			at, bit := gram(low.lower, i)
			low.grams[at] |= bit
		}
	}
	if len(f.lowered) < maxLowered {
		f.lowered = append(f.lowered, low)
	}
	return low
}

// foldText writes a text in one letter case: what (?i) takes for the same is the same.
func foldText(text string) string {
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
	case r >= 0x2e80 && r < 0xa000: // Chinese and Japanese have no letter case
		return r
	}
	least := r
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		least = min(least, o)
	}
	if least >= 'A' && least <= 'Z' { // of K the one is the sign of Kelvin
		least += 'a' - 'A'
	}
	return least
}
