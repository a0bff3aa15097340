//go:build system && unix

package shim_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install/shim"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// bin is the directory of the real grapnel-hook.
var bin string

func TestMain(m *testing.M) {
	dir, remove, err := programs.Dir(programs.Plain)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = dir
	code := m.Run()
	remove()
	os.Exit(code)
}

const rules = `version: 1
hooks:
  - {name: guard, on: [tool.before, permission.before, message.before], match: {text: rm -rf}, block: Use trash.}
  - {name: ask, on: [tool.before, permission.before], match: {command: git push}, ask: Really?}
  - {name: mask, on: [tool.before, tool.after, prompt.before, message.before, response.before], replace: [{pattern: 'sk-[0-9]+', with: 'sk-***'}]}
  - {name: prompts, on: prompt.before, match: {prompt: forbidden}, block: Not that.}
  - {name: opening, on: session.start, context: opening}
  - {name: house, on: [agent.before, prompt.before, compact.before, tool.after], context: house rules}
`

// A plugin runs the generated code in a real Node.js, with the real grapnel-hook.
type plugin struct {
	t      *testing.T
	root   string
	in     io.Writer
	out    *bufio.Scanner
	stderr bytes.Buffer
	end    func()
}

// run starts an agent's plugin; opencode2 is the plugin of OpenCode as its version 2 calls it. Its grapnel-hook appends its process ID to the file pids. If hook
// is not empty, this shell line replaces grapnel-hook.
func run(t *testing.T, agent string, o shim.Options, hook string) *plugin {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT RUN: there is no node here")
	}
	program := filepath.Join(bin, "grapnel-hook")
	p := &plugin{t: t, root: t.TempDir()}
	driver := agent
	agent = strings.TrimSuffix(agent, "2")
	if err := os.WriteFile(filepath.Join(p.root, "grapnel.yaml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if hook == "" {
		hook = `exec "$0" "$@"`
	}
	o.Command = []string{"/bin/sh", "-c", `echo $$ >>"` + p.root + `/pids"; ` + hook, program, agent, "--root", p.root}
	d, _ := dialect.FindAgent(agent)
	if o.Deadline == 0 {
		o.Deadline = d.Setup().Deadline
	}
	if o.Events == nil {
		for _, row := range d.Events {
			if row.Install {
				o.Events = append(o.Events, row.Native)
			}
		}
	}
	files, ok := shim.Files(agent, o)
	if !ok {
		t.Fatalf("%s has no plugin", agent)
	}
	main := ""
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(p.root, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "js") {
			main = filepath.Join(p.root, name)
		}
	}
	if agent == "opencode" { // without it, node expects an older kind of module
		if err := os.WriteFile(filepath.Join(p.root, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), node, filepath.Join("testdata", "drive.mjs"), driver, main)
	cmd.Stderr = &p.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	p.out.Buffer(nil, 64<<20)
	p.end = sync.OnceFunc(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("node ended with %v: %s", err, &p.stderr)
		}
	})
	t.Cleanup(p.end)
	return p
}

// A heard is the driver's report about a call.
type callReport struct {
	Registered []string
	Opts       struct{ Priority, TimeoutMs float64 }
	Undefined  bool
	Result     any
	Threw      string
	Kept       []any // the references that the agent keeps
	Args       []any
	Toasts     []string
}

func (p *plugin) call(line string) callReport {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
	if !p.out.Scan() {
		p.t.Fatalf("node ended (%v): %s", p.out.Err(), &p.stderr)
	}
	var h callReport
	if err := json.Unmarshal(p.out.Bytes(), &h); err != nil {
		p.t.Fatalf("%s: %v", p.out.Bytes(), err)
	}
	return h
}

// pids returns the process IDs of all children.
func (p *plugin) pids() []int {
	data, _ := os.ReadFile(filepath.Join(p.root, "pids")) // a missing file means no child
	var list []int
	for text := range strings.FieldsSeq(string(data)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			p.t.Fatal(err)
		}
		list = append(list, pid)
	}
	return list
}

func text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

const tool = `{"hook":"before_tool_call","args":[{"toolName":"exec","params":{"command":"%s","timeout":7},"toolCallId":"c"},{"sessionId":"s1"}]}`

