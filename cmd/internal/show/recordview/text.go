package recordview

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// The maximum number of bytes of a text that are processed: a terminal has no room for more.
const (
	maxLine  = 1 << 10
	maxBlock = 64 << 10
)

// Line returns a text of an event for one line: clean, and without line breaks.
func Line(text string) string {
	return Clean(strings.Join(strings.Fields(wording.Shorten(text, maxLine)), " "))
}

// Clean removes characters that control a terminal or have an unclear width. Newlines stay.
func Clean(text string) string {
	text = printable.Text(text)
	over := 0
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r >= '\uFE00' && r <= '\uFE0F': // variation selectors change the width of the preceding character in some terminals
			return -1
		case unicode.In(r, unicode.Zl, unicode.Zp):
			return '\uFFFD'
		case unicode.Is(unicode.M, r):
			if over++; over > 2 { // many combining accents overlap the neighboring lines
				return -1
			}
			return r
		}
		over = 0
		return r
	}, text)
}

// broken breaks a text into lines of a width, between words if words is set.
func broken(text string, width int, words bool) []string {
	text = Clean(wording.Shorten(strings.TrimRight(text, "\n"), maxBlock))
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		for {
			fits, rest := printable.Break(line, width, words)
			lines = append(lines, fits)
			if rest == "" {
				break
			}
			line = rest
		}
	}
	return lines
}

// Took formats a duration in milliseconds, in five columns.
func Took(ms float64) string {
	switch {
	case ms < 9.95:
		return fmt.Sprintf("%.1fms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0fms", ms)
	case ms < 9950:
		return fmt.Sprintf("%.1fs", ms/1000)
	case ms < 9_999_500:
		return fmt.Sprintf("%.0fs", ms/1000)
	}
	return "hours"
}
