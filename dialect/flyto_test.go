package dialect_test

import (
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// flytoEvent returns an event of each kind that Flyto's hooks get.
func flytoEvent(t testing.TB, native string) *grapnel.Event {
	t.Helper()
	row := dialect.Flyto().Row(native)
	if row == nil {
		t.Fatalf("Flyto has no event %s", native)
	}
	ev := &grapnel.Event{Kind: row.Kind, Agent: grapnel.Agent{Name: "flyto"}, Session: grapnel.Session{ID: "s-1", CWD: "/p"}}
	if strings.Contains(native, "tool") || strings.Contains(native, "permission") {
		ev.Tool = &grapnel.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"ls"}`)}
	}
	return ev
}

func TestFlytoOutcome(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		event, stdout, stderr string
		exit                  int
		want                  string // the Outcome as JSON
		err                   string
	}{
		"nothing":             {event: "pre_tool_use", want: `{}`},
		"silent exit 2":       {event: "pre_tool_use", exit: 2, want: `{"decision":"block"}`},
		"exit 2":              {event: "pre_tool_use", stderr: "no\n", exit: 2, want: `{"decision":"block","reason":"no"}`},
		"exit 2, JSON reason": {event: "pre_tool_use", stdout: `{"reason":"json"}`, stderr: "text", exit: 2, want: `{"decision":"block","reason":"json"}`},
		"exit 2 and allow":    {event: "permission_request", stdout: `{"decision":"allow"}`, exit: 2, want: `{"decision":"block"}`},
		"exit 2, bad JSON":    {event: "pre_tool_use", stdout: `{"decision"`, exit: 2, want: `{"decision":"block"}`, err: "is not a valid JSON object"},
		"exit 1":              {event: "pre_tool_use", stderr: "oops", exit: 1, want: `{}`, err: "exit code 1: oops"},
		"exit 3 and a block":  {event: "pre_tool_use", stdout: `{"decision":"deny"}`, exit: 3, want: `{"decision":"block"}`, err: "exit code 3"},
		"exit 3 and an allow": {event: "permission_request", stdout: `{"decision":"allow"}`, exit: 3, want: `{}`, err: "exit code 3"},
		"signal":              {event: "pre_tool_use", exit: -1, want: `{}`, err: "killed by a signal"},
		"block":               {event: "pre_tool_use", stdout: `{"decision":"block","reason":"r"}`, want: `{"decision":"block","reason":"r"}`},
		"deny":                {event: "pre_tool_use", stdout: `{"decision":"deny"}`, stderr: "see log", want: `{"decision":"block","reason":"see log"}`},
		"allow of a call":     {event: "pre_tool_use", stdout: `{"decision":"allow","reason":"r"}`, want: `{}`},
		"allow":               {event: "permission_request", stdout: `{"decision":"allow"}`, stderr: "noise", want: `{"decision":"allow"}`},
		"approve":             {event: "permission_request", stdout: `{"decision":"approve","reason":"r"}`, want: `{"decision":"allow","reason":"r"}`},
		"unknown word":        {event: "permission_request", stdout: `{"decision":"maybe"}`, want: `{}`},
		"other case":          {event: "pre_tool_use", stdout: `{"Decision":"block"}`, want: `{}`},
		"no string":           {event: "pre_tool_use", stdout: `{"decision":{"block":true}}`, want: `{}`, err: "decision is {\"block\":true}, want text"},
		"no reason":           {event: "pre_tool_use", stdout: `{"decision":"block","reason":7}`, want: `{"decision":"block"}`, err: "reason is 7, want text"},
		"null":                {event: "pre_tool_use", stdout: `{"decision":null,"reason":null}`, want: `{}`},
		"text":                {event: "pre_tool_use", stdout: "all good", want: `{}`},
		"array":               {event: "pre_tool_use", stdout: `["block"]`, want: `{}`},
		"text after it":       {event: "pre_tool_use", stdout: `{"decision":"block"} and more`, want: `{}`, err: "is not a valid JSON object"},
		"text before it":      {event: "pre_tool_use", stdout: "welcome\n{\"decision\":\"block\"}", want: `{}`, err: "greeting"},
		"a brace in a text":   {event: "pre_tool_use", stdout: "func f()\n{\n}\nend", want: `{}`},
		"byte order mark":     {event: "pre_tool_use", stdout: "\ufeff\n {\"decision\":\"block\"}\n", want: `{"decision":"block"}`},
		"not UTF-8":           {event: "pre_tool_use", stderr: "bad \xff byte", exit: 2, want: `{"decision":"block","reason":"bad ` + "\ufffd" + ` byte"}`},
		"feedback":            {event: "post_tool_use", stderr: "lint", exit: 2, want: `{"decision":"block","reason":"lint"}`},
		"stop":                {event: "stop", want: `{}`},
		"stop, exit 1":        {event: "stop", stderr: "green", exit: 1, want: `{"halt":"green"}`},
		"stop, exit 2":        {event: "stop", stdout: `{"decision":"block","reason":"json"}`, stderr: "text", exit: 2, want: `{"halt":"json"}`},
		"stop, silent":        {event: "stop", exit: 9, want: `{"halt":"stopped by a hook"}`},
		"stop, a word":        {event: "stop", stdout: `{"decision":"block"}`, want: `{}`},
		"stop, signal":        {event: "stop", exit: -1, want: `{}`, err: "signal"},
		"stop, not found":     {event: "stop", stderr: "sh: x: not found", exit: 127, want: `{"halt":"sh: x: not found"}`, err: "was not found"},
		"sampled":             {event: "post_sampling", stdout: `{"decision":"block"}`, want: `{}`},
		"sampled, exit 2":     {event: "post_sampling", exit: 2, want: `{}`, err: "exit code 2"},
		"summary":             {event: "post_compact", stdout: " the port is 8080\n", want: `{"set":{"summary":"[hook: post_compact]\nthe port is 8080"}}`},
		"no summary":          {event: "post_compact", stdout: " \n", want: `{}`},
		"failed summary":      {event: "post_compact", stdout: "half", exit: 1, want: `{}`, err: "exit code 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := dialect.Output{Exit: tt.exit, Stdout: []byte(tt.stdout), Stderr: []byte(tt.stderr)}
			checkRead(t, dialect.Flyto(), flytoEvent(t, tt.event), out, tt.want, tt.err)
		})
	}
}

func checkRead(t *testing.T, d *dialect.Dialect, ev *grapnel.Event, out dialect.Output, want, wantErr string) {
	t.Helper()
	got, err := d.ReadOutcome(ev, out)
	if (err != nil) != (wantErr != "") || err != nil && !strings.Contains(err.Error(), wantErr) {
		t.Errorf("%s: ReadOutcome(%s, %q %q exit %d): error %v, want %q", d.Name, ev.Kind, out.Stdout, out.Stderr, out.Exit, err, wantErr)
	}
	raw, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(canonical(t, want), canonical(t, string(raw))); diff != "" {
		t.Errorf("%s: ReadOutcome(%s, %q %q exit %d) (-want +got):\n%s", d.Name, ev.Kind, out.Stdout, out.Stderr, out.Exit, diff)
	}
}

// Each event has exactly the variables that Flyto sets for it and for all events.
func TestFlytoEnv(t *testing.T) {
	t.Parallel()
	const args = `{"tool_name":"Bash","input":{"command": "ls <dir>", "n": 9007199254740993},"output":"a\nb","is_error":false,
		"session_id":"s","reason":"wants to run","model":"m-1","turn":3,"message_count":12,"input_tokens":100,"output_tokens":20,
		"stop_reason":"tool_use","response":"short","message":"done","level":"info","task_id":"7","description":"write docs",
		"project_root":"/p","cwd":"/p/sub"}`
	base := []string{"PROJECT_ROOT=/p", "PLATFORM=" + runtime.GOOS, "ARCH=" + runtime.GOARCH, "CWD=/p/sub"}
	tool := []string{"TOOL_NAME=Bash", `TOOL_INPUT={"command":"ls <dir>","n":9007199254740993}`}
	done := slices.Concat(tool, []string{"TOOL_OUTPUT=a\nb", "TOOL_IS_ERROR=false"})
	task := []string{"TASK_ID=7", "TASK_DESCRIPTION=write docs"}
	permission := []string{"TOOL_NAME=Bash", "PERMISSION_REASON=wants to run"}
	for hookType, want := range map[string][]string{
		"pre_tool_use": tool, "post_tool_use": done, "post_tool_use_failure": done,
		"session_start": {"SESSION_ID=s"}, "session_end": {"SESSION_ID=s"},
		"permission_request": permission, "permission_denied": permission,
		"pre_sampling":  {"MODEL=m-1", "TURN=3", "MESSAGE_COUNT=12"},
		"post_sampling": {"MODEL=m-1", "TURN=3", "INPUT_TOKENS=100", "OUTPUT_TOKENS=20", "STOP_REASON=tool_use", "RESPONSE_PREVIEW=short"},
		"task_created":  task, "task_completed": task,
		"notification": {"NOTIFICATION_MESSAGE=done", "NOTIFICATION_LEVEL=info"},
		"stop":         nil, "post_compact": nil, "config_change": nil,
	} {
		want = slices.Concat([]string{"HOOK_TYPE=" + hookType}, base, want)
		if diff := cmp.Diff(want, dialect.FlytoEnv(hookType, rawMembers(t, args))); diff != "" {
			t.Errorf("FlytoEnv(%s) (-want +got):\n%s", hookType, diff)
		}
	}
	empty := []string{"HOOK_TYPE=pre_tool_use", "PROJECT_ROOT=", base[1], base[2], "CWD=", "TOOL_NAME=", "TOOL_INPUT="}
	if diff := cmp.Diff(empty, dialect.FlytoEnv("pre_tool_use", nil)); diff != "" {
		t.Errorf("FlytoEnv of nothing (-want +got):\n%s", diff)
	}
	if got := dialect.FlytoEnv("stop", rawMembers(t, `{"plugin_dir":"/plugins/p"}`)); !slices.Contains(got, "FLYTO_PLUGIN_ROOT=/plugins/p") {
		t.Errorf("FlytoEnv of a plugin = %q", got)
	}
}

func rawMembers(t *testing.T, object string) map[string]json.RawMessage {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		t.Fatal(err)
	}
	return members
}

// The preview of an answer is cut between characters.
func TestFlytoPreview(t *testing.T) {
	t.Parallel()
	for response, want := range map[string]string{
		strings.Repeat("a", 500): strings.Repeat("a", 500),
		strings.Repeat("a", 501): strings.Repeat("a", 500),
		strings.Repeat("你", 200): strings.Repeat("你", 166),
	} {
		quoted, err := json.Marshal(response)
		if err != nil {
			t.Fatal(err)
		}
		env := dialect.FlytoEnv("post_sampling", map[string]json.RawMessage{"response": quoted})
		if got := env[len(env)-1]; got != "RESPONSE_PREVIEW="+want {
			t.Errorf("the preview of %d bytes has %d, want %d", len(response), len(got)-len("RESPONSE_PREVIEW="), len(want))
		}
	}
}

// Members that only a Flyto agent sends reach its hooks. The fields of the event take
// precedence over them.
func TestFlytoAgentsOwnArguments(t *testing.T) {
	t.Parallel()
	ev := flytoEvent(t, "pre_sampling")
	ev.Session.Model, ev.Session.Turn = "m-2", "4"
	ev.Native = json.RawMessage(`{"model":"m-1","turn":1,"message_count":12}`)
	got := dialect.Flyto().HookEnv(ev)
	if want := []string{"MODEL=m-2", "TURN=4", "MESSAGE_COUNT=12"}; !slices.Equal(got[len(got)-3:], want) {
		t.Errorf("HookEnv(%s) = %q, want %q at the end", ev.Native, got, want)
	}
	ev.Agent.Name, ev.Session.Turn = "claude-code", "8b47" // another agent's payload, and an identifier
	got = dialect.Flyto().HookEnv(ev)
	if want := []string{"MODEL=m-2", "TURN=", "MESSAGE_COUNT="}; !slices.Equal(got[len(got)-3:], want) {
		t.Errorf("HookEnv = %q, want %q at the end", got, want)
	}
}

// FL-45: the variables of post_sampling are set for the response format of each model API.
//
// Proves: FL-45
func TestFlytoModelFormats(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		response string
		want     string // INPUT_TOKENS OUTPUT_TOKENS STOP_REASON RESPONSE_PREVIEW
	}{
		"anthropic":         {`{"type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"hi"},{"type":"tool_use","id":"1","name":"x","input":{"text":"no"}}],"stop_reason":"tool_use","usage":{"input_tokens":7,"output_tokens":8}}`, "7 8 tool_use hi"},
		"chat":              {`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":8,"total_tokens":15}}`, "7 8 stop hi"},
		"chat, parts":       {`{"choices":[{"message":{"content":[{"type":"text","text":"hi"}]},"finish_reason":"length"}],"usage":{"prompt_tokens":7,"completion_tokens":8}}`, "7 8 length hi"},
		"chat, only calls":  {`{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1"}]},"finish_reason":"tool_calls"}],"usage":null}`, "  tool_calls "},
		"chat, refusal":     {`{"choices":[{"message":{"content":null,"refusal":"sorry"},"finish_reason":"stop"}]}`, "  stop sorry"},
		"responses":         {`{"object":"response","status":"completed","incomplete_details":null,"error":null,"text":{"format":{"type":"text"}},"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"content":[{"type":"reasoning_text","text":"hm"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"h"},{"type":"output_text","text":"i"}]},{"type":"function_call","name":"x"}],"usage":{"input_tokens":7,"output_tokens":8}}`, "7 8 completed hi"},
		"responses, cut":    {`{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}],"usage":{"input_tokens":7,"output_tokens":8}}`, "7 8 max_output_tokens no"},
		"gemini":            {`{"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"h"},{"text":"i"},{"functionCall":{"name":"x"}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":8}}`, "7 8 STOP hi"},
		"gemini, of hooks":  {`{"text":"hi","candidates":[{"content":{"role":"model","parts":["hi"]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7}}`, "7  STOP hi"},
		"host":              {`{"content":"hi","tool_calls":[],"finish_reason":"end_turn","usage":{"prompt_tokens":11,"completion_tokens":22}}`, "11 22 end_turn hi"},
		"host, only calls":  {`{"content":null,"tool_calls":[{"id":"1","name":"x","args":{}}],"finish_reason":"tool_use"}`, "  tool_use "},
		"empty lists":       {`{"choices":[],"candidates":[],"output":[]}`, "   "},
		"unexpected values": {`{"choices":[1],"candidates":{"a":1},"output":"hi","usage":[],"usageMetadata":1}`, "   hi"},
		"text":              {`"hi"`, "   hi"},
		"nothing":           {``, "   "},
	} {
		ev := flytoEvent(t, "post_sampling")
		ev.Agent.Name = "mine"
		ev.Model = &grapnel.Model{Response: json.RawMessage(tt.response)}
		got := map[string]string{}
		for _, v := range dialect.Flyto().HookEnv(ev) {
			key, value, _ := strings.Cut(v, "=")
			got[key] = value
		}
		if vars := strings.Join([]string{got["INPUT_TOKENS"], got["OUTPUT_TOKENS"], got["STOP_REASON"], got["RESPONSE_PREVIEW"]}, " "); vars != tt.want {
			t.Errorf("%s: %q, want %q", name, vars, tt.want)
		}
	}
	for name, request := range map[string]string{
		"messages": `{"messages":[{},{},{}]}`, "contents": `{"contents":[{},{},{}]}`, "input": `{"input":[{},{},{}],"instructions":"x"}`,
	} {
		ev := flytoEvent(t, "pre_sampling")
		ev.Model = &grapnel.Model{Request: json.RawMessage(request)}
		if env := dialect.Flyto().HookEnv(ev); !slices.Contains(env, "MESSAGE_COUNT=3") {
			t.Errorf("%s: %q, want 3 messages", name, env)
		}
	}
}

// Flyto's hooks get no events outside its table. Standard input has the event from which the
// variables are made.
func TestFlytoWriteEvent(t *testing.T) {
	t.Parallel()
	for _, c := range grapnel.Contracts() {
		ev := &grapnel.Event{Kind: c.Kind, Agent: grapnel.Agent{Name: "flyto"}, Tool: &grapnel.Tool{Name: "Bash", Input: json.RawMessage(`{}`)}}
		known := slices.ContainsFunc(dialect.Flyto().Events, func(r dialect.EventRow) bool { return r.Kind == c.Kind })
		line, err := dialect.Flyto().WriteEvent(ev)
		if known != (err == nil) || err != nil && !errors.Is(err, dialect.ErrNoSuchEvent) {
			t.Errorf("WriteEvent(%s) = %s, %v; in the table: %v", c.Kind, line, err, known)
		}
		if !known {
			if env := dialect.Flyto().HookEnv(ev); env != nil {
				t.Errorf("HookEnv(%s) = %q, want none", c.Kind, env)
			}
			continue
		}
		again, err := dialect.Plain().Read(dialect.Input{Payload: line})
		if err != nil || again.Kind != c.Kind || again.Tool.Name != "Bash" {
			t.Errorf("WriteEvent(%s) = %s, which is read as %+v, %v", c.Kind, line, again, err)
		}
	}
	ev := toolEvent(t, dialect.ClaudeCode(), `MultiEdit {"file_path":"a","edits":[]}`)
	if env := strings.Join(dialect.Flyto().HookEnv(ev), "\n"); !strings.Contains(env, "TOOL_NAME=MultiEdit\n"+`TOOL_INPUT={"file_path":"a","edits":[]}`) {
		t.Errorf("HookEnv = %s", env)
	}
}

// Both dialects are for hooks only, and their tables name each event once.
func TestHookOnly(t *testing.T) {
	t.Parallel()
	for _, d := range dialect.HookOnly() {
		if d.ReadEvent != nil || d.WriteVerdict != nil || d.Speaks != nil || d.WriteEvent == nil || d.ReadOutcome == nil {
			t.Errorf("%s is no language of hooks only: %+v", d.Name, d)
		}
		for i, row := range d.Events {
			if !row.Kind.Known() || slices.ContainsFunc(d.Events[:i], func(r dialect.EventRow) bool { return r.Native == row.Native || r.Kind == row.Kind }) {
				t.Errorf("%s: %s stands there twice, or has no event", d.Name, row.Native)
			}
			if !slices.Contains(dialect.Kinds(row.Native), row.Kind) {
				t.Errorf("Kinds(%s) = %v, want %s among them", row.Native, dialect.Kinds(row.Native), row.Kind)
			}
		}
	}
}

func TestFlytoResults(t *testing.T) {
	t.Parallel()
	result := func(exit int, stdout string, err error) dialect.FlytoResult {
		return dialect.NewFlytoResult(dialect.Output{Exit: exit, Stdout: []byte(stdout)}, err)
	}
	late := errors.New("timeout")
	for name, tt := range map[string]struct {
		results dialect.FlytoResults
		success []bool
		first   int
		summary string
		found   string // the first decision
	}{
		"none":         {first: -1},
		"a block":      {results: dialect.FlytoResults{result(0, "", nil), result(3, "", nil), result(2, "", nil)}, success: []bool{true, false, false}, first: 1},
		"a timeout":    {results: dialect.FlytoResults{result(0, "", nil), result(0, "half", late)}, success: []bool{true, false}, first: 1},
		"JSON":         {results: dialect.FlytoResults{result(0, `{"x":1}`, nil), result(1, `{"decision":"a"}`, nil), result(0, `{"decision":"b"}`, nil)}, success: []bool{true, false, true}, first: 1, found: `"a"`, summary: "[hook: post_compact]\n{\"x\":1}\n[hook: post_compact]\n{\"decision\":\"b\"}"},
		"null is one":  {results: dialect.FlytoResults{result(0, `{"decision":null}`, nil)}, success: []bool{true}, first: -1, found: "null", summary: "[hook: post_compact]\n{\"decision\":null}"},
		"no object":    {results: dialect.FlytoResults{result(0, `["decision"]`, nil), result(0, "{\"decision\":1} x", nil)}, success: []bool{true, true}, first: -1, summary: "[hook: post_compact]\n[\"decision\"]\n[hook: post_compact]\n{\"decision\":1} x"},
		"text, marked": {results: dialect.FlytoResults{result(0, "\nport 8080 \n", nil), result(0, " ", nil)}, success: []bool{true, true}, first: -1, summary: "[hook: post_compact]\nport 8080"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rs := tt.results
			for i, want := range tt.success {
				if got := rs[i].Success(); got != want {
					t.Errorf("Success of %d = %v, want %v", i, got, want)
				}
			}
			if got := rs.FirstError(); got != tt.first || rs.HasErrors() != (tt.first >= 0) {
				t.Errorf("FirstError() = %d, HasErrors() = %v, want %d", got, rs.HasErrors(), tt.first)
			}
			if got := rs.Summary(); got != tt.summary {
				t.Errorf("Summary() = %q, want %q", got, tt.summary)
			}
			if got, ok := rs.FindJSON("decision"); string(got) != tt.found || ok != (tt.found != "") {
				t.Errorf("FindJSON(decision) = %s, %v, want %q", got, ok, tt.found)
			}
		})
	}
}

func TestMiniclawOutcome(t *testing.T) {
	t.Parallel()
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "bash"}}
	for _, tt := range []struct {
		exit           int
		stdout, stderr string
		want           string
	}{
		{0, `{"decision":"block"}`, "noise", `{}`},
		{1, "", "bad format\n", `{"decision":"block","reason":"hook failed: bad format"}`},
		{2, `{"decision":"allow"}`, "", `{"decision":"block","reason":"hook failed: "}`},
		{127, "", "sh: x: not found", `{"decision":"block","reason":"hook failed: sh: x: not found"}`},
		{-1, "", "\xff", `{"decision":"block","reason":"hook failed: ` + "\ufffd" + `"}`},
	} {
		checkRead(t, dialect.Miniclaw(), ev, dialect.Output{Exit: tt.exit, Stdout: []byte(tt.stdout), Stderr: []byte(tt.stderr)}, tt.want, "")
	}
}

