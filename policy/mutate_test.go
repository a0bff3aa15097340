package policy_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/mutate"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
)

func TestMutants(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ hook, want string }{
		"a list": {"on: tool.before\n    match: {command: [rm, git push, git push --force]}\n    block: no", `
: the hook is taken away
block: it asks instead of blocking
match.command[0]: "rm" is dropped
match.command[1]: "git push" is dropped
match.command[2]: "git push --force" is dropped = wherever it fits, git push does
+ match: the match is dropped`},
		"keys": {"on: [tool.before, prompt.before]\n    match: {tool: shell, text: x, not: {path: [/a, /b]}}\n    except: [{agent: claude, mode: plan}]\n    ask: really?", `
: the hook is taken away
on.tool.before: it does not listen to tool.before
on.prompt.before: it does not listen to prompt.before = prompt.before has no tool, and so no tool
+ match.tool: "tool" is dropped
+ match.text: "text" is dropped
+ match.not: "not" is dropped
+ match.not.path[0]: "/a" is dropped
+ match.not.path[1]: "/b" is dropped
+ except[0]: the exception is dropped
except[0].agent: "agent" is dropped
except[0].mode: "mode" is dropped`},
		"what lets commands through": {"on: tool.before\n    match: {path: '*.pem'}\n    except: [{command: [openssl x509, openssl x509 *, git push, git push origin]}]\n    ask: sure?", `
: the hook is taken away
+ match: the match is dropped
+ except[0]: the exception is dropped
+ except[0].command[0]: "openssl x509" is dropped
+ except[0].command[1]: "openssl x509 *" is dropped
+ except[0].command[2]: "git push" is dropped
+ except[0].command[3]: "git push origin" is dropped = wherever it fits, git push does`},
		"a condition": {"on: tool.before\n    when: kind == 'a' and not (agent == 'b' or tool.failed)\n    block: no", `
: the hook is taken away
block: it asks instead of blocking
+ when: the condition is dropped
+ when: "kind == 'a'" is dropped
+ when: "not (agent == 'b' or tool.failed)" is dropped
+ when: "agent == 'b'" is dropped
+ when: "tool.failed" is dropped`},
		"a limit": {"on: tool.before\n    limit: {count: 3, per: 1m, by: [session, tool]}", `
: the hook is taken away
limit.count: it lets 4 through
+ limit.per: it counts for 2m
limit.per: it counts for 30s
+ limit.by[0]: it does not count by session
+ limit.by[1]: it does not count by tool
limit.then: it asks instead of blocking`},
		"what happened": {"on: tool.before\n    after: {event: [tool.after, tool.failed], match: {command: [a, b]}, within: 5m, same: tool, until: {event: prompt.before, match: {prompt: [x, y]}}}\n    block: no", `
: the hook is taken away
block: it asks instead of blocking
+ after: the after condition is dropped
after[0].times: it has to happen 2 times
+ after[0].within: however long ago it may be
after[0].within: it has to be within 2m30s
+ after[0].same: it need not be the same tool
after[0].event.tool.after: tool.after does not count
after[0].event.tool.failed: tool.failed does not count
after[0].match.command[0]: "a" is dropped
after[0].match.command[1]: "b" is dropped
+ after[0].until: nothing ends it
+ after[0].until.match.prompt[0]: "x" is dropped
+ after[0].until.match.prompt[1]: "y" is dropped`},
		"changes": {"on: [tool.before, tool.after]\n    replace: [{pattern: a, with: b}, {pattern: c, with: d}]\n    fields: [tool.input, tool.output]", `
: the hook is taken away
on.tool.before: it does not listen to tool.before
on.tool.after: it does not listen to tool.after
replace[0]: "a" is not replaced
replace[1]: "c" is not replaced
fields[0]: tool.input is not changed
fields[1]: tool.output is not changed`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fixture.Parsed(t, "version: 1\nhooks:\n  - name: x\n    "+tt.hook+"\n")
			before := fmt.Sprintf("%+v", p.Hooks[0])
			got := ""
			for _, m := range mutate.All(&p.Hooks[0]) {
				got += "\n"
				if m.More {
					got += "+ "
				}
				got += m.At + ": " + m.What
				if m.Same != "" {
					got += " = " + m.Same
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if after := fmt.Sprintf("%+v", p.Hooks[0]); after != before {
				t.Errorf("the hook was %s and is %s", before, after)
			}
		})
	}
}
