package shell

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// A term is one word of a pattern.
type term struct {
	text  string // literal, or a glob
	glob  bool
	clean string // a literal path, cleaned
}

// answer compares a word with the term.
func (t *term) answer(w Word) Answer {
	if w.Literal {
		if t.match(w.Text) {
			return Yes
		}
		return No
	}
	// "rm -rf $HOME" must match as written, and so must "docker rm `docker ps`".
	if strings.ContainsAny(t.text, "$`") && t.match(cmp.Or(w.c.origin, w.Text)) {
		return Yes
	}
	if w.c.origin != "" && !strings.ContainsAny(w.c.origin, "$`") && t.match(w.c.origin) {
		return Yes
	}
	if w.c.glob != "" && t.match(w.c.glob) {
		return Yes
	}
	if w.c.many && w.c.head == "" || t.mayBegin(w.c.head) {
		return Unknown
	}
	if w.c.many && !w.c.operand {
		return Unknown
	}
	return No
}

func (t *term) match(s string) bool {
	if !t.glob {
		return s == t.text || t.clean != "" && shortest(s) == t.clean
	}
	if glob(t.text, s) {
		return true
	}
	short := shortest(s)
	return short != s && glob(t.text, short)
}

// mayBegin reports whether the term can match a text that begins with head.
func (t *term) mayBegin(head string) bool {
	if !t.glob {
		return strings.HasPrefix(t.text, head) || strings.HasPrefix(t.clean, head)
	}
	fixed := t.text
	if i := strings.IndexAny(fixed, `*?[\`); i >= 0 {
		fixed = fixed[:i]
	}
	n := min(len(fixed), len(head))
	return fixed[:n] == head[:n]
}

// shortest returns a path without "." and ".." and double slashes: /./ is /. It returns any text
// that is not a path unchanged.
func shortest(s string) string {
	if strings.IndexByte(s, '/') < 0 {
		return s
	}
	double := strings.Contains(s, "//")
	if double && strings.Contains(s, "://") || !double && s[0] != '.' && s[len(s)-1] != '/' && !strings.Contains(s, "/.") {
		return s // most paths are short already, and every pattern asks about every operand
	}
	return path.Clean(s)
}

// glob matches s against a pattern in which "*" matches any text including slashes, "?" one
// character, [a-z] or [!a-z] one character of a set, and "\" makes the next character literal.
func glob(pattern, s string) bool {
	// After a mismatch only the last star needs another try: the last star can match everything
	// that an earlier one could.
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, mark = p, i
				p++
				continue
			}
			if np, ni, ok := one(pattern, p, s, i); ok {
				p, i = np, ni
				continue
			}
		}
		if star < 0 {
			return false
		}
		mark++
		p, i = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// one matches a single character and returns the positions after it.
func one(pattern string, p int, s string, i int) (int, int, bool) {
	switch pattern[p] {
	case '?':
		_, n := utf8.DecodeRuneInString(s[i:])
		return p + 1, i + n, true
	case '[':
		r, n := utf8.DecodeRuneInString(s[i:])
		if end, ok := set(pattern, p, r); end > 0 {
			return end, i + n, ok
		}
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, i + 1, pattern[p] == s[i]
}

// set matches r against the set at p and returns the position after the set. It returns 0 if the
// bracket is not closed and is therefore an ordinary character.
func set(pattern string, p int, r rune) (end int, ok bool) {
	p++
	negate := p < len(pattern) && (pattern[p] == '!' || pattern[p] == '^')
	if negate {
		p++
	}
	for first := true; p < len(pattern) && (first || pattern[p] != ']'); first = false {
		low, n := utf8.DecodeRuneInString(pattern[p:])
		p += n
		high := low
		if p+1 < len(pattern) && pattern[p] == '-' && pattern[p+1] != ']' {
			high, n = utf8.DecodeRuneInString(pattern[p+1:])
			p += 1 + n
		}
		ok = ok || low <= r && r <= high
	}
	if p >= len(pattern) {
		return 0, false
	}
	return p + 1, ok != negate
}

// split splits a pattern into its words.
func split(pattern string) ([]term, error) {
	var terms []term
	for i := 0; i < len(pattern); {
		if c := pattern[i]; c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			i++
			continue
		}
		t, n, err := splitWord(pattern[i:])
		if err != nil {
			return nil, err
		}
		terms = append(terms, t)
		i += n
	}
	return terms, nil
}

// splitWord reads the word at the beginning of s and returns it with its length.
func splitWord(s string) (term, int, error) {
	// The text is stored twice, because only a glob needs its backslashes.
	var literal, pattern strings.Builder
	isGlob := false
	add := func(b byte) {
		literal.WriteByte(b)
		if strings.IndexByte(`*?[\`, b) >= 0 {
			pattern.WriteByte('\\')
		}
		pattern.WriteByte(b)
	}
	i := 0
word:
	for ; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\n', '\r':
			break word
		case '\\':
			if i++; i == len(s) {
				return term{}, 0, errors.New(`it ends in a backslash: write \\ for a backslash`)
			}
			add(s[i])
		case '\'', '"':
			end := strings.IndexByte(s[i+1:], c)
			if end < 0 {
				return term{}, 0, fmt.Errorf("the quote %c is not closed: write \\%c for the character itself", c, c)
			}
			for _, b := range []byte(s[i+1 : i+1+end]) {
				add(b)
			}
			i += 1 + end
		case '*', '?', '[':
			if c == '[' && !closed(s[i+1:]) {
				add(c)
				continue
			}
			isGlob = true
			literal.WriteByte(c)
			pattern.WriteByte(c)
		case '|':
			return term{}, 0, errors.New(`a pattern describes one command and | joins two: write one pattern for each; a pipe into a shell is reported as unknown, match "shell: unknown"`)
		case '&', ';':
			return term{}, 0, fmt.Errorf("a pattern describes one command and %c ends it: write one pattern for each command, or quote it", c)
		case '<', '>':
			return term{}, 0, fmt.Errorf("a pattern describes a command without its redirections (%c): match the path instead, or quote it", c)
		case '(', ')', '`':
			return term{}, 0, fmt.Errorf("%c is shell syntax: a pattern can contain only words, so quote it if it is text", c)
		default:
			literal.WriteByte(c)
			pattern.WriteByte(c)
		}
	}
	if strings.Contains(literal.String(), "{") && strings.Contains(literal.String(), ",") && literal.String() == s[:i] {
		return term{}, 0, fmt.Errorf("%s looks like a choice: write one pattern for each, or quote it", s[:i])
	}
	if isGlob {
		return term{text: pattern.String(), glob: true}, i, nil
	}
	text := literal.String()
	return term{text: text, clean: shortest(text)}, i, nil
}

// closed reports whether a bracket is closed within its word.
func closed(s string) bool {
	end := strings.IndexByte(s, ']')
	return end > 0 && !strings.ContainsAny(s[:end], " \t\r\n")
}

func isAssignment(s string) bool {
	i := strings.IndexByte(s, '=')
	if i <= 0 || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for _, b := range []byte(s[:i]) {
		if !nameByte(b) {
			return false
		}
	}
	return true
}
