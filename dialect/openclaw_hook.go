package dialect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// OpenClawHandlers returns the dialect of the handlers in the mapping of an OpenClaw gateway. A
// handler gets the event of the plain dialect with three more members: hook, event and ctx, as
// OpenClaw passes them to the hooks of plugins. ctx also has the names that the document about
// OpenClaw's hooks uses: runId, sessionKey, config, agentDir, direction and so on. A handler answers
// in either form. homeDir returns the home directory of the user, for agentDir, or "".
func OpenClawHandlers(homeDir func() string) *Dialect {
	d := openClaw.clone()
	d.WriteEvent = func(ev *grapnel.Event) ([]byte, error) { return writeHandlerEvent(ev, homeDir()) }
	d.ReadOutcome = readHandlerOutcome
	return d
}

func writeHandlerEvent(ev *grapnel.Event, homeDir string) ([]byte, error) {
	plain, err := writePlainEvent(ev)
	if err != nil {
		return nil, err
	}
	theirs, err := openClaw.writeEventTable(ev)
	if err != nil {
		return nil, err
	}
	top := split(theirs)
	m := membersOf(plain)
	for _, name := range []string{"hook", "event"} {
		m.set(name, present(top[name]))
	}
	m.set("ctx", handlerContext(ev, split(top["event"]), membersOf(top["ctx"]), homeDir))
	return m.line()
}

// handlerContext adds the names of the document to ctx, the context that OpenClaw itself passes.
// event is the event of OpenClaw.
func handlerContext(ev *grapnel.Event, event map[string]json.RawMessage, ctx members, homeDir string) json.RawMessage {
	s := &ev.Session
	add := func(name, value string) {
		if text(ctx.get(name)) == "" {
			ctx.set(name, rawjson.Quote(value))
		}
	}
	message := deref(ev.Message)
	add("runId", cmp.Or(s.Turn, s.ID))
	add("sessionKey", s.ID)
	add("workspaceDir", cmp.Or(s.CWD, s.Root))
	add("agentDir", agentDir(ev.Agent.Name, homeDir))
	add("channel", cmp.Or(message.Channel, s.Channel))
	add("senderId", s.User)
	var config members
	config.set("agent", rawjson.Quote(ev.Agent.Name))
	config.text("version", ev.Agent.Version)
	config.text("model", s.Model)
	config.text("mode", s.Mode)
	config.text("root", s.Root)
	ctx.set("config", config.raw())
	switch ev.Kind {
	case grapnel.MessageReceived:
		add("direction", "received")
	case grapnel.MessageBefore:
		add("direction", "sending")
	case grapnel.MessageSent:
		add("direction", "sent")
	default: // other events have no direction
	}
	ctx.set("toolName", event["toolName"])
	ctx.set("args", event["params"])
	ctx.set("result", event["result"])
	return ctx.raw()
}

// agentDir returns the directory of an agent's own settings, or "" if Grapnel does not know it.
func agentDir(agent, homeDir string) string {
	d := lookup(dialects, agent)
	if d == nil || homeDir == "" {
		return ""
	}
	if d.setup == nil || d.setup.User == "" {
		return ""
	}
	user := d.setup.User
	return homeDir + "/" + user[:strings.LastIndexByte(user, '/')]
}

// readHandlerOutcome reads an answer in the form of OpenClaw or in the plain dialect.
func readHandlerOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	top := split(trim(out.Stdout))
	for _, name := range []string{"decision", "context", "set", "patch", "halt"} {
		if top[name] != nil {
			return readPlainOutcome(ev, out)
		}
	}
	return readOpenClawOutcome(ev, out)
}

// readOpenClawOutcome reads the result of a hook of OpenClaw. OpenClaw ignores a flag that is not a
// boolean; Grapnel reports it, because the hook may have meant a block. New parameters replace only
// the parameters that they name.
func readOpenClawOutcome(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	d, stdout := lookup(dialects, openclawName), trim(out.Stdout)
	if !rawjson.IsObject(stdout) || !json.Valid(stdout) {
		return d.readOutcomeTable(ev, out)
	}
	top := membersOf(stdout)
	for _, name := range []string{"block", "cancel"} {
		if raw := present(top.get(name)); raw != nil && string(raw) != "true" && string(raw) != "false" {
			return grapnel.Outcome{}, fmt.Errorf("cannot use its answer: %s is %s, not true or false", name, kindOf(raw))
		}
	}
	if approval := membersOf(top.get("requireApproval")); approval != nil {
		approval.set("description", rawjson.Quote(cmp.Or(text(approval.get("description")), text(approval.get("title")))))
		approval.set("title", rawjson.Quote("grapnel")) // the table's mark of a question
		top.set("requireApproval", approval.raw())
	}
	if params := present(top.get("params")); rawjson.IsObject(params) && ev.Tool != nil {
		r, err := render(ev, ev.Tool, d.Name)
		if err != nil {
			return grapnel.Outcome{}, fmt.Errorf("cannot use its answer: %w", err)
		}
		whole := append(members{}, r.input...)
		for _, e := range membersOf(params) {
			whole.set(e.name, e.value)
		}
		top.set("params", whole.raw())
	}
	out.Stdout = top.raw()
	return d.readOutcomeTable(ev, out)
}
