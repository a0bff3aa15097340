package dialect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// guard returns an engine with one guard on every event. The guard blocks every readable event,
// and its on_error is onError.
func guard(t testing.TB, onError grapnel.OnError) *grapnel.Engine {
	t.Helper()
	engine, err := grapnel.New([]grapnel.Spec{{
		Name: "guard", OnError: onError,
		Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "guarded"}, nil
		}),
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// A payload that cannot be read must not disable a guard.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100_000)
	tests := map[string]struct {
		payload string
		err     error
		event   string // the event that can still be recognized
		wantErr string
	}{
		"empty":                 {payload: "", wantErr: "the payload is empty"},
		"spaces":                {payload: " \r\n\t ", wantErr: "the payload is empty"},
		"only a mark":           {payload: "\xef\xbb\xbf", wantErr: "the payload is empty"},
		"text":                  {payload: "hello", wantErr: "not a JSON object"},
		"array":                 {payload: `[{"hook_event_name":"%E"}]`, wantErr: "not a JSON object"},
		"string":                {payload: `"%E"`, wantErr: "not a JSON object"},
		"no name":               {payload: `{"tool_name":"Bash"}`, wantErr: "does not name its event"},
		"name is no string":     {payload: `{"hook_event_name":["%E"],"tool_name":"Bash"}`, wantErr: "does not name its event"},
		"name in another case":  {payload: `{"Hook_Event_Name":"%E","tool_name":"Bash"}`, wantErr: "does not name its event"},
		"cut off before a name": {payload: `{"session_id":"s","cwd":"/p","hook_ev`, wantErr: "not valid JSON at byte"},
		"cut off after it":      {payload: `{"session_id":"s","hook_event_name":"%E","tool_name":"Bash","tool_input":{"command":"rm -r`, event: "%E", wantErr: "not valid JSON at byte"},
		"trailing bytes":        {payload: `{"hook_event_name":"%E","tool_name":"Bash","tool_input":{}} x`, event: "%E", wantErr: "not valid JSON at byte"},
		"two objects":           {payload: `{"hook_event_name":"%E","tool_name":"Bash"}{"tool_name":"Read"}`, event: "%E", wantErr: "not valid JSON at byte"},
		"single quotes":         {payload: `{'hook_event_name':'%E'}`, wantErr: "not valid JSON"},
		"deep array":            {payload: deep, wantErr: "not a JSON object"},
		"deep value":            {payload: `{"hook_event_name":"%E","tool_name":"Bash","tool_input":{"a":` + deep + strings.Repeat("]", 100_000) + `}}`, event: "%E", wantErr: "exceeded max depth"},
		"deep and open":         {payload: `{"hook_event_name":"%E","tool_input":` + deep, event: "%E", wantErr: "not valid JSON"},
		"tool_name a number":    {payload: `{"hook_event_name":"%E","tool_name":5,"tool_input":{}}`, event: "%E", wantErr: "tool_name is not a string"},
		"tool_name absent":      {payload: `{"hook_event_name":"%E","Tool_Name":"Bash","tool_input":{}}`, event: "%E", wantErr: "does not name its tool"},
		"tool_name null":        {payload: `{"hook_event_name":"%E","tool_name":null}`, event: "%E", wantErr: "does not name its tool"},
		"tool_name empty":       {payload: `{"hook_event_name":"%E","tool_name":"","tool_input":{}}`, event: "%E", wantErr: "does not name its tool"},
		"tool_input an array":   {payload: `{"hook_event_name":"%E","tool_name":"Bash","tool_input":["rm"]}`, event: "%E", wantErr: "tool_input is an array"},
		"tool_input a number":   {payload: `{"hook_event_name":"%E","tool_name":"Bash","tool_input":1e400}`, event: "%E", wantErr: "tool_input is a number"},
		"tool_input a boolean":  {payload: `{"hook_event_name":"%E","tool_name":"Bash","tool_input":true}`, event: "%E", wantErr: "tool_input is a boolean"},
		"tool_input a text":     {payload: `{"hook_event_name":"%E","tool_name":"Bash","tool_input":"rm -rf /"}`, event: "%E", wantErr: "does not hold a JSON object"},
		"tool_input half JSON":  {payload: `{"hook_event_name":"%E","tool_name":"Bash","tool_input":"{\"command\":"}`, event: "%E", wantErr: "does not hold a JSON object"},
		"stdin broke":           {payload: `{"hook_event_name":"%E","tool_name":"Bash","tool_input":{}}`, err: io.ErrUnexpectedEOF, event: "%E", wantErr: "unexpected EOF"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for d, native := range map[*dialect.Dialect]string{dialect.ClaudeCode(): "PreToolUse", dialect.GeminiCLI(): "BeforeTool"} {
				in := dialect.Input{Payload: []byte(strings.ReplaceAll(tt.payload, "%E", native)), Err: tt.err}
				about := func() string { return d.Name + ": " + cut(string(in.Payload)) }

				ev, err := d.Read(in)
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) || !strings.Contains(err.Error(), d.Name) {
					t.Errorf("%s: error %v, want one that says %q and names the agent", about(), err, tt.wantErr)
				}
				if tt.err != nil && !errors.Is(err, tt.err) {
					t.Errorf("%s: errors.Is(%v, %v) = false", about(), err, tt.err)
				}
				wantKind := grapnel.Kind("")
				if tt.event != "" {
					wantKind = grapnel.ToolBefore
				}
				if ev == nil || ev.Kind != wantKind {
					t.Fatalf("%s: event %+v, want the kind %q", about(), ev, wantKind)
				}

				// Closed: blocked, in a form that works even for an event without a name.
				reply := dialect.Answer(t.Context(), guard(t, grapnel.OnErrorClosed), d, in)
				e := heeds(d, native, reply)
				if !emptyOrObject(reply) || !e.Blocked || e.Allowed || !strings.Contains(e.Reason, tt.wantErr) || reply.Exit != 0 {
					t.Errorf("%s: reply %s %s exit %d, want a block that says %q; the agent does %+v", about(), reply.Stdout, reply.Stderr, reply.Exit, tt.wantErr, e)
				}
				if tt.event == "" && !e.Ended {
					t.Errorf("%s: the reply %s to an unknown event must end the turn, or a stop would go on for ever", about(), reply.Stdout)
				}

				// Open, or without hooks: the action continues, never with an allow, and with a
				// message.
				for _, engine := range []*grapnel.Engine{guard(t, grapnel.OnErrorOpen), engineWithout(t)} {
					reply = dialect.Answer(t.Context(), engine, d, in)
					e = heeds(d, native, reply)
					if e.Blocked || e.Allowed || e.Asked || e.Ended || reply.Exit == 2 {
						t.Errorf("%s: reply %s %s exit %d, want no decision; the agent does %+v", about(), reply.Stdout, reply.Stderr, reply.Exit, e)
					}
					if !strings.Contains(string(reply.Stderr), "grapnel: error: ") || !strings.Contains(string(reply.Stderr), tt.wantErr) {
						t.Errorf("%s: stderr %q, want the error", about(), reply.Stderr)
					}
					if len(reply.Stdout) == 0 && reply.Exit != 1 {
						t.Errorf("%s: exit %d with an error on stderr and nothing on stdout, want 1", about(), reply.Exit)
					}
				}
			}
		})
	}
}

