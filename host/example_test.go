package host_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/local"
)

// runShell replaces the tool of an agent.
func runShell(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
	var args struct{ Command string }
	if err := json.Unmarshal(input, &args); err != nil {
		return nil, err
	}
	return json.Marshal("ran " + args.Command)
}

// noDelete is a guard for shells.
func noDelete(ev *grapnel.Event) string {
	for _, line := range ev.Tool.Commands {
		if strings.HasPrefix(line, "rm ") {
			return "Nothing is deleted here. Move it to trash/ instead."
		}
	}
	return ""
}

// guarded returns an engine with one hook.
func guarded() *grapnel.Engine {
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "no-delete", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"shell"}, Hook: grapnel.Guard(noDelete)},
	}, nil)
	if err != nil {
		panic(err)
	}
	return engine
}

// Two calls wrap the agent's own actions.
func Example() {
	engine := guarded()
	shell := host.ToolInfo{Name: "shell", Class: grapnel.ClassShell}

	h := host.New(engine, &host.Options{Agent: grapnel.Agent{Name: "my-agent"}, Tools: []host.ToolInfo{shell}})
	ctx, session, added, err := h.Start(context.Background(), grapnel.Session{ID: "s1", CWD: "/work"}, "startup")
	if err != nil {
		fmt.Println(err)
		return
	}

	defer session.End(ctx, "exit")

	callTheModel := func(_ context.Context, question string) (string, error) { return "answer to " + question, nil }

	question := strings.Join(append(added, "what is up?"), "\n\n")
	response, err := host.Model(ctx, question, callTheModel)
	fmt.Println(response, err)

	result, err := host.Tool(ctx, host.Call{ID: "call_1", Name: "shell", Input: json.RawMessage(`{"command":"ls"}`)}, runShell)
	fmt.Println(result.Text(), err)
	// Output:
	// answer to what is up? <nil>
	// ran ls <nil>
}

// The policies of this machine, and a hook of the agent itself, guard the same calls.
func ExampleNew() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "grapnel-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	root := dir // for this example; without a root, Open uses the policies of the user
	text := "version: 1\nhooks:\n  - {name: no-deploy, on: tool.before, match: {command: deploy}, block: Ask the release team.}\n"
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	engine, err := local.Open(ctx, &local.Options{Root: root, CWD: dir})
	if err != nil {
		fmt.Println(err)
		return
	}

	defer func() { _ = engine.Close(ctx) }()

	err = engine.Add(grapnel.Spec{
		Name: "no-delete", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"shell"},
		Hook: grapnel.Guard(noDelete),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	h := host.New(engine.Engine, &host.Options{Tools: []host.ToolInfo{{Name: "shell", Class: grapnel.ClassShell}}})
	ctx, session, added, err := h.Start(ctx, grapnel.Session{ID: "s1", CWD: dir, Root: engine.Root}, "startup")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.End(ctx, "exit")

	fmt.Println("context for the model:", len(added))
	for _, line := range []string{"deploy", "rm -r build", "ls"} {
		input, _ := json.Marshal(map[string]string{"command": line})
		result, err := host.Tool(ctx, host.Call{ID: line, Name: "shell", Input: input}, runShell)
		fmt.Println(result.Text(), err)
	}
	// Output:
	// context for the model: 0
	// The call was blocked: Ask the release team. <nil>
	// The call was blocked: Nothing is deleted here. Move it to trash/ instead. <nil>
	// ran ls <nil>
}

// A refused call has a result for the model, and the agent continues. Only a Refusal that halts
// the turn is an error.
func ExampleTool() {
	h := host.New(guarded(), &host.Options{Tools: []host.ToolInfo{{Name: "shell", Class: grapnel.ClassShell}}})
	ctx, _, _, _ := h.Start(context.Background(), grapnel.Session{ID: "s1"}, "startup")
	for _, line := range []string{"ls", "rm -rf build"} {
		input, _ := json.Marshal(map[string]string{"command": line})

		result, err := host.Tool(ctx, host.Call{ID: "call_1", Name: "shell", Input: input}, runShell)
		if err != nil {
			fmt.Println("the turn is over:", err)
			return
		}
		fmt.Println("the model reads:", result.Text())
	}
	// Output:
	// the model reads: ran ls
	// the model reads: The call was blocked: Nothing is deleted here. Move it to trash/ instead.
}

