package match

import (
	"path"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/prefilter"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// RegexpOf returns the RE2 inside /.../.
func RegexpOf(pattern string) (string, bool) {
	if len(pattern) > 2 && pattern[0] == '/' && pattern[len(pattern)-1] == '/' {
		return pattern[1 : len(pattern)-1], true
	}
	return "", false
}

// NewPattern finds out what a text must hold so that a /RE2/ can match it.
func NewPattern(text string) policyfile.Pattern {
	pattern := policyfile.Pattern{Text: text}
	if re, ok := RegexpOf(text); ok {
		if pattern.Near = prefilter.RequiredTexts(re); pattern.Near == "" {
			pattern.Literal = prefilter.RequiredLiteral(re)
		}
	}
	return pattern
}

// textPattern finds text as it stands, or by /RE2/.
type textPattern struct {
	source string
	re     *prefilter.Regexp // nil = as it stands
	near   string
}

func newTextPatterns(patterns []policyfile.Pattern) []textPattern {
	var out []textPattern
	for _, p := range patterns {
		t := textPattern{source: p.Text, near: p.Near}
		if re, ok := RegexpOf(p.Text); ok {
			t.re = prefilter.NewRegexp(re, p.Literal)
		}
		out = append(out, t)
	}
	return out
}

func (t textPattern) in(text string) bool {
	if t.re == nil {
		return strings.Contains(text, t.source)
	}
	return t.re.MatchString(text)
}

// Glob matches a whole word by a path.Match glob in which * also crosses
// slashes (what it is used on, names and addresses, is no path), or by /RE2/.
type Glob struct {
	source string
	prefix string            // what every word that a glob matches begins with
	glob   string            // for path.Match; empty = the word itself
	re     *prefilter.Regexp // in place of a glob
}

// NewGlobs compiles globs and /RE2/.
func NewGlobs(sources []string) []Glob {
	var out []Glob
	for _, s := range sources {
		g := Glob{source: s}
		if re, ok := RegexpOf(s); ok {
			g.re = prefilter.NewRegexp(re, "")
		} else if meta := strings.IndexAny(s, "*?[\\"); meta >= 0 {
			g.prefix, g.glob = s[:meta], noSlashes(s)
		}
		out = append(out, g)
	}
	return out
}

func (g *Glob) match(word string) bool {
	switch {
	case g.re != nil:
		return g.re.MatchString(word)
	case g.glob == "":
		return g.source == word
	case !strings.HasPrefix(word, g.prefix):
		return false
	}
	ok, _ := path.Match(g.glob, noSlashes(word))
	return ok
}

// noSlashes hides slashes from path.Match.
func noSlashes(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
