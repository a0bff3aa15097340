package match

import (
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// Facts of an event are computed once, even if other events are judged concurrently.
func TestFactsOfEventsAtOnce(t *testing.T) {
	t.Parallel()
	cache := &FactCache{}
	events := make([]*grapnel.Event, len(cache.other))
	first := make([]*Facts, len(events))
	for i := range events {
		events[i] = &grapnel.Event{Tool: &grapnel.Tool{Commands: []string{"ls"}}}
		first[i] = cache.Of(events[i])
	}
	for range 3 {
		for i, ev := range events {
			if f := cache.Of(ev); f != first[i] || f.Event != ev {
				t.Fatalf("event %d of %d has facts of %p and then of %p", i, len(events), first[i].Event, f.Event)
			}
		}
	}
}

// Rules for one program share a gate, and an unknown program passes it.
func TestGate(t *testing.T) {
	t.Parallel()
	cache := &FactCache{}
	git, rm, again, every := cache.program("git"), cache.program("rm"), cache.program("git"), cache.program("")
	if git != again || git == rm {
		t.Errorf("indices git %d, rm %d, git %d", git, rm, again)
	}
	for line, want := range map[string][3]bool{
		"git status":    {true, false, true},
		"ls":            {false, false, true},
		"r'm' x":        {true, true, true},
		"sudo rm; true": {false, true, true},
	} {
		may := cache.Of(&grapnel.Event{Tool: &grapnel.Tool{Commands: []string{line}}}).gate()
		if got := [3]bool{may[git], may[rm], may[every]}; got != want {
			t.Errorf("%q may run git, rm, any: %v, want %v", line, got, want)
		}
	}
	if may := cache.Of(&grapnel.Event{}).gate(); may[git] || may[every] {
		t.Errorf("an event without a command may run %v", may)
	}
}
