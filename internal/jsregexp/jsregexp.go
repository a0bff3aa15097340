// Package jsregexp translates JavaScript regular expressions to RE2. Agents that are written in
// JavaScript use them in matchers. RE2 gives some of them another meaning, rejects some, and
// cannot express others.
package jsregexp

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	errNotJS = errors.New("is not a valid regular expression") // invalid in JavaScript too

	// ErrNoRE2 is the error for a pattern that is valid in JavaScript and that RE2 cannot
	// express.
	ErrNoRE2 = errors.New("is not supported by RE2")
)

// Compile returns an expression that matches like new RegExp(pattern). If the pattern is valid in
// JavaScript but RE2 cannot express it, errors.Is(err, ErrNoRE2) is true. Characters beyond
// U+FFFF are one character, and \s matches only ASCII.
func Compile(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxJSPattern {
		return nil, fmt.Errorf("%w: it is larger than %d bytes", ErrNoRE2, maxJSPattern)
	}
	p := &jsPattern{in: pattern}
	p.count()
	p.disjunction()
	if p.err == nil && p.at < len(p.in) {
		p.fail("unmatched )")
	}
	switch {
	case p.err != nil:
		return nil, fmt.Errorf("%w: %w", errNotJS, p.err)
	case p.beyond != "":
		return nil, fmt.Errorf("%w: %s", ErrNoRE2, p.beyond)
	}
	re, err := regexp.Compile(p.out.String())
	if err != nil { // a repetition count is too large
		return nil, fmt.Errorf("%w: %w", ErrNoRE2, err)
	}
	return re, nil
}

// maxJSPattern is the maximum length of a pattern in bytes, which also limits the nesting of
// groups.
const maxJSPattern = 16 << 10

// A jsPattern is a RegExp without flags during its translation to RE2. The grammar is the grammar
// of ECMAScript with its annex for the web, which accepts almost any malformed pattern.
type jsPattern struct {
	in     string
	at     int
	out    strings.Builder
	groups int             // number of capturing groups in the whole pattern
	names  map[string]bool // names of the groups that have begun
	named  bool            // some group has a name, so \k is a reference
	beyond string          // the construct that RE2 does not support
	err    error           // the first error
}

func (p *jsPattern) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	p.at = len(p.in)
}

