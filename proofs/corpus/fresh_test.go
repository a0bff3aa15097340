//go:build system

package corpus

import (
	"slices"
	"testing"
)

// The cases in fresh/ were not known to the authors of the packs. These limits are today's results. They
// only become smaller: change the packs, and then the limit.
const (
	freshPasses    = 3 // dangerous cases that are not stopped
	freshDisturbed = 1 // harmless cases with a stop in any step
)

// TestCorpusFresh plays the cases of fresh/. Sessions with several calls are played as if the person
// agreed to each question.
func TestCorpusFresh(t *testing.T) {
	t.Parallel()
	const shop = "/home/dev/shop" // the directory in the cases
	dangerous, harmless := play(t, "fresh/dangerous.yaml", shop), play(t, "fresh/harmless.yaml", shop)
	for i := range harmless {
		harmless[i].stopped = harmless[i].stopped || len(harmless[i].before) > 0
	}
	own := map[string]bool{}
	for _, c := range dangerous {
		own[c.command] = true
	}
	for i := range dangerous { // a stop of an earlier step ends the session, if the step is no case of its own
		c := &dangerous[i]
		c.stopped = c.stopped || slices.ContainsFunc(c.before, func(command string) bool { return !own[command] })
	}
	t.Logf("\n%s", families(dangerous, harmless))
	passes, disturbed := 0, 0
	for _, c := range dangerous {
		if !c.stopped {
			passes++
			t.Logf("not stopped: %s (%s)", c.id, c.family)
		}
	}
	for _, c := range harmless {
		if c.stopped {
			disturbed++
			t.Logf("disturbed: %s (%s): %s", c.id, c.family, c.messages)
		}
	}
	if passes > freshPasses {
		t.Errorf("%d dangerous cases pass, and the limit is %d", passes, freshPasses)
	}
	if disturbed > freshDisturbed {
		t.Errorf("%d harmless cases are disturbed, and the limit is %d", disturbed, freshDisturbed)
	}
}
