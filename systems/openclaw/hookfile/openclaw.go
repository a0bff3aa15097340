// Package hookfile reads the hook mappings of OpenClaw.
//
// It is exported because package policy needs it, and is not an API.
package hookfile

import (
	_ "embed"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// Format is the format of OpenClaw: a mapping of OpenClaw's events to handlers, or the
// member `hooks` of its configuration. Both are JSON5.
//
//	{"hooks": {"before-tool-call": [{"handler": "hooks/guard.sh", "priority": 10}], "message_sent": "hooks/log.py"}}
//	{"hooks": [{"event": "before_tool_call", "command": "./guard.sh", "timeoutMs": 5000}]}
//
// A handler is a file in the directory of the mapping: a program, or a module in JavaScript or
// TypeScript, which openclaw_worker.js runs in Node.js. Both get the event of
// [dialect.OpenClawHandlers].
//
// The document about OpenClaw's hooks writes names with dashes, and the program writes them with
// underscores. The two also differ in two rules. In the document, lower priorities run first and
// handlers of equal priority run together. In the program, higher priorities run first, and hooks
// whose results are used run one after the other.
var Format = &hookfiles.Format{
	Name:    "openclaw",
	User:    []string{".openclaw/openclaw.json", ".openclaw/hooks.json"},
	Project: []string{".openclaw/hooks.json", "openclaw-hooks.json"},
	Managed: []string{"/etc/openclaw/hooks.json"},
	Events:  events,
	Parse:   parse,
}

// A commonEvent is one of OpenClaw's events.
type commonEvent struct {
	Name    string // with underscores
	Kinds   []grapnel.Kind
	answers bool // results of handlers are used; handlers of other events run asynchronously
	closed  bool // fail closed: a handler that fails blocks
}

// commonEvents lists the events that other agents have too.
var commonEvents = []commonEvent{
	{Name: "gateway_start", Kinds: []grapnel.Kind{grapnel.GatewayStart}},
	{Name: "gateway_stop", Kinds: []grapnel.Kind{grapnel.GatewayStop}},
	{Name: "session_start", Kinds: []grapnel.Kind{grapnel.SessionStart}},
	{Name: "session_end", Kinds: []grapnel.Kind{grapnel.SessionEnd}},
	{Name: "before_agent_start", Kinds: []grapnel.Kind{grapnel.AgentBefore}, answers: true},
	{Name: "before_prompt_build", Kinds: []grapnel.Kind{grapnel.AgentBefore}, answers: true},
	{Name: "before_agent_run", Kinds: []grapnel.Kind{grapnel.PromptBefore}, answers: true, closed: true},
	{Name: "before_agent_finalize", Kinds: []grapnel.Kind{grapnel.AgentAfter}, answers: true},
	{Name: "agent_end", Kinds: []grapnel.Kind{grapnel.AgentAfter}},
	{Name: "llm_input", Kinds: []grapnel.Kind{grapnel.ModelBefore}},
	{Name: "llm_output", Kinds: []grapnel.Kind{grapnel.ModelAfter}},
	{Name: "before_tool_call", Kinds: []grapnel.Kind{grapnel.ToolBefore}, answers: true, closed: true},
	{Name: "after_tool_call", Kinds: []grapnel.Kind{grapnel.ToolAfter, grapnel.ToolFailed}},
	{Name: "tool_result_persist", Kinds: []grapnel.Kind{grapnel.TranscriptBefore}, answers: true},
	{Name: "before_message_write", Kinds: []grapnel.Kind{grapnel.TranscriptBefore}, answers: true},
	{Name: "message_received", Kinds: []grapnel.Kind{grapnel.MessageReceived}},
	{Name: "message_sending", Kinds: []grapnel.Kind{grapnel.MessageBefore}, answers: true},
	{Name: "message_sent", Kinds: []grapnel.Kind{grapnel.MessageSent}},
	{Name: "before_compaction", Kinds: []grapnel.Kind{grapnel.CompactBefore}},
	{Name: "after_compaction", Kinds: []grapnel.Kind{grapnel.CompactAfter}},
	{Name: "subagent_spawned", Kinds: []grapnel.Kind{grapnel.SubagentStart}},
	{Name: "subagent_ended", Kinds: []grapnel.Kind{grapnel.SubagentAfter}},
}

func events() []hookfiles.Event {
	out := make([]hookfiles.Event, len(commonEvents))
	for i := range commonEvents {
		out[i] = hookfiles.Event{Name: commonEvents[i].Name, Kinds: commonEvents[i].Kinds}
	}
	return out
}

// ownEvents lists the events that no other agent has.
var ownEvents = []string{
	"agent_turn_prepare", "before_agent_reply", "before_dispatch", "before_install", "before_model_resolve", "before_reset",
	"channel_pairing_requested", "cron_changed", "cron_reconciled", "heartbeat_prompt_contribution", "inbound_claim", "model_call_ended",
	"model_call_started", "reply_dispatch", "reply_payload_sending", "resolve_exec_env", "skill_changed", "skill_proposal_changed",
	"skill_proposal_evaluate", "subagent_delivery_target", "subagent_progress", "subagent_spawning",
}

// requestSettings lists the members of `hooks` in OpenClaw's configuration that configure HTTP
// requests. Such requests start agents and are not hooks.
var requestSettings = []string{
	"allowRequestSessionKey", "allowedAgentIds", "allowedSessionKeyPrefixes", "defaultSessionKey", "enabled", "gmail", "mappings",
	"maxBodyBytes", "path", "presets", "token", "transformsDir",
}

// ownWay is the hint for hooks that only OpenClaw can load.
const ownWay = `leave it to OpenClaw, or name the file as the handler of an event: {"before-tool-call": "hooks/guard.mjs"}`

// worker runs the handlers of a module.
//
//go:embed openclaw_worker.js
var worker string

// The values of hookfiles.Found.Order.
const (
	lowerFirst  = "lower priority first, as in the document"
	higherFirst = "higher priority first, as in the program"
)

func parse(files []hookfiles.File, brief bool) hookfiles.Found {
	r := &reader{Reader: hookfiles.NewReader(files, brief)}
	r.Order = map[string]string{}
	for i := range files {
		r.dashes, r.underscores = false, false
		before := len(r.Hooks)
		root := r.Open(i, hookfiles.FromJSON5(files[i].Data), tree.Object, tree.List)
		switch hooks := root.Get("hooks"); {
		case root == nil:
		case root.Is(tree.List):
			r.list("", "", root)
		case hooks.Is(tree.List):
			r.list("hooks", "", hooks)
		case hooks.Is(tree.Object):
			r.events("hooks", hooks)
		case hooks != nil:
			r.Fail(hooks, "hooks", "", "is %s, neither an object of events nor a list", hooks.Kind)
		case path.Base(filepath.ToSlash(files[i].Path)) != "openclaw.json":
			r.events("", root)
		}
		r.rank(files[i].Path, root, r.Hooks[before:])
	}
	return r.Found
}

type reader struct {
	*hookfiles.Reader
	dashes, underscores bool // the spellings of event names in the current file
}

// rank converts the priorities of a file to Grapnel's, in which 100 is the default. In a file of
// OpenClaw, the default is 0.
func (r *reader) rank(file string, root *tree.Node, hooks []hookfiles.Hook) {
	if len(hooks) == 0 {
		return
	}
	lower := r.dashes && !r.underscores && path.Base(filepath.ToSlash(file)) != "openclaw.json"
	r.Order[file] = higherFirst
	if lower {
		r.Order[file] = lowerFirst
	}
	ranked := false
	for i := range hooks {
		h := &hooks[i]
		h.Sequential = h.Sequential && !lower
		if h.Priority == nil {
			continue
		}
		ranked = true
		if !lower {
			*h.Priority = -*h.Priority
		}
		*h.Priority += policyfile.DefaultPriority
	}
	if ranked && r.dashes && r.underscores {
		r.Note(root, "priority", "write all names of events with dashes to run lower priorities first", "higher ones run first, because the file has names with dashes and with underscores")
	}
}

func (r *reader) events(at string, n *tree.Node) {
	for _, name := range n.Names {
		at, value := strings.TrimPrefix(at+"."+name, "."), n.Get(name)
		switch {
		case name == "internal":
			r.internal(at, value)
		case slices.Contains(requestSettings, name):
		case value.Is(tree.List):
			r.list(at, name, value)
		default:
			r.entry(at, name, value)
		}
	}
}

func (r *reader) list(at, event string, list *tree.Node) {
	for i, n := range list.Items {
		r.entry(fmt.Sprintf("%s[%d]", at, i), event, n)
	}
}

// internal reports the hooks of OpenClaw's own configuration as skipped.
func (r *reader) internal(at string, n *tree.Node) {
	if handlers := n.Get("handlers"); handlers != nil {
		for i, h := range handlers.Items {
			r.Fail(h, fmt.Sprintf("%s.handlers[%d]", at, i), ownWay, "only OpenClaw can load the module %q", hookfiles.TextOf(h.Get("module")))
		}
	}
	if entries := n.Get("entries"); entries != nil {
		for _, name := range entries.Names {
			entry := entries.Get(name)
			if on := entry.Get("enabled"); on == nil || on.IsTrue() {
				r.Fail(entry, at+".entries."+name, ownWay, "is a hook that only OpenClaw can load")
			}
		}
	}
}

// event returns the event with the given name, written with dashes or underscores. For an unknown
// name it reports an error and returns nil.
func (r *reader) event(n *tree.Node, at, name string) *commonEvent {
	var known []string
	plain := strings.ReplaceAll(name, "-", "_")
	r.dashes = r.dashes || strings.Contains(name, "-")
	r.underscores = r.underscores || strings.Contains(name, "_")
	for i := range commonEvents {
		if commonEvents[i].Name == plain {
			return &commonEvents[i]
		}
		known = append(known, commonEvents[i].Name)
	}
	if slices.Contains(ownEvents, plain) {
		r.Fail(n, at, "leave it to OpenClaw", "no other agent has the event %q", name)
	} else {
		hint := wording.Nearest(plain, append(known, ownEvents...))
		if strings.Contains(name, "-") {
			hint = strings.ReplaceAll(hint, "_", "-")
		}
		r.Fail(n, at, hint, "%q is not an event of OpenClaw", name)
	}
	return nil
}

// entry parses a handler of an event: a path or an object.
func (r *reader) entry(at, event string, n *tree.Node) {
	if event == "" {
		name := n.Get("event")
		if !name.Is(tree.Text) {
			r.Fail(n, at, `write "event": "before_tool_call"`, "does not name its event")
			return
		}
		event = name.Text
	}
	ev := r.event(n, at, event)
	if ev == nil {
		return
	}
	line, handler := n.Get("command"), n.Get("handler")
	if n.Is(tree.Text) {
		handler = n
	}
	h := hookfiles.Hook{
		Hook: policyfile.Hook{
			On: slices.Clone(ev.Kinds), Timeout: defaultTimeout(ev.answers), Priority: r.priority(n, at), Run: &policyfile.Command{Async: !ev.answers, Speaks: "openclaw"},
		},
		At: at, Sequential: ev.answers,
	}
	if ev.closed {
		h.OnError = "closed"
	}
	switch {
	case line != nil && handler != nil:
		r.Fail(n, at, "write one entry for each", "has both a command and a handler")
		return
	case line.Is(tree.Text) && strings.TrimSpace(line.Text) != "":
		h.Name, h.Run.Line = hookfiles.CalledAfter(line.Text, event), line.Text
	case handler.Is(tree.Text):
		hint, problem := r.program(&h, handler.Text, event)
		if problem != "" {
			r.Fail(handler, at, hint, "the handler %q %s", handler.Text, problem)
			return
		}
		h.File.Line, h.File.Col = handler.Line, handler.Col
	case n.Kind != tree.Object:
		r.Fail(n, at, "", "is %s, neither the path of a handler nor an object", n.Kind)
		return
	default:
		r.Fail(n, at, "", "has neither a handler nor a command")
		return
	}
	found, ok := r.match(n, at, ev)
	if !ok {
		return
	}
	if h.Match = found; found != nil {
		h.Unsupported = append(h.Unsupported, fmt.Sprintf("the matcher %s for names of OpenClaw's tools", n.Get("matcher").Raw))
	}
	if t := n.Get("timeoutMs"); t != nil {
		if ms, ok := t.Number(); ok && ms >= 1 && ms <= maxTimeout && ms == math.Trunc(ms) {
			h.Timeout = policyfile.Duration(time.Duration(ms) * time.Millisecond)
		} else {
			r.Note(t, at+".timeoutMs", "", "is %s, not a number of milliseconds from 1 to %d, so it is ignored", match.Shorten(string(t.Raw)), maxTimeout)
		}
	}
	r.Add(n, h)
}

// defaultTimeout returns the default timeout of a handler. answers reports whether its result is
// used.
func defaultTimeout(answers bool) policyfile.Duration {
	if answers {
		return policyfile.Duration(15 * time.Second)
	}
	return policyfile.Duration(30 * time.Second)
}

const maxTimeout = 600_000

// program sets the file of a handler, or returns a problem with its path. It does not report a
// missing file, because the problem would skip a blocking hook; instead, the handler fails when it
// starts, and "grapnel check" reports it.
func (r *reader) program(h *hookfiles.Hook, handler, event string) (hint, problem string) {
	name, export, _ := strings.Cut(handler, "#")
	local := filepath.FromSlash(name)
	switch {
	case strings.TrimSpace(name) == "":
		return "", "is empty"
	case strings.Contains(name, "\x00"):
		return "", "is not a path"
	case filepath.IsAbs(local) || path.IsAbs(name):
		return "write it relative to the file", "is absolute"
	case !filepath.IsLocal(local):
		return "put it below the directory of the file", "is outside its directory"
	}
	file := filepath.Join(filepath.Dir(r.Files[r.At].Path), local)
	h.Name, h.File = path.Base(filepath.ToSlash(handler)), &hookfiles.HandlerFile{Path: file}
	switch strings.ToLower(path.Ext(name)) {
	case ".jsx", ".tsx":
		return "compile it to JavaScript", "has a syntax that Node.js cannot run"
	case ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts":
		h.File.Module, h.Run.Worker, h.Run.Args = true, true, []string{"node", file}
		h.Start = []string{"node", "--input-type=commonjs", "-e", worker, file, export, event, eventNames()}
	default:
		h.Run.Args = []string{file}
	}
	return "", ""
}

// eventNames returns the names of all events, joined by commas.
func eventNames() string {
	names := slices.Clone(ownEvents)
	for i := range commonEvents {
		names = append(names, commonEvents[i].Name)
	}
	return strings.Join(names, ",")
}

// priority returns the priority of a handler as the file has it.
func (r *reader) priority(n *tree.Node, at string) *int {
	p := n.Get("priority")
	if p == nil {
		return nil
	}
	value, ok := p.Number()
	if !ok || value != math.Trunc(value) || math.Abs(value) > 1e6 {
		r.Note(p, at+".priority", "", "is %s, not a valid whole number, so it is ignored", match.Shorten(string(p.Raw)))
		return nil
	}
	written := int(value)
	return &written
}

// classOf returns the class of an OpenClaw tool; empty = no class.
func classOf(name string) grapnel.Class {
	switch name {
	case "exec":
		return grapnel.ClassShell
	case "read":
		return grapnel.ClassRead
	case "write":
		return grapnel.ClassWrite
	case "edit", "apply_patch":
		return grapnel.ClassEdit
	case "web_fetch", "web_search":
		return grapnel.ClassFetch
	case "sessions_spawn":
		return grapnel.ClassTask
	}
	return ""
}

// match parses the list of tools of a handler; nil = all tools. ok is false for a list that
// OpenClaw rejects or that matches nothing.
func (r *reader) match(n *tree.Node, at string, ev *commonEvent) (m *policyfile.Match, ok bool) {
	list := n.Get("matcher")
	switch {
	case list == nil:
		return nil, true
	case !strings.HasSuffix(ev.Name, "_tool_call"):
		r.Note(list, at+".matcher", "", "works only with tool calls, so it is ignored")
		return nil, true
	case len(list.Items) == 0:
		r.Fail(list, at+".matcher", "omit it to match all tools", "is not a list of tools")
		return nil, false
	}
	m = &policyfile.Match{}
	for _, tool := range list.Items {
		name := strings.ToLower(tool.Text)
		if name == "" || strings.Trim(name, hookfiles.NameChars) != "" {
			r.Fail(tool, at+".matcher", "names must match exactly; omit the matcher to match all tools", "%s is not the name of a tool", match.Shorten(string(tool.Raw)))
			return nil, false
		}
		if server, of, isMCP := strings.Cut(name, "__"); isMCP {
			m.Tool = append(m.Tool, "mcp__"+server+"__"+of)
		} else if class := classOf(name); class != "" && string(class) != name {
			m.Tool = append(m.Tool, string(class))
		}
		m.Tool = append(m.Tool, name)
	}
	return m, true
}