// Each hook returns the value with this meaning in OpenClaw.
// wayOut is the last line of a block by the rule guard, in JSON.
const wayOut = `grapnel: rule guard blocked this call; a person can allow it with \"grapnel allow\" in another terminal`

func TestOpenClaw(t *testing.T) {
	t.Parallel()
	p := run(t, "openclaw", shim.Options{}, "")
	for name, tt := range map[string]struct{ line, want string }{
		"nothing":     {fmt.Sprintf(tool, "ls"), ""},
		"block":       {fmt.Sprintf(tool, "rm -rf x"), `{"block":true,"blockReason":"Use trash.\n` + wayOut + `"}`},
		"ask":         {fmt.Sprintf(tool, "git push"), `{"requireApproval":{"description":"Really?","title":"grapnel"}}`},
		"change":      {fmt.Sprintf(tool, "echo sk-1"), `{"params":{"command":"echo sk-***","timeout":7}}`},
		"run":         {`{"hook":"before_agent_run","args":[{"prompt":"hi","messages":[]},{"sessionId":"s1"}]}`, ""},
		"no run":      {`{"hook":"before_agent_run","args":[{"prompt":"forbidden","messages":[]},{"sessionId":"s1"}]}`, `{"message":"Not that.","outcome":"block","reason":"Not that."}`},
		"message":     {`{"hook":"message_sending","args":[{"to":"x","content":"sk-1"},{}]}`, `{"content":"sk-***"}`},
		"no message":  {`{"hook":"message_sending","args":[{"to":"x","content":"rm -rf"},{}]}`, `{"cancel":true,"cancelReason":"Use trash."}`},
		"result":      {`{"hook":"after_tool_call","args":[{"toolName":"exec","params":{},"result":{"content":[]}},{}]}`, ""},
		"prompt":      {`{"hook":"before_prompt_build","args":[{"prompt":"hi","messages":[]},{"sessionId":"other"}]}`, `{"prependContext":"house rules"}`},
		"a lone half": {fmt.Sprintf(tool, `echo \ud800 sk-1`), `{"params":{"command":"echo ` + "\ufffd" + ` sk-***","timeout":7}}`},
	} {
		if got := p.call(tt.line); got.Undefined != (tt.want == "") || got.Threw != "" || !got.Undefined && text(got.Result) != tt.want {
			t.Errorf("%s: %s %s, want %s", name, text(got.Result), got.Threw, tt.want)
		}
	}
	p.call(`{"hook":"session_start","args":[{"sessionId":"s9"},{"sessionId":"s9"}]}`)
	for _, want := range []string{`{"prependContext":"opening\n\nhouse rules"}`, `{"prependContext":"house rules"}`} {
		if got := p.call(`{"hook":"before_prompt_build","args":[{"prompt":"hi","messages":[]},{"sessionId":"s9"}]}`); text(got.Result) != want {
			t.Errorf("a prompt of a new session: %s, want %s", text(got.Result), want)
		}
	}
	// A call through another tool is reported twice and counts once, under its own name.
	for line, want := range map[string]string{
		`{"hook":"before_tool_call","args":[{"toolName":"tool_call","params":{"id":"exec","args":{"command":"rm -rf x"}},"toolCallId":"c"},{}]}`:      "null",
		`{"hook":"before_tool_call","args":[{"toolName":"exec","params":{"command":"rm -rf x"},"toolCallId":"tool_search_code:c:exec:1"},{"a":"b"}]}`: `{"block":true,"blockReason":"Use trash.\n` + wayOut + `"}`,
	} {
		if h := p.call(line); text(h.Result) != want {
			t.Errorf("%s: %s, want %s", line, text(h.Result), want)
		}
	}
	h := p.call(fmt.Sprintf(tool, "ls"))
	if h.Opts.Priority > -1000 || h.Opts.TimeoutMs < 14_000 || h.Opts.TimeoutMs > 15_000 || slices.Contains(h.Registered, "before_message_write") {
		t.Errorf("registered %v with %+v", h.Registered, h.Opts)
	}
	if n := len(p.pids()); n != 1 {
		t.Errorf("%d children, want one", n)
	}
}

