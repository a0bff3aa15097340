// Package prefilter skips regular expressions that cannot match.
//
// Compiling an expression with many alternatives takes longer than answering most events. So
// [RequiredTexts] computes, when a policy is parsed, which literals each match must contain. A
// [Text] is searched for these literals first. The [Regexp] is compiled only if they occur, and in
// a long text it is tried only in windows around them.
package prefilter

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
)

// Regexp is a valid RE2 expression that is compiled at first use. It is safe for concurrent use.
type Regexp struct {
	source  string
	literal string // required literal; empty = unknown
	once    sync.Once
	re      *regexp.Regexp

	planOnce sync.Once
	plan     plan
}

// NewRegexp returns a Regexp for a valid pattern. literal must occur in every match, or be empty.
func NewRegexp(pattern, literal string) *Regexp {
	return &Regexp{source: pattern, literal: literal}
}

// Literal returns the required literal, or "" if none is known.
func (l *Regexp) Literal() string { return l.literal }

// Compile returns the compiled expression.
func (l *Regexp) Compile() *regexp.Regexp {
	l.once.Do(func() { l.re = regexp.MustCompile(l.source) })
	return l.re
}

// MayMatch reports whether text contains the required literal.
func (l *Regexp) MayMatch(text string) bool {
	return l.literal == "" || strings.Contains(text, l.literal)
}

// MatchString reports whether text contains a match.
func (l *Regexp) MatchString(text string) bool {
	return l.MayMatch(text) && l.Compile().MatchString(text)
}

// RequiredLiteral returns the longest literal that can easily be shown to occur in every match of
// the pattern, or "".
func RequiredLiteral(pattern string) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	return RequiredLiteralOf(re.Simplify())
}

// RequiredLiteralOf does the same as [RequiredLiteral] for a parsed and simplified pattern.
func RequiredLiteralOf(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return ""
		}
		return string(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return RequiredLiteralOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return RequiredLiteralOf(re.Sub[0])
		}
	case syntax.OpConcat:
		best := ""
		for _, sub := range re.Sub {
			if lit := RequiredLiteralOf(sub); len(lit) > len(best) {
				best = lit
			}
		}
		return best
	}
	return ""
}
