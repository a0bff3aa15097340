package load_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
)

// manyOthers returns enough unrelated rules that a policy uses the rule index.
func manyOthers() string {
	var b strings.Builder
	for i := range 70 {
		fmt.Fprintf(&b, "  - name: other-%d\n    on: [tool.before]\n    match: {command: other%d}\n    block: no\n", i, i)
	}
	return b.String()
}

// Among many rules, the index finds the rules that an event concerns, by tool and by program,
// also in a batch of calls.
func TestRuleIndex(t *testing.T) {
	t.Parallel()
	p, errs := policy.Parse("p.yaml", []byte("version: 1\nhooks:\n"+manyOthers()+`
  - {name: bash, on: tool.before, match: {tool: Bash}, ask: one}
  - {name: writes, on: tool.before, match: {tool: write}, ask: two}
  - {name: either, on: tool.before, match: {command: [rm, git push]}, ask: three}
`))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	specs, err := policy.Build(p, fixture.Source("/p/p.yaml"), fixture.NoCommand)
	if err != nil {
		t.Fatal(err)
	}
	e, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	batch := fixture.Shell("ls")
	batch.Calls = []grapnel.Tool{*fixture.Shell("other7").Tool, *fixture.Shell("git push").Tool}
	batch.Tool = nil
	for name, tt := range map[string]struct {
		ev   *grapnel.Event
		want string
	}{
		"a program":  {fixture.Shell("sudo rm x"), "bash either"},
		"another":    {fixture.Shell("other3 && git push"), "other-3 bash either"},
		"none":       {fixture.Shell("ls"), "bash"},
		"some":       {fixture.Shell("$X"), "bash"},
		"twice":      {fixture.Shell("ls"), "bash"},
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
	huge := fixture.Shell(strings.Repeat("x", 2<<20))
	for i := range specs {
		if _, err := specs[i].Match.Match(huge, nil); (err == nil) != (specs[i].Name == "bash" || specs[i].Name == "writes") {
			t.Errorf("%s cannot tell of a huge line: %v", specs[i].Name, errors.Unwrap(err))
		}
	}
}
