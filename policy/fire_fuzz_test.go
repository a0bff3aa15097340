package policy_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
)

// fired fires an event and returns the Verdict. The engine recovers a panic of a hook, so the
// Record is checked for one.
func fired(t *testing.T, specs []grapnel.Spec, ev *grapnel.Event) grapnel.Verdict {
	t.Helper()
	look := grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
		for _, run := range rec.Hooks {
			if strings.Contains(run.Error, grapnel.ErrPanic.Error()) {
				t.Errorf("hook %q %s", run.Name, run.Error)
			}
		}
	})
	e, err := grapnel.New(specs, &grapnel.Options{Observers: []grapnel.Observer{look}})
	if err != nil {
		t.Fatal(err)
	}
	e.Plan(ev) // also computes explanations
	return e.Fire(t.Context(), ev)
}

// blocker returns a hook that blocks. It is combined with other hooks.
func blocker(scope grapnel.Scope) grapnel.Spec {
	return grapnel.Spec{
		Name: "blocker", Source: grapnel.Source{Name: "blocker", Scope: scope}, Phase: grapnel.PhaseRule,
		Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}, nil
		}),
	}
}

// FuzzFire: no policy makes an event panic, and no policy of any scope undoes a block of any
// scope.
func FuzzFire(f *testing.F) {
	events := []string{
		`{"kind":"tool.before","session":{"cwd":"/p"},"tool":{"name":"bash","class":"shell","input":{"command":"git push -f && rm -rf x"},"facts":[{"field":"tool.command","at":"/command"}]}}`,
		`{"kind":"tool.before","tool":{"name":"w","class":"write","input":{"p":["a","../b"],"c":"sk-live"},"facts":[{"field":"tool.path","at":"/p/*","use":"write"},{"field":"tool.content","at":"/c"}]}}`,
		`{"kind":"toolbatch.after","calls":[{"name":"a"},{"name":"b","urls":["http://x.internal:1/"]}]}`,
		`{"kind":"prompt.before","prompt":{"text":"hello sk-live"}}`,
		`{"kind":"agent.after","stop":{"active":true,"last_message":"done"}}`,
		`{"kind":"tool.after","tool":{"name":"x","output":{"a":["sk-live",1e400,null]},"failed":true}}`,
		`{"kind":"model.before","model":{"request":{"messages":[{"content":"sk-live"}]}}}`,
	}
	for i, hook := range []string{
		"on: tool.before\n    match: {command: [rm -rf, git push --force], not: {path: '/tmp/**'}}\n    except: [{command: rm -rf node_modules}]\n    block: no",
		"on: tool.before\n    match: {path: ['**/b', 'c/'], tool: [write, '/^w/']}\n    ask: sure?",
		"on: [tool.before, toolbatch.after]\n    match: {host: '*.internal', url: 'http*'}\n    block: no",
		"on: [tool.before, tool.after, prompt.before, model.before]\n    replace: [{pattern: 'sk-[a-z]+', with: '$0$1***'}]",
		"on: tool.before\n    set: {tool.input: {command: ls}}",
		"on: [prompt.before, agent.after]\n    when: any(tool.commands, # contains 'x') || len(prompt) > 3 && lower(agent) != session.id\n    context: hi",
		"on: [tool.before, tool.after]\n    match: {text: '/s.-/', content: sk, shell: unknown, mode: '*', agent: claude}\n    allow: true\n    mode: observe",
	} {
		f.Add([]byte("version: 1\nhooks:\n  - name: x\n    "+hook+"\n"), []byte(events[i%len(events)]), uint8(i))
	}
	f.Fuzz(func(t *testing.T, file, event []byte, n uint8) {
		p, errs := policy.Parse("p.yaml", file)
		if len(errs) > 0 {
			return
		}
		scopes := []grapnel.Scope{grapnel.ScopeManaged, grapnel.ScopeUser, grapnel.ScopeProject, grapnel.ScopePlugin, grapnel.ScopeSession}
		from := fixture.Source("/p/p.yaml")
		from.Scope = scopes[int(n)%len(scopes)]
		specs, err := policy.Build(p, from, fixture.NoCommand)
		if err != nil {
			t.Fatalf("Parse accepts %q and Build does not: %v", file, err)
		}
		ev, err := dialect.Plain().Read(dialect.Input{Payload: event})
		if err != nil {
			return
		}
		fired(t, specs, ev)
		contract, ok := grapnel.ContractOf(ev.Kind)
		if !ok || contract.Blocks == grapnel.BlockingNothing {
			return
		}
		if ev.Can() != nil && !ev.Can().Block {
			return // this agent gets another reply
		}
		v := fired(t, append(specs, blocker(scopes[int(n)/len(scopes)%len(scopes)])), ev)
		if v.Decision != grapnel.Block && v.Halt == "" {
			t.Errorf("beside %q a block of %s became %v", file, event, v.Decision)
		}
	})
}

