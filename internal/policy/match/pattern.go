package match

import (
	"path"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// RegexpOf returns the RE2 inside /.../, and whether pattern has this form.
func RegexpOf(pattern string) (string, bool) {
	if len(pattern) > 2 && pattern[0] == '/' && pattern[len(pattern)-1] == '/' {
		return pattern[1 : len(pattern)-1], true
	}
	return "", false
}

// NewPattern returns the Pattern of a text. For a /RE2/ it computes the required literals.
func NewPattern(text string) policyfile.Pattern {
	pattern := policyfile.Pattern{Text: text}
	if re, ok := RegexpOf(text); ok {
		if pattern.Near = prefilter.RequiredTexts(re); pattern.Near == "" {
			pattern.Literal = prefilter.RequiredLiteral(re)
		}
	}
	return pattern
}

// textPattern finds a literal text or a /RE2/.
type textPattern struct {
	source string
	re     *prefilter.Regexp // nil = literal text
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

// Glob matches a whole word with a path.Match glob or with /RE2/. In the glob, * also matches
// slashes, because names and addresses are not paths.
type Glob struct {
	source string
	prefix string            // literal prefix of all matching words
	glob   string            // for path.Match; empty = compare with the source
	re     *prefilter.Regexp // used instead of a glob
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

// noSlashes replaces slashes, so that * of path.Match crosses them.
func noSlashes(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
