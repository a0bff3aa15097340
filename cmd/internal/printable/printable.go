// Package printable makes text fit for a terminal. What agents, models and hooks wrote is
// part of much that is shown to people, and must not steer what shows it: no escape
// sequence, no character that turns the direction of text, no line of their own.
package printable

import (
	"fmt"
	"strings"
	"unicode"
)

// Text keeps the newlines and tabs of a text, and nothing else that is not printed.
// A byte that is not UTF-8 becomes U+FFFD, as all that is taken out does.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.Is(unicode.C, r): // control characters, and those that turn the direction of text
			return '\uFFFD'
		}
		return r
	}, text)
}

var inLine = strings.NewReplacer("\n", "\uFFFD", "\t", "\uFFFD")

// Line is a Text inside of a line, such as a file's or a hook's name: who gave it writes
// no line of their own.
func Line(text string) string { return inLine.Replace(Text(text)) }

// Count is a number with what it is of: "1 event", "3 events".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Number writes a number in groups of three digits.
func Number(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
