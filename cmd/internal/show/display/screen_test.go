package display

import "testing"

func TestScreen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"text":            {"one\r\ntwo", "one\ntwo\n\n"},
		"wraps":           {"12345678901", "1234567890\n1\n\n"},
		"scrolls":         {"1\r\n2\r\n3\r\n4", "2\n3\n4\n"},
		"moves":           {"\x1b[2;3Hx\x1b[Ay\x1b[3Gz\x1b[3dw\x1b[Dv\x1b[2Bu", "  zy\n  x\n   vu\n"},
		"erases":          {"abcdef\x1b[3G\x1b[K\r\nabcdef\x1b[3G\x1b[1K\r\nabcdef\x1b[2G\x1b[2X", "ab\n   def\na  def\n"},
		"erases screens":  {"a\r\nb\r\nc\x1b[2;1H\x1b[J", "a\n\n\n"},
		"inserts":         {"abc\x1b[2G\x1b[2@\x1b[1;2Hx", "ax bc\n\n\n"},
		"deletes":         {"abcdef\x1b[2G\x1b[2P", "adef\n\n\n"},
		"lines":           {"1\r\n2\r\n3\x1b[1;1H\x1b[L\x1b[3;1H\x1b[M", "\n1\n\n"},
		"region":          {"1\r\n2\r\n3\x1b[2;3r\x1b[3;1H\n", "1\n3\n\n"},
		"reverse":         {"1\r\n2\x1b[1;1H\x1bM", "\n1\n2\n"},
		"repeats":         {"-\x1b[4b|", "-----|\n\n\n"},
		"wide":            {"日本\x1b[1;3Hx", "日x\n\n\n"},
		"looks and texts": {"\x1b[1;31ma\x1b[0m\x1b]0;title\ab\x1bP+q\x1b\\c\x1b(B\x1b[?25l\x1b[>4;2m", "abc\n\n\n"},
		"tabs":            {"a\tb\x1b[Zc", "a       c\n\n\n"},
	} {
		whole, parts := NewScreen(10, 3), NewScreen(10, 3)
		_, _ = whole.Write([]byte(c.in))
		for i := range len(c.in) {
			_, _ = parts.Write([]byte(c.in[i : i+1]))
		}
		for _, s := range []*Screen{whole, parts} {
			if got := s.String(); got != c.want || len(s.Unknown()) > 0 {
				t.Errorf("%s: %q shows\n%swant\n%s; unknown %v", name, c.in, got, c.want, s.Unknown())
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// An unknown sequence that may change the text is not lost.
func TestScreenUnknown(t *testing.T) {
	t.Parallel()
	s := NewScreen(10, 3)
	_, _ = s.Write([]byte("\x1b[5n\x1b[5yx\x1bZ"))
	if got := s.Unknown(); len(got) != 2 {
		t.Errorf("unknown are %q, want two", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
