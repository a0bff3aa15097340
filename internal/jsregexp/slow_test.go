package jsregexp

import (
	"strings"
	"testing"
)

// Slow finds patterns with two ways to match the same text, and no ordinary pattern.
func TestSlow(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		`(a+)+b`, `^(\w+)*$`, `^(?:a+|b+)*$`, `^(a|aa)+$`, `^(?:ab|abab)*$`, `^(?:\w+__)+x$`, `^mcp_(?:[^x]*_*)*tool$`, `^(?:.*,)*x$`,
		`^(?!.*(a+)+b)`, `(?<n>(?:read|\w+)+)-x`, `^(\u0061+)+$`,
	} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			if text := Slow(pattern); text == "" {
				t.Errorf("Slow(%q) finds no text", pattern)
			}
		})
	}
	for _, pattern := range []string{
		`write_file`, `^(?:read|write)_file$`, `.*_file|edit.*`, `^(?!write_file$).*`, `mcp__.*__delete.*|Odd.+`, `^[a-z]+(?:_[a-z]+)*$`, `(?<=read)_file`,
		`^(a)\1+$`, `(\w+)*`, `(.*)+`, `.*.*.*`, `^mcp_(?:github|gitlab)_.+$`, `(?i:bash)`, `^(?:Edit|Write|MultiEdit)+$`, `^([A-Z][a-z]*)+$`, `(`, `[\w-]+`,
		`^(?:\w+)*$`, `^(?:\w|\d)*$`, // the engine simplifies these
		`^(?:(?:a|b){1,3}_){2}$`, `\w+\s*\w+`, strings.Repeat("(?:a|b)", 200), strings.Repeat("a?", 200) + strings.Repeat("(?:a*)", 50),
	} {
		t.Run(pattern[:min(len(pattern), 40)], func(t *testing.T) {
			t.Parallel()
			if text := Slow(pattern); text != "" {
				t.Errorf("Slow(%q) = %q", pattern, text)
			}
		})
	}
}
