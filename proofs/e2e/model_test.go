//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
)

// The events around a request to the model. Gemini CLI has them. Claude Code has one event, for
// text that it is about to show.

// A generation holds the settings of a request to the model.
type generation struct {
	Tools struct {
		Calling *struct {
			Mode  string   `json:"mode"`
			Names []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Config struct {
		Temperature float64 `json:"temperature"`
		TopP        float64 `json:"topP"`
		TopK        float64 `json:"topK"`
	} `json:"generationConfig"`
}

func generationOf(t *testing.T, r model.Request) (g generation) {
	t.Helper()
	if err := json.Unmarshal(r.Body, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// Replaced text of a request does not reach the model in any request of the run. Hooks at this
// event do not see the output of tools; tool.after is for that.
//
// Proves: GC-05
func TestReplaceInRequest(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.GeminiCLI, `
version: 1
hooks:
  - name: hide-keys
    on: model.before
    replace: [{pattern: 'sk-[A-Za-z0-9]{20,}', with: sk-***}]
  - name: never-asked-for
    on: toolset.before
    match: {text: no such text}
    set: {tools: [glob]}
`)
	res := g.Run(t, "My key is sk-abcdefghijklmnopqrstuvwx.",
		model.Do(g.Shell("printf 'the other is sk-%s\\n' ABCDEFGHIJKLMNOPQRSTUVWX")),
		model.Do(g.Write("free.txt", "free\n")),
		model.Answer("all done"),
	)
	wantFile(t, res, "free.txt", "free\n")
	main := res.Requests.MainRequests()
	if len(main) != 3 {
		t.Fatalf("%d main requests, want 3", len(main))
	}
	for i := range main {
		if found := main[i : i+1].Around("sk-abcdefghijklmnopqrstuvwx"); found != "" {
			t.Errorf("request %d has the key: %s", i, found)
		}
		if !main[i : i+1].Contains("My key is sk-***.") {
			t.Errorf("request %d has not the prompt without the key", i)
		}
		// No opinion on the tools must be an empty reply: any other reply would change them.
		if calling := generationOf(t, main[i]).Tools.Calling; calling != nil {
			t.Errorf("request %d limits the tools to %+v although nobody said so", i, calling)
		}
	}
	if results := res.Requests.ToolResults(); len(results) != 2 || !strings.Contains(results[0].Text, "sk-ABCDEFGHIJKLMNOPQRSTUVWX") {
		t.Errorf("the model was told %+v; can hooks now change results in a request? Then the documentation is wrong", results)
	}
}

// A program patches the request: model and temperature change, other members do not.
func TestPatchRequest(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.GeminiCLI, `
version: 1
hooks:
  - name: colder
    on: model.before
    run: echo '{"patch":{"request":{"model":"gemini-2.5-pro","config":{"temperature":0.125}}}}'
`)
	res := g.Run(t, "Do as planned.", model.Do(g.Shell("echo free > free.txt")), model.Answer("all done"))
	wantFile(t, res, "free.txt", "free\n")
	main := res.Requests.MainRequests()
	if len(main) != 2 {
		t.Fatalf("%d main requests, want 2", len(main))
	}
	for i, r := range main {
		if want := "/v1beta/models/gemini-2.5-pro:streamGenerateContent"; r.Path != want {
			t.Errorf("request %d went to %s, want %s", i, r.Path, want)
		}
		if c := generationOf(t, r).Config; c.Temperature != 0.125 || c.TopP == 0 || c.TopK == 0 {
			t.Errorf("request %d asks for %+v, want temperature 0.125, and topP and topK as they were", i, c)
		}
	}
}

// A request that a hook answers, blocks or halts does not reach the model.
func TestRequestIsNotSent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ action, answer, shown string }{
		"answered": {action: "set: {response: the hook has the ANSWER}", answer: "the hook has the ANSWER", shown: "the hook has the ANSWER"},
		"blocked":  {action: "block: no MODEL today", shown: "no MODEL today"},
		"halted":   {action: `run: echo '{"halt":"that is ENOUGH"}'`, shown: "that is ENOUGH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, agents.GeminiCLI, "version: 1\nhooks:\n  - name: it\n    on: model.before\n    "+tc.action+"\n")
			res := g.Run(t, "Do as planned.", model.Do(g.Shell("echo free > free.txt")), model.Answer("all done"))
			if len(res.Requests) != 0 {
				t.Errorf("the model got requests:\n%s", res.Requests.Transcript())
			}
			wantFile(t, res, "free.txt", "")
			if res.Answer != tc.answer {
				t.Errorf("answer %q, want %q", res.Answer, tc.answer)
			}
			if !strings.Contains(res.Shown, tc.shown) {
				t.Errorf("the person was not told %q:\n%s", tc.shown, res.Shown)
			}
		})
	}
}