// Values that JSON cannot express, and secrets, are left out. A call works in the directory of
// the session.
func TestOpenClawForwards(t *testing.T) {
	t.Parallel()
	p := run(t, "openclaw", shim.Options{}, `tee "$3/seen" | "$0" "$@"`)
	for _, line := range []string{
		`{"hook":"before_tool_call","strange":"ctx","args":[{"toolName":"exec","params":{"command":"rm -rf x","big":1e400}},{"sessionId":"s0"}]}`,
		`{"hook":"before_prompt_build","args":[{"prompt":"hi"},{"sessionId":"s1","sessionKey":"k1","workspaceDir":"/home/dev/project"}]}`,
		`{"hook":"before_tool_call","args":[{"toolName":"exec","params":{"command":"ls"}},{"sessionId":"s1"}]}`,
		`{"hook":"message_sent","args":[{"content":"hi"},{"sessionKey":"k1"}]}`,
	} {
		if h := p.call(line); h.Threw != "" {
			t.Errorf("%s threw %s", line, h.Threw)
		}
	}
	p.end()
	seen, err := os.ReadFile(filepath.Join(p.root, "seen"))
	if err != nil {
		t.Fatal(err)
	}
	if first, _, _ := bytes.Cut(seen, []byte("\n")); !strings.Contains(string(first), `"same":{"a":1}`) || strings.Contains(string(first), "token") {
		t.Errorf("it was told %s", first)
	}
	var where []string
	for entry, err := range spool.Read(filepath.Join(p.root, "state"), spool.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		line := text(entry.Input)
		if strings.Contains(line, "sk-secret") {
			t.Errorf("a secret is forwarded: %s", line)
		}
		var in struct {
			Native struct{ Ctx struct{ WorkspaceDir string } }
		}
		if err := json.Unmarshal([]byte(line), &in); err != nil {
			t.Fatal(err)
		}
		where = append(where, in.Native.Ctx.WorkspaceDir)
	}
	if want := []string{"/configured", "/home/dev/project", "/home/dev/project", "/home/dev/project"}; !slices.Equal(where, want) {
		t.Errorf("work happens in %q, want %q", where, want)
	}
}