func engineWithout(t testing.TB) *grapnel.Engine {
	t.Helper()
	engine, err := grapnel.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func cut(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// Every event of both agents, truncated in the middle: a closed guard blocks if the agent can
// be blocked, and there is never an allow or exit code 2.
func TestUnreadableEvents(t *testing.T) {
	t.Parallel()
	forEachEvent(t, func(t *testing.T, d *dialect.Dialect, row *dialect.EventRow) {
		in := dialect.Input{Payload: []byte(`{"hook_event_name":"` + row.Native + `","rest":`)}
		reply := dialect.Answer(t.Context(), guard(t, grapnel.OnErrorClosed), d, in)
		e := heeds(d, row.Native, reply)
		ev := &grapnel.Event{Kind: row.Kind, Terms: &grapnel.Terms{Contract: row.Contract}}
		contract := ev.Contract()
		if counts := !contract.FailOpen && contract.Blocks != grapnel.BlockingNothing; counts && (row.Can.Block || row.Can.Halt) && !e.Blocked {
			t.Errorf("reply %s %q exit %d, and the agent does %+v, want a block", reply.Stdout, reply.Stderr, reply.Exit, e)
		}
		if e.Allowed || e.Asked {
			t.Errorf("reply %s, and the agent does %+v", reply.Stdout, e)
		}
		reply = dialect.Answer(t.Context(), engineWithout(t), d, in)
		if reply.Exit == 2 || len(reply.Stdout) > 0 {
			t.Errorf("without hooks: reply %s %q exit %d", reply.Stdout, reply.Stderr, reply.Exit)
		}
		if silent := !row.Can.Message; silent != (reply.Exit == 0 && len(reply.Stderr) == 0) {
			t.Errorf("without hooks: reply %q exit %d, want silence exactly where any output is an answer", reply.Stderr, reply.Exit)
		}
	})
}

// An unusual but unambiguous payload is read like the agents' own parsers read it.
func TestOddButReadable(t *testing.T) {
	t.Parallel()
	const native = `"hook_event_name":"PreToolUse"`
	tests := map[string]struct {
		payload string
		want    grapnel.Tool
	}{
		"byte order mark": {
			payload: "\xef\xbb\xbf {" + native + `,"tool_name":"Read","tool_input":{"file_path":"a"}}` + "\r\n",
			want:    grapnel.Tool{Name: "Read", Class: grapnel.ClassRead, Input: json.RawMessage(`{"file_path":"a"}`), Paths: []grapnel.Path{{Path: "a", Use: grapnel.UseRead}}},
		},
		"the last of two equal keys counts": {
			payload: "{" + native + `,"tool_name":"Read","tool_name":"Bash","tool_input":{"command":"ls","command":"rm"},"tool_input":{"command":"true","command":"rm -rf /"}}`,
			want: grapnel.Tool{
				Name: "Bash", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"true","command":"rm -rf /"}`), Commands: []string{"rm -rf /"},
			},
		},
		"another case is another key": {
			payload: "{" + native + `,"tool_name":"Bash","Tool_Name":"Read","TOOL_INPUT":{"command":"true"},"tool_input":{"command":"rm","Command":"true"}}`,
			want:    grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"rm","Command":"true"}`), Commands: []string{"rm"}},
		},
		"an escaped key is the same key": {
			payload: "{" + native + `,"tool\u005fname":"Bash","tool_input":{"comm\u0061nd":"rm"}}`,
			want:    grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Input: json.RawMessage(`{"comm\u0061nd":"rm"}`), Commands: []string{"rm"}},
		},
		"numbers keep their spelling": {
			payload: "{" + native + `,"tool_name":"X","tool_input":{"a":1e400,"b":9007199254740993,"c":-0.10}}`,
			want:    grapnel.Tool{Name: "X", Class: grapnel.ClassOther, Input: json.RawMessage(`{"a":1e400,"b":9007199254740993,"c":-0.10}`)},
		},
		"invalid UTF-8": {
			payload: "{" + native + `,"tool_name":"Bash","tool_input":{"command":"rm ` + "\xff" + `"}}`,
			want:    grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"rm ` + "\xff" + `"}`), Commands: []string{"rm \ufffd"}},
		},
		"input as a string": {
			payload: "{" + native + `,"tool_name":"Bash","tool_input":" {\"command\": \"rm\"}\n"}`,
			want:    grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command": "rm"}`), Commands: []string{"rm"}},
		},
		"a server calls its tool Bash": {
			payload: "{" + native + `,"tool_name":"mcp__x__Bash","tool_input":{"command":"rm","path":"p","url":"u","file_path":3}}`,
			want: grapnel.Tool{
				Name: "mcp__x__Bash", Class: grapnel.ClassMCP, MCP: &grapnel.MCP{Server: "x", Tool: "Bash"},
				Input:    json.RawMessage(`{"command":"rm","path":"p","url":"u","file_path":3}`),
				Commands: []string{"rm"}, Paths: []grapnel.Path{{Path: "p", Use: grapnel.UseWrite}}, URLs: []string{"u"},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: []byte(tt.payload)})
			if err != nil {
				t.Fatalf("Read(%s): %v", tt.payload, err)
			}
			got := *ev.Tool
			got.Facts = nil
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Read(%s) (-want +got):\n%s", tt.payload, diff)
			}
			if !json.Valid(ev.Native) {
				t.Errorf("Native = %s, want valid JSON", ev.Native)
			}
		})
	}
}