// FuzzMatch uses arbitrary text for the words of a match key and for the event. Nothing panics,
// a match and its negation never both block, and an exception for the same words lets a call
// through.
func FuzzMatch(f *testing.F) {
	keys := []string{"tool", "command", "path", "url", "host", "content", "prompt", "text", "mcp", "mode", "subagent", "when"}
	for i, seed := range [][2]string{
		{"mcp__*__x", "mcp__lab__x"},
		{"git push --force", "git -C . push -f; echo 'a"},
		{"deploy/../**/[a-c]*.{go,md}", "../p/deploy/./a.go"},
		{"https://*.example.com/*", "HTTPS:\\\\u:p@a.example.com:80/x?y#z"},
		{"*.internal", "http://[::1]:8%30/\uff0e"},
		{"/s(k)-.*$/", "sk-\xff\n"},
		{"p", "p"},
		{"/(?i)ſ/", "S"},
		{"lab", "lab"},
		{"plan", "plan"},
		{"*", ""},
		{"all(tool.paths, # startsWith '/') and tool.command matches '^r'", "rm"},
	} {
		f.Add(uint8(i), seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, k uint8, pattern, text string) {
		key := keys[int(k)%len(keys)]
		quoted := strconv.Quote(strings.ToValidUTF8(pattern, ""))
		hooks := func(lines string) []grapnel.Spec {
			p, errs := policy.Parse("/p/p.yaml", []byte("version: 1\nhooks:\n  - name: x\n    on: [tool.before, prompt.before]\n    block: no\n"+lines))
			if len(errs) > 0 {
				return nil
			}
			specs, err := policy.Build(p, fixture.Source("/p/p.yaml"), fixture.NoCommand)
			if err != nil {
				t.Fatalf("Parse accepts %q and Build does not: %v", lines, err)
			}
			return specs
		}
		one := hooks("    match: {" + key + ": " + quoted + "}\n")
		if key == "when" {
			one = hooks("    when: " + quoted + "\n")
		}
		if one == nil {
			return
		}
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range []*grapnel.Event{
			{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: text}, Session: grapnel.Session{CWD: "/p/" + text, Mode: text, Subagent: &grapnel.Subagent{Type: text}}},
			{Kind: grapnel.ToolBefore, Session: grapnel.Session{CWD: "/p", Root: text}, Tool: &grapnel.Tool{
				Name: text, Class: grapnel.Class(text), MCP: &grapnel.MCP{Server: text, Tool: text}, Input: raw,
				Commands: []string{text}, Paths: []grapnel.Path{{Path: text}, {Path: "/q/" + text}}, URLs: []string{text}, Content: text,
			}},
		} {
			v := fired(t, one, ev)
			if key == "when" {
				continue
			}
			not := fired(t, hooks("    match: {not: {"+key+": "+quoted+"}}\n"), ev)
			if v.Decision == grapnel.Block && not.Decision == grapnel.Block && (key == "tool" || key == "mode" || key == "mcp" || key == "subagent" || key == "text") {
				t.Errorf("%q both is and is not %s %s", text, key, quoted)
			}
			except := fired(t, hooks("    match: {"+key+": "+quoted+"}\n    except: {"+key+": "+quoted+"}\n"), ev)
			if except.Decision == grapnel.Block && v.Decision != grapnel.Block {
				t.Errorf("an exception makes %s %s block %q", key, quoted, text)
			}
		}
	})
}
