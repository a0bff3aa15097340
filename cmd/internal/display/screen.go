package display

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// A Screen is the text that a user sees on a terminal, without colors and styles. It is a writer
// for the output of programs. It interprets the sequences that full-screen programs use, and
// records unknown ones. It is safe for concurrent use.
type Screen struct {
	mu            sync.Mutex
	width, height int
	lines         [][]rune // 0 = the second half of a wide character
	x, y          int
	top, bottom   int // the lines that scroll, inclusive
	saved         [2]int
	last          rune
	alternate     bool
	rest          []byte // an incomplete sequence
	unknown       []string
}

// NewScreen returns an empty Screen. The size is in characters.
func NewScreen(width, height int) *Screen {
	s := &Screen{}
	s.Resize(width, height)
	return s
}

// Resize changes the size of the Screen and clears it.
func (s *Screen) Resize(width, height int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.width, s.height, s.x, s.y, s.top, s.bottom = width, height, 0, 0, 0, height-1
	s.lines = make([][]rune, height)
	for i := range s.lines {
		s.lines[i] = s.blank()
	}
}

// String returns the visible lines, without trailing spaces.
func (s *Screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, line := range s.lines {
		text := slices.DeleteFunc(slices.Clone(line), func(r rune) bool { return r == 0 })
		b.WriteString(strings.TrimRight(string(text), " ") + "\n")
	}
	return b.String()
}

// Alternate reports whether the program uses the whole screen.
func (s *Screen) Alternate() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alternate
}

// Unknown lists the unknown sequences. If there are any, the screen may be wrong.
func (s *Screen) Unknown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unknown)
}

// Write interprets output of a program. It never fails.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := append(s.rest, p...)
	for len(data) > 0 {
		n := s.next(data)
		if n == 0 {
			break // the sequence is incomplete
		}
		data = data[n:]
	}
	s.rest = slices.Clone(data)
	return len(p), nil
}

func (s *Screen) blank() []rune { return []rune(strings.Repeat(" ", s.width)) }

// next interprets one character or sequence and returns its length in bytes, or 0 if it is
// incomplete.
func (s *Screen) next(data []byte) int {
	switch c := data[0]; {
	case c == 0x1b:
		return s.escape(data)
	case c == '\r':
		s.x = 0
	case c == '\n':
		s.lineFeed()
	case c == '\b':
		s.x = max(0, s.x-1)
	case c == '\t':
		s.x = min(s.width-1, s.x/8*8+8)
	case c < ' ' || c == 0x7f:
	default:
		if !utf8.FullRune(data) {
			return 0
		}
		r, size := utf8.DecodeRune(data)
		s.put(r)
		return size
	}
	return 1
}

func (s *Screen) put(r rune) {
	width := ansi.StringWidthWc(string(r))
	if width == 0 {
		return
	}
	if s.x+width > s.width {
		s.x = 0
		s.lineFeed()
	}
	s.lines[s.y][s.x], s.last = r, r
	if width == 2 {
		s.lines[s.y][s.x+1] = 0
	}
	s.x += width
}

func (s *Screen) lineFeed() {
	if s.y == s.bottom {
		s.scroll(s.top, 1)
	} else {
		s.y = min(s.height-1, s.y+1)
	}
}

// scroll moves the lines between from and the bottom by n lines: up, or down if n is negative.
func (s *Screen) scroll(from, n int) {
	for ; n > 0; n-- {
		copy(s.lines[from:], s.lines[from+1:s.bottom+1])
		s.lines[s.bottom] = s.blank()
	}
	for ; n < 0; n++ {
		copy(s.lines[from+1:s.bottom+1], s.lines[from:])
		s.lines[from] = s.blank()
	}
}