// OpenCode keeps its own references: changes are made in place, and a block is thrown as an
// error.
func TestOpenCode(t *testing.T) {
	t.Parallel()
	p := run(t, "opencode", shim.Options{Events: []string{
		"tool.execute.before", "tool.execute.after", "chat.message", "session.created", "experimental.chat.system.transform", "experimental.text.complete",
		"experimental.session.compacting", "message.part.updated",
	}}, "")
	before := func(command string) callReport {
		return p.call(`{"hook":"tool.execute.before","args":[{"tool":"bash","sessionID":"s","callID":"c"},{"args":{"command":"` + command + `","more":{"list":[1,"sk-1"]}}}]}`)
	}
	if h := before("ls"); h.Threw != "" || text(h.Kept[1]) != `{"command":"ls","more":{"list":[1,"sk-***"]}}` {
		t.Errorf("a change deep inside: %s %s", text(h.Kept), h.Threw)
	}
	if h := before("rm -rf x"); h.Threw != "Use trash." {
		t.Errorf("a block: %+v", h)
	}
	if h := before("git push"); !strings.HasSuffix(h.Threw, "The question is: Really?") {
		t.Errorf("a question: %+v", h)
	}
	for name, tt := range map[string]struct{ line, want string }{
		"result":  {`{"hook":"tool.execute.after","args":[{"tool":"bash","sessionID":"s","callID":"c","args":{}},{"title":"t","output":"sk-1","metadata":{}}]}`, `{"metadata":{},"output":"sk-***\n\nhouse rules","title":"t"}`},
		"mcp":     {`{"hook":"tool.execute.after","args":[{"tool":"a_b","sessionID":"s","callID":"d","args":{}},{"content":[{"type":"text","text":"sk-1"}]}]}`, `{"content":[{"text":"sk-***","type":"text"},{"text":"house rules","type":"text"}]}`},
		"system":  {`{"hook":"experimental.chat.system.transform","args":[{"sessionID":"s"},{"system":["You are"]}]}`, `{"system":["You are","house rules"]}`},
		"title":   {`{"hook":"experimental.chat.system.transform","args":[{"sessionID":"s"},{"system":["You are a title generator."]}]}`, `{"system":["You are a title generator."]}`},
		"text":    {`{"hook":"experimental.text.complete","args":[{"sessionID":"s"},{"text":"it is sk-1"}]}`, `{"text":"it is sk-***"}`},
		"compact": {`{"hook":"experimental.session.compacting","args":[{"sessionID":"s"},{"context":[]}]}`, `{"context":["house rules"]}`},
	} {
		if h := p.call(tt.line); h.Threw != "" || text(h.Args[1]) != tt.want {
			t.Errorf("%s: %s %s, want %s", name, text(h.Args), h.Threw, tt.want)
		}
	}
	const prompt = `{"hook":"chat.message","args":[{"sessionID":"s2"},{"message":{"id":"msg_1","sessionID":"s2"},"parts":[{"type":"text","text":"use sk-1","id":"prt_1"},{"type":"file","id":"prt_2"},{"type":"text","text":"%s","id":"prt_3"}]}]}`
	p.call(`{"hook":"event","args":[{"event":{"type":"session.created","properties":{"info":{"id":"s2"}}}}]}`)
	want := `[{"id":"prt_1","text":"use sk-***\nnow","type":"text"},{"id":"prt_2","type":"file"},{"id":"prt_2g","messageID":"msg_1","sessionID":"s2","synthetic":true,"text":"opening\n\nhouse rules","type":"text"}]`
	if h := p.call(fmt.Sprintf(prompt, "now")); h.Threw != "" || text(h.Kept[1]) != want {
		t.Errorf("a prompt: %s %s\nwant %s", text(h.Kept), h.Threw, want)
	}
	if h := p.call(fmt.Sprintf(prompt, "forbidden")); h.Threw != "Not that." || !slices.ContainsFunc(h.Toasts, func(text string) bool { return strings.HasSuffix(text, "Not that.") }) {
		t.Errorf("a prompt that is blocked: %+v", h)
	}
	named := strings.Replace(fmt.Sprintf(prompt, "forbidden"), `"sessionID":"s2"`, `"sessionID":"s2","agent":"title"`, 1)
	if h := p.call(named); h.Threw != "Not that." {
		t.Errorf("a prompt for an agent that is called title: %+v, want a block", h)
	}
	if h := p.call(`{"hook":"tool.execute.before","strange":"frozen","args":[{"tool":"bash","sessionID":"s","callID":"f"},{"args":{"command":"echo sk-1"}}]}`); h.Threw == "" {
		t.Error("a change that cannot be made let the call run as it was")
	}
	// Of the many states of tools, only the failure of a started call is reported.
	part := func(status, call string) {
		p.call(`{"hook":"event","args":[{"event":{"type":"message.part.updated","properties":{"part":{"type":"tool","tool":"read","callID":"` + call + `","sessionID":"s","state":{"status":"` + status + `","input":{},"error":"gone"}}}}}]}`)
	}
	p.call(`{"hook":"tool.execute.before","args":[{"tool":"read","sessionID":"s","callID":"e"},{"args":{}}]}`)
	part("running", "e")
	part("error", "e")
	part("error", "e")
	part("error", "nobody's")
	p.end()
	var failed int
	for entry, err := range spool.Read(filepath.Join(p.root, "state"), spool.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if entry.Event == "tool.failed" {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d Records of failed tools, want one", failed)
	}
}

// In OpenCode 2 a hook changes its event. Only execute.before throws, to block. Its interface is from
// the source of OpenCode; no version 2 was run.
func TestOpenCode2(t *testing.T) {
	t.Parallel()
	p := run(t, "opencode2", shim.Options{Events: []string{
		"tool.execute.before", "tool.execute.after", "chat.message", "session.created", "experimental.chat.system.transform", "experimental.session.compacting",
		"message.part.updated", "permission.evaluate",
	}}, "")
	const call = `{"hook":"tool.execute.before","args":[{"tool":"%s","sessionID":"s","agent":"build","messageID":"m","id":"%s","input":%s}]}`
	for name, tt := range map[string]struct{ line, threw, want string }{
		"nothing":  {fmt.Sprintf(call, "shell", "c", `{"command":"ls"}`), "", `{"input":{"command":"ls"}}`},
		"change":   {fmt.Sprintf(call, "write", "c", `{"path":"a","content":"sk-1"}`), "", `{"input":{"path":"a","content":"sk-***"}}`},
		"patch":    {fmt.Sprintf(call, "patch", "c", `"*** Begin Patch\n*** Add File: a\n+sk-1\n*** End Patch"`), "", `{"input":"*** Begin Patch\n*** Add File: a\n+sk-***\n*** End Patch"}`},
		"block":    {fmt.Sprintf(call, "shell", "no", `{"command":"rm -rf x"}`), "Use trash.", `{}`},
		"question": {fmt.Sprintf(call, "shell", "c", `{"command":"git push"}`), "The question is: Really?", `{}`},
		"code":     {fmt.Sprintf(call, "execute", "c", `{"code":"await tools.shell({command: 'rm -rf x'})"}`), "Use trash.", `{}`},

		"result":      {`{"hook":"tool.execute.after","args":[{"tool":"shell","sessionID":"s","id":"c","input":{},"status":"completed","result":{"output":{"text":"sk-1"},"content":[{"type":"text","text":"sk-1"}],"metadata":{"exit":0}}}]}`, "", `{"result":{"metadata":{"exit":0},"content":[{"text":"sk-***","type":"text"},{"text":"house rules","type":"text"}]}}`},
		"same result": {`{"hook":"tool.execute.after","args":[{"tool":"shell","sessionID":"s","id":"c","input":{},"status":"completed","result":{"output":7,"content":[{"type":"text","text":"ok"}]}}]}`, "", `{"result":{"output":7,"content":[{"text":"ok","type":"text"},{"text":"house rules","type":"text"}]}}`},
		"failure":     {`{"hook":"tool.execute.after","args":[{"tool":"read","sessionID":"s","id":"c","input":{"path":"a"},"status":"error","error":{"message":"gone"}}]}`, "", `{"error":{"message":"gone"}}`},

		"permission":    {`{"hook":"permission.evaluate","args":[{"sessionID":"s","action":"shell","resources":["git push"],"effect":"allow","source":{"type":"tool","messageID":"m","callID":"c"}}]}`, "", `{"effect":"ask","message":"Really?"}`},
		"no permission": {`{"hook":"permission.evaluate","args":[{"sessionID":"s","action":"shell","resources":["cd a","rm -rf x"],"effect":"ask"}]}`, "", `{"effect":"deny","message":"Use trash."}`},
		"as the agent":  {`{"hook":"permission.evaluate","args":[{"sessionID":"s","action":"edit","resources":["a.txt"],"effect":"ask"}]}`, "", `{"effect":"ask"}`},

		"blocked prompt": {`{"hook":"session.prompt","args":[{"sessionID":"s3","messageID":"m","prompt":{"text":"forbidden","files":[{"uri":"file:///a"}]},"delivery":"now"}]}`, "", `{"prompt":{"text":"grapnel blocked a prompt: Not that."}}`},
		"prompt":         {`{"hook":"session.prompt","args":[{"sessionID":"s4","messageID":"m","prompt":{"text":"use sk-1","files":[{"uri":"file:///a"}]},"delivery":"now"}]}`, "", `{"prompt":{"text":"use sk-***","files":[{"uri":"file:///a"}]}}`},
		"title":          {`{"hook":"session.context","args":[{"sessionID":"s","kind":"title","system":[]}]}`, "", `{"system":[]}`},
		"compaction":     {`{"hook":"session.compaction","args":[{"sessionID":"s","kind":"compaction","system":[]}]}`, "", `{"system":[{"type":"text","text":"house rules"}]}`},
	} {
		got := p.call(tt.line)
		if !strings.HasSuffix(got.Threw, tt.threw) || (got.Threw == "") != (tt.threw == "") {
			t.Errorf("%s: threw %q, want %q", name, got.Threw, tt.threw)
		}
		event, _ := got.Result.(map[string]any)
		var want map[string]any
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(name, err)
		}
		for member, value := range want {
			if diff := cmp.Diff(value, event[member]); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", name, member, diff)
			}
		}
	}
	p.call(`{"hook":"tool.execute.after","args":[{"tool":"shell","sessionID":"s","id":"no","input":{},"status":"error","error":{"message":"Use trash."}}]}`)
	// The context of a session's start and of its latest prompt is in each model call.
	p.call(`{"hook":"event","args":[{"type":"session.created","properties":{"info":{"id":"s9"}}}]}`)
	const request = `{"hook":"session.context","args":[{"sessionID":"s9","agent":"build","kind":"primary","system":[{"type":"text","text":"You are"}],"messages":[]}]}`
	const house = `{"text":"house rules","type":"text"}`
	want := `[{"text":"You are","type":"text"},{"text":"opening","type":"text"},` + house + `,` + house + `]`
	p.call(`{"hook":"session.prompt","args":[{"sessionID":"s9","messageID":"m","prompt":{"text":"hi"},"delivery":"now"}]}`)
	for range 2 {
		if event, _ := p.call(request).Result.(map[string]any); text(event["system"]) != want {
			t.Errorf("the system prompt is %s, want %s", text(event["system"]), want)
		}
	}
	if got := p.call(`{"hook":"tool.execute.before","strange":"frozen","args":[{"tool":"shell","sessionID":"s","id":"f","input":{"command":"echo sk-1"}}]}`); got.Threw == "" {
		t.Error("a change that cannot be made let the call run as it was")
	}
	p.end()
	failed := map[string]int{}
	for entry, err := range spool.Read(filepath.Join(p.root, "state"), spool.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if entry.Event == "tool.failed" {
			failed[entry.Tool]++
		}
		if line := text(entry.Input); !strings.Contains(line, `"directory":"/project"`) {
			t.Errorf("the event is not in the session's directory: %s", line)
		}
	}
	if want := map[string]int{"read": 1}; !maps.Equal(failed, want) {
		t.Errorf("Records of failed tools %v, want %v", failed, want)
	}
}

