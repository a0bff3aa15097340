package watch

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/internal/shorten"
)

// A style is how a text looks. None of them is the only one to say something: there are
// terminals without colours.
type style uint8

const (
	normal style = iota
	dim
	bold
	red
	green
	yellow
	cyan
	marked // where the cursor is
)

var codes = [...]string{dim: "2", bold: "1", red: "31", green: "32", yellow: "33", cyan: "36", marked: "7"}

func (s style) paint(text string) string {
	if s == normal || text == "" {
		return text
	}
	return "\x1b[" + codes[s] + "m" + text + "\x1b[0m"
}

// A span is a part of a line. Its text is clean.
type span struct {
	text string
	look style
}

// A row is a line that has no width yet.
type row []span

func line(look style, text string) row { return row{{text, look}} }

// fit is a row in so many columns. Where fill is set it takes all of them.
func (r row) fit(width int, fill bool) string {
	var b strings.Builder
	for _, s := range r {
		if width <= 0 {
			break
		}
		text := cut(s.text, width)
		width -= columns(text)
		b.WriteString(s.look.paint(text))
	}
	if fill && width > 0 {
		b.WriteString(strings.Repeat(" ", width))
	}
	return b.String()
}

// plain is a row without its looks.
func (r row) plain() string {
	var b strings.Builder
	for _, s := range r {
		b.WriteString(s.text)
	}
	return b.String()
}

// columns is how many a text takes: the width that terminals agree on, character by
// character.
func columns(text string) int { return ansi.StringWidthWc(text) }

// split takes off what fits into so many columns.
func split(text string, width int) (fits, rest string) {
	for i, r := range text {
		if width -= columns(string(r)); width < 0 {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// cut makes a text fit, and marks where something is missing.
func cut(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if len(text) <= width { // no character takes more columns than bytes
		return text
	}
	if fits, rest := split(text, width); rest == "" {
		return fits
	}
	fits, _ := split(text, width-1)
	return fits + "…"
}

// cutLeft is cut of a text whose end says most, such as a directory.
func cutLeft(text string, width int) string {
	over := columns(text) - width
	if over <= 0 || width <= 0 {
		return cut(text, width)
	}
	gone, _ := split(text, over)
	for rest := text[len(gone):]; ; {
		if columns(rest) < width {
			return "…" + rest
		}
		_, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
	}
}

// left and right fill a column.
func left(text string, width int) string {
	text = cut(text, width)
	return text + strings.Repeat(" ", max(0, width-columns(text)))
}

func right(text string, width int) string {
	text = cut(text, width)
	return strings.Repeat(" ", max(0, width-columns(text))) + text
}

// The most that is looked at of a text, in bytes: a terminal has no room for more.
const (
	maxLine  = 1 << 10
	maxBlock = 64 << 10
)

// inLine is a text as it can stand in a line: clean, and without line breaks.
func inLine(text string) string {
	return clean(strings.Join(strings.Fields(shorten.To(text, maxLine)), " "))
}

// clean is a text that takes the columns it seems to, and steers nothing. Newlines stay.
func clean(text string) string {
	text = printable.Text(text)
	over := 0
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r >= '\uFE00' && r <= '\uFE0F': // they change the width of what they follow, in some terminals
			return -1
		case unicode.In(r, unicode.Zl, unicode.Zp):
			return '\uFFFD'
		case unicode.Is(unicode.M, r):
			if over++; over > 2 { // heaps of accents reach into the lines around
				return -1
			}
			return r
		}
		over = 0
		return r
	}, text)
}

// wrapped are the lines of a text in so many columns, broken between words where there are
// some.
func wrapped(text string, width int) []string { return broken(text, width, true) }

// broken are the lines of a text in so many columns, broken where they end, or between
// words.
func broken(text string, width int, words bool) []string {
	text = clean(shorten.To(strings.TrimRight(text, "\n"), maxBlock))
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		for {
			fits, rest := split(line, max(width, 2)) // one character fits at least
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

// took is a time in milliseconds, in five columns.
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

// age is how long ago something was, in four columns.
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

// within is a number that is neither too small nor too large; the least counts where they
// contradict each other.
func within[T cmp.Ordered](n, least, most T) T { return max(least, min(n, most)) }
