package match

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

// This file finds redundant words and hooks without an event: a word or hook is covered if another
// one matches whenever it does, so that no test can detect its absence. The functions report this
// only if it is certain.

// Covered returns a message that names another word of the list that matches whenever words[i]
// does, or "".
func (k *Key) Covered(words []string, i int, as Reading) string {
	for j, other := range words {
		switch {
		case j == i:
		case other == words[i] && j > i: // of equal words, the last is not covered
		case other == words[i], k.covers(other, words[i], as):
			return "wherever it fits, " + other + " does"
		}
	}
	return ""
}

// Covers reports whether the hook wide matches every event that the hook narrow, in the same file,
// matches. It returns true only if that is certain.
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

// samples returns texts that a glob matches, with each of the fillings in place of the wildcards.
// If another glob matches all samples, its own wildcards match them, so it covers the first glob.
// samples returns nil for a glob with wildcards other than *.
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

// allOf reports whether texts is not empty and all texts satisfy is.
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

// commandCovers reports whether the pattern wide covers the pattern word. The text of word is
// itself a command that word matches, so wide must match this text. If the reading requires all
// words of a command to match, wide must also match the text with one more word.
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
		switch {
		case as.strict():
			return shell.Allows([]*shell.Pattern{pattern}, script, 0)
		case as.every():
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

// textCovers reports whether wide covers word: a text that contains word contains every part of
// word.
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

// looksAround reports whether a regular expression tests its context, such as the end of a line.
func looksAround(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	default:
		return slices.ContainsFunc(re.Sub, looksAround)
	}
}

// NeverMatches returns why a hook never matches a kind of event in its `on:`, or "".
func NeverMatches(h *policyfile.Hook, kind grapnel.Kind) string {
	m := h.Match
	if m == nil || ofTool(kind) || kind.Native() {
		return ""
	}
	for _, k := range KeysOf(m) {
		if k.tool {
			return string(kind) + " has no tool, and so no " + k.Name
		}
	}
	if m.Failed != nil {
		return string(kind) + " has no tool that could fail"
	}
	return ""
}

// ofTool reports whether events of a kind are about one or more tool calls.
func ofTool(kind grapnel.Kind) bool {
	subject, _, _ := strings.Cut(string(kind), ".")
	return subject == "tool" || subject == "toolbatch" || subject == "permission"
}
