package policy

import (
	"path"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
)

// A pattern compiles when it is first needed: a program that answers one event
// pays for the few rules that come near it, not for all of them.

// lazyRegexp is an RE2 pattern that was checked when its file was read.
type lazyRegexp struct {
	source  string
	literal string // occurs in every match; empty = unknown
	once    sync.Once
	re      *regexp.Regexp

	lookoutOnce sync.Once
	lookout     lookout
}

func (l *lazyRegexp) get() *regexp.Regexp {
	l.once.Do(func() { l.re = regexp.MustCompile(l.source) })
	return l.re
}

// near reports whether text could match: it holds the literal that every match holds.
func (l *lazyRegexp) near(text string) bool {
	return l.literal == "" || strings.Contains(text, l.literal)
}

func (l *lazyRegexp) match(text string) bool { return l.near(text) && l.get().MatchString(text) }

// regexpOf returns the RE2 inside /.../.
func regexpOf(pattern string) (string, bool) {
	if len(pattern) > 2 && pattern[0] == '/' && pattern[len(pattern)-1] == '/' {
		return pattern[1 : len(pattern)-1], true
	}
	return "", false
}

// requiredLiteral returns a text that occurs in every match of the pattern, the
// longest that is easy to see, or "".
func requiredLiteral(pattern string) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	return required(re.Simplify())
}

func required(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return ""
		}
		return string(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		best := ""
		for _, sub := range re.Sub {
			if lit := required(sub); len(lit) > len(best) {
				best = lit
			}
		}
		return best
	}
	return ""
}

// textPattern finds text as it stands, or by /RE2/.
type textPattern struct {
	source string
	re     *lazyRegexp // nil = as it stands
	near   string
}

func newTextPatterns(patterns []Pattern) []textPattern {
	var out []textPattern
	for _, p := range patterns {
		t := textPattern{source: p.Text, near: p.Near}
		if re, ok := regexpOf(p.Text); ok {
			t.re = &lazyRegexp{source: re, literal: p.Literal}
		}
		out = append(out, t)
	}
	return out
}

func (t textPattern) in(text string) bool {
	if t.re == nil {
		return strings.Contains(text, t.source)
	}
	return t.re.match(text)
}

// globPattern matches a whole word by a path.Match glob in which * also crosses
// slashes (what it is used on, names and addresses, is no path), or by /RE2/.
type globPattern struct {
	source string
	prefix string      // what every word that a glob matches begins with
	glob   string      // for path.Match; empty = the word itself
	re     *lazyRegexp // in place of a glob
}

func newGlobs(sources []string) []globPattern {
	var out []globPattern
	for _, s := range sources {
		g := globPattern{source: s}
		if re, ok := regexpOf(s); ok {
			g.re = &lazyRegexp{source: re}
		} else if meta := strings.IndexAny(s, "*?[\\"); meta >= 0 {
			g.prefix, g.glob = s[:meta], noSlashes(s)
		}
		out = append(out, g)
	}
	return out
}

func (g *globPattern) match(word string) bool {
	switch {
	case g.re != nil:
		return g.re.match(word)
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
