//go:build system && unix

package hookfile_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/systems/internal/loadtest"
)

// nodeVersion returns the version of Node.js, which this tier requires.
func nodeVersion(t *testing.T) (major, minor int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err == nil {
		_, err = fmt.Sscanf(string(out), "v%d.%d", &major, &minor)
	}
	if err != nil {
		t.Fatalf("these tests need Node.js on the PATH: %v", err)
	}
	return major, minor
}

// TestOpenClawModules runs handlers in JavaScript in a real Node.js, for events of Claude Code: their
// results, their registrations, and what they do wrong. It covers OC-02, OC-03, OC-04, OC-05, OC-06
// and OC-09.
func TestOpenClawModules(t *testing.T) {
	t.Parallel()
	nodeVersion(t)
	for name, tt := range map[string]struct {
		mapping  string            // of the event before-tool-call; empty = "hooks/h.mjs"
		files    map[string]string // in hooks/
		module   string            // hooks/h.mjs
		decision grapnel.Decision
		reason   string
		command  string // of the call that runs; empty = as it was
	}{
		"no opinion":          {module: `export default () => {}`},
		"a block":             {module: `export default async (ctx) => ({ block: true, blockReason: ctx.toolName + ': ' + ctx.args.command })`, decision: grapnel.Block, reason: "exec: ls"},
		"new parameters":      {module: `export default ({ params }) => ({ params: { command: params.command + ' -l' } })`, command: "ls -l"},
		"approval":            {module: `export default () => ({ requireApproval: { title: 'Sure?', description: 'It lists.', onResolution() {} } })`, decision: grapnel.Ask, reason: "It lists."},
		"Grapnel's own form":  {module: `export default () => ({ decision: 'block', reason: 'own' })`, decision: grapnel.Block, reason: "own"},
		"the second argument": {module: `export default (event, ctx) => ({ block: true, blockReason: [event.toolName, ctx.sessionKey, ctx.config.agent, ctx.workspaceDir === process.cwd()].join() })`, decision: grapnel.Block, reason: "exec,s,claude-code,true"},
		"its directory":       {module: `export default (ctx) => ({ block: true, blockReason: ctx.agentDir.endsWith('/.claude') + ' ' + ctx.runId })`, decision: grapnel.Block, reason: "true s"},
		"an export":           {mapping: `"hooks/h.mjs#check"`, module: `export const check = () => ({ block: true, blockReason: 'export' }); export default () => {}`, decision: grapnel.Block, reason: "export"},
		"CommonJS":            {mapping: `"hooks/h.cjs"`, files: map[string]string{"h.cjs": `module.exports = () => ({ block: true, blockReason: require('./why.cjs') })`, "why.cjs": `module.exports = 'cjs'`}, decision: grapnel.Block, reason: "cjs"},
		"compiled TypeScript": {mapping: `"hooks/h.js"`, files: map[string]string{"h.js": `Object.defineProperty(exports, '__esModule', { value: true }); exports.default = () => ({ block: true, blockReason: 'js' });`}, decision: grapnel.Block, reason: "js"},
		"prints":              {module: `console.log('{"type":"answer"}'); export default () => { process.stdout.write('spam '.repeat(1e5)); return { block: true, blockReason: 'still' }; }`, decision: grapnel.Block, reason: "still"},
		"a timer stays":       {module: `setInterval(() => {}, 1000); export default () => ({ block: true, blockReason: 'done' })`, decision: grapnel.Block, reason: "done"},

		"the document's form": {module: `
			api.registerHook({ event: 'message-sent', handler: async (ctx) => { await sendAuditLog(ctx); }, priority: 100 });
			api.registerHook({ event: 'before-tool-call', priority: 100, handler: async (ctx) => ({ blockReason: seen.join(' ') }) });
			api.registerHook({ event: 'before-tool-call', priority: 1, handler: async (ctx) => { seen.push('first'); return { block: true }; } });
			api.registerHook({ event: 'before-tool-call', handler: async (ctx) => { seen.push('zeroth'); } });
			const seen = [];
			async function sendAuditLog() {}`, decision: grapnel.Block, reason: "zeroth first"},
		"the program's form": {module: `
			const seen = [];
			export default { id: 'p', register(api) {
				api.on('before_tool_call', () => ({ block: true, blockReason: seen.join(' ') }), { priority: -5 });
				api.on('before_tool_call', () => { seen.push('zero'); });
				api.registerHook('before_tool_call', () => { seen.push('five'); }, { priority: 5 });
			} }`, decision: grapnel.Block, reason: "five zero"},
		"a function register": {module: `export default function (api) { api.registerHook({ event: 'before-tool-call', handler: () => ({ block: true, blockReason: 'registered' }) }); }`, decision: grapnel.Block, reason: "registered"},
		"together": {module: `
			let meet; const met = new Promise((resolve) => { meet = resolve; });
			api.registerHook({ event: 'before-tool-call', handler: async () => { await met; return { block: true, blockReason: 'together' }; } });
			api.registerHook({ event: 'before-tool-call', handler: async () => { meet(); } });`, decision: grapnel.Block, reason: "together"},
		"one of three throws": {module: `
			api.registerHook({ event: 'before-tool-call', handler: () => { throw new Error('boom'); } });
			api.registerHook({ event: 'before-tool-call', handler: (ctx) => { ctx.args.command = 'changed'; } });
			api.registerHook({ event: 'before-tool-call', handler: (ctx) => ({ block: true, blockReason: 'third saw ' + ctx.args.command }) });`, decision: grapnel.Block, reason: "third saw ls"},
		"a block stays": {module: `
			api.registerHook({ event: 'before-tool-call', handler: () => ({ block: true, blockReason: 'no' }) });
			api.registerHook({ event: 'before-tool-call', handler: () => ({ block: false }) });`, decision: grapnel.Block, reason: "no"},

		"throws":             {module: `export default () => { throw new TypeError('boom') }`, decision: grapnel.Block, reason: "could not decide: TypeError: boom"},
		"throws no error":    {module: `export default () => { throw 'boom' }`, decision: grapnel.Block, reason: "could not decide: threw boom"},
		"throws later":       {module: `setTimeout(() => { throw new Error('late') }, 1); export default () => new Promise(() => {})`, decision: grapnel.Block, reason: "uncaughtException: Error: late"},
		"rejects elsewhere":  {module: `Promise.reject(new Error('lost')); export default () => new Promise((done) => { setTimeout(done, 60000) })`, decision: grapnel.Block, reason: "unhandledRejection: Error: lost"},
		"exits":              {module: `export default () => { process.exit(7) }`, decision: grapnel.Block, reason: "exit code 7"},
		"never ends":         {mapping: `{"handler": "hooks/h.mjs", "timeoutMs": 1000}`, module: `export default () => { for (;;); }`, decision: grapnel.Block, reason: "took longer than its timeout of 1s"},
		"never answers":      {mapping: `{"handler": "hooks/h.mjs", "timeoutMs": 1000}`, module: `setInterval(() => {}, 10); export default () => new Promise(() => {})`, decision: grapnel.Block, reason: "took longer than its timeout of 1s"},
		"a huge result":      {module: `export default () => ({ block: true, blockReason: 'x'.repeat(2 ** 21) })`, decision: grapnel.Block, reason: "bytes, more than 1044480"},
		"no object":          {module: `export default () => 'no'`, decision: grapnel.Block, reason: "its result is a string, not an object"},
		"a list":             {module: `export default () => [{ block: true }]`, decision: grapnel.Block, reason: "its result is an array, not an object"},
		"no JSON":            {module: `export default () => { const a = {}; a.a = a; return a; }`, decision: grapnel.Block, reason: "its result cannot be written as JSON"},
		"a wrong type":       {module: `export default () => ({ block: 'yes' })`, decision: grapnel.Block, reason: "block is a string, not true or false"},
		"writes to the pipe": {module: `import fs from 'node:fs'; export default () => { fs.writeSync(1, 'raw\n'); return {}; }`, decision: grapnel.Block, reason: `"raw" is not a JSON object`},
		"bad syntax":         {module: `export default (`, decision: grapnel.Block, reason: "h.mjs: SyntaxError"},
		"a missing import":   {module: `import 'nowhere'; export default () => {}`, decision: grapnel.Block, reason: "Cannot find package 'nowhere'"},
		"a missing file":     {mapping: `"hooks/gone.mjs"`, decision: grapnel.Block, reason: "gone.mjs"},
		"a missing export":   {mapping: `"hooks/h.mjs#check"`, module: `export default () => {}`, decision: grapnel.Block, reason: "exports no function check"},
		"no handler":         {module: `export const a = 1`, decision: grapnel.Block, reason: "has no handler for before-tool-call: it exports no function and registers none"},
		"another's handler":  {module: `api.registerHook({ event: 'message-sent', handler() {} })`, decision: grapnel.Block, reason: "it registers only message_sent"},
		"a misspelled event": {module: `api.registerHook({ event: 'before-tool-cal', handler() {} })`, decision: grapnel.Block, reason: `"before-tool-cal" is not an event of OpenClaw`},
		"more of the API":    {module: `export default { register(api) { api.registerTool({}) } }`, decision: grapnel.Block, reason: "Grapnel does not support api.registerTool"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if tt.mapping == "" {
				tt.mapping = `"hooks/h.mjs"`
			}
			files := map[string]string{".openclaw/hooks.json": `{"before-tool-call": ` + tt.mapping + `}`, ".openclaw/hooks/h.mjs": tt.module}
			for name, text := range tt.files {
				files[".openclaw/hooks/"+name] = text
			}
			fireOpenClaw(t, loadtest.Load(t, dir, "openclaw", files), dir, tt.decision, tt.reason, tt.command)
		})
	}
}

