package main

import (
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Sizes of a character cell and of the border around the screen, in pixels.
const (
	cellWidth, cellHeight = 8.4, 18
	border                = 14
)

// Colors of the picture, by the number of the ANSI color.
var (
	colors     = map[int]string{31: "#f47067", 32: "#8ddb8c", 33: "#e0b060", 34: "#6cb6ff", 35: "#dcbdfb", 36: "#76e3ea", 90: "#768390"}
	foreground = "#d5dbe2"
	background = "#1c2128"
)

// A look is how text is shown.
type look struct {
	color              int // ANSI number; 0 = the default
	bold, dim, reverse bool
}

// apply changes the look by the numbers of one sequence ESC [ ... m.
func (l *look) apply(numbers string) {
	for number := range strings.SplitSeq(numbers, ";") {
		n, _ := strconv.Atoi(number) // an empty number is 0
		switch {
		case n == 0:
			*l = look{}
		case n == 1:
			l.bold = true
		case n == 2:
			l.dim = true
		case n == 22:
			l.bold, l.dim = false, false
		case n == 7:
			l.reverse = true
		case n == 27:
			l.reverse = false
		case n == 39:
			l.color = 0
		case colors[n] != "":
			l.color = n
		}
	}
}

var sequence = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// svg draws a screen as tmux captures it: text with sequences for colors. Other sequences do
// not occur in a capture. The width is in characters. Each piece of text has its place and its
// length, so that the columns are right in any font.
func svg(screen string, width int) string {
	lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
	var b strings.Builder
	w, h := float64(width)*cellWidth+2*border, float64(len(lines)*cellHeight+2*border)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">`+"\n", w, h)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", background)
	var l look
	for row, line := range lines {
		column := 0
		draw := func(text string) {
			cells := utf8.RuneCountInString(text)
			if strings.TrimSpace(text) != "" || l.reverse {
				drawText(&b, text, l, border+float64(column)*cellWidth, float64(border+row*cellHeight), float64(cells)*cellWidth)
			}
			column += cells
		}
		at := 0
		for _, m := range sequence.FindAllStringSubmatchIndex(line, -1) {
			draw(line[at:m[0]])
			l.apply(line[m[2]:m[3]])
			at = m[1]
		}
		draw(line[at:])
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func drawText(b *strings.Builder, text string, l look, x, y, length float64) {
	if text == "" {
		return
	}
	color := foreground
	if l.color != 0 {
		color = colors[l.color]
	}
	if l.reverse {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.0f" width="%.1f" height="%d" fill="%s"/>`, x, y, length, cellHeight, color)
		color = background
	}
	style := ""
	if l.bold {
		style += ` font-weight="bold"`
	}
	if l.dim {
		style += ` opacity="0.65"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.0f" textLength="%.1f" fill="%s" xml:space="preserve"%s>%s</text>`+"\n",
		x, y+13, length, color, style, html.EscapeString(text))
}
