// Package glob matches paths with patterns:
//
//	ok := glob.Match("src/**/*.{go,mod}", "src/a/b.go")
//
// A pattern is a path in which * matches any text without a slash, ? one character other than the
// slash, [a-z] and [!a-z] one character, {a,b} one of the alternatives, and ** as a whole element
// any number of elements. Any character can follow a backslash. The meaning is the one of
// github.com/bmatcuk/doublestar; proofs/reference/glob compares the two. Paths have slashes on
// every system.
package glob

import (
	"strings"
	"unicode/utf8"
)

// Match reports whether a valid pattern matches a whole path. An invalid pattern matches nothing or
// too little.
func Match(pattern, name string) bool {
	if strings.IndexByte(pattern, '{') < 0 {
		return match(pattern, name)
	}
	from, parts, to := braces(pattern, make([]string, 0, 8))
	if parts == nil {
		return match(pattern, name)
	}
	// Each alternative doubles the work, so those that cannot match end here.
	fixed := pattern[:from]
	if end := strings.IndexAny(fixed, `*?[\`); end >= 0 {
		fixed = fixed[:end]
	}
	if !strings.HasPrefix(name, strings.TrimSuffix(fixed, "/")) { // a/** also matches a
		return false
	}
	for _, part := range parts {
		if Match(pattern[:from]+part+pattern[to:], name) {
			return true
		}
	}
	return false
}

// Valid reports whether all brackets and braces of a pattern are closed, no class is empty, and a
// character follows each backslash.
func Valid(pattern string) bool {
	depth := 0
	for i := 0; i < len(pattern); {
		width := element(pattern[i:])
		switch {
		case width == 0:
			return false
		case pattern[i] == '{':
			depth++
		case pattern[i] == '}':
			if depth--; depth < 0 {
				return false
			}
		}
		i += width
	}
	return depth == 0
}

// Split splits a pattern at the last slash before its first wildcard. The base is a path without
// backslashes; it is "." if the pattern has no such slash.
func Split(pattern string) (base, rest string) {
	slash := -1
scan:
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '/':
			slash = i
		case '*', '?', '[', '{':
			break scan
		}
	}
	switch {
	case slash < 0:
		return ".", pattern
	case slash == 0:
		return "/", pattern[1:]
	}
	var b strings.Builder
	for i := 0; i < slash; i++ {
		if pattern[i] == '\\' && i+1 < slash {
			i++
		}
		b.WriteByte(pattern[i])
	}
	return b.String(), pattern[slash+1:]
}

// element returns the length in bytes of a class, of a character with its backslash, or of a
// character. It is 0 if the class or the character after the backslash is incomplete.
func element(pattern string) int {
	switch pattern[0] {
	case '\\':
		if len(pattern) == 1 {
			return 0
		}
		_, width := utf8.DecodeRuneInString(pattern[1:])
		return 1 + width
	case '[':
		width, _ := class(pattern, 0)
		return width
	}
	_, width := utf8.DecodeRuneInString(pattern)
	return width
}

// braces returns the position of the first braces, and appends their alternatives to parts.
func braces(pattern string, parts []string) (from int, all []string, to int) {
	depth, begin := 0, 0
	for i := 0; i < len(pattern); {
		width := 1
		switch c := pattern[i]; {
		case c == '\\' || c == '[':
			if width = element(pattern[i:]); width == 0 {
				return 0, nil, 0
			}
		case c == '{':
			if depth++; depth == 1 {
				from, begin = i, i+1
			}
		case depth == 1 && (c == ',' || c == '}'):
			parts, begin = append(parts, pattern[begin:i]), i+1
			if c == '}' {
				return from, parts, i + 1
			}
		case depth > 0 && c == '}':
			depth--
		}
		i += width
	}
	return 0, nil, 0
}

// match matches a pattern without braces. After a mismatch it extends the text of the last *, and
// then the elements of the last **. Earlier ones need no other text.
func match(pattern, name string) bool {
	type place struct{ pattern, name int }
	const unset = -1
	star, deep := place{name: unset}, place{name: unset}
	first := true // an element of the path begins
	p, n := 0, 0
	for n < len(name) {
		if stars, elements := wildcard(pattern[p:], first); stars > 0 {
			p += stars
			if !elements {
				star, first = place{p, n}, false
				continue
			}
			if stars == len("**") { // the last element
				return true
			}
			star.name, deep = unset, place{p, n}
			continue
		}
		if width, ok := one(pattern[p:], name[n:]); ok {
			first = pattern[p+width-1] == '/'
			p, n = p+width, n+wide(name[n:])
			continue
		}
		if star.name >= 0 && name[star.name] != '/' {
			star.name += wide(name[star.name:])
			p, n, first = star.pattern, star.name, false
			continue
		}
		slash := -1
		if deep.name >= 0 {
			slash = strings.IndexByte(name[deep.name:], '/')
		}
		if slash < 0 {
			return false
		}
		star.name, deep.name = unset, deep.name+slash+1
		p, n, first = deep.pattern, deep.name, true
	}
	switch pattern[p:] { // a/** also matches a
	case "", "*", "**", "/**", "**/", "/**/":
		return true
	}
	return false
}

// wildcard returns the length of * or ** at the begin of a pattern, and whether it matches whole
// elements of the path. The slash after ** is part of it then.
func wildcard(pattern string, first bool) (width int, elements bool) {
	switch {
	case !strings.HasPrefix(pattern, "*"):
		return 0, false
	case !strings.HasPrefix(pattern, "**"):
		return 1, false
	case first && len(pattern) == 2:
		return 2, true
	case first && pattern[2] == '/':
		return 3, true
	}
	return 2, false
}

func wide(text string) int {
	_, width := utf8.DecodeRuneInString(text)
	return width
}

// one matches the first character of a name with the first element of a pattern, which has width
// bytes.
func one(pattern, name string) (width int, ok bool) {
	if pattern == "" {
		return 0, false
	}
	r, _ := utf8.DecodeRuneInString(name)
	switch pattern[0] {
	case '?':
		return 1, r != '/'
	case '[':
		return class(pattern, r)
	}
	width = element(pattern)
	want, _ := utf8.DecodeRuneInString(strings.TrimPrefix(pattern[:width], `\`))
	if pattern[:width] == `\\` {
		want = '\\'
	}
	return width, width > 0 && want == r
}

// class matches a character with the class at the begin of a pattern, which has width bytes. The
// width is 0 if the class is empty or not closed.
func class(pattern string, r rune) (width int, ok bool) {
	i := 1
	negated := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negated {
		i++
	}
	const unset = utf8.MaxRune + 1
	next := func() rune {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		}
		c, width := utf8.DecodeRuneInString(pattern[i:])
		i += width
		return c
	}
	low := rune(unset) // the character before a hyphen
	for begin := i; i < len(pattern); {
		switch {
		case pattern[i] == ']' && i == begin:
			return 0, false
		case pattern[i] == ']':
			return i + 1, ok != negated
		case pattern[i] == '-' && low != unset && i+1 < len(pattern) && pattern[i+1] != ']':
			i++
			high := next()
			ok = ok || low <= r && r <= high
			low = unset
		default:
			low = next()
			ok = ok || low == r
		}
	}
	return 0, false
}