// Many concurrent calls, and calls with much data, use one child.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	p := run(t, "openclaw", shim.Options{}, "")
	if h := p.call(`{"hook":"before_tool_call","times":200,"args":[{"toolName":"exec","params":{"command":"echo sk-1"}},{}]}`); h.Result != 200.0 {
		t.Errorf("%+v", h)
	}
	big := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB
	h := p.call(`{"hook":"before_tool_call","args":[{"toolName":"write","params":{"path":"a","content":"sk-1 ` + big + `"}},{}]}`)
	if got := text(h.Result); !strings.Contains(got, "sk-*** 0123456789") || len(got) < len(big) {
		t.Errorf("%d bytes: %.100s", len(got), got)
	}
	if n := len(p.pids()); n != 1 {
		t.Errorf("%d children, want one", n)
	}
}

// A killed child is replaced. Without a child, a guard is open or closed as configured,
// everything else continues, and the user is informed once.
func TestChildGone(t *testing.T) {
	t.Parallel()
	for _, agent := range []string{"openclaw", "opencode"} {
		for _, closed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s closed %v", agent, closed), func(t *testing.T) {
				t.Parallel()
				guard, notice := fmt.Sprintf(tool, "rm -rf x"), `{"hook":"agent_end","args":[{"success":true},{}]}`
				if agent == "opencode" {
					guard = `{"hook":"tool.execute.before","args":[{"tool":"bash","sessionID":"s","callID":"c"},{"args":{"command":"rm -rf x"}}]}`
					notice = `{"hook":"event","args":[{"event":{"type":"session.idle","properties":{"sessionID":"s"}}}]}`
				}
				blocked := func(h callReport) bool { return strings.Contains(h.Threw+text(h.Result), "could not judge") }
				// Two children end at their first event, and the third one runs.
				p := run(t, agent, shim.Options{Closed: closed}, `if [ -e "$3/2" ]; then exec "$0" "$@"; fi; read line; if [ -e "$3/1" ]; then : >"$3/2"; fi; : >"$3/1"; echo broken >&2; exit 3`)
				if h := p.call(guard); blocked(h) != closed {
					t.Errorf("without a child: %+v, want blocked %v", h, closed)
				}
				judged := func(h callReport) bool { return strings.Contains(h.Threw+text(h.Result), "Use trash.") }
				await.Until(t, "another child is started", func() bool { return judged(p.call(guard)) })
				// A kill of the child does not bypass a guard: the next child judges.
				for range 3 {
					pids := p.pids()
					if err := syscall.Kill(pids[len(pids)-1], syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
					if h := p.call(guard); !judged(h) {
						t.Errorf("after a kill: %+v, want a block", h)
					}
				}
				if h := p.call(notice); blocked(h) {
					t.Errorf("a notice: %+v", h)
				}
				p.end()
				if stderr := p.stderr.String(); strings.Count(stderr, "broken") != 1 || !strings.Contains(stderr, "grapnel: error: ") {
					t.Errorf("the person is told %q, want it once", stderr)
				}
			})
		}
	}
}

