package policy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// What was worked out of an event is not worked out again because others are judged
// at the same time.
func TestFactsOfEventsAtOnce(t *testing.T) {
	t.Parallel()
	cache := &factCache{}
	events := make([]*grapnel.Event, len(cache.other))
	first := make([]*facts, len(events))
	for i := range events {
		events[i] = &grapnel.Event{Tool: &grapnel.Tool{Commands: []string{"ls"}}}
		first[i] = cache.of(events[i])
	}
	for range 3 {
		for i, ev := range events {
			if f := cache.of(ev); f != first[i] || f.ev != ev {
				t.Fatalf("event %d of %d has facts of %p and then of %p", i, len(events), first[i].ev, f.ev)
			}
		}
	}
}

// Rules about one program share a gate, and an unknown program passes it.
func TestGate(t *testing.T) {
	t.Parallel()
	cache := &factCache{}
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
		may := cache.of(&grapnel.Event{Tool: &grapnel.Tool{Commands: []string{line}}}).gate()
		if got := [3]bool{may[git], may[rm], may[every]}; got != want {
			t.Errorf("%q may run git, rm, any: %v, want %v", line, got, want)
		}
	}
	if may := cache.of(&grapnel.Event{}).gate(); may[git] || may[every] {
		t.Errorf("an event without a command may run %v", may)
	}
}

// What several files and packs look at is worked out once for all of them.
func TestFactsAreShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var files []File
	for _, name := range []string{"a.yaml", "b.yaml"} {
		file := filepath.Join(dir, name)
		text := "version: 1\nhooks:\n  - {name: x, on: tool.before, match: {command: rm}, block: no}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Path: file, Must: true})
	}
	set := Load(Request{Files: files})
	if len(set.Specs) != 2 {
		t.Fatalf("%d hooks, want 2: %+v", len(set.Specs), set.Files)
	}
	a, isA := set.Specs[0].Match.(*matcher)
	b, isB := set.Specs[1].Match.(*matcher)
	if !isA || !isB || a.facts != b.facts {
		t.Errorf("%T and %T keep facts of their own", set.Specs[0].Match, set.Specs[1].Match)
	}
}