// fireOpenClaw fires the command ls and checks the verdict.
func fireOpenClaw(t *testing.T, e *grapnel.Engine, dir string, decision grapnel.Decision, reason, command string) {
	t.Helper()
	ev, err := dialect.ClaudeCode().Read(dialect.Input{
		Payload: []byte(`{"session_id":"s","cwd":"` + dir + `","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls","timeout":5}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	v := e.Fire(t.Context(), ev)
	if v.Decision != decision || !strings.Contains(v.Reason(), reason) {
		t.Errorf("decision %v because %q, want %v because %q", v.Decision, v.Reason(), decision, reason)
	}
	if command == "" {
		command = "ls"
	}
	want := fmt.Sprintf(`{"command":%q,"timeout":5}`, command)
	if got := string(v.Event.Tool.Input); decision < grapnel.Ask && got != want {
		t.Errorf("input %s, want %s", got, want)
	}
}

// TestOpenClawTypeScript checks that a handler in TypeScript runs in a Node.js that strips types, and
// is a clear error in an older one. proofs/e2e runs it in other versions of Node.js.
func TestOpenClawTypeScript(t *testing.T) {
	t.Parallel()
	decision, reason := grapnel.Block, "typed: ls"
	if major, minor := nodeVersion(t); major < 22 || major == 22 && minor < 6 {
		reason = "TypeScript needs Node 22.6 or later, and this is "
	}
	dir := t.TempDir()
	fireOpenClaw(t, loadtest.Load(t, dir, "openclaw", map[string]string{
		".openclaw/hooks.json": `{"before-tool-call": "hooks/h.ts"}`,
		".openclaw/hooks/h.ts": `interface Ctx { args: { command: string } }
			export default async (ctx: Ctx) => ({ block: true, blockReason: 'typed: ' + (ctx.args.command as string) });`,
	}), dir, decision, reason, "")
}

// TestOpenClawProgramsOrder checks the two orders of priorities with real programs: lower first in a
// file with dashes, higher first in a file with underscores. It covers OC-03.
//
// Proves: OC-03
func TestOpenClawProgramsOrder(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ event, want string }{
		"the document": {"before-tool-call", "minus one\nzero\nhundred\n"},
		"the program":  {"before_tool_call", "hundred\nzero\nminus one\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			says := func(word string) string { return "#!/bin/sh\necho " + word + ` >> "` + dir + `/ran"` + "\n" }
			e := loadtest.Load(t, dir, "openclaw", map[string]string{
				".openclaw/hooks.json": `{"` + tt.event + `": [{"handler": "a", "priority": 100}, {"handler": "b", "priority": -1}, "c"]}`,
				".openclaw/a":          says("hundred"), ".openclaw/b": says("minus one"), ".openclaw/c": says("zero"),
			})
			fireOpenClaw(t, e, dir, grapnel.None, "", "")
			if got, err := os.ReadFile(filepath.Join(dir, "ran")); err != nil || string(got) != tt.want {
				t.Errorf("ran %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// TestOpenClawProgramsTogether checks that handlers of equal priority run at the same time in a file
// with dashes: each of them waits for the other. It covers OC-05.
//
// Proves: OC-05
func TestOpenClawProgramsTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	waits := func(own, other string) string {
		return "#!/bin/sh\ncd \"" + dir + "\"\n: > " + own + "\nwhile [ ! -e " + other + " ]; do sleep 0.05; done\necho '{\"block\":true,\"blockReason\":\"" + own + "\"}'\n"
	}
	e := loadtest.Load(t, dir, "openclaw", map[string]string{
		".openclaw/hooks.json": `{"before-tool-call": [{"handler": "a", "timeoutMs": 60000}, {"handler": "b", "timeoutMs": 60000}]}`,
		".openclaw/a":          waits("one", "two"), ".openclaw/b": waits("two", "one"),
	})
	fireOpenClaw(t, e, dir, grapnel.Block, "one\ntwo", "")
}
