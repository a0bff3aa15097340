package match

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Regression: for a shell line with n commands, each rule compared its patterns with n*n
// commands. An alias bomb of 48 KB took 7 s of CPU. Each pattern must be compared with the
// whole line only once.
func TestMatchingWorkIsLinear(t *testing.T) {
	t.Parallel()
	rules := []struct{ match, except policyfile.Match }{
		{policyfile.Match{Command: []string{"rm -rf", "git push -f"}}, policyfile.Match{Command: []string{"rm -rf dist", "rm -rf build"}}},
		{policyfile.Match{Writes: []string{"src/*"}}, policyfile.Match{Command: []string{"cp", "mv"}}},
	}
	const patterns = 2 + 2 + 2 // of the first rule, of its exception, of the second exception
	for _, n := range []int{10, 40, 500} {
		cache := &FactCache{}
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{
			Name: "Bash", Class: grapnel.ClassShell, Commands: []string{strings.Repeat("rm -rf dist; cp a src/b;", n)},
		}}
		for i := range rules {
			m, err := cache.Matcher(&rules[i].match, []policyfile.Match{rules[i].except}, "", Reading{})
			if err != nil {
				t.Fatal(err)
			}
			if fits, err := m.Match(ev, nil); fits || err != nil {
				t.Errorf("n=%d: judge of rule %d = %v, %v, want false, nil", n, i, fits, err)
			}
		}
		if f := cache.Of(ev); f.prefiltered == 0 || f.prefiltered > patterns {
			t.Errorf("n=%d: compared %d patterns with the whole line, want 1 to %d", n, f.prefiltered, patterns)
		}
	}
}