// A child that does not start or that hangs is a failed guard. A child that hangs is killed, and
// not restarted repeatedly.
func TestChildNever(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]string{"hangs": "exec sleep 1000", "ends": "exit 1", "noise": "echo nonsense; echo '{}'; exec cat >/dev/null"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := run(t, "openclaw", shim.Options{Closed: true, Deadline: 500 * time.Millisecond}, hook)
			for i := range 20 {
				if h := p.call(fmt.Sprintf(tool, "ls")); !strings.Contains(text(h.Result), "could not judge") {
					t.Errorf("%+v, want a block", h)
				}
				if n := len(p.pids()); i == 0 && name == "hangs" && n > 1 {
					t.Errorf("%d children are asked before the first answer: OpenClaw waits no longer than one hangs", n)
				}
			}
			if n := len(p.pids()); n > 10 {
				t.Errorf("it was started %d times", n)
			}
			p.end()
			for _, pid := range p.pids() {
				if name == "hangs" {
					await.Until(t, fmt.Sprintf("process %d ends", pid), func() bool { return syscall.Kill(pid, 0) != nil })
				}
			}
		})
	}
}

const openCodeTool = `{"hook":"tool.execute.before","args":[{"tool":"bash","sessionID":"s","callID":"c"},{"args":{"command":"%s"}}]}`

