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

// Answers of programs in the dialect of Claude Code, for its own events.
func TestClaudeOutcome(t *testing.T) {
	t.Parallel()
	specific := func(event, members string) string {
		return `{"hookSpecificOutput":{"hookEventName":"` + event + `",` + members + `}}`
	}
	for name, tt := range map[string]struct {
		event, stdout, stderr string
		exit                  int
		want                  string // the Outcome as JSON
		err                   string
	}{
		"nothing":               {event: "PreToolUse", want: `{}`},
		"silent exit 2":         {event: "PreToolUse", exit: 2, want: `{"decision":"block"}`},
		"exit 2 beats allow":    {event: "PreToolUse", stdout: specific("PreToolUse", `"permissionDecision":"allow"`), stderr: "no\n", exit: 2, want: `{"decision":"block","reason":"no"}`},
		"exit 2, JSON reason":   {event: "PreToolUse", stdout: `{"decision":"block","reason":"json"}`, stderr: "text", exit: 2, want: `{"decision":"block","reason":"json"}`},
		"exit 2, void JSON":     {event: "PreToolUse", stdout: `{"decision":"deny"}`, exit: 2, want: `{"decision":"block"}`, err: "decision is"},
		"exit 2 on permission":  {event: "PermissionRequest", exit: 2, want: `{"decision":"block"}`},
		"exit 2 on stop":        {event: "Stop", stderr: "go on", exit: 2, want: `{"decision":"block","reason":"go on"}`},
		"exit 2 on a notice":    {event: "SessionEnd", stderr: "sorry", exit: 2, want: `{}`, err: "exit code 2: sorry"},
		"exit 1":                {event: "PreToolUse", stdout: "some text", stderr: "oops", exit: 1, want: `{}`, err: "exit code 1: oops"},
		"signal":                {event: "PreToolUse", exit: -1, want: `{}`, err: "killed by a signal"},
		"exit 1 with JSON":      {event: "PreToolUse", stdout: `{"decision":"block"}`, exit: 1, want: `{"decision":"block"}`, err: "exit code 1"},
		"text":                  {event: "PreToolUse", stdout: "all good", want: `{}`},
		"text as context":       {event: "SessionStart", stdout: " hello \n", want: `{"context":["hello"]}`},
		"an array is text":      {event: "UserPromptSubmit", stdout: `["a"]`, want: `{"context":["[\"a\"]"]}`},
		"broken JSON":           {event: "PreToolUse", stdout: `{"decision":"block"`, want: `{}`, err: "is not a valid JSON object"},
		"two objects":           {event: "PreToolUse", stdout: "{}\n{}", want: `{}`, err: "is not a valid JSON object"},
		"byte order mark":       {event: "PreToolUse", stdout: "\ufeff" + `{"decision":"block"}`, want: `{"decision":"block"}`},
		"unknown members":       {event: "PreToolUse", stdout: `{"later":{},"systemMessage":"m"}`, want: `{"message":"m"}`},
		"wrong type":            {event: "PreToolUse", stdout: `{"decision":"block","continue":"no"}`, want: `{}`, err: "continue is a string and must be a boolean"},
		"wrong type inside":     {event: "PreToolUse", stdout: specific("PreToolUse", `"permissionDecision":"deny","updatedInput":"x"`), want: `{}`, err: "hookSpecificOutput.updatedInput is a string"},
		"wrong word":            {event: "PreToolUse", stdout: specific("PreToolUse", `"permissionDecision":"block"`), want: `{}`, err: "must be allow or deny"},
		"no event name":         {event: "PreToolUse", stdout: `{"hookSpecificOutput":{"permissionDecision":"deny"}}`, want: `{}`, err: `hookEventName is ""`},
		"other case":            {event: "PreToolUse", stdout: `{"Decision":"block"}`, want: `{}`},
		"approve":               {event: "PreToolUse", stdout: `{"decision":"approve","reason":"ok"}`, want: `{"decision":"allow","reason":"ok"}`},
		"approve elsewhere":     {event: "UserPromptSubmit", stdout: `{"decision":"approve"}`, want: `{}`},
		"both, stricter":        {event: "PreToolUse", stdout: `{"decision":"block","reason":"a","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"b"}}`, want: `{"decision":"block","reason":"a"}`},
		"ask":                   {event: "PreToolUse", stdout: specific("PreToolUse", `"permissionDecision":"ask"`), want: `{"decision":"ask"}`},
		"halt":                  {event: "PostToolUse", stdout: `{"continue":false,"stopReason":"enough"}`, want: `{"halt":"enough"}`},
		"halt without reason":   {event: "PostToolUse", stdout: `{"continue":false}`, want: `{"halt":"stopped by a hook"}`},
		"continue":              {event: "PostToolUse", stdout: `{"continue":true,"stopReason":"x"}`, want: `{}`},
		"stop":                  {event: "Stop", stdout: `{"decision":"block","reason":"more"}`, want: `{"decision":"block","reason":"more"}`},
		"context goes on":       {event: "Stop", stdout: specific("Stop", `"additionalContext":"more"`), want: `{"decision":"block","reason":"more"}`},
		"context":               {event: "PostToolUse", stdout: specific("PostToolUse", `"additionalContext":"more"`), want: `{"context":["more"]}`},
		"input":                 {event: "PreToolUse", stdout: specific("PreToolUse", `"updatedInput":{"command":"true"}`), want: `{"set":{"tool.input":{"command":"true"}}}`},
		"denied and changed":    {event: "PreToolUse", stdout: specific("PreToolUse", `"permissionDecision":"deny","updatedInput":{"command":"true"}`), want: `{"decision":"block"}`},
		"output":                {event: "PostToolUse", stdout: specific("PostToolUse", `"updatedToolOutput":{"stdout":"***"}`), want: `{"set":{"tool.output":{"stdout":"***"}}}`},
		"permit":                {event: "PermissionRequest", stdout: specific("PermissionRequest", `"decision":{"behavior":"allow","updatedInput":{"command":"true"},"updatedPermissions":[]}`), want: `{"decision":"allow","set":{"tool.input":{"command":"true"}},"native":{"claude-code.updatedPermissions":[]}}`},
		"forbid":                {event: "PermissionRequest", stdout: specific("PermissionRequest", `"decision":{"behavior":"deny","message":"no"}`), want: `{"decision":"block","reason":"no"}`},
		"no behavior":           {event: "PermissionRequest", stdout: specific("PermissionRequest", `"decision":{"message":"no"}`), want: `{}`, err: "no behavior"},
		"accept":                {event: "Elicitation", stdout: specific("Elicitation", `"action":"accept","content":{"name":"Bob"}`), want: `{"set":{"answer":{"action":"accept","content":{"name":"Bob"}}}}`},
		"shown":                 {event: "MessageDisplay", stdout: specific("MessageDisplay", `"displayContent":"***"`), want: `{"set":{"response":"***"}}`},
		"native":                {event: "SessionStart", stdout: specific("SessionStart", `"sessionTitle":"t","watchPaths":["a"]`), want: `{"native":{"claude-code.sessionTitle":"t","claude-code.watchPaths":["a"]}}`},
		"worktree":              {event: "WorktreeCreate", stdout: "making\n/tmp/w\n\n", want: `{"native":{"claude-code.worktreePath":"/tmp/w"}}`},
		"worktree fails":        {event: "WorktreeCreate", stderr: "no room", exit: 1, want: `{"decision":"block","reason":"no room"}`},
		"task is not completed": {event: "TaskCompleted", stderr: "tests fail", exit: 2, want: `{"decision":"block","reason":"tests fail"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkOutcome(t, dialect.ClaudeCode(), tt.event, dialect.Output{Exit: tt.exit, Stdout: []byte(tt.stdout), Stderr: []byte(tt.stderr)}, tt.want, tt.err)
		})
	}
}

// The same for Gemini CLI. The name begins with "law" if Grapnel is stricter.
func TestGeminiOutcome(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		event, stdout, stderr string
		exit                  int
		want                  string
		err                   string
	}{
		"nothing":               {event: "BeforeTool", want: `{}`},
		"deny":                  {event: "BeforeTool", stdout: `{"decision":"deny","reason":"no"}`, want: `{"decision":"block","reason":"no"}`},
		"deny on stderr":        {event: "BeforeTool", stderr: `{"decision":"block"}`, want: `{"decision":"block"}`},
		"stderr beside stdout":  {event: "BeforeTool", stdout: `{}`, stderr: `{"decision":"block"}`, want: `{}`},
		"twice encoded":         {event: "BeforeTool", stdout: `"{\"decision\":\"deny\"}"`, want: `{"decision":"block"}`},
		"text":                  {event: "BeforeTool", stdout: "hello\n", want: `{"message":"hello"}`},
		"text before JSON":      {event: "BeforeTool", stdout: `log {"decision":"deny"}`, want: `{"message":"log {\"decision\":\"deny\"}"}`, err: "other text or colors"},
		"exit 1":                {event: "BeforeTool", stderr: "oops", exit: 1, want: `{"message":"Warning: oops"}`, err: "exit code 1"},
		"exit 1 with JSON":      {event: "BeforeTool", stdout: `{"decision":"deny"}`, exit: 1, want: `{"decision":"block"}`},
		"exit 2":                {event: "BeforeTool", stdout: "out", stderr: "err", exit: 2, want: `{"decision":"block","reason":"out"}`},
		"law: silent exit 2":    {event: "BeforeTool", exit: 2, want: `{"decision":"block"}`},
		"law: exit 2 and allow": {event: "BeforeTool", stdout: `{"decision":"allow"}`, exit: 2, want: `{"decision":"block"}`},
		"law: exit 2 and 42":    {event: "BeforeTool", stdout: `42`, exit: 2, want: `{"decision":"block"}`},
		"exit 7":                {event: "BeforeTool", stderr: "err", exit: 7, want: `{"decision":"block","reason":"err"}`},
		"law: silent exit 7":    {event: "BeforeTool", exit: 7, want: `{}`, err: "exit code 7"},
		"exit 7 on a notice":    {event: "SessionEnd", stderr: "err", exit: 7, want: `{}`, err: "exit code 7: err"},
		"exit 2 on a notice":    {event: "SessionEnd", stderr: "err", exit: 2, want: `{}`, err: "exit code 2: err"},
		"signal":                {event: "BeforeTool", stdout: "so far", exit: -1, want: `{"message":"so far"}`, err: "killed by a signal"},
		"a number":              {event: "BeforeTool", stdout: `42`, want: `{}`},
		"an array":              {event: "BeforeTool", stdout: `[]`, want: `{}`},
		"text in quotes":        {event: "BeforeTool", stdout: `"hello"`, want: `{"message":"\"hello\""}`},
		"twice encoded text":    {event: "BeforeTool", stdout: `"\"hello\""`, want: `{}`},
		"exit 7 and allow":      {event: "BeforeTool", stdout: `{"systemMessage":"m"}`, exit: 7, want: `{"message":"m"}`, err: "exit code 7"},
		"exit 7 and deny":       {event: "BeforeTool", stdout: `{"decision":"deny"}`, exit: 7, want: `{"decision":"block"}`},
		"exit 2 and input":      {event: "BeforeTool", stdout: `{"hookSpecificOutput":{"tool_input":{}}}`, exit: 2, want: `{"decision":"block"}`},
		"exit 2 and response":   {event: "BeforeModel", stdout: `{"decision":"deny","hookSpecificOutput":{"llm_response":{"text":"x"}}}`, exit: 2, want: `{"set":{"response":{"text":"x"}}}`},
		"allow":                 {event: "BeforeTool", stdout: `{"decision":"allow","reason":"fine"}`, want: `{"reason":"fine"}`},
		"ask":                   {event: "BeforeTool", stdout: `{"decision":"ask","systemMessage":"sure?"}`, want: `{"decision":"ask","message":"sure?"}`},
		"law: unknown word":     {event: "BeforeTool", stdout: `{"decision":"Deny"}`, want: `{}`, err: "is not allow, deny, block or ask"},
		"stop":                  {event: "AfterTool", stdout: `{"continue":false,"reason":"r"}`, want: `{"reason":"r","halt":"r"}`},
		"stop with its reason":  {event: "AfterTool", stdout: `{"continue":false,"stopReason":"s","reason":"r"}`, want: `{"reason":"r","halt":"s"}`},
		"reason of a going on":  {event: "AfterTool", stdout: `{"stopReason":"s"}`, want: `{}`},
		"suppress":              {event: "AfterTool", stdout: `{"suppressOutput":true}`, want: `{"native":{"gemini-cli.suppressOutput":true}}`},
		"input":                 {event: "BeforeTool", stdout: `{"hookSpecificOutput":{"hookEventName":"whatever","tool_input":{"command":"true"}}}`, want: `{"set":{"tool.input":{"command":"true"}}}`},
		"input of wrong type":   {event: "BeforeTool", stdout: `{"hookSpecificOutput":{"tool_input":"x"}}`, want: `{}`, err: "tool_input is a string"},
		"specific is no object": {event: "BeforeTool", stdout: `{"decision":"deny","hookSpecificOutput":[]}`, want: `{"decision":"block"}`, err: "not an object"},
		"context":               {event: "BeforeAgent", stdout: `{"hookSpecificOutput":{"additionalContext":"c"}}`, want: `{"context":["c"]}`},
		"context not heeded":    {event: "BeforeTool", stdout: `{"hookSpecificOutput":{"additionalContext":"c"}}`, want: `{}`},
		"response without deny": {event: "BeforeModel", stdout: `{"hookSpecificOutput":{"llm_request":{"model":"m"},"llm_response":{}}}`, want: `{"patch":{"request":{"model":"m"}},"native":{"gemini-cli.llm_response":{}}}`, err: "is used only with"},
		"model is blocked":      {event: "BeforeModel", stdout: `{"decision":"deny","reason":"r","hookSpecificOutput":{"llm_request":{}}}`, want: `{"decision":"block","reason":"r"}`},
		"request":               {event: "BeforeModel", stdout: `{"hookSpecificOutput":{"llm_request":{"model":"m","messages":[],"config":{"topK":1,"temperature":0}}}}`, want: `{"patch":{"request":{"model":"m","messages":[],"config":{"topK":1,"temperature":0,"maxOutputTokens":null,"topP":null}}}}`},
		"chunk":                 {event: "AfterModel", stdout: `{"hookSpecificOutput":{"llm_response":{"candidates":[{"content":{"parts":["x"]}}]}}}`, want: `{"set":{"response":{"candidates":[{"content":{"parts":["x"]}}]}}}`},
		"chunk without parts":   {event: "AfterModel", stdout: `{"hookSpecificOutput":{"llm_response":{"text":"x"}}}`, want: `{}`, err: "parts"},
		"no tools":              {event: "BeforeToolSelection", stdout: `{"hookSpecificOutput":{"toolConfig":{"mode":"NONE","allowedFunctionNames":["a"]}}}`, want: `{"set":{"mode":"none","tools":[]}}`},
		"all tools":             {event: "BeforeToolSelection", stdout: `{"hookSpecificOutput":{"toolConfig":{"mode":"AUTO","allowedFunctionNames":[]}}}`, want: `{"set":{"mode":"auto"}}`},
		"mode in lower case":    {event: "BeforeToolSelection", stdout: `{"hookSpecificOutput":{"toolConfig":{"mode":"any","allowedFunctionNames":["a"]}}}`, want: `{"set":{"tools":["a"]}}`, err: "is not AUTO, ANY or NONE"},
		"odd mode":              {event: "BeforeToolSelection", stdout: `{"hookSpecificOutput":{"toolConfig":{"mode":"SOME"}}}`, want: `{}`, err: "is not AUTO, ANY or NONE"},
		"tail call":             {event: "AfterTool", stdout: `{"hookSpecificOutput":{"tailToolCallRequest":{"name":"glob"}}}`, want: `{"set":{"tool.next":{"name":"glob","input":{}}}}`},
		"odd tail call":         {event: "AfterTool", stdout: `{"hookSpecificOutput":{"tailToolCallRequest":{"args":{}}}}`, want: `{}`, err: "{name, args}"},
		"clear":                 {event: "AfterAgent", stdout: `{"decision":"deny","hookSpecificOutput":{"clearContext":true}}`, want: `{"decision":"block","set":{"memory.clear":true}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkOutcome(t, dialect.GeminiCLI(), tt.event, dialect.Output{Exit: tt.exit, Stdout: []byte(tt.stdout), Stderr: []byte(tt.stderr)}, tt.want, tt.err)
		})
	}
}