// A prompt, a shown text or a batch of another type is an error, because guards could not check
// it. The same is true for a command or a written file that is not a string. After a call it is
// no longer an error.
func TestBlindFields(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		d       *dialect.Dialect
		payload string
		wantErr string
	}{
		{dialect.ClaudeCode(), `{"hook_event_name":"UserPromptSubmit","prompt":["a"]}`, "prompt is an array"},
		{dialect.ClaudeCode(), `{"hook_event_name":"MessageDisplay","delta":{}}`, "delta is an object"},
		{dialect.ClaudeCode(), `{"hook_event_name":"PostToolBatch","tool_calls":{}}`, "tool_calls is an object"},
		{dialect.ClaudeCode(), `{"hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Read"},7]}`, "tool_calls[1]: it is not an object"},
		{dialect.ClaudeCode(), `{"hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Read","tool_input":3}]}`, "tool_calls[0]: tool_input is a number"},
		{dialect.GeminiCLI(), `{"hook_event_name":"BeforeAgent","prompt":false}`, "prompt is a boolean"},
		{dialect.GeminiCLI(), `{"hook_event_name":"AfterTool","tool_name":{}}`, "tool_name is not a string"},
		{dialect.ClaudeCode(), `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":["rm","-rf","x"]}}`, "command in the input of Bash is an array"},
		{dialect.ClaudeCode(), `{"hook_event_name":"PermissionRequest","tool_name":"Write","tool_input":{"file_path":7}}`, "file_path in the input of Write is a number"},
		{dialect.GeminiCLI(), `{"hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":{"c":"ls"}}}`, "command in the input of run_shell_command is an object"},
		{dialect.Codex(), `{"hook_event_name":"PreToolUse","tool_name":"apply_patch","tool_input":{"command":["*** Begin Patch"]}}`, "command in the input of apply_patch is an array"},
		{dialect.Copilot(), `{"sessionId":"s","toolName":"create","toolArgs":{"path":true}}`, "path in the input of create is a boolean"},
	} {
		if _, err := tt.d.Read(dialect.Input{Payload: []byte(tt.payload)}); err == nil || !strings.Contains(err.Error(), tt.wantErr) {
			t.Errorf("Read(%s): error %v, want one that says %q", tt.payload, err, tt.wantErr)
		}
	}
	for _, tt := range []struct {
		d       *dialect.Dialect
		payload string
	}{
		{dialect.ClaudeCode(), `{"hook_event_name":"UserPromptSubmit","prompt":null}`},
		{dialect.ClaudeCode(), `{"hook_event_name":"PostToolBatch","tool_calls":null}`},
		{dialect.ClaudeCode(), `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":null}`},
		{dialect.ClaudeCode(), `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":null}}`},
		{dialect.ClaudeCode(), `{"hook_event_name":"PreToolUse","tool_name":"Other","tool_input":{"command":["ls"]}}`},
		{dialect.ClaudeCode(), `{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":["ls"]}}`},
		{dialect.ClaudeCode(), `{"hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Bash","tool_input":{"command":["ls"]}}]}`},
		{dialect.GeminiCLI(), `{"hook_event_name":"BeforeModel"}`},
		{dialect.GeminiCLI(), `{"hook_event_name":"AfterModel","llm_request":7,"timestamp":"yesterday"}`},
	} {
		if _, err := tt.d.Read(dialect.Input{Payload: []byte(tt.payload)}); err != nil {
			t.Errorf("Read(%s): %v, want absent members to be no error", tt.payload, err)
		}
	}
}

