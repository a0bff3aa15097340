package jsregexp

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
)

// Slow returns a text for which a search with the pattern exceeds Timeout, or "". It looks for a
// repetition that can match the same text in two ways, as in (a+)+, and tries a text of many
// repetitions. So every text that it returns is slow, but it misses some slow patterns: it
// ignores bounded repetitions, back-references, and look-around before the repetition.
func Slow(pattern string) string {
	search, err := Compile(pattern)
	if err != nil {
		return ""
	}
	re, err := syntax.Parse(asRE2(pattern), syntax.Perl)
	if err != nil {
		return ""
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return ""
	}
	a := newAutomaton(prog)
	for s := range prog.Inst {
		prefix, word := a.ambiguous(uint32(s))
		if word == "" {
			continue
		}
		for _, end := range []string{"!", "", "\n"} { // one of them should make the search fail
			text := prefix + strings.Repeat(word, repetitions) + end
			if _, err := search(text); errors.Is(err, grapnel.ErrUndecided) {
				return text
			}
		}
	}
	return ""
}

const (
	repetitions = 40      // 2^40 ways to match
	maxSteps    = 500_000 // limits the analysis, which is quadratic
)

// asRE2 writes a pattern of JavaScript in the syntax of RE2. All groups become capturing groups, which
// RE2 does not simplify. Groups that look around are optional, and back-references match nothing.
func asRE2(pattern string) string {
	pattern = strings.NewReplacer(`\\`, `\\`, "[^]", `[\x00-\x{10ffff}]`, `\/`, "/", `\-`, `\x2d`).Replace(pattern)
	pattern = regexp.MustCompile(`\\u([0-9a-fA-F]{4})`).ReplaceAllString(pattern, `\x{$1}`)
	pattern = regexp.MustCompile(`\\[1-9][0-9]*|\\k<\w+>`).ReplaceAllString(pattern, "")
	pattern = regexp.MustCompile(`\(\?(?:=|!|<=|<!)`).ReplaceAllString(pattern, "(|")
	return regexp.MustCompile(`\(\?(?::|<\w+>)`).ReplaceAllString(pattern, "(")
}

// An automaton is a pattern without its conditions. Its states are the instructions that match a
// character.
type automaton struct {
	prog  *syntax.Prog
	next  [][]uint32 // the states after a state; twice if there are several ways
	chars []rune     // every two states that match a common character match one of these
	steps int
}

func newAutomaton(prog *syntax.Prog) *automaton {
	a := &automaton{prog: prog, next: make([][]uint32, len(prog.Inst)), chars: []rune("a_0-")}
	for i := range prog.Inst {
		if inst := &prog.Inst[i]; a.matches(uint32(i)) {
			a.next[i] = a.after(inst.Out, nil, nil)
			a.chars = append(a.chars, inst.Rune...)
		}
	}
	return a
}

// matches reports whether an instruction matches a character.
func (a *automaton) matches(i uint32) bool {
	switch a.prog.Inst[i].Op {
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	default:
		return false
	}
}

// after adds the states that are reached from an instruction without a character, at most twice each.
func (a *automaton) after(i uint32, states, path []uint32) []uint32 {
	inst := &a.prog.Inst[i]
	if a.steps++; a.steps > maxSteps || slices.Contains(path, i) {
		return states
	}
	path = append(path, i)
	switch inst.Op {
	case syntax.InstMatch, syntax.InstFail:
	case syntax.InstAlt, syntax.InstAltMatch:
		states = a.after(inst.Arg, a.after(inst.Out, states, path), path)
	case syntax.InstCapture, syntax.InstEmptyWidth, syntax.InstNop:
		states = a.after(inst.Out, states, path)
	default:
		if first := slices.Index(states, i); first < 0 || !slices.Contains(states[first+1:], i) {
			states = append(states, i)
		}
	}
	return states
}

// common returns a character that two states match, or -1.
func (a *automaton) common(p, q uint32) rune {
	for _, c := range a.chars {
		if a.prog.Inst[p].MatchRune(c) && a.prog.Inst[q].MatchRune(c) {
			return c
		}
	}
	return -1
}

// A pair is two states that are reached by the same text, in two ways if split is set.
type pair struct {
	p, q  uint32
	split bool
}

// ambiguous returns a word that leads from a state back to it in two ways, and a text that leads to
// the state. The word is "" if the state is not ambiguous.
func (a *automaton) ambiguous(s uint32) (prefix, word string) {
	if !a.matches(s) {
		return "", ""
	}
	loop := a.search([]pair{{s, s, false}}, func(to pair) bool { return to == pair{s, s, true} })
	if loop == nil {
		return "", ""
	}
	var starts []pair
	for _, start := range a.after(uint32(a.prog.Start), nil, nil) { // the index of an instruction
		starts = append(starts, pair{start, start, false})
		if start == s {
			return "", *loop
		}
	}
	if to := a.search(starts, func(to pair) bool { return to.p == s && to.q == s }); to != nil {
		prefix = *to
	}
	return prefix, *loop
}

// search returns a text that leads from one of some pairs to a pair, by at least one character; nil =
// no text found.
func (a *automaton) search(from []pair, found func(pair) bool) *string {
	texts := map[pair]string{}
	queue := slices.Clone(from)
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		c := a.common(at.p, at.q)
		if c < 0 {
			continue
		}
		for i, p := range a.next[at.p] {
			for j, q := range a.next[at.q] {
				if a.steps++; a.steps > maxSteps {
					return nil
				}
				to := pair{p, q, at.split || p != q || at.p == at.q && i != j}
				if _, seen := texts[to]; seen {
					continue
				}
				text := texts[at] + string(c)
				if found(to) {
					return &text
				}
				texts[to] = text
				queue = append(queue, to)
			}
		}
	}
	return nil
}
