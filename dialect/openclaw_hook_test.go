package dialect_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

func home() string { return "/home/u" }

// handled returns the event that a handler of a mapping gets.
func handled(t *testing.T, ev *grapnel.Event) (plain *grapnel.Event, event, ctx map[string]any) {
	t.Helper()
	data, err := dialect.OpenClawHandlers(home).WriteEvent(ev)
	if err != nil {
		t.Fatal(err)
	}
	var wire struct{ Event, Ctx map[string]any }
	if err := json.Unmarshal(data, &wire); err != nil {
		t.Fatal(err)
	}
	plain, err = dialect.Plain().Read(dialect.Input{Payload: data})
	if err != nil {
		t.Fatal(err)
	}
	return plain, wire.Event, wire.Ctx
}

// TestOpenClawContext checks that a handler gets the names of the document, for each of its four
// types of context, and the event in Grapnel's own format. It covers OC-04.
//
// Proves: OC-04
func TestOpenClawContext(t *testing.T) {
	t.Parallel()
	session := grapnel.Session{ID: "s1", CWD: "/work", Root: "/repo", Turn: "r1", User: "u1", Channel: "chat", Model: "m", Mode: "plan"}
	always := map[string]any{
		"runId": "r1", "sessionKey": "s1", "workspaceDir": "/work", "agentDir": "/home/u/.claude", "channel": "chat", "senderId": "u1",
		"config": map[string]any{"agent": "claude-code", "version": "2", "model": "m", "mode": "plan", "root": "/repo"},
	}
	call := grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"ls"}`), Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}}
	call.Derive()
	ended := call
	ended.Output = json.RawMessage(`"a\n"`)
	for name, tt := range map[string]struct {
		ev   grapnel.Event
		want map[string]any // in addition to always
	}{
		"agent":    {grapnel.Event{Kind: grapnel.AgentBefore, Prompt: &grapnel.Prompt{Text: "hi"}}, nil},
		"session":  {grapnel.Event{Kind: grapnel.SessionStart}, nil},
		"gateway":  {grapnel.Event{Kind: grapnel.GatewayStart}, nil},
		"received": {grapnel.Event{Kind: grapnel.MessageReceived, Message: &grapnel.Message{Content: "hi", Channel: "sms"}}, map[string]any{"channel": "sms", "direction": "received"}},
		"sending":  {grapnel.Event{Kind: grapnel.MessageBefore, Message: &grapnel.Message{Content: "hi"}}, map[string]any{"direction": "sending"}},
		"sent":     {grapnel.Event{Kind: grapnel.MessageSent, Message: &grapnel.Message{Content: "hi"}}, map[string]any{"direction": "sent"}},
		"before":   {grapnel.Event{Kind: grapnel.ToolBefore, Tool: &call}, map[string]any{"toolName": "exec", "args": map[string]any{"command": "ls"}}},
		"after":    {grapnel.Event{Kind: grapnel.ToolAfter, Tool: &ended}, map[string]any{"toolName": "exec", "args": map[string]any{"command": "ls"}, "result": "a\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.ev.Session, tt.ev.Agent = session, grapnel.Agent{Name: "claude-code", Version: "2"}
			plain, event, ctx := handled(t, &tt.ev)
			for name, want := range always {
				if _, own := tt.want[name]; !own && !cmp.Equal(ctx[name], want) {
					t.Errorf("ctx.%s is %v, want %v", name, ctx[name], want)
				}
			}
			for name, want := range tt.want {
				if !cmp.Equal(ctx[name], want) {
					t.Errorf("ctx.%s is %v, want %v", name, ctx[name], want)
				}
			}
			if tt.ev.Message != nil && event["content"] != "hi" || tt.ev.Tool != nil && !cmp.Equal(event["params"], ctx["args"]) {
				t.Errorf("event %v", event)
			}
			if plain.Kind != tt.ev.Kind || plain.Session.ID != "s1" {
				t.Errorf("in Grapnel's own format it is %+v", plain)
			}
		})
	}
}

// The context of an event without any details has all names too, so that a handler may read them.
// The context of OpenClaw itself stays.
func TestOpenClawContextOfLittle(t *testing.T) {
	t.Parallel()
	_, _, ctx := handled(t, &grapnel.Event{Kind: grapnel.MessageSent})
	for _, name := range []string{"runId", "sessionKey", "workspaceDir", "agentDir", "channel", "senderId"} {
		if ctx[name] != "" {
			t.Errorf("ctx.%s is %v, want an empty text", name, ctx[name])
		}
	}
	d := dialect.OpenClaw()
	ev, err := d.Read(dialect.Input{Payload: []byte(`{"hook":"before_tool_call","event":{"toolName":"exec","params":{"command":"ls"}},"ctx":{"agentId":"main","runId":"r9","sessionKey":"k"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ctx = handled(t, ev); ctx["agentId"] != "main" || ctx["runId"] != "r9" || ctx["sessionKey"] != "k" || ctx["agentDir"] != "/home/u/.openclaw" {
		t.Errorf("ctx %v", ctx)
	}
}

// TestOpenClawResults checks that a handler may answer in the form of OpenClaw and in Grapnel's own.
func TestOpenClawResults(t *testing.T) {
	t.Parallel()
	call := grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"ls","timeout":5}`), Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}}
	call.Derive()
	tool := &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "claude-code"}, Tool: &call}
	message := &grapnel.Event{Kind: grapnel.MessageBefore, Message: &grapnel.Message{Content: "hi"}}
	agent := &grapnel.Event{Kind: grapnel.AgentBefore, Prompt: &grapnel.Prompt{Text: "hi"}}
	own := &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "openclaw"}, Tool: &grapnel.Tool{Name: "exec", Input: json.RawMessage(`{"command":"ls","host":"node"}`)}}
	set := func(f grapnel.Field, value string) grapnel.Outcome {
		return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{f: json.RawMessage(value)}}
	}
	for name, tt := range map[string]struct {
		ev     *grapnel.Event
		stdout string
		want   grapnel.Outcome
		err    string
	}{
		"nothing":           {tool, ``, grapnel.Outcome{}, ""},
		"no opinion":        {tool, `{}`, grapnel.Outcome{}, ""},
		"a block":           {tool, `{"block":true,"blockReason":"no","params":{"command":"x"}}`, grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}, ""},
		"no block":          {tool, `{"block":false,"blockReason":"no"}`, grapnel.Outcome{Reason: "no"}, ""},
		"a block, perhaps":  {tool, `{"block":"true"}`, grapnel.Outcome{}, "block is a string, not true or false"},
		"some params":       {tool, `{"params":{"command":"ls -l"}}`, set(grapnel.FieldCommand, `"ls -l"`), ""},
		"params of its own": {own, `{"params":{"command":"ls -l"}}`, set(grapnel.FieldInput, `{"command":"ls -l","host":"node"}`), ""},
		"params of no type": {tool, `{"params":[]}`, grapnel.Outcome{}, "cannot use its answer"},
		"an approval":       {tool, `{"requireApproval":{"title":"Sure?","description":"It lists."}}`, grapnel.Outcome{Decision: grapnel.Ask, Reason: "It lists."}, ""},
		"a short approval":  {tool, `{"requireApproval":{"title":"Sure?"}}`, grapnel.Outcome{Decision: grapnel.Ask, Reason: "Sure?"}, ""},
		"plain":             {tool, `{"decision":"block","reason":"no"}`, grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}, ""},
		"cancel":            {message, `{"cancel":true,"cancelReason":"no"}`, grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}, ""},
		"content":           {message, `{"content":"ho"}`, set("content", `"ho"`), ""},
		"contexts":          {agent, `{"prependContext":"a","appendContext":"b"}`, grapnel.Outcome{Context: []string{"a", "b"}}, ""},
		"cut":               {tool, `{"block":`, grapnel.Outcome{}, "not a valid JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := dialect.OpenClawHandlers(home).ReadOutcome(tt.ev, dialect.Output{Stdout: []byte(tt.stdout)})
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A worker that is started for one event exchanges messages in the dialect of its handlers.
func TestOnceOfOpenClaw(t *testing.T) {
	t.Parallel()
	d := dialect.OnceOf(dialect.OpenClawHandlers(home))
	ev := &grapnel.Event{Kind: grapnel.MessageBefore, Message: &grapnel.Message{Content: "hi"}}
	input, err := d.WriteEvent(ev)
	if err != nil || !d.IsOnce() || d.OfWorker().IsOnce() || d.Name != "openclaw" {
		t.Fatalf("dialect %s, %v", d.Name, err)
	}
	if lines := slices.Collect(strings.Lines(string(input))); len(lines) != 2 || !strings.Contains(lines[1], `"direction":"sending"`) {
		t.Errorf("input %q", lines)
	}
	answer := `{"grapnel":1,"type":"hello"}` + "\n" + `{"type":"answer","id":"1","outcome":{"cancel":true,"cancelReason":"no"}}`
	out, err := d.ReadOutcome(ev, dialect.Output{Stdout: []byte(answer)})
	if err != nil || out.Decision != grapnel.Block || out.Reason != "no" {
		t.Errorf("%+v, %v", out, err)
	}
}
