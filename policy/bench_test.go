package policy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
)

// BenchmarkHundredRules measures an event that matches none of a hundred rules of all types.
func BenchmarkHundredRules(b *testing.B) {
	var text strings.Builder
	text.WriteString("version: 1\nhooks:\n")
	for i := range 25 {
		fmt.Fprintf(&text, "  - {name: c%d, on: tool.before, match: {command: tool%d push --force}, block: no}\n", i, i)
		fmt.Fprintf(&text, "  - {name: p%d, on: tool.before, match: {tool: [write, edit], path: 'secret%d/**'}, block: no}\n", i, i)
		fmt.Fprintf(&text, "  - {name: t%d, on: tool.before, match: {tool: 'mcp__server%d__*'}, block: no}\n", i, i)
		fmt.Fprintf(&text, "  - {name: x%d, on: tool.before, match: {text: '/sk-%d[a-z]+/'}, block: no}\n", i, i)
	}
	e := fixture.Engine(b, "p.yaml", text.String())
	b.ReportAllocs()
	for b.Loop() {
		e.Fire(context.Background(), fixture.Shell("git status"))
	}
}