// count counts the capturing groups in advance, because \1 may refer to a later group.
func (p *jsPattern) count() {
	class := false
	for i := 0; i < len(p.in); i++ {
		switch c := p.in[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(' && !strings.HasPrefix(p.in[i:], "(?"):
			p.groups++
		case c == '(' && isNamedGroup(p.in[i:]):
			p.groups++
			p.named = true
		}
	}
}

func isNamedGroup(s string) bool {
	return strings.HasPrefix(s, "(?<") && !strings.HasPrefix(s, "(?<=") && !strings.HasPrefix(s, "(?<!")
}

// skip skips s if it comes next.
func (p *jsPattern) skip(s string) bool {
	if !strings.HasPrefix(p.in[p.at:], s) {
		return false
	}
	p.at += len(s)
	return true
}

// next returns the next character.
func (p *jsPattern) next() rune {
	r, size := utf8.DecodeRuneInString(p.in[p.at:])
	p.at += size
	return r
}

func (p *jsPattern) disjunction() {
	for p.at < len(p.in) && p.in[p.at] != ')' {
		if p.skip("|") {
			p.out.WriteByte('|')
			continue
		}
		p.term()
	}
}

func (p *jsPattern) term() {
	if n, _, _ := quantifier(p.in[p.at:]); n > 0 {
		p.fail("nothing to repeat before %q", p.in[p.at:p.at+n])
		return
	}
	repeatable := true
	switch c := p.next(); c {
	case '^':
		p.out.WriteString(`\A`)
		repeatable = false
	case '$':
		p.out.WriteString(`\z`)
		repeatable = false
	case '.':
		p.out.WriteString(`[^\n\r\x{2028}\x{2029}]`)
	case '(':
		repeatable = p.group()
	case '[':
		p.class()
	case '\\':
		repeatable = p.escape()
	default:
		p.literal(c)
	}
	n, bounds, err := quantifier(p.in[p.at:])
	switch {
	case n == 0 || p.err != nil:
		return
	case err != nil:
		p.fail("%w", err)
		return
	case !repeatable:
		p.fail("%q follows an assertion, which cannot be repeated", p.in[p.at:p.at+n])
		return
	}
	p.at += n
	p.out.WriteString(bounds)
	if p.skip("?") {
		p.out.WriteByte('?')
	}
}

// quantifier returns the length of a quantifier at the beginning of s, and the quantifier in RE2
// syntax.
func quantifier(s string) (n int, bounds string, err error) {
	if s != "" && strings.ContainsRune("*+?", rune(s[0])) {
		return 1, s[:1], nil
	}
	rest, ok := strings.CutPrefix(s, "{")
	least := leading(rest, decimals, len(rest))
	if !ok || least == "" {
		return 0, "", nil // the brace is ordinary text
	}
	rest, most := rest[len(least):], least
	if after, open := strings.CutPrefix(rest, ","); open {
		most = leading(after, decimals, len(after))
		rest = after[len(most):]
	}
	if !strings.HasPrefix(rest, "}") {
		return 0, "", nil
	}
	n = len(s) - len(rest) + 1
	low, errLow := strconv.Atoi(least)
	high, errHigh := strconv.Atoi(most)
	if most != "" && errLow == nil && errHigh == nil && high < low {
		err = fmt.Errorf("%q: the numbers are out of order", s[:n])
	}
	return n, s[:n], err
}

// group reads the text after a parenthesis and reports whether it can be repeated.
func (p *jsPattern) group() (repeatable bool) {
	repeatable = true
	switch {
	case p.skip("?:"):
	case p.skip("?="), p.skip("?!"):
		p.beyond = "a look-ahead, (?=...) or (?!...)"
	case p.skip("?<="), p.skip("?<!"):
		p.beyond, repeatable = "a look-behind, (?<=...) or (?<!...)", false
	case p.skip("?<"):
		name := p.groupName()
		if p.names[name] {
			p.fail("duplicate group name %q", name)
		}
		if p.names == nil {
			p.names = map[string]bool{}
		}
		p.names[name] = true
	case p.skip("?"):
		p.fail("invalid group after (?")
		return false
	}
	p.out.WriteString("(?:")
	p.disjunction()
	if p.err == nil && !p.skip(")") {
		p.fail("missing )")
	}
	p.out.WriteByte(')')
	return repeatable
}

// groupName reads a name up to its ">".
func (p *jsPattern) groupName() string {
	name, _, ok := strings.Cut(p.in[p.at:], ">")
	if !ok || !isJSName(name) {
		p.fail("invalid group name")
		return ""
	}
	p.at += len(name) + 1
	return name
}

func isJSName(name string) bool {
	for i, r := range name {
		begins := unicode.IsLetter(r) || unicode.Is(unicode.Nl, r) || r == '$' || r == '_'
		if !begins && (i == 0 || !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc)) {
			return false
		}
	}
	return name != ""
}

func (p *jsPattern) literal(r rune) { fmt.Fprintf(&p.out, `\x{%x}`, r) }