// FuzzRead: no payload makes a dialect panic, allow, or lose a block.
func FuzzRead(f *testing.F) {
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
		for _, row := range d.Events {
			f.Add(sample(d, row.Native))
		}
	}
	f.Add([]byte(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":"{\"command\":\"rm\"}"`))
	f.Add([]byte(`{"hook_event_name":"PreToolUse","tool_name":"mcp____","tool_input":{"path":"\ud800"},"mcp_server":{"name":""}}`))
	f.Add([]byte(`{"hook_event_name":"AfterTool","tool_name":"x","tool_response":{"error":[]},"mcp_context":{"server_name":"s"}}`))
	f.Add([]byte("{\"a\":1,\"\":\"\\\"\\\\\",\"hook_event_name\":\"Stop\"\x00}"))
	f.Add([]byte(`{"grapnel":1,"kind":"tool.before","tool":{"name":"bash","input":{"command":"ls"},"facts":[{"field":"tool.command","at":"/command"}]}}`))
	closed, none := guard(f, grapnel.OnErrorClosed), engineWithout(f)
	f.Fuzz(func(t *testing.T, payload []byte) {
		dialect.Detect(payload)
		for _, d := range dialect.All() {
			in := dialect.Input{Payload: payload}
			ev, err := d.Read(in)
			if ev == nil {
				t.Fatalf("%s: Read(%q) gives no event (%v)", d.Name, payload, err)
			}
			if _, err := json.Marshal(ev); err != nil {
				t.Fatalf("%s: Read(%q) gives an event that cannot be written down: %v", d.Name, payload, err)
			}
			if d.Name == dialect.Plain().Name {
				if reply := dialect.Answer(t.Context(), closed, d, in); !emptyOrObject(reply) {
					t.Fatalf("plain: Answer(%q) = %s", payload, reply.Stdout)
				}
				continue
			}
			if !slices.ContainsFunc(agents, func(a *dialect.Dialect) bool { return a.Name == d.Name }) {
				fuzzAnswers(t, d, in, closed, none)
				continue
			}
			native := ""
			for _, row := range d.Events {
				if ev.Can() != nil && cmp.Equal(row.Can, *ev.Can()) && (row.Kind == ev.Kind || row.Failed == ev.Kind) {
					native = row.Native
				}
			}
			reply := dialect.Answer(t.Context(), closed, d, in)
			e := heeds(d, native, reply)
			if !emptyOrObject(reply) || e.Allowed || e.Asked {
				t.Fatalf("%s: Answer(%q) = %s %q exit %d, and the agent does %+v", d.Name, payload, reply.Stdout, reply.Stderr, reply.Exit, e)
			}
			if native != "" && ev.Can().Block && (err == nil || !ev.Contract().FailOpen) && ev.Contract().Blocks != grapnel.BlockingNothing && !e.Blocked {
				t.Fatalf("%s: a block of %q is lost: %s %q exit %d, and the agent does %+v", d.Name, payload, reply.Stdout, reply.Stderr, reply.Exit, e)
			}
			if ev.Kind == "" && !strings.Contains(string(reply.Stdout), `"continue":false`) {
				t.Fatalf("%s: %q has no name, and the reply is %s", d.Name, payload, reply.Stdout)
			}
			if reply := dialect.Answer(t.Context(), none, d, in); err == nil && !cmp.Equal(reply, dialect.Reply{Silent: reply.Silent}) || reply.Exit == 2 || len(reply.Stdout) > 0 {
				t.Fatalf("%s: without hooks Answer(%q) = %s %q exit %d", d.Name, payload, reply.Stdout, reply.Stderr, reply.Exit)
			}
		}
	})
}

// fuzzAnswers checks, for an agent without a model, that a guard's answer is never an allow and
// is not lost where it matters.
func fuzzAnswers(t *testing.T, d *dialect.Dialect, in dialect.Input, closed, none *grapnel.Engine) {
	t.Helper()
	ev, err := d.Read(in)
	reply := dialect.Answer(t.Context(), closed, d, in)
	about := fmt.Sprintf("%s: Answer(%q) = %s %q exit %d", d.Name, in.Payload, reply.Stdout, reply.Stderr, reply.Exit)
	if out, _ := d.ReadOutcome(ev, dialect.Output{Exit: reply.Exit, Stdout: reply.Stdout, Stderr: reply.Stderr}); out.Decision == grapnel.Allow || out.Decision == grapnel.Ask {
		t.Fatalf("%s, which is %v", about, out.Decision)
	}
	void := d.Void + "\n"
	if row := dialect.Receive(d, in).Row(); row != nil && row.Void != "" {
		void = row.Void + "\n"
	}
	counts := ev.Kind == "" || ev.Can().Block && ev.Contract().Blocks != grapnel.BlockingNothing && (err == nil || !ev.Contract().FailOpen)
	if hasOutput := len(reply.Stdout) > 0 && string(reply.Stdout) != void || reply.Exit == 2 && len(reply.Stderr) > 0; counts && !hasOutput {
		t.Fatalf("a block is lost: %s", about)
	}
	reply = dialect.Answer(t.Context(), none, d, in)
	if nothing := len(reply.Stdout) == 0 || string(reply.Stdout) == void; !nothing || reply.Exit == 2 || err == nil && reply.Exit+len(reply.Stderr) != 0 {
		t.Fatalf("%s: without hooks Answer(%q) = %s %q exit %d", d.Name, in.Payload, reply.Stdout, reply.Stderr, reply.Exit)
	}
}