// The user reads the replaced text of a response. The documentation names three limits of the
// agent: its memory keeps the original, a text in two pieces is judged piece by piece, and calls in
// a replaced piece are lost.
//
// Proves: GC-06
func TestReplaceInResponse(t *testing.T) {
	t.Parallel()
	const key = "sk-abcdefghijklmnopqrstuvwx"
	policy := `
version: 1
hooks:
  - name: hide-keys
    on: model.after
    replace: [{pattern: 'sk-[A-Za-z0-9]{20,}', with: sk-***}]
  - name: go-on
    on: agent.after
    run: test -e seen.txt || { touch seen.txt; echo "say it again" >&2; exit 2; }
`
	t.Run("text", func(t *testing.T) {
		t.Parallel()
		g := guard(t, agents.GeminiCLI, policy)
		res := g.Run(t, "Do as planned.", model.Answer("the key is "+key), model.Step{Text: "; " + key, Chunks: 2})
		if want := "the key is sk-***; " + key; res.Answer != want {
			t.Errorf("answer %q, want %q", res.Answer, want)
		}
		main := res.Requests.MainRequests()
		if len(main) != 2 || !slices.Contains(main[1].Texts, "model: the key is "+key) {
			t.Errorf("the agent does not remember what the model said:\n%s", main.Transcript())
		}
	})
	t.Run("text with a call", func(t *testing.T) {
		t.Parallel()
		g := guard(t, agents.GeminiCLI, policy)
		g.WriteFile(t, "seen.txt", "")
		res := g.Run(t, "Do as planned.",
			model.Step{Text: "harmless", Calls: []model.Call{g.Shell("echo one > one.txt")}},
			model.Step{Text: "the key is " + key, Calls: []model.Call{g.Shell("echo two > two.txt")}, Chunks: 1},
			model.Step{Text: "the key is " + key, Calls: []model.Call{g.Shell("echo three > three.txt")}},
			model.Answer("all done"),
		)
		wantFile(t, res, "one.txt", "one\n")
		wantFile(t, res, "two.txt", "two\n")
		wantFile(t, res, "three.txt", "")
		if strings.Contains(res.Shown, key) {
			t.Errorf("the person saw the key:\n%s", res.Shown)
		}
	})
}

// A response cannot be blocked permanently. Grapnel can only end the turn, before the user sees
// the response and before its calls run. The text is also in the request, whose prompt contains
// the plan; the hook at the response sees only the model's answer.
func TestBlockedResponse(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.GeminiCLI, `
version: 1
hooks:
  - name: no-keys
    on: model.after
    match: {text: '1234'}
    block: that is not for EVERYBODY
`)
	res := g.Run(t, "Do as planned.",
		model.Do(g.Shell("echo free > free.txt")),
		model.Step{Text: `the key is "1234"`, Calls: []model.Call{g.Shell("touch forbidden.txt")}},
		model.Answer("all done"),
	)
	wantFile(t, res, "free.txt", "free\n")
	wantFile(t, res, "forbidden.txt", "")
	if n := len(res.Requests.MainRequests()); n != 2 || strings.Contains(res.Shown, "1234") {
		t.Errorf("%d main requests, want the end after 2, and the person saw:\n%s", n, res.Shown)
	}
	if !strings.Contains(res.Shown, "that is not for EVERYBODY") {
		t.Errorf("the person was not told the reason:\n%s", res.Shown)
	}
	if log := g.records(t).of("model.after"); !slices.Contains(log[len(log)-1].Unsupported, "block: downgraded to halt") {
		t.Errorf("the log does not say that the block was told as a halt: %+v", log)
	}
}

// The model gets the tools that every hook allows. The model must respect the list: this one does
// not, and its call runs, so a guard must be at tool.before.
//
// Proves: GC-08
func TestToolset(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		second string
		mode   string
		names  []string
	}{
		"two in common": {second: "[write_file, run_shell_command, read_file]", mode: "ANY", names: []string{"run_shell_command", "write_file"}},
		"none":          {second: "[read_file]", mode: "NONE", names: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, agents.GeminiCLI, fmt.Sprintf(`
version: 1
hooks:
  - name: one
    on: toolset.before
    set: {tools: [run_shell_command, write_file, glob], mode: any}
  - name: two
    on: toolset.before
    set: {tools: %s}
`, tc.second))
			res := g.Run(t, "Do as planned.", model.Do(g.Shell("echo free > free.txt")), model.Answer("all done"))
			wantFile(t, res, "free.txt", "free\n")
			main := res.Requests.MainRequests()
			if len(main) != 2 {
				t.Fatalf("%d main requests, want 2", len(main))
			}
			for i, r := range main {
				if c := generationOf(t, r).Tools.Calling; c == nil || c.Mode != tc.mode || !slices.Equal(c.Names, tc.names) {
					t.Errorf("request %d offers %+v, want mode %s and %v", i, c, tc.mode, tc.names)
				}
			}
		})
	}
}

// Claude Code has only one event for the model's text: the text that it is about to show. The
// model's own memory keeps the original.
func TestReplaceInWhatIsShown(t *testing.T) {
	t.Parallel()
	const key = "sk-abcdefghijklmnopqrstuvwx"
	g := guard(t, agents.ClaudeCode, `
version: 1
hooks:
  - name: hide-keys
    on: response.before
    replace: [{pattern: 'sk-[A-Za-z0-9]{20,}', with: sk-***}]
  - name: go-on
    on: agent.after
    run: test -e seen.txt || { touch seen.txt; echo "say it again" >&2; exit 2; }
`)
	res := g.Run(t, "Do as planned.", model.Answer("first, the key is "+key), model.Step{Text: "the key is " + key, Chunks: 3})
	if want := "the key is sk-***"; res.Answer != want {
		t.Errorf("answer %q, want %q", res.Answer, want)
	}
	main := res.Requests.MainRequests()
	if len(main) != 2 || !slices.Contains(main[1].Texts, "assistant: first, the key is "+key) {
		t.Errorf("the agent does not remember what the model said:\n%s", main.Transcript())
	}
}