// A value that cannot be encoded does not bypass a guard, open or closed, because a model can
// create one.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	for agent, line := range map[string]string{"openclaw": tool, "opencode": openCodeTool} {
		p := run(t, agent, shim.Options{}, "")
		h := p.call(strings.Replace(fmt.Sprintf(line, "rm -rf x"), "{", `{"strange":"deep",`, 1))
		if !strings.Contains(h.Threw+text(h.Result), "could not judge") {
			t.Errorf("%s: %+v, want a block", agent, h)
		}
		if h := p.call(fmt.Sprintf(line, "rm -rf x")); !strings.Contains(h.Threw+text(h.Result), "Use trash.") {
			t.Errorf("%s: the next: %+v, want a block", agent, h)
		}
	}
}

// A conversation that is longer than the limit for an event does not stop the agent.
func TestLongConversation(t *testing.T) {
	t.Parallel()
	p := run(t, "openclaw", shim.Options{}, "")
	line := `{"hook":"before_agent_run","strange":"ctx","args":[{"prompt":"forbidden","messages":[{"role":"user","content":"` + strings.Repeat("x", dialect.MaxPayload+1) + `"}]},{"sessionId":"s1"}]}`
	if h := p.call(line); text(h.Result) != `{"message":"Not that.","outcome":"block","reason":"Not that."}` || h.Threw != "" {
		t.Errorf("%s %s, want a block for what it says", text(h.Result), h.Threw)
	}
}

// For any output of a child: a valid answer is used once, and an invalid one is a failed guard.
func TestChildOdd(t *testing.T) {
	t.Parallel()
	odd, err := filepath.Abs(filepath.Join("testdata", "child.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	for way, want := range map[string]string{
		"fails": "internal error", "text": "could not judge", "none": "could not judge", "broken": "could not judge",
		"endless": "could not judge", "late": "within 750 ms", "twice": "Use trash.", "others": "Use trash.", "bytes": "Üse trash.",
	} {
		for _, closed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s closed %v", way, closed), func(t *testing.T) {
				t.Parallel()
				o := shim.Options{Closed: closed}
				if way == "late" || way == "endless" {
					o.Deadline = 750 * time.Millisecond
				}
				p := run(t, "openclaw", o, `exec node '`+odd+`' `+way)
				want := want
				if !closed && !strings.Contains(want, "trash") {
					want = ""
				}
				for range 2 {
					h := p.call(fmt.Sprintf(tool, "rm -rf x"))
					if h.Undefined != (want == "") || !strings.Contains(text(h.Result), want) || h.Threw != "" {
						t.Errorf("%+v, want %q", h, want)
					}
				}
			})
		}
	}
}