// A shell hook of mini-claw gets no input and runs for tool calls only.
func TestMiniclawWriteEvent(t *testing.T) {
	t.Parallel()
	for _, c := range grapnel.Contracts() {
		line, err := dialect.Miniclaw().WriteEvent(&grapnel.Event{Kind: c.Kind})
		runs := c.Kind == grapnel.ToolBefore || c.Kind == grapnel.ToolAfter || c.Kind == grapnel.ToolFailed
		if runs != (err == nil) || len(line) > 0 || err != nil && !errors.Is(err, dialect.ErrNoSuchEvent) {
			t.Errorf("WriteEvent(%s) = %q, %v; want it to run: %v", c.Kind, line, err, runs)
		}
	}
}

// Any output of a program is an answer or an error. Exit code 2 blocks any event that can be
// blocked (after stop it ends the turn), and an Allow requires the explicit word.
func FuzzHookOnlyOutcome(f *testing.F) {
	for i := range dialect.Flyto().Events {
		for _, out := range []string{``, `text`, "hi\n{}", `{"decision":"block","reason":"r"}`, `{"decision":"allow"}`, `{"decision":1,"reason":[]}`, `[{}]`, `{`} {
			f.Add(uint8(i), 0, []byte(out), []byte("err"))
			f.Add(uint8(i), 2, []byte(out), []byte(nil))
		}
	}
	f.Fuzz(func(t *testing.T, event uint8, exit int, stdout, stderr []byte) {
		row := &dialect.Flyto().Events[int(event)%len(dialect.Flyto().Events)]
		ev := flytoEvent(t, row.Native)
		output := dialect.Output{Exit: exit, Stdout: stdout, Stderr: stderr}
		for _, d := range dialect.HookOnly() {
			out, err := d.ReadOutcome(ev, output)
			blockable := row.Native != "post_sampling" && row.Native != "post_compact"
			if exit == 2 && blockable && out.Decision != grapnel.Block && out.Halt == "" {
				t.Errorf("%s: exit code 2 after %s is %+v, %v", d.Name, row.Native, out, err)
			}
			if exit != 0 && err == nil && out.Decision != grapnel.Block && out.Halt == "" {
				t.Errorf("%s: exit code %d after %s is nothing at all", d.Name, exit, row.Native)
			}
			hasString := strings.Contains(string(stdout), `"`)
			if out.Decision == grapnel.Allow && (!hasString || exit != 0 || d.Name != dialect.Flyto().Name || row.Native != "permission_request") {
				t.Errorf("%s: %q exit %d after %s is an allow", d.Name, stdout, exit, row.Native)
			}
			if !utf8.ValidString(out.Reason + out.Halt) {
				t.Errorf("%s: the reason of %q %q is %q", d.Name, stdout, stderr, out.Reason+out.Halt)
			}
			v := engineOf(t, out).Fire(t.Context(), ev)
			if out.Decision == grapnel.Block && ev.Contract().Blocks != grapnel.BlockingNothing && v.Decision != grapnel.Block {
				t.Errorf("%s: a block of %s became %v", d.Name, ev.Kind, v.Decision)
			}
		}
	})
}
