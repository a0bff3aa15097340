package load_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// anyPolicy draws a policy: hooks with the names of other hooks, exceptions, modes and
// priorities, and keys that the policy may not set.
func anyPolicy(t *rapid.T, label string, rewrites bool) string {
	var b strings.Builder
	b.WriteString("version: 1\n")
	b.WriteString(rapid.SampledFrom([]string{"", "", "strict: false\n", "strict: true\n", "defaults: {on_error: open}\n", "defaults: {timeout: 9s, on_error: ask}\n"}).Draw(t, label+" head"))
	n := rapid.IntRange(0, 4).Draw(t, label+" hooks")
	if n > 0 {
		b.WriteString("hooks:\n")
	}
	names := rapid.Permutation([]string{"guard", "a", "b", "locked"}).Draw(t, label+" names")
	for i := range n {
		actions := []string{"block: no", "ask: sure?", "allow: true", "run: 'true'", "run: exit2, on_error: open"}
		if rewrites {
			actions = append(actions, "set: {tool.command: ls}", "set: {tool.command: rm x}", "replace: [{pattern: x, with: y}]")
		}
		action := rapid.SampledFrom(actions).Draw(t, label+" action")
		fmt.Fprintf(&b, "  - {name: %s, on: tool.before, %s", names[i], action)
		b.WriteString(rapid.SampledFrom([]string{"", ", match: {command: rm}", ", match: {command: [ls, mv]}", ", match: {tool: shell}"}).Draw(t, label+" match"))
		b.WriteString(rapid.SampledFrom([]string{"", "", ", except: {command: rm x}", ", when: 'true'"}).Draw(t, label+" except"))
		b.WriteString(rapid.SampledFrom([]string{"", "", ", mode: observe", ", priority: -1000", ", priority: 1000"}).Draw(t, label+" more"))
		b.WriteString("}\n")
	}
	return b.String()
}

// tiers is a random environment: the policies of root and the user, and lower policies.
type tiers struct {
	dir     string
	base    []load.File // of root and the user
	project *project
	session load.File
}

func (w *tiers) load(t *rapid.T, files ...load.File) (load.Set, *grapnel.Engine) {
	set := load.Policies(load.Request{
		Files: files, Trusts: w.project.trusts(), Snapshots: filepath.Join(w.dir, "snapshots"),
		Runners: policy.Runners{Command: func(c policyfile.Command) grapnel.Hook {
			return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				if c.Line == "exit2" {
					return grapnel.Outcome{Decision: grapnel.Block, Reason: "exit2"}, nil
				}
				return grapnel.Outcome{}, nil
			})
		}},
	})
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set, e
}

// verdictText returns all parts of a Verdict that an agent can get.
func verdictText(v grapnel.Verdict) string {
	return fmt.Sprintf("%v %q %q %q %q %v", v.Decision, v.Reason(), v.Messages, v.Context, v.Halt, v.Changes)
}

func commandOf(v grapnel.Verdict) string {
	if v.Event == nil || v.Event.Tool == nil || len(v.Event.Tool.Commands) == 0 {
		return ""
	}
	return v.Event.Tool.Commands[0]
}