// A stopped child is killed, and the next one judges.
func TestChildStopped(t *testing.T) {
	t.Parallel()
	p := run(t, "openclaw", shim.Options{Closed: true, Deadline: time.Second}, "")
	for range 2 {
		if h := p.call(fmt.Sprintf(tool, "rm -rf x")); !strings.Contains(text(h.Result), "Use trash.") {
			t.Fatalf("%+v, want a block", h)
		}
		pids := p.pids()
		if err := syscall.Kill(pids[len(pids)-1], syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for state := ""; !strings.HasPrefix(state, "T"); { // the state changes after a moment
			out, err := exec.CommandContext(t.Context(), "ps", "-o", "state=", "-p", strconv.Itoa(pids[len(pids)-1])).Output()
			if err != nil {
				t.Fatal(err)
			}
			state = strings.TrimSpace(string(out))
		}
		if h := p.call(fmt.Sprintf(tool, "ls")); !strings.Contains(text(h.Result), "did not answer within") {
			t.Errorf("%+v, want a block", h)
		}
	}
}

// The agent waits for two children no longer than for one: if a second child takes as long as the
// first one, it is too late and is killed.
func TestDeadline(t *testing.T) {
	t.Parallel()
	p := run(t, "openclaw", shim.Options{Closed: true, Deadline: 4 * time.Second}, "sleep 3; exit 1") // must fire: two children take 6 s
	if h := p.call(fmt.Sprintf(tool, "ls")); !strings.Contains(text(h.Result), "did not answer within 4000 ms") {
		t.Errorf("%+v, want a block because of the deadline", h)
	}
}

// A plugin that is loaded again in the same process leaves no child behind.
func TestReload(t *testing.T) {
	t.Parallel()
	for agent, line := range map[string]string{"openclaw": tool, "opencode": openCodeTool} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			p := run(t, agent, shim.Options{}, "")
			for reload := range 3 {
				line := strings.Replace(fmt.Sprintf(line, "rm -rf x"), "{", fmt.Sprintf(`{"reload":%d,`, reload), 1)
				if h := p.call(line); !strings.Contains(h.Threw+text(h.Result), "Use trash.") {
					t.Errorf("%+v, want a block", h)
				}
			}
			pids := p.pids()
			if len(pids) != 3 {
				t.Fatalf("%d children were started, want one for each time", len(pids))
			}
			for _, pid := range pids[:2] {
				await.Until(t, fmt.Sprintf("process %d ends", pid), func() bool { return syscall.Kill(pid, 0) != nil })
			}
			p.end()
			if stderr := p.stderr.String(); stderr != "" {
				t.Errorf("the person is told %q", stderr)
			}
		})
	}
}

// A hook that cannot return a promise is answered by a separate process.
func TestOpenClawSync(t *testing.T) {
	t.Parallel()
	p := run(t, "openclaw", shim.Options{Events: []string{"before_message_write"}}, "")
	h := p.call(`{"hook":"before_message_write","args":[{"message":{"role":"user","content":"hi"}},{}]}`)
	if !h.Undefined || h.Threw != "" || len(p.pids()) != 1 {
		t.Errorf("%+v, %d children", h, len(p.pids()))
	}
}

// The files contain the given values, for any values.
func TestFiles(t *testing.T) {
	t.Parallel()
	files, ok := shim.Files("opencode", shim.Options{Command: []string{`/a "b"/$EVENTS`}, Closed: true, Deadline: 58 * time.Second})
	source := string(files["grapnel.js"])
	for _, want := range []string{"const COMMAND = [\"/a \\\"b\\\"/$EVENTS\"]\n", "const EVENTS = []\n", "const CLOSED = true\n", "const DEADLINE = 58000\n"} {
		if !ok || !strings.Contains(source, want) {
			t.Errorf("it does not hold %s", want)
		}
	}
	if _, ok := shim.Files("codex", shim.Options{}); ok {
		t.Error("codex has a plugin")
	}
	files, _ = shim.Files("openclaw", shim.Options{})
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"index.mjs", "openclaw.plugin.json", "package.json"}, names); diff != "" {
		t.Error(diff)
	}
}
