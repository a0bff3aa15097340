package match

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/prefilter"
	"github.com/grapnel-dev/grapnel/internal/shell"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// What can be told of a list without an event: whether another word of it fits wherever one
// does, so that no test can tell whether that one is there. It says so only where it is sure.

// Covered says which other word of a list fits wherever the one at i does, or "".
func (k *Key) Covered(words []string, i int, as Reading) string {
	for j, other := range words {
		switch {
		case j == i:
		case other == words[i] && j > i: // the last of them stays
		case other == words[i], k.covers(other, words[i], as):
			return "wherever it fits, " + other + " does"
		}
	}
	return ""
}

// Covers reports whether a hook listens to whatever another one of its file does. It says so
// only where it is sure.
func Covers(wide, narrow *policyfile.Hook) bool {
	if len(narrow.On) == 0 || len(wide.Except) > 0 || wide.When != "" || len(wide.After) > 0 {
		return false
	}
	for _, kind := range narrow.On {
		if !slices.Contains(wide.On, kind) {
			return false
		}
	}
	m := wide.Match
	if m == nil {
		return true
	}
	if m.Not != nil || m.Failed != nil || narrow.Match == nil {
		return false
	}
	as := Reading{Allow: wide.Decide == "allow"}
	for _, k := range KeysOf(m) {
		own := k.Sources(narrow.Match)
		if len(own) == 0 || slices.ContainsFunc(own, func(word string) bool {
			return !slices.ContainsFunc(k.Sources(m), func(other string) bool { return other == word || k.covers(other, word, as) })
		}) {
			return false
		}
	}
	return true
}

// samples are texts that a glob matches, with nothing, something, and something odd in the
// place of each wildcard. What another glob matches all of, it matches by its wildcards.
// nil = it has other wildcards than *.
func samples(glob string, fillings ...string) []string {
	if strings.ContainsAny(glob, `?[]{}\`) {
		return nil
	}
	if !strings.Contains(glob, "*") {
		return []string{glob}
	}
	var all []string
	for _, filling := range fillings {
		all = append(all, strings.ReplaceAll(glob, "*", filling))
	}
	return all
}

// allOf reports whether there are some, and each is one of these.
func allOf(texts []string, is func(string) bool) bool {
	return len(texts) > 0 && !slices.ContainsFunc(texts, func(text string) bool { return !is(text) })
}

func globCovers(wide, word string) bool {
	if _, ok := RegexpOf(wide); ok {
		return false
	}
	if _, ok := RegexpOf(word); ok {
		return false
	}
	globs := NewGlobs([]string{wide})
	return allOf(samples(word, "", "\x01", "/\x01/"), globs[0].match)
}

// commandCovers: what a pattern asks for is a command that it matches, and whatever else
// another pattern asks for makes it match less. What lets commands through has to speak for
// all of their words, and for more of them than the other one does.
func commandCovers(wide, word string, as Reading) bool {
	pattern, err := shell.Compile(wide)
	if err != nil || strings.ContainsAny(word, `'"$`) {
		return false
	}
	lines := samples(word, "", "qx", "q/x.y")
	if as.every() {
		for _, line := range slices.Clone(lines) {
			lines = append(lines, line+" q/y.z")
		}
	}
	return allOf(lines, func(line string) bool {
		script := shell.Parse(line)
		if len(script.Commands) != 1 || len(script.Unknown) > 0 {
			return false
		}
		if as.every() {
			return shell.MatchWhole([]*shell.Pattern{pattern}, script, 0) == shell.Yes
		}
		return pattern.MatchCommand(script, 0) == shell.Yes
	})
}

func pathCovers(wide, word string) bool {
	relative := func(pattern string) bool {
		return !strings.HasPrefix(pattern, "/") && !strings.HasPrefix(pattern, "~") && !strings.HasPrefix(pattern, ".")
	}
	anywhere := func(pattern string) bool { return strings.HasPrefix(pattern, "**/") }
	if !relative(wide) || !relative(word) || anywhere(word) && !anywhere(wide) {
		return false
	}
	for _, pattern := range []*string{&wide, &word} {
		if strings.HasSuffix(*pattern, "/") {
			*pattern += "**"
		}
	}
	var names []string
	for _, filling := range []string{"qx", "q/x/y.z"} {
		names = append(names, samples(strings.ReplaceAll(word, "**", filling), "", "qx.y")...)
	}
	return allOf(names, func(name string) bool { return matchGlob(wide, name) })
}

// textCovers: what holds a text holds every part of it.
func textCovers(wide, word string) bool {
	wideRE, wideIs := RegexpOf(wide)
	wordRE, wordIs := RegexpOf(word)
	if wordIs {
		word = prefilter.RequiredLiteral(wordRE)
	}
	if word == "" {
		return false
	}
	if !wideIs {
		return strings.Contains(word, wide)
	}
	re, err := syntax.Parse(wideRE, syntax.Perl)
	if err != nil || looksAround(re) {
		return false
	}
	compiled, err := regexp.Compile(wideRE)
	return err == nil && compiled.MatchString(word)
}

// looksAround reports whether a pattern asks for what is beside it, such as the end of a
// line.
func looksAround(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	default:
		return slices.ContainsFunc(re.Sub, looksAround)
	}
}

// NeverMatches says why a hook never listens to a kind of event that it names, or "".
func NeverMatches(h *policyfile.Hook, kind grapnel.Kind) string {
	m := h.Match
	if m == nil || ofTool(kind) || kind.Native() {
		return ""
	}
	for _, k := range KeysOf(m) {
		if k.tool {
			return string(kind) + " is about no tool, and has no " + k.Name
		}
	}
	if m.Failed != nil {
		return string(kind) + " is about no tool, which could fail"
	}
	return ""
}

// ofTool reports whether events of a kind are about a call of a tool, or several.
func ofTool(kind grapnel.Kind) bool {
	subject, _, _ := strings.Cut(string(kind), ".")
	return subject == "tool" || subject == "toolbatch" || subject == "permission"
}