// The Reason of a withheld response is for the model.
func ExampleModel() {
	engine, _ := grapnel.New([]grapnel.Spec{{
		Name: "no-keys", On: []grapnel.Kind{grapnel.ModelAfter},
		Hook: grapnel.Guard(func(ev *grapnel.Event) string {
			if strings.Contains(string(ev.Model.Response), "sk-") {
				return "Leave keys out of the answer."
			}
			return ""
		}),
	}}, nil)
	ctx, _, _, _ := host.New(engine, nil).Start(context.Background(), grapnel.Session{ID: "s1"}, "startup")
	replies := []string{"it is sk-123", "it is in the vault"}
	callTheModel := func(context.Context, []string) (string, error) {
		next := replies[0]
		replies = replies[1:]
		return next, nil
	}

	request := []string{"where is the key?"}
	response, err := host.Model(ctx, request, callTheModel)
	if no := host.Refused(err); no != nil && !no.Halt {
		request = append(request, no.Reason)
		response, err = host.Model(ctx, request, callTheModel)
	}
	fmt.Println(request, response, err)
	// Output:
	// [where is the key? Leave keys out of the answer.] it is in the vault <nil>
}

// A streamed answer is held until the whole answer was judged, unless the host is Incremental.
func ExampleStream() {
	engine, _ := grapnel.New([]grapnel.Spec{{
		Name: "look", On: []grapnel.Kind{grapnel.ModelAfter}, Hook: grapnel.Watch(func(context.Context, *grapnel.Event) {}),
	}}, nil)
	for _, incremental := range []bool{false, true} {
		h := host.New(engine, &host.Options{Incremental: incremental})
		ctx, _, _, _ := h.Start(context.Background(), grapnel.Session{ID: "s1"}, "startup")

		read := func(_ context.Context, question string, yield func(soFar string) error) (string, error) {
			text := ""
			lines := bufio.NewScanner(strings.NewReader("Once\nupon a\ntime"))
			for lines.Scan() {
				text += lines.Text() + " "
				if err := yield(text); err != nil { // a hook refused: stop reading
					return "", err
				}
			}
			return text + "...", lines.Err()
		}
		show := func(soFar string) error {
			fmt.Printf("%q\n", soFar)
			return nil
		}
		_, err := host.Stream(ctx, "tell me a story", read, show)
		fmt.Println("incremental:", incremental, err)
	}
	// Output:
	// "Once upon a time ..."
	// incremental: false <nil>
	// "Once "
	// "Once upon a "
	// "Once upon a time "
	// "Once upon a time ..."
	// incremental: true <nil>
}

// scripted replaces a model: it calls the shell once and then answers.
func scripted(_ context.Context, r *host.Request, _ func(string) error) (*host.Response, error) {
	last := r.Messages[len(r.Messages)-1]
	if last.Role == "tool" {
		return &host.Response{Content: json.RawMessage(`"done: ` + last.Text() + `"`)}, nil
	}
	return &host.Response{ToolCalls: []host.ToolCall{{ID: "call_1", Name: "shell", Args: json.RawMessage(`{"command":"make test"}`)}}}, nil
}

// A Loop is a whole agent.
func ExampleLoop() {
	engine := guarded()

	tools := []host.AgentTool{{
		ToolInfo:    host.ToolInfo{Name: "shell", Class: grapnel.ClassShell},
		Description: "Runs a shell line.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}}}`),
		Run:         runShell,
	}}
	h := host.New(engine, &host.Options{Tools: host.Infos(tools)})
	ctx, session, added, err := h.Start(context.Background(), grapnel.Session{ID: "s1"}, "startup")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.End(ctx, "exit")

	loop := host.Loop{
		Provider: host.ProviderFunc(scripted),
		Name:     "my-model", System: "You are of help.", Context: added, Tools: tools,
	}
	answer, err := loop.Run(ctx, host.Text("user", "Do the tests pass?"))
	if err != nil {
		fmt.Println("no answer:", err)
		return
	}
	fmt.Println(answer.Status, answer.Text())
	// Output:
	// completed done: ran make test
}

// A sub-agent has all hooks of its session, and its events name the sub-agent.
func ExampleSubagent() {
	engine, _ := grapnel.New([]grapnel.Spec{{
		Name: "audit", On: []grapnel.Kind{grapnel.ToolBefore},
		Hook: grapnel.Watch(func(_ context.Context, ev *grapnel.Event) {
			fmt.Println(ev.Session.ID, ev.Session.Subagent.Type, "calls", ev.ToolName())
		}),
	}}, nil)
	ctx, _, _, _ := host.New(engine, nil).Start(context.Background(), grapnel.Session{ID: "s1"}, "startup")

	answer, err := host.Subagent(ctx, grapnel.Subagent{ID: "a1", Type: "explore"}, "Find the parser.", func(ctx context.Context, prompt string) (string, error) {
		_, err := host.Tool(ctx, host.Call{ID: "call_1", Name: "search"}, func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`["parse.go"]`), nil
		})
		return "It is in parse.go.", err
	})
	fmt.Println(answer, err)
	// Output:
	// s1 explore calls search
	// It is in parse.go. <nil>
}

