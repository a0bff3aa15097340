package display

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/charmbracelet/x/vt"
)

// A Screen is the text that a user sees on a terminal, without colors and styles. It is a writer
// for the output of programs, and records control sequences that it does not know. It is safe for
// concurrent use.
type Screen struct {
	mu        sync.Mutex
	terminal  *vt.Emulator
	alternate bool
	unknown   []string
}

// NewScreen returns an empty Screen. The size is in characters. Close ends it.
func NewScreen(width, height int) *Screen {
	s := &Screen{terminal: vt.NewEmulator(width, height)}
	s.terminal.SetLogger((*unknownLog)(s))
	s.terminal.SetCallbacks(vt.Callbacks{AltScreen: func(on bool) { s.alternate = on }})
	go func() { _, _ = io.Copy(io.Discard, s.terminal) }() // replies to queries; unread, they would block Write
	return s
}

// Close ends the Screen. It closes only the pipe of replies, because Close of the terminal races with
// its Read.
func (s *Screen) Close() error {
	if pipe, ok := s.terminal.InputPipe().(io.Closer); ok {
		return pipe.Close()
	}
	return nil
}

// Resize changes the size of the Screen and clears it.
func (s *Screen) Resize(width, height int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terminal.Resize(width, height)
	_, _ = s.terminal.WriteString("\x1b[2J\x1b[H")
}

// String returns the visible lines, without trailing spaces.
func (s *Screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for y := range s.terminal.Height() {
		var line strings.Builder
		for x := range s.terminal.Width() {
			if cell := s.terminal.CellAt(x, y); cell != nil { // empty = the second half of a wide character
				line.WriteString(cell.Content)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
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
	return s.terminal.Write(p)
}

// unknownLog is the log of a Screen's terminal, which Write uses.
type unknownLog Screen

// harmless matches messages about sequences that do not change the text of the screen: strings for
// the terminal and their end, modes, queries and styles.
var harmless = regexp.MustCompile(`^(?:DCS|OSC|APC|PM|SOS) |^ESC "\\\\"|^CSI "(?:.*[?<=>$ !'].*|[0-9;:]*[mhlnctpq])"`)

// Printf records messages about unknown sequences.
func (l *unknownLog) Printf(format string, args ...any) {
	text, unknown := strings.CutPrefix(fmt.Sprintf(format, args...), "unhandled sequence: ")
	if unknown && !harmless.MatchString(text) {
		l.unknown = append(l.unknown, text)
	}
}