// escape reads the text after a backslash outside a class.
func (p *jsPattern) escape() (repeatable bool) {
	rest := p.in[p.at:]
	switch {
	case rest == "":
		p.fail(`trailing \`)
	case rest[0] == 'b', rest[0] == 'B':
		p.at++
		p.out.WriteString(`\` + rest[:1])
		return false
	case rest[0] == 'k' && p.named:
		p.at++
		if !p.skip("<") {
			p.fail(`\k refers to an unknown group`)
			break
		}
		p.groupName() // JavaScript rejects a reference to a missing group; RE2 supports no references
		p.beyond = `a reference to a group, \k<name>`
	case '1' <= rest[0] && rest[0] <= '9':
		digits := leading(rest, decimals, len(rest))
		if n, err := strconv.Atoi(digits); err == nil && n <= p.groups {
			p.at += len(digits)
			p.beyond = `a reference to a group, \` + digits
			break
		}
		p.literal(p.character())
	case strings.ContainsRune("dDwWsS", rune(rest[0])):
		p.at++
		p.out.WriteString(jsSet(rest[0], false))
	default:
		p.literal(p.character())
	}
	return true
}

// jsSet returns the set for an escape letter. RE2's \s lacks the vertical tab, so \S must exclude
// it; RE2 cannot express that inside a class.
func jsSet(letter byte, inClass bool) string {
	switch {
	case letter == 's' && inClass:
		return `\s\v`
	case letter == 's':
		return `[\s\v]`
	case letter == 'S' && !inClass:
		return `[^\s\v]`
	default:
		return `\` + string(letter)
	}
}

const decimals = "0123456789"

// character reads an escape that means one character.
func (p *jsPattern) character() rune {
	rest := p.in[p.at:]
	if octal := leading(rest, "01234567", 3); octal != "" {
		if octal[0] > '3' && len(octal) > 2 {
			octal = octal[:2] // at most one byte
		}
		n, _ := strconv.ParseUint(octal, 8, 8)
		p.at += len(octal)
		return rune(n)
	}
	r := p.next()
	rest = p.in[p.at:]
	switch r {
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'v':
		return '\v'
	case 'c':
		if rest != "" && rest[0] < utf8.RuneSelf && unicode.IsLetter(rune(rest[0])) {
			p.at++
			return rune(rest[0] % 32)
		}
		p.at-- // the backslash and the c are ordinary text
		return '\\'
	case 'x', 'u':
		width := 2
		if r == 'u' {
			width = 4
		}
		if hex := leading(rest, decimals+"abcdefABCDEF", width); len(hex) == width {
			n, _ := strconv.ParseUint(hex, 16, 16)
			p.at += width
			return rune(n)
		}
	}
	return r
}

// leading returns the longest prefix of s with at most most characters of a set.
func leading(s, set string, most int) string {
	n := 0
	for n < len(s) && n < most && strings.IndexByte(set, s[n]) >= 0 {
		n++
	}
	return s[:n]
}

// class reads the text after an opening bracket.
func (p *jsPattern) class() {
	negated := p.skip("^")
	var items strings.Builder
	for {
		if p.at >= len(p.in) {
			p.fail("missing ]")
			return
		}
		if p.skip("]") {
			break
		}
		low, set := p.classAtom()
		if !strings.HasPrefix(p.in[p.at:], "-") || strings.HasPrefix(p.in[p.at:], "-]") || p.at+1 >= len(p.in) {
			items.WriteString(classItem(low, set))
			continue
		}
		p.at++
		high, highSet := p.classAtom()
		switch {
		case set != "" || highSet != "": // the dash is then ordinary text
			items.WriteString(classItem(low, set) + `\x2d` + classItem(high, highSet))
		case high < low:
			p.fail("a range is out of order in a class")
			return
		default:
			fmt.Fprintf(&items, `\x{%x}-\x{%x}`, low, high)
		}
	}
	switch {
	case items.Len() > 0 && negated:
		p.out.WriteString("[^" + items.String() + "]")
	case items.Len() > 0:
		p.out.WriteString("[" + items.String() + "]")
	case negated:
		p.out.WriteString(`(?s:.)`)
	default:
		p.out.WriteString(`[^\x{0}-\x{10ffff}]`)
	}
}

func classItem(r rune, set string) string {
	if set != "" {
		return set
	}
	return fmt.Sprintf(`\x{%x}`, r)
}

// classAtom reads one character of a class, or a set.
func (p *jsPattern) classAtom() (r rune, set string) {
	if !p.skip(`\`) {
		return p.next(), ""
	}
	rest := p.in[p.at:]
	switch {
	case rest == "":
		p.fail(`trailing \`)
		return 0, ""
	case rest[0] == 'b':
		p.at++
		return '\b', ""
	case rest[0] == 'c' && leading(rest[1:], decimals+"_", 1) != "": // allowed only inside a class
		p.at += 2
		return rune(rest[1] % 32), ""
	case strings.ContainsRune("dDwWsS", rune(rest[0])):
		p.at++
		return 0, jsSet(rest[0], true)
	default:
		return p.character(), ""
	}
}
