package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// agrees compares the answer of Why with the Matcher's answer.
func agrees(t checked, specs []grapnel.Spec, ev *grapnel.Event) {
	for i := range specs {
		s := &specs[i]
		want, err := true, error(nil)
		if s.Match != nil {
			want, err = s.Match.Match(ev, nil)
		}
		why := load.NewReasoner(s).Why(ev, nil)
		text, _ := json.Marshal(why)
		if (err != nil) != (why.Err != nil) {
			t.Errorf("%s: the error is %v, and that of Match is %v", text, why.Err, err)
		}
		if err != nil {
			continue
		}
		if why.Matched != (want && why.Event) {
			t.Errorf("%s: Match says %v", text, want)
		}
		if why.Text == "" && why.Holds() != want {
			t.Errorf("the conditions of %s do not say %v, which Match does", text, want)
		}
		checkFits(t, why.Checks)
	}
}

func checkFits(t checked, checks []match.Check) {
	for _, c := range checks {
		for _, i := range c.Fits {
			if i >= len(c.Want) {
				t.Errorf("%+v: there is no word %d", c, i)
			}
		}
		checkFits(t, c.Of)
	}
}

// checked is a test of package testing or of rapid.
type checked interface{ Errorf(string, ...any) }

// matchWords are words for each key of a match, quoted for YAML.
var matchWords = map[string][]string{
	"tool":     {"shell", "write", "'/^B/'", "'*'", "Bash"},
	"agent":    {"claude", "gemini-cli", "'*'"},
	"mode":     {"plan", "'*'"},
	"subagent": {"'*'", "helper"},
	"command":  {"rm", "git push --force", "git", "ls", "git status"},
	"shell":    {"unknown"},
	"path":     {"'**/*.go'", "/p/deploy/", "'**'", "a.env"},
	"reads":    {"'**/*.env'", "'**'"},
	"writes":   {"'**'", "'**/x'", "/tmp/"},
	"url":      {"'https://*'", "'http*internal*'"},
	"host":     {"'*.internal'", "example.com", "'*'"},
	"content":  {"sk-", "'/a.c/'"},
	"prompt":   {"hello", "'/./'"},
	"text":     {"sk-", "rm", "'/x|y/'"},
	"secret":   {"'*'", "github-token"},
	"words":    {"x", "other|git x|command"},
	"mcp":      {"lab", "'*'"},
	"failed":   {"true", "false"},
}

