package printable

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Columns returns the width of a text in columns, as terminals count it for each character.
func Columns(text string) int { return ansi.StringWidthWc(text) }

// Split returns the part of a text that fits into width columns, and the rest.
func Split(text string, width int) (fits, rest string) {
	for i, r := range text {
		if width -= Columns(string(r)); width < 0 {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// Cut truncates a text to a width and marks the truncation.
func Cut(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if len(text) <= width { // no character takes more columns than bytes
		return text
	}
	if fits, rest := Split(text, width); rest == "" {
		return fits
	}
	fits, _ := Split(text, width-1)
	return fits + "…"
}

// CutLeft is like Cut, but keeps the end of a text, for example of a directory.
func CutLeft(text string, width int) string {
	over := Columns(text) - width
	if over <= 0 || width <= 0 {
		return Cut(text, width)
	}
	gone, _ := Split(text, over)
	for rest := text[len(gone):]; ; {
		if Columns(rest) < width {
			return "…" + rest
		}
		_, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
	}
}

// Break returns the beginning of a line that fits into a width, and the rest; at least one character
// fits. With words it breaks between words if possible, and the rest begins with a word.
func Break(text string, width int, words bool) (fits, rest string) {
	fits, rest = Split(text, max(width, 2))
	if !words || rest == "" {
		return fits, rest
	}
	if at := strings.LastIndexByte(fits, ' '); rest[0] != ' ' && at > 0 && strings.TrimSpace(fits[:at]) != "" {
		fits, rest = fits[:at], text[at:]
	}
	return fits, strings.TrimLeft(rest, " ")
}

// Wrap breaks a line at spaces into lines of a width. Lines after the first begin with by. A word
// that is longer than a line is broken, too. A width of 0 has room for all.
func Wrap(text string, width int, by string) []string {
	if width <= Columns(by)+1 {
		return []string{text}
	}
	var lines []string
	for before := ""; ; before = by {
		fits, rest := Break(text, width-Columns(before), true)
		if rest == "" {
			return append(lines, before+fits)
		}
		lines = append(lines, strings.TrimRight(before+fits, " "))
		text = rest
	}
}
