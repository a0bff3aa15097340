package watch

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// A style is the appearance of a text. No information depends on the style alone, because some
// terminals have no colors.
type style uint8

const (
	normal style = iota
	dim
	bold
	red
	green
	yellow
	cyan
	marked // the cursor
)

var codes = [...]string{dim: "2", bold: "1", red: "31", green: "32", yellow: "33", cyan: "36", marked: "7"}

func (s style) paint(text string) string {
	if s == normal || text == "" {
		return text
	}
	return "\x1b[" + codes[s] + "m" + text + "\x1b[0m"
}

// A span is a part of a line. Its text is already clean.
type span struct {
	text string
	look style
}

// A row is a line before it is fitted to a width.
type row []span

func line(look style, text string) row { return row{{text, look}} }

// fit returns a row truncated to a width in columns. If fill is set, it pads the row to the full
// width.
func (r row) fit(width int, fill bool) string {
	var b strings.Builder
	for _, s := range r {
		if width <= 0 {
			break
		}
		text := printable.Cut(s.text, width)
		width -= printable.Columns(text)
		b.WriteString(s.look.paint(text))
	}
	if fill && width > 0 {
		b.WriteString(strings.Repeat(" ", width))
	}
	return b.String()
}

// plain returns the text of a row without styles.
func (r row) plain() string {
	var b strings.Builder
	for _, s := range r {
		b.WriteString(s.text)
	}
	return b.String()
}

// left and right pad or truncate a text to a width.
func left(text string, width int) string {
	text = printable.Cut(text, width)
	return text + strings.Repeat(" ", max(0, width-printable.Columns(text)))
}

func right(text string, width int) string {
	text = printable.Cut(text, width)
	return strings.Repeat(" ", max(0, width-printable.Columns(text))) + text
}

// The maximum number of bytes of a text that are processed: a terminal has no room for more.
const (
	maxLine  = 1 << 10
	maxBlock = 64 << 10
)

// inLine returns a text for one line: clean, and without line breaks.
func inLine(text string) string {
	return clean(strings.Join(strings.Fields(wording.Shorten(text, maxLine)), " "))
}

// clean removes characters that control a terminal or have an unclear width. Newlines stay.
func clean(text string) string {
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

// wrapped breaks a text into lines of a width, between words if possible.
func wrapped(text string, width int) []string { return broken(text, width, true) }

// broken breaks a text into lines of a width, between words if words is set.
func broken(text string, width int, words bool) []string {
	text = clean(wording.Shorten(strings.TrimRight(text, "\n"), maxBlock))
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		for {
			fits, rest := printable.Split(line, max(width, 2)) // at least one character
			if rest == "" {
				lines = append(lines, fits)
				break
			}
			if at := strings.LastIndexByte(fits, ' '); words && rest[0] != ' ' && strings.TrimSpace(fits[:max(at, 0)]) != "" {
				fits, rest = fits[:at], line[at+1:]
			}
			lines = append(lines, fits)
			if line = rest; words {
				line = strings.TrimLeft(rest, " ")
			}
		}
	}
	return lines
}

// took formats a duration in milliseconds, in five columns.
func took(ms float64) string {
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

// age formats the time since an event, in four columns.
func age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", min(999, d/(24*time.Hour)))
}

// within limits n to the range from least to most. If least is larger than most, it returns least.
func within[T cmp.Ordered](n, least, most T) T { return max(least, min(n, most)) }
