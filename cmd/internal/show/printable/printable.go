// Package printable makes text safe for a terminal. Agents, models and hooks write parts of the
// text that Grapnel shows, and must not control the terminal: no escape sequences, no characters
// that change the direction of text, no extra lines.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Text replaces every character that cannot be printed by U+FFFD, except for newlines and tabs.
// It also replaces bytes that are not UTF-8.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if controls(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

var inLine = strings.NewReplacer("\n", "\uFFFD", "\t", "\uFFFD")

// Line is like Text for a part of a line, such as the name of a file or a hook. It also
// replaces newlines and tabs, so that the author of the name cannot add a line.
func Line(text string) string { return inLine.Replace(Text(text)) }

// JSON escapes the characters in the strings of a JSON text that could control a terminal. The
// values of the strings stay the same.
func JSON(text string) string {
	if strings.IndexFunc(text, controls) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case !controls(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// controls reports whether a character can control a terminal, change the direction of text, or
// separate lines. Newlines and tabs are text.
func controls(r rune) bool {
	return r != '\n' && r != '\t' && unicode.In(r, unicode.C, unicode.Zl, unicode.Zp)
}

// Count returns a number with a noun in singular or plural: "1 event", "3 events".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Number formats a number in groups of three digits.
func Number(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// The longest white space that Dense keeps.
const (
	maxBlanks = 40
	maxBreaks = 3
)

// Dense is like Text. It also replaces long white space by its length, as in "[6000 spaces]", so
// that its author cannot push the text behind it off the screen.
func Dense(text string) string {
	var b strings.Builder
	runes := []rune(Text(text))
	for i := 0; i < len(runes); {
		start, breaks := i, 0
		for i < len(runes) && blank(runes[i]) {
			if runes[i] == '\n' {
				breaks++
			}
			i++
		}
		switch spaces := i - start - breaks; {
		case start == i:
			b.WriteRune(runes[i])
			i++
		case breaks > maxBreaks && spaces == 0:
			fmt.Fprintf(&b, "\n[%s]\n", Count(breaks, "line break"))
		case breaks > maxBreaks:
			fmt.Fprintf(&b, "\n[%s and %s]\n", Count(breaks, "line break"), Count(spaces, "space"))
		case spaces > maxBlanks:
			fmt.Fprintf(&b, "%s[%s]", strings.Repeat("\n", breaks), Count(spaces, "space"))
		default:
			b.WriteString(string(runes[start:i]))
		}
	}
	return b.String()
}

// blank reports whether a character looks like white space. Some letters and symbols do: the
// fillers of Hangul, and the empty Braille pattern.
func blank(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune("\u115f\u1160\u2800\u3164\uffa0", r)
}