// Hooks for one session are in an engine in its context.
func ExampleHost_Start() {
	engine := guarded()
	h := host.New(engine, nil)

	hooks, err := grapnel.New([]grapnel.Spec{
		{Name: "plan", On: []grapnel.Kind{grapnel.PromptBefore}, Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Context: []string{"Make a plan first."}}, nil
		})},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, session, _, err := h.Start(grapnel.NewContext(context.Background(), hooks), grapnel.Session{ID: "s1"}, "startup")

	if err == nil {
		prompt, err := session.Prompt(ctx, "Write a parser.")
		fmt.Printf("%q %v\n", prompt, err)
	}
	// Output:
	// "Write a parser.\n\nMake a plan first." <nil>
}

// A person is asked if a hook or the tool requires it.
func ExampleApprover() {
	terminal := bufio.NewReader(strings.NewReader("y\nno, use trash/\n"))

	approve := host.ApproverFunc(func(_ context.Context, q *host.Question) (host.Consent, error) {
		fmt.Printf("%s %s?%s\n", q.Event.Tool.Name, q.Event.Tool.Input, q.Reason)
		line, err := terminal.ReadString('\n')
		if err != nil {
			return host.Consent{}, errors.New("nobody is there")
		}
		line = strings.TrimSpace(line)
		return host.Consent{Yes: line == "y", Reason: line}, nil
	})
	h := host.New(nil, &host.Options{
		Tools:   []host.ToolInfo{{Name: "delete", Ask: true, Secrets: []string{"token"}}},
		Approve: approve,
	})

	ctx, _, _, _ := h.Start(context.Background(), grapnel.Session{ID: "s1"}, "startup")
	for range 2 {
		result, err := host.Tool(ctx, host.Call{ID: "call_1", Name: "delete", Input: json.RawMessage(`{"file":"a","token":"t0p"}`)}, echo)
		fmt.Println(result.Text(), err)
	}
	// Output:
	// delete {"file":"a","token":"[REDACTED]"}?
	// {"file":"a","token":"t0p"} <nil>
	// delete {"file":"a","token":"[REDACTED]"}?
	// The call was blocked: no, use trash/ <nil>
}

// An agent uses its own texts, or the texts of another system, as the replacement of refused
// actions.
func ExampleManners() {
	manners, _ := host.FindManners("ironclaw")
	h := host.New(guarded(), &host.Options{Manners: manners, Tools: []host.ToolInfo{{Name: "shell", Class: grapnel.ClassShell}}})

	ctx, _, _, _ := h.Start(context.Background(), grapnel.Session{ID: "s1"}, "startup")
	result, _ := host.Tool(ctx, host.Call{Name: "shell", Input: json.RawMessage(`{"command":"rm x"}`)}, runShell)
	fmt.Println(result.Text())
	// Output:
	// Tool call rejected by hook: Nothing is deleted here. Move it to trash/ instead.
}

// Agents that cannot wrap calls, because a framework uses callbacks, use the two halves.
func ExampleSession_BeforeTool() {
	h := host.New(guarded(), &host.Options{Tools: []host.ToolInfo{{Name: "shell", Class: grapnel.ClassShell}}})
	ctx, session, _, _ := h.Start(context.Background(), grapnel.Session{ID: "s1"}, "startup")

	result, done, err := session.BeforeTool(ctx, host.Call{ID: "call_1", Name: "shell", Input: json.RawMessage(`{"command":"ls"}`)})
	if !done {
		output, failure := runShell(ctx, result.Call.Input) // by the framework, in a later callback
		result, err = session.AfterTool(ctx, result.Call, output, failure)
	}
	fmt.Println(result.Text(), err)
	// Output:
	// ran ls <nil>
}

// Hooks also judge the stop of a turn: a hook can make the agent continue.
func ExampleSession_Stop() {
	engine, _ := grapnel.New([]grapnel.Spec{{
		Name: "tests-first", On: []grapnel.Kind{grapnel.AgentAfter},
		Hook: grapnel.Guard(func(ev *grapnel.Event) string {
			if ev.Stop.Active {
				return ""
			}
			return "Run the tests before you stop."
		}),
	}}, nil)
	ctx, session, _, _ := host.New(engine, nil).Start(context.Background(), grapnel.Session{ID: "s1"}, "startup")

	for wentOn := false; ; wentOn = true {
		stop, err := session.Stop(ctx, "I am done.", wentOn)
		if err != nil || stop.ContinueWith == "" {
			fmt.Println("stopped", err)
			break
		}
		fmt.Println("the model is told:", stop.ContinueWith)
	}
	// Output:
	// the model is told: Run the tests before you stop.
	// stopped <nil>
}
