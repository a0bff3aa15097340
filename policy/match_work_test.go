package policy

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// A shell line with n commands made each rule compare its patterns with n*n commands: an
// alias bomb of 48 KB took 7 s of CPU. Each pattern must look at the whole line only once.
func TestMatchingWorkIsLinear(t *testing.T) {
	t.Parallel()
	p, errs := Parse("p.yaml", []byte(`version: 1
hooks:
  - {name: delete, on: tool.before, match: {command: [rm -rf, git push -f]}, except: {command: [rm -rf dist, rm -rf build]}, block: no}
  - {name: files, on: tool.before, match: {writes: "src/*"}, except: {command: [cp, mv]}, block: no}
`))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	const patterns = 2 + 2 + 2 // of the first rule, of its exception, of the second exception
	for _, n := range []int{10, 40, 500} {
		cache := &factCache{}
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{
			Name: "Bash", Class: grapnel.ClassShell, Commands: []string{strings.Repeat("rm -rf dist; cp a src/b;", n)},
		}}
		for i := range p.Hooks {
			h := &p.Hooks[i]
			m, err := cache.matcher(h.Match, h.Except, "", reading{})
			if err != nil {
				t.Fatal(err)
			}
			if fits, err := m.Match(ev, nil); fits || err != nil {
				t.Errorf("n=%d: judge of %q = %v, %v, want false, nil", n, h.Name, fits, err)
			}
		}
		if f := cache.of(ev); f.prefiltered == 0 || f.prefiltered > patterns {
			t.Errorf("n=%d: compared %d patterns with the whole line, want 1 to %d", n, f.prefiltered, patterns)
		}
	}
}
