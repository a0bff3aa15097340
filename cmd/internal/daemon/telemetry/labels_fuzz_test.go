package telemetry

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
)

// For any name of a source, its label is short, printable, and contains no directory.
func FuzzSourceLabel(f *testing.F) {
	for _, name := range []string{
		"/home/ann/grapnel.yaml#secrets", "claude-code:/home/ann/.claude/settings.json", `C:\Users\ann\grapnel.yaml#a/b`, "workspace:hooks/hooks.json", "a:b#c", "#", ":", "\xff/\xfe#\x00", "é#é",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, known := range []func(string) (grapnel.Scope, bool){nil, userScope, func(string) (grapnel.Scope, bool) { return grapnel.ScopeProject, true }} {
			got := sourceLabel(name, known)
			if strings.ContainsAny(got, "/\\\n\x00\x1b") || !utf8.ValidString(got) || len(got) > 2*maxLabel+64 {
				t.Errorf("sourceLabel(%q) = %q", name, got)
			}
			if strings.ContainsAny(targetLabel(name+"::hook", known), "/\\\n\x00") {
				t.Errorf("targetLabel(%q) = %q", name+"::hook", targetLabel(name+"::hook", known))
			}
		}
	})
}
