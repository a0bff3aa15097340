//go:build system

// This test starts no program, but it takes too long with the race detector, which the system
// tier does not use.

package match

import (
	"strings"
	"testing"
)

// A long text matches the same patterns if only the parts near the required literals of a
// pattern are searched.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	patterns, texts := longTexts(t)
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Repeat(text, 4<<10/len(text)+1)
			f := &Facts{}
			for i := range patterns {
				p := patterns[i : i+1]
				want := p[0].re == nil && p[0].in(text) || p[0].re != nil && p[0].re.Compile().MatchString(text)
				if got := f.anyText(p, []string{text}); got != want {
					t.Errorf("pattern %d: %v in %d bytes, want %v", i, got, len(text), want)
				}
			}
		})
	}
}