// anyMatch draws a match in one line.
func anyMatch(t *rapid.T, deep int) string {
	keys := slices.Sorted(maps.Keys(matchWords))
	var parts []string
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 1, 3, rapid.ID[string]).Draw(t, "keys") {
		words := rapid.SliceOfNDistinct(rapid.SampledFrom(matchWords[key]), 1, min(2, len(matchWords[key])), rapid.ID[string]).Draw(t, key)
		text := "[" + strings.Join(words, ", ") + "]"
		if key == "failed" || key == "shell" {
			text = words[0]
		}
		parts = append(parts, key+": "+text)
	}
	if deep > 0 && rapid.IntRange(0, 2).Draw(t, "not") == 0 {
		parts = append(parts, "not: "+anyMatch(t, deep-1))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

var whyExpressions = []string{
	"kind == 'tool.before'", "session.mode == 'plan' or tool.command contains 'rm'", "not (tool.class == 'shell' and tool.failed)",
	"len(tool.paths) > 0 and (agent == 'claude-code' or any(tool.commands, # contains 'git' or # == 'ls'))",
	"if kind == 'x' { true } else { tool.class == 'write' and true }", "!tool.failed && tool.input.command?.x == nil", "tool.input.a.b == 1 or true",
}

var whyCommands = []string{"ls", "rm x", "git push -f && rm -rf x", "git status; git push --force", "cat a.env > /tmp/y", "curl https://a.internal/x http://example.com", "$X y", "cd /p/deploy && touch x"}

// anyPolicyToAsk draws a policy with hooks that use all kinds of conditions.
func anyPolicyToAsk(t *rapid.T) string {
	var b strings.Builder
	b.WriteString("version: 1\nhooks:\n")
	for i := range rapid.IntRange(1, 3).Draw(t, "hooks") {
		fmt.Fprintf(&b, "  - name: h%d\n    on: [tool.before]\n    %s\n", i, rapid.SampledFrom([]string{"block: no", "block: no", "ask: sure?", "allow: true"}).Draw(t, "action"))
		if rapid.IntRange(0, 4).Draw(t, "match") > 0 {
			fmt.Fprintf(&b, "    match: %s\n", anyMatch(t, 2))
		}
		if n := rapid.IntRange(0, 3).Draw(t, "exceptions"); n > 0 {
			b.WriteString("    except:\n")
			for range n {
				fmt.Fprintf(&b, "      - %s\n", anyMatch(t, 1))
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "when") == 0 {
			fmt.Fprintf(&b, "    when: %q\n", rapid.SampledFrom(whyExpressions).Draw(t, "expression"))
		}
		if rapid.IntRange(0, 5).Draw(t, "after") == 0 {
			fmt.Fprintf(&b, "    after: {event: tool.before, match: %s}\n", anyMatch(t, 1))
		}
	}
	return b.String()
}

// anyEvent draws a tool call, a batch of calls, or a prompt.
func anyEvent(t *rapid.T) *grapnel.Event {
	call := func() string {
		switch rapid.IntRange(0, 3).Draw(t, "call") {
		case 0:
			return `{"name":"Write","class":"write","input":{"p":["deploy/a.go","../b.env"],"c":"abc sk-live ghp_0123456789abcdefghijABCDEFGHIJ012345"},"facts":[{"field":"tool.path","at":"/p/*","use":"write"},{"field":"tool.content","at":"/c"}]}`
		case 1:
			return `{"name":"mcp__lab__x","class":"mcp","mcp":{"server":"lab","tool":"x"},"input":{},"urls":["https://a.internal/x","http://example.com/"]}`
		default:
			line, _ := json.Marshal(rapid.SampledFrom(whyCommands).Draw(t, "line"))
			return fmt.Sprintf(`{"name":"Bash","class":"shell","input":{"command":%s},"facts":[{"field":"tool.command","at":"/command"}]}`, line)
		}
	}
	session := `"agent":{"name":"claude-code"},"session":{"id":"s","cwd":"/p","root":"/p","mode":"plan"}`
	text := ""
	switch rapid.IntRange(0, 9).Draw(t, "event") {
	case 0:
		text = `{"kind":"prompt.before",` + session + `,"prompt":{"text":"hello sk-live"}}`
	case 1, 2:
		text = `{"kind":"tool.before",` + session + `,"calls":[` + call() + "," + call() + `]}`
	default:
		text = `{"kind":"tool.before",` + session + `,"tool":` + call() + `}`
	}
	ev, err := dialect.Plain().Read(dialect.Input{Payload: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// Why agrees with the answers of Matchers, for any policy, any event and any earlier events.
func TestWhyLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		file := anyPolicyToAsk(t)
		p, errs := policy.Parse("p.yaml", []byte(file))
		if len(errs) > 0 {
			t.Fatalf("%s: %v", file, errs)
		}
		specs, err := policy.Build(p, fixture.Source("/p/p.yaml"), fixture.NoCommand)
		if err != nil {
			t.Fatal(err)
		}
		e, err := grapnel.New(specs, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ev := anyEvent(t)
			agrees(t, specs, ev)
			e.Fire(context.Background(), ev)
		}
		if t.Failed() {
			t.Log(file)
		}
	})
}

func TestWhy(t *testing.T) {
	t.Parallel()
	const file = `version: 1
hooks:
  - name: x
    on: tool.before
    match: {command: [rm, git push], not: {path: /tmp/}}
    except: [{command: rm node_modules}, {agent: gemini-cli}]
    when: session.mode != 'plan' and (kind == 'tool.after' or tool.command contains 'push')
    block: no
`
	p, errs := policy.Parse("p.yaml", []byte(file))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	specs, err := policy.Build(p, fixture.Source("/p/p.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	why := load.NewReasoner(&specs[0]).Why(fixture.Shell("ls && git push origin x"), nil)
	got := strings.Join(checkLines(why.Checks, ""), "\n")
	want := `match.command ["rm" "git push"] ["ls" "git push origin x"] [1] true
match.not [] [] [] true
  match.not.path ["/tmp/"] [] [] false
  match.not.command [] ["ls" "git push origin x"] [] false
except[0] [] [] [] true
  except[0].command ["rm node_modules"] ["ls" "git push origin x"] [] false
except[1] [] [] [] true
  except[1].agent ["gemini-cli"] ["claude-code"] [] false
when ["session.mode != 'plan' and (kind == 'tool.after' or tool.command contains 'push')"] [] [] true
  when ["session.mode != 'plan'"] ["session.mode is \"default\""] [] true
  when ["kind == 'tool.after' or tool.command contains 'push'"] [] [] true
    when ["kind == 'tool.after'"] ["kind is \"tool.before\""] [] false
    when ["tool.command contains 'push'"] ["tool.command is \"ls && git push origin x\""] [] true`
	if diff := cmp.Diff(want, got); diff != "" || !why.Matched || !why.Event {
		t.Errorf("%+v\n%s", why, diff)
	}
}

func checkLines(checks []match.Check, indent string) (all []string) {
	for _, c := range checks {
		all = append(all, fmt.Sprintf("%s%s %q %q %v %v", indent, c.Key, c.Want, c.Got, c.Fits, c.OK))
		all = append(all, checkLines(c.Of, indent+"  ")...)
	}
	return all
}
