package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

// manyOthers are rules enough for a policy to be sifted, which are about something else.
func manyOthers() string {
	var b strings.Builder
	for i := range 70 {
		fmt.Fprintf(&b, "  - name: other-%d\n    on: [tool.before]\n    match: {command: other%d}\n    block: no\n", i, i)
	}
	return b.String()
}

// A hook answers as it would if it were alone, however many others there are.
func TestSieveLaw(t *testing.T) {
	t.Parallel()
	others := manyOthers()
	listens := func(s *grapnel.Spec, ev *grapnel.Event) string {
		if s.Match == nil {
			return "always"
		}
		ok, err := s.Match.Match(ev, nil)
		return fmt.Sprint(ok, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		file := anyPolicyToAsk(t)
		build := func(text string) []grapnel.Spec {
			p, errs := policy.Parse("p.yaml", []byte(text))
			if len(errs) > 0 {
				t.Fatalf("%s: %v", text, errs)
			}
			specs, err := p.Build(source("/p/p.yaml"), noCommand)
			if err != nil {
				t.Fatal(err)
			}
			return specs
		}
		few, many := build(file), build(file+others)
		for range 3 {
			ev := anyEvent(t)
			if ev.Tool != nil && rapid.IntRange(0, 20).Draw(t, "huge") == 0 {
				ev.Tool.Commands = []string{strings.Repeat("x", 2<<20)}
			}
			for i := range few {
				if few[i].Name != many[i].Name && !strings.HasPrefix(many[i].Name, "other") {
					t.Fatalf("hook %d is %q and %q", i, few[i].Name, many[i].Name)
				}
				if few[i].Name != many[i].Name { // what keeps what has happened stands behind all
					continue
				}
				if alone, among := listens(&few[i], ev), listens(&many[i], ev); alone != among {
					t.Errorf("%s: %s, and %s among others\n%s", few[i].Name, alone, among, file)
				}
			}
		}
	})
}

// Of many rules those that an event concerns are found, one by its tool, one by its program,
// in a batch of calls, too.
func TestSieve(t *testing.T) {
	t.Parallel()
	p, errs := policy.Parse("p.yaml", []byte("version: 1\nhooks:\n"+manyOthers()+`
  - {name: bash, on: tool.before, match: {tool: Bash}, ask: one}
  - {name: writes, on: tool.before, match: {tool: write}, ask: two}
  - {name: either, on: tool.before, match: {command: [rm, git push]}, ask: three}
`))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	specs, err := p.Build(source("/p/p.yaml"), noCommand)
	if err != nil {
		t.Fatal(err)
	}
	e, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	batch := sh("ls")
	batch.Calls = []grapnel.Tool{*sh("other7").Tool, *sh("git push").Tool}
	batch.Tool = nil
	for name, tt := range map[string]struct {
		ev   *grapnel.Event
		want string
	}{
		"a program":  {sh("sudo rm x"), "bash either"},
		"another":    {sh("other3 && git push"), "other-3 bash either"},
		"none":       {sh("ls"), "bash"},
		"some":       {sh("$X"), "bash"},
		"twice":      {sh("ls"), "bash"},
		"in a batch": {batch, "other-7 bash either"},
		"no tool":    {&grapnel.Event{Kind: grapnel.ToolBefore}, ""},
	} {
		var got []string
		for _, entry := range e.Plan(tt.ev).Entries {
			got = append(got, entry.Hook)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q listen, want %q", name, got, tt.want)
		}
	}
	huge := sh(strings.Repeat("x", 2<<20))
	for i := range specs {
		if _, err := specs[i].Match.Match(huge, nil); (err == nil) != (specs[i].Name == "bash" || specs[i].Name == "writes") {
			t.Errorf("%s cannot tell of a huge line: %v", specs[i].Name, errors.Unwrap(err))
		}
	}
}