// escape interprets a sequence that begins with ESC and returns its length.
func (s *Screen) escape(data []byte) int {
	if len(data) < 2 {
		return 0
	}
	switch data[1] {
	case '[':
		for i := 2; i < len(data); i++ {
			if c := data[i]; c >= 0x40 && c <= 0x7e {
				s.control(string(data[2:i]), c)
				return i + 1
			}
		}
		return 0
	case ']', 'P', '_', '^', 'X': // a text for the terminal, which it does not display
		for i := 2; i < len(data); i++ {
			if data[i] == '\a' {
				return i + 1
			}
			if data[i] == '\\' && data[i-1] == 0x1b {
				return i + 1
			}
		}
		return 0
	case '(', ')':
		if len(data) < 3 {
			return 0
		}
		return 3
	case '7':
		s.saved = [2]int{s.x, s.y}
	case '8':
		s.x, s.y = s.saved[0], s.saved[1]
	case 'M':
		if s.y == s.top {
			s.scroll(s.top, -1)
		} else {
			s.y--
		}
	case '=', '>':
	default:
		s.unknown = append(s.unknown, fmt.Sprintf("%q", data[:2]))
	}
	return 2
}

// control executes a control sequence.
func (s *Screen) control(params string, final byte) {
	if strings.ContainsAny(params, "?<=>$ !\"'") {
		if params == "?1049" {
			s.alternate = final == 'h'
			for i := range s.lines {
				s.lines[i] = s.blank()
			}
		}
		return // modes, queries and styles
	}
	var list []int
	for text := range strings.SplitSeq(params, ";") {
		n, _ := strconv.Atoi(text)
		list = append(list, n)
	}
	n := max(1, list[0])
	line := s.lines[s.y]
	at := min(s.x, s.width-1)
	switch final {
	case 'A':
		s.y = max(0, s.y-n)
	case 'B', 'e':
		s.y = min(s.height-1, s.y+n)
	case 'C', 'a':
		s.x = min(s.width-1, s.x+n)
	case 'D':
		s.x = max(0, at-n)
	case 'E':
		s.x, s.y = 0, min(s.height-1, s.y+n)
	case 'F':
		s.x, s.y = 0, max(0, s.y-n)
	case 'G', '`':
		s.x = min(s.width, n) - 1
	case 'd':
		s.y = min(s.height, n) - 1
	case 'H', 'f':
		s.y, s.x = min(s.height, n)-1, 0
		if len(list) > 1 {
			s.x = min(s.width, max(1, list[1])) - 1
		}
	case 'I':
		s.x = min(s.width-1, (s.x/8+n)*8)
	case 'Z':
		s.x = max(0, (s.x+7)/8*8-8*n)
	case 'J':
		s.erase(list[0])
	case 'K':
		from, to := s.x, s.width
		if list[0] == 1 {
			from, to = 0, at+1
		} else if list[0] == 2 {
			from = 0
		}
		fill(line[min(from, s.width):to])
	case 'X':
		fill(line[at:min(s.width, at+n)])
	case 'P':
		n = min(n, s.width-at)
		copy(line[at:], line[at+n:])
		fill(line[s.width-n:])
	case '@':
		n = min(n, s.width-at)
		copy(line[at+n:], line[at:])
		fill(line[at : at+n])
	case 'L':
		s.scroll(s.y, -n)
	case 'M':
		s.scroll(s.y, n)
	case 'S':
		s.scroll(s.top, n)
	case 'T':
		s.scroll(s.top, -n)
	case 'b':
		for range n {
			s.put(s.last)
		}
	case 'r':
		s.top, s.bottom = n-1, s.height-1
		if len(list) > 1 && list[1] > 0 {
			s.bottom = min(s.height, list[1]) - 1
		}
		s.x, s.y = 0, 0
	case 's':
		s.saved = [2]int{s.x, s.y}
	case 'u':
		s.x, s.y = s.saved[0], s.saved[1]
	case 'm', 'h', 'l', 'n', 'c', 't', 'p', 'q':
	default:
		s.unknown = append(s.unknown, fmt.Sprintf("CSI %s %c", params, final))
	}
}

// erase executes ED (final byte J): 0 erases from the cursor, 1 up to it, 2 the whole screen.
func (s *Screen) erase(how int) {
	for y, line := range s.lines {
		switch at := min(s.x, s.width-1); {
		case how >= 2, how == 0 && y > s.y, how == 1 && y < s.y:
			fill(line)
		case y == s.y && how == 0:
			fill(line[at:])
		case y == s.y:
			fill(line[:at+1])
		}
	}
}

func fill(line []rune) {
	for i := range line {
		line[i] = ' '
	}
}
