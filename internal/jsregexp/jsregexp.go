// Package jsregexp searches texts with regular expressions of JavaScript. Agents that are written
// in JavaScript use them in matchers. RE2 gives some of them another meaning, and cannot express
// look-around and back-references.
package jsregexp

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dlclark/regexp2"

	"github.com/grapnel-dev/grapnel"
)

// Timeout limits one search. The engine backtracks, so a pattern such as (a+)+b could take hours.
const Timeout = time.Second

// Limits of a pattern. Compiling takes more than linear time in both.
const (
	maxLength = 2048 // in bytes
	maxNested = 50   // groups within groups
)

// Compile returns a function that searches a text like new RegExp(pattern).test(text). If a search
// takes too long, its error wraps [grapnel.ErrUndecided]; so does the error of Compile for a pattern
// that exceeds the limits. Any other error means that the pattern is invalid in JavaScript too.
// TestDifferences lists how the engine differs from JavaScript.
func Compile(pattern string) (func(text string) (bool, error), error) {
	if len(pattern) > maxLength {
		return nil, fmt.Errorf("%w: it is longer than %d bytes", grapnel.ErrUndecided, maxLength)
	}
	plain, err := withoutExtensions(pattern)
	if err != nil {
		return nil, err
	}
	re, err := regexp2.Compile(plain, regexp2.ECMAScript)
	if err != nil {
		return nil, fmt.Errorf("is not a valid regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	re.MatchTimeout = Timeout
	return func(text string) (bool, error) {
		ok, err := re.MatchString(text)
		if err != nil { // the engine's message quotes the whole text
			return false, fmt.Errorf("%w: it takes longer than %v", grapnel.ErrUndecided, Timeout)
		}
		return ok, nil
	}, nil
}

// withoutExtensions returns the pattern without the meaning that some escapes, such as \A, and some
// brackets have only in the engine. It returns an error for groups that only the engine supports, or
// that are nested too deeply.
func withoutExtensions(pattern string) (string, error) {
	var plain strings.Builder
	depth, class := 0, false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			if i++; strings.IndexByte("AZzGaepP", pattern[i]) < 0 {
				plain.WriteByte(c)
			}
		case class:
			if class = c != ']'; c == '[' { // otherwise [: could start a class of POSIX
				plain.WriteByte('\\')
			}
		case c == '[':
			class = true
		case c == ')':
			depth--
		case c == '(':
			if depth++; depth > maxNested {
				return "", fmt.Errorf("%w: its groups are nested more than %d deep", grapnel.ErrUndecided, maxNested)
			}
			if kind, special := strings.CutPrefix(pattern[i:], "(?"); special && !isGroup(kind) {
				return "", errors.New("is not a valid regular expression: invalid group after (?")
			}
		}
		plain.WriteByte(pattern[i])
	}
	return plain.String(), nil
}

// isGroup reports whether JavaScript has a kind of group, from the text after "(?".
func isGroup(kind string) bool {
	switch {
	case kind == "":
		return false
	case strings.IndexByte(":=!<", kind[0]) >= 0:
		return true
	}
	return strings.HasPrefix(strings.TrimLeft(kind, "ims-"), ":") // (?i:a) since 2025
}
