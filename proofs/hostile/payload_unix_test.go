//go:build system && unix

package hostile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/grapnel-dev/grapnel"
)

// A call is an event before a tool call, in pieces of JSON. Empty pieces are left out.
type call struct{ event, session, cwd, tool, input, more string }

// An agent writes calls in its dialect. If it writes a member twice, the last one applies.
type agent struct {
	name  string // of the dialect
	args  []string
	event string
	shell string
	write func(c call) string
}

func object(pairs ...string) string {
	var members []string
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			members = append(members, `"`+pairs[i]+`":`+pairs[i+1])
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func flat(c call) string {
	return strings.TrimSuffix(object("session_id", c.session, "cwd", c.cwd, "hook_event_name", c.event, "tool_name", c.tool, "tool_input", c.input), "}") + c.more + "}"
}

const shellFacts = `[{"field":"tool.command","at":"/command"}]`

func plain(c call) string {
	tool := object("name", c.tool, "class", `"shell"`, "input", c.input, "facts", shellFacts)
	return strings.TrimSuffix(object("grapnel", "1", "kind", c.event, "session", object("id", c.session, "cwd", c.cwd), "tool", tool), "}") + c.more + "}"
}

var agents = map[string]agent{
	"claude":         {"claude-code", []string{"claude-code"}, `"PreToolUse"`, `"Bash"`, flat},
	"gemini":         {"gemini-cli", []string{"gemini-cli"}, `"BeforeTool"`, `"run_shell_command"`, flat},
	"plain":          {"plain", []string{"plain"}, `"tool.before"`, `"bash"`, plain},
	"unnamed claude": {"claude-code", nil, `"PreToolUse"`, `"Bash"`, flat},
}

// call returns a valid call of a shell.
func (a agent) call(command string) call {
	return call{event: a.event, session: `"s1"`, cwd: `"/"`, tool: a.shell, input: `{"command":` + command + `}`}
}

// tool returns the members of a tool call. rename may change their names.
func (a agent) tool(rename func(string) string, c call) string {
	if a.name == "plain" {
		return `,"` + rename("tool") + `":` + object("name", c.tool, "class", `"shell"`, "input", c.input, "facts", shellFacts)
	}
	return `,"` + rename("tool_name") + `":` + c.tool + `,"` + rename("tool_input") + `":` + c.input
}

func same(name string) string { return name }

func title(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

func camel(name string) string {
	head, tail, _ := strings.Cut(name, "_")
	if tail == "" {
		tail = "call"
	}
	return head + title(tail)
}

// want is the expected reaction of a guard of `rm -rf` to a payload.
type want int

const (
	blocks     want = iota // the guard sees the command
	passes                 // the guard sees another command
	unreadable             // the guard cannot see the command, and fails closed
)

const (
	rm = `"rm -rf /"`
	ls = `"ls"`
)

// payloads are the payloads of the test. An empty text means that an agent cannot send it.
var payloads = map[string]struct {
	write func(a agent) string
	want  want
}{
	"well formed, guarded":  {runs(rm), blocks},
	"well formed, harmless": {runs(ls), passes},

	// Not one JSON object.
	"empty":            {raw(""), unreadable},
	"only white space": {raw(" \r\n\t\n"), unreadable},
	"only a mark":      {raw("\xef\xbb\xbf"), unreadable},
	"text":             {raw("rm -rf /\n"), unreadable},
	"null":             {raw("null"), unreadable},
	"a string":         {edited(quoted), unreadable},
	"a list of it":     {edited(func(s string) string { return "[" + s + "]" }), unreadable},
	"nothing in it":    {raw("{}"), unreadable},
	"UTF-16":           {edited(func(s string) string { return wide("\ufeff" + s) }), unreadable},
	"UTF-16, no mark":  {edited(wide), unreadable},
	"cut off":          {edited(func(s string) string { return s[:len(s)-3] }), unreadable},
	"cut off early":    {edited(func(s string) string { return s[:5] }), unreadable},
	"trailing byte":    {edited(func(s string) string { return s + "x" }), unreadable},
	"trailing NUL":     {edited(func(s string) string { return s + "\x00" }), unreadable},
	"trailing object":  {func(a agent) string { return a.write(a.call(rm)) + "\n" + a.write(a.call(ls)) }, unreadable},
	"single quotes":    {edited(func(s string) string { return strings.ReplaceAll(s, `"`, `'`) }), unreadable},
	"a comment":        {edited(func(s string) string { return "// x\n" + s }), unreadable},
	"a raw NUL":        {runs("\"rm\x00 -rf /\""), unreadable},
	"a raw newline":    {runs("\"rm -rf /\n\""), unreadable},
	"NaN":              {beside(`,"n":NaN`), unreadable},

	// One object with unusual text. A byte order mark and white space around it are ignored.
	"byte order mark":     {edited(func(s string) string { return "\ufeff" + s }), blocks},
	"byte order marks":    {edited(func(s string) string { return "\ufeff\ufeff \n\ufeff\t" + s }), blocks},
	"white space":         {edited(func(s string) string { return "\n\n " + s + " \r\n\r\n" }), blocks},
	"nested":              {beside(`,"x":` + nest(9_000)), blocks},
	"nested too deep":     {beside(`,"x":` + nest(10_001)), unreadable},
	"nested a million":    {beside(`,"x":` + nest(1_000_000)), unreadable},
	"opened a million":    {beside(`,"x":` + strings.Repeat(`{"a":[`, 1_000_000)), unreadable},
	"invalid UTF-8":       {runs("\"rm -rf \xff\xc0\xaf\""), blocks},
	"lone surrogate":      {runs(`"rm -rf \ud800"`), blocks},
	"escaped NUL":         {runs(`"r\u0000m -rf /"`), blocks},
	"escaped key":         {with(func(c *call) { c.input = `{"comm\u0061nd":` + rm + `}` }), blocks},
	"huge numbers":        {beside(`,"n":1e999999999,"m":-` + strings.Repeat("9", 100_000)), blocks},
	"many members":        {beside(strings.Repeat(`,"x":0`, 200_000)), blocks},
	"escape sequences":    {runs(`"rm -rf \u001b]0;x\u0007\u009b2J"`), blocks},
	"prototype":           {beside(`,"__proto__":{"tool_name":"x"},"constructor":1`), blocks},
	"a long command":      {runs(quoted(strings.Repeat("echo hello; ", 20) + "rm -rf /" + " " + strings.Repeat("x", 100_000))), blocks},
	"no session":          {with(func(c *call) { c.session = "" }), blocks},
	"session as a path":   {with(func(c *call) { c.session = `"../../../../x/\u0000y"` }), blocks},
	"session of 1 MB":     {with(func(c *call) { c.session = quoted(strings.Repeat("é/", 400_000)) }), blocks},
	"no directory":        {with(func(c *call) { c.cwd = "" }), blocks},
	"an absent directory": {with(func(c *call) { c.cwd = `"/no/such/place"` }), blocks},
	"a file as directory": {with(func(c *call) { c.cwd = `"/etc/passwd"` }), blocks},
	"relative directory":  {with(func(c *call) { c.cwd = `"../.."` }), blocks},
	"odd directory":       {with(func(c *call) { c.cwd = `"/a\nb\u001b[2J\u0000/~"` }), blocks},
	"directory of 1 MB":   {with(func(c *call) { c.cwd = quoted(strings.Repeat("/a", 500_000)) }), blocks},

	// Duplicate members, or other spellings: the agents' parsers use the last of equal keys, and
	// keys in another letter case are other keys.
	"harmless, then not":           {func(a agent) string { return a.more(ls, a.tool(same, a.call(rm))) }, blocks},
	"not, then harmless":           {func(a agent) string { return a.more(rm, a.tool(same, a.call(ls))) }, passes},
	"last command":                 {with(func(c *call) { c.input = `{"command":"ls","command":` + rm + `}` }), blocks},
	"first command":                {with(func(c *call) { c.input = `{"command":` + rm + `,"command":"ls"}` }), passes},
	"another case":                 {func(a agent) string { return a.more(rm, a.tool(title, a.call(ls))) }, blocks},
	"only another case":            {func(a agent) string { return a.more(ls, a.tool(strings.ToUpper, a.call(rm))) }, passes},
	"another kind in another case": {beside(`,"Kind":"session.end","Hook_Event_Name":"Stop"`), blocks},
	"both key styles": {func(a agent) string {
		return a.more(rm, a.tool(camel, a.call(ls))+`,"hookEventName":"Stop","sessionId":"x"`)
	}, blocks},
	"other key style": {func(a agent) string { return `{"hookEventName":` + a.event + a.tool(camel, a.call(rm)) + `}` }, unreadable},

	// Wrong types of members that a guard needs.
	"event is a number":   {with(func(c *call) { c.event = "7" }), unreadable},
	"event is a list":     {with(func(c *call) { c.event = "[" + c.event + "]" }), unreadable},
	"event is empty":      {with(func(c *call) { c.event = `""` }), unreadable},
	"tool is a number":    {with(func(c *call) { c.tool = "7" }), unreadable},
	"tool is a list":      {with(func(c *call) { c.tool = "[" + c.tool + "]" }), unreadable},
	"no tool":             {loosely(func(c *call) { c.tool = "" }), unreadable},
	"tool is empty":       {loosely(func(c *call) { c.tool = `""` }), unreadable},
	"input is a number":   {loosely(func(c *call) { c.input = "7" }), unreadable},
	"input is a list":     {loosely(func(c *call) { c.input = "[" + c.input + "]" }), unreadable},
	"input is true":       {loosely(func(c *call) { c.input = "true" }), unreadable},
	"input is a text":     {loosely(func(c *call) { c.input = rm }), unreadable},
	"input is null":       {with(func(c *call) { c.input = "null" }), passes},
	"command is a list":   {loosely(func(c *call) { c.input = `{"command":["ls"]}` }), unreadable},
	"session is a number": {loosely(func(c *call) { c.session = "7" }), blocks},
	"directory is a list": {loosely(func(c *call) { c.cwd = "[]" }), blocks},
	"odd tool":            {loosely(func(c *call) { c.tool = `"\u001b[31m../../x\u0000\n"` }), blocks},
	"unknown event":       {loosely(func(c *call) { c.event = `"\u001b[2JEvent"` }), passes},
}

// more returns a call with additional members.
func (a agent) more(command, members string) string {
	c := a.call(command)
	c.more = members
	return a.write(c)
}

// raw returns the same text for every agent.
func raw(text string) func(agent) string {
	return func(agent) string { return text }
}

// runs returns a call of this command.
func runs(command string) func(agent) string {
	return func(a agent) string { return a.write(a.call(command)) }
}

// edited returns the text of a call that a guard must see, after a change.
func edited(change func(string) string) func(agent) string {
	return func(a agent) string { return change(runs(rm)(a)) }
}

// beside returns such a call with more members.
func beside(members string) func(agent) string {
	return func(a agent) string { return a.more(rm, members) }
}

// with returns such a call with a changed part.
func with(change func(*call)) func(agent) string {
	return func(a agent) string {
		c := a.call(rm)
		change(&c)
		return a.write(c)
	}
}

// loosely is like with, except in the plain dialect. There a tool's name has no meaning, its
// input can have any type, and any other wrong type is an error.
func loosely(change func(*call)) func(agent) string {
	return func(a agent) string {
		if a.name == "plain" {
			return ""
		}
		return with(change)(a)
	}
}

func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// wide returns a text in UTF-16.
func wide(text string) string {
	var b bytes.Buffer
	for _, unit := range utf16.Encode([]rune(text)) {
		_ = binary.Write(&b, binary.LittleEndian, unit)
	}
	return b.String()
}

func nest(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

const guard = `version: 1
hooks:
  - name: no-rm
    on: tool.before
    match: {command: rm -rf}
    block: Not this one.
`

// guards are policies with the same meaning.
var guards = map[string]string{
	"rule":   guard,
	"strict": strings.Replace(guard, "\n", "\nstrict: true\n", 1),
	"program": `version: 1
hooks:
  - name: no-rm
    on: tool.before
    on_error: closed
    run: 'case $GRAPNEL_COMMAND in rm*|*rm\ -rf*) echo Not this one. >&2; exit 2;; esac'
`,
}

// A guard either sees the agent's command or fails closed. Without a guard, no payload is
// blocked. No payload ever gets an allow.
func TestPayloads(t *testing.T) {
	t.Parallel()
	for speaker, a := range agents {
		for name, payload := range payloads {
			text := payload.write(a)
			if text == "" && name != "empty" {
				continue
			}
			t.Run(speaker+"/"+name, func(t *testing.T) {
				t.Parallel()
				for kind, policy := range guards {
					if kind != "rule" && speaker != "claude" {
						continue // the same payload again
					}
					w := newWorld(t, policy)
					r := run(t, w.hook(t, strings.NewReader(text), a.args...))
					got := heeds(t, a.name, r)
					if got.allowed || got.asked || got.blocked != (payload.want != passes) || r.exit != 0 {
						t.Errorf("with a %s the agent does %+v: %v", kind, got, r)
					}
					if reason := "Not this one."; (payload.want == blocks) != strings.Contains(r.stdout, reason) {
						t.Errorf("with a %s the reason is not %q exactly where the guard sees the command: %v", kind, reason, r)
					}
					// No control characters of a payload reach the user's terminal through the
					// agent.
					var reply any
					_ = json.Unmarshal([]byte(r.stdout), &reply) // sound has checked it
					visible(t, "the answer", strings.Join(texts(reply), "\n"))
					w.kept(t, payload.want)
				}

				w := newWorld(t, "")
				r := run(t, w.hook(t, strings.NewReader(text), a.args...))
				if got := heeds(t, a.name, r); got != (effect{}) {
					t.Errorf("without a policy the agent does %+v: %v", got, r)
				}
				// An agent that gets no reply shows an error of the hook.
				if seen := strings.HasPrefix(r.stderr, "grapnel: error: ") && (r.exit == 1) == (r.stdout == ""); seen != (payload.want == unreadable) {
					t.Errorf("without a policy an error is not seen exactly where the event cannot be read: %v", r)
				}
			})
		}
	}
}

// Grapnel cannot see the commands that a line hides. A policy can match such a line, which then
// is not treated as safe.
func TestUnclearCommands(t *testing.T) {
	t.Parallel()
	policy := guard + "  - {name: unclear, on: tool.before, match: {shell: unknown}, block: Not this one.}\n"
	for name, command := range map[string]string{
		"computed":            `$(echo rm) -rf /`,
		"longer than is read": "rm -rf /" + strings.Repeat(" x", 200_000),
		"behind many others":  strings.Repeat("a;", 10_000) + "rm -rf /",
		"behind many words":   strings.Repeat("env ", 10_000) + "rm -rf /",
		"in many lines":       strings.Repeat("eval ", 1_000) + "rm -rf /",
		"in parentheses":      strings.Repeat("(", 100_000) + "rm -rf /" + strings.Repeat(")", 100_000),
		"open parentheses":    strings.Repeat(`"$(`, 40_000) + "rm -rf /",
		"here-documents":      strings.Repeat("cat <<A\n", 20_000) + "rm -rf /",
		"braces":              strings.Repeat("{a,b}", 40_000) + ";rm -rf /",
		"backslashes":         strings.Repeat(`\`, 200_000) + ";rm -rf /",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agents["claude"]
			w := newWorld(t, policy)
			if r := run(t, w.hook(t, strings.NewReader(a.write(a.call(quoted(command)))), a.args...)); !heeds(t, a.name, r).blocked {
				t.Errorf("the agent may run %.40s…: %v", command, r)
			}
		})
	}
}

// A path from a model takes only a short time to check, and cyclic symbolic links end the check.
func TestPaths(t *testing.T) {
	t.Parallel()
	policy := "version: 1\nhooks:\n  - {name: no-env, on: tool.before, match: {path: ['**/.env', '/etc/**']}, block: Not this one.}\n"
	w := newWorld(t, policy)
	project := filepath.Join(w.dir, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"here": ".", "a": "b/x", "b": "a", "self": "self", "up": "..", "secrets": "/etc"} {
		if err := os.Symlink(target, filepath.Join(project, name)); err != nil {
			t.Fatal(err)
		}
	}
	long := make([]string, 4000)
	for i := range long {
		long[i] = strings.Repeat("a/", 3000) + "x"
	}
	for name, tt := range map[string]struct {
		path any
		want bool
	}{
		"plain":               {"sub/.env", true},
		"dots":                {"sub/../../project/./.env", true},
		"out of the project":  {"../../../../../../../../../../../../../../../etc/passwd", true},
		"through a link":      {"secrets/passwd", true},
		"through many links":  {strings.Repeat("here/", 30) + "secrets/passwd", true},
		"in a circle":         {"a/x/y", false},
		"in a circle, hidden": {"self/../.env", true},
		"in itself":           {strings.Repeat("here/", 5000) + ".env", true},
		"up and down":         {strings.Repeat("up/project/", 2000) + ".env", true},
		"long dots":           {strings.Repeat("x/../", 100_000) + ".env", true},
		"a NUL":               {".env\x00.txt", false}, // no system opens such a file
		"control characters":  {"\x1b[2J/\n/.env", true},
		"empty":               {"", false},
		"a tilde":             {"~/.env", true},
		"an address":          {"FILE:///etc/passwd", true},
		"many and long":       {long, true}, // longer than the limit for checks
		"one of many":         {append([]string{"/etc/shadow"}, long[:400]...), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := `[{"field":"tool.path","at":"/path","use":"write"},{"field":"tool.path","at":"/path/*","use":"write"}]`
			input, err := json.Marshal(map[string]any{"path": tt.path})
			if err != nil {
				t.Fatal(err)
			}
			payload := `{"kind":"tool.before","session":{"cwd":` + quoted(project) + `},"tool":{"name":"write","class":"write","input":` + string(input) + `,"facts":` + facts + `}}`
			r := run(t, w.hook(t, strings.NewReader(payload), "plain"))
			if got := heeds(t, "plain", r); got.blocked != tt.want || got.allowed {
				t.Errorf("the agent does %+v, want blocked %v: %v", got, tt.want, r)
			}
		})
	}
}

// kept checks that there is one Record with the right decision, and that no other file was
// written.
func (w world) kept(t *testing.T, want want) {
	t.Helper()
	list := w.records(t)
	if len(list) != 1 {
		t.Errorf("there are %d Records, want 1: %v", len(list), list)
		return
	}
	rec := list[0]
	decision := map[bool]grapnel.Decision{true: grapnel.Block, false: grapnel.None}[want != passes]
	if rec.Decision != decision || (rec.Error != "") != (want == unreadable) {
		t.Errorf("the Record says %+v, want the decision %s", rec, decision)
	}
	for _, dir := range []struct{ name, holds string }{{w.dir, "root"}, {w.root, "grapnel.yaml state"}} {
		files, err := os.ReadDir(dir.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.Contains(dir.holds, f.Name()) {
				t.Errorf("%s was written", filepath.Join(dir.name, f.Name()))
			}
		}
	}
}

// A payload that is too large is read to its end, so that the agent does not get a broken pipe.
// It is treated as unreadable, in bounded memory.
func TestLargePayloads(t *testing.T) {
	t.Parallel()
	for speaker, a := range agents {
		for name, tt := range map[string]struct {
			size int64
			want want
		}{"31 MB": {31 << 20, blocks}, "33 MB": {33 << 20, unreadable}, "100 MB": {100 << 20, unreadable}} {
			if tt.size > 33<<20 && speaker != "claude" || tt.size < 33<<20 && speaker == "unnamed claude" {
				continue // the same payload again
			}
			t.Run(speaker+"/"+name, func(t *testing.T) {
				t.Parallel()
				c := a.call(rm)
				c.more = `,"filler":"`
				head, read := strings.TrimSuffix(a.write(c), "}"), &counter{}
				w := newWorld(t, guard)
				cmd := w.hook(t, io.TeeReader(io.MultiReader(strings.NewReader(head), io.LimitReader(filler{}, tt.size), strings.NewReader(`"}`)), read), a.args...)
				r := measured(t, cmd)
				if got := heeds(t, a.name, r); !got.blocked || got.allowed || r.exit != 0 || (tt.want == unreadable) != strings.Contains(r.stdout, "33554432") {
					t.Errorf("the agent does %+v: %v", got, r)
				}
				if want := int64(len(head)) + tt.size + 2; read.n != want {
					t.Errorf("%d bytes were taken, want %d", read.n, want)
				}
				w.kept(t, tt.want)
			})
		}
	}
}

// filler is an endless text.
type filler struct{}

func (filler) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