func checkOutcome(t *testing.T, d *dialect.Dialect, event string, out dialect.Output, want, wantErr string) {
	t.Helper()
	ev, err := d.Read(dialect.Input{Payload: sample(d, event)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.ReadOutcome(ev, out)
	if (err != nil) != (wantErr != "") || err != nil && !strings.Contains(err.Error(), wantErr) {
		t.Errorf("ReadOutcome(%s, %+v): error %v, want %q", event, out, err, wantErr)
	}
	raw, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(canonical(t, want), canonical(t, string(raw))); diff != "" {
		t.Errorf("ReadOutcome(%s, %q %q exit %d) (-want +got):\n%s", event, out.Stdout, out.Stderr, out.Exit, diff)
	}
}

func canonical(t *testing.T, raw string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// Any output of a program is an answer or an error: exit code 2 blocks any event that can be
// blocked, only the explicit word is an Allow, and each change is valid JSON.
func fuzzOutcome(f *testing.F, d *dialect.Dialect) {
	for i := range d.Events {
		for _, out := range []string{
			``, `text`, `{}`, `{"decision":"block","reason":"r"}`, `{"continue":false}`, `"{\"decision\":\"ask\"}"`,
			`{"hookSpecificOutput":{"hookEventName":"` + d.Events[i].Native + `","permissionDecision":"allow","updatedInput":{"command":"x","a":{}},"additionalContext":"c"}}`,
			`{"hookSpecificOutput":{"tool_input":{"file_path":1},"toolConfig":{"mode":"ANY"},"tailToolCallRequest":{"name":"a"},"llm_request":{}}}`,
		} {
			f.Add(uint8(i), false, 0, []byte(out), []byte("err"))
			f.Add(uint8(i), true, 2, []byte(out), []byte(nil))
		}
	}
	f.Fuzz(func(t *testing.T, event uint8, foreign bool, exit int, stdout, stderr []byte) {
		agent := d
		if foreign {
			agent = agents[1-slices.IndexFunc(agents, func(a *dialect.Dialect) bool { return a.Name == d.Name })]
		}
		row := &agent.Events[int(event)%len(agent.Events)]
		ev, err := agent.Read(dialect.Input{Payload: sample(agent, row.Native)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.WriteEvent(ev); err != nil {
			return // the agent has no such event, so no program could answer
		}
		out, err := d.ReadOutcome(ev, dialect.Output{Exit: exit, Stdout: stdout, Stderr: stderr})
		if exit == 2 && ev.Contract().Blocks != grapnel.BlockingNothing && out.Decision != grapnel.Block {
			t.Errorf("exit code 2 is %v, %v", out.Decision, err)
		}
		text := string(stdout) + string(stderr)
		if out.Decision == grapnel.Allow && (d.Name == dialect.GeminiCLI().Name || !strings.Contains(text, `"`)) {
			t.Errorf("%q is an allow", text)
		}
		for _, changes := range []map[grapnel.Field]json.RawMessage{out.Set, out.Patch} {
			for field, value := range changes {
				if !json.Valid(value) {
					t.Errorf("%s is set to %s", field, value)
				}
			}
		}
		if d.Name == dialect.ClaudeCode().Name && exit != 0 && exit != 2 && err == nil && row.Native != "WorktreeCreate" {
			t.Errorf("exit code %d is no error", exit)
		}
		v := engineOf(t, out).Fire(t.Context(), ev)
		agent.Write(ev, &v, "")
	})
}

func FuzzClaudeOutcome(f *testing.F) { fuzzOutcome(f, dialect.ClaudeCode()) }
func FuzzGeminiOutcome(f *testing.F) { fuzzOutcome(f, dialect.GeminiCLI()) }

// A block that cannot be read is no block, so output that contains the start of an answer is a
// failure, in every dialect whose programs answer on stdout. Other text stays text.
func TestHiddenAnswers(t *testing.T) {
	t.Parallel()
	const block = `{"decision":"block","reason":"no"}`
	utf16 := func(text string) (s string) {
		for _, c := range []byte(text) {
			s += string([]byte{c, 0})
		}
		return s
	}
	hidden := map[string]string{
		"text before it":       "Shell ready\n" + block,
		"text before, no line": `ready ` + block,
		"text behind it":       block + "\nbye",
		"two documents":        block + "\n" + block,
		"colors":               "\x1b[1;39m{\n  \x1b[0m\x1b[34;1m\"decision\"\x1b[0m\x1b[1;39m:\x1b[0m \x1b[0;32m\"block\"\x1b[0m\x1b[1;39m\n}\x1b[0m",
		"cut off":              `{"decision":"blo`,
		"text, and cut off":    "ready\n" + `{"reason":"no","decision":"bl`,
		"another member first": "ready\n" + `{"a":{"b":[1]},"decision":"block"}`,
		"nested":               "ready\n" + `{"hookSpecificOutput":{"permissionDecision":"deny"}}`,
		"halt":                 "ready\n" + `{"continue":false}`,
		"Cursor's words":       "ready\n" + `{"permission": "deny"}`,
		"in a list":            `[{"decision":"block"}]`,
		"Python's quotes":      "ready {'decision': 'block'}",
		"quoted in a text":     `ready "{\"decision\":\"block\"}"`,
		"a mark and text":      "\ufeffready\n" + block,
		"UTF-16":               utf16("ready " + block),
	}
	for _, text := range []string{"", "hello", "use {x}", "decision: block", `the "decision" is {good}`, `a {decisiondecision "decision"decision" 'continue`, `{{.Name}} "decision" of`, "{", `a {"b":1}`, `{"b":{}} decision:`} {
		hidden["plain: "+text] = text
	}
	for _, d := range slices.Concat(dialect.All(), dialect.HookOnly()) {
		if d.Name == "miniclaw" {
			continue // it reads only exit codes
		}
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: d.Name}, Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(`{}`)}}
		for name, text := range hidden {
			_, plain := strings.CutPrefix(name, "plain: ")
			out, err := d.ReadOutcome(ev, dialect.Output{Stdout: []byte(text)})
			if out.Decision != grapnel.None {
				t.Errorf("%s: %s: decision %v", d.Name, name, out.Decision)
			}
			if cut := strings.HasPrefix(text, "{"); (err != nil) != !plain && !(plain && cut) {
				t.Errorf("%s: %s: %q: error %v", d.Name, name, text, err)
			}
		}
	}
}
