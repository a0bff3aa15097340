package hooktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// The events of this file are read by the dialects from what agents send, so that
// class, facts, input and payload are what a hook meets in reality. One thing is left
// out: what that agent can be told (Event.Can). A hook is judged by what the event
// permits; what becomes of its answer in one agent is shown by [Agent].
//
// The agent works in the directory in which the test runs, and that is its project:
// a path is relative to it. All of it is plain data, and a test may change it:
// ev.Session.CWD = t.TempDir().

// Shell is a call of a shell, about to be made.
func Shell(command string) *grapnel.Event { return Tool("Bash", object{"command": command}) }

// Read is a call that reads a file, about to be made.
func Read(path string) *grapnel.Event { return Tool("Read", object{"file_path": path}) }

// Write is a call that writes a file, about to be made.
func Write(path, content string) *grapnel.Event {
	return Tool("Write", object{"file_path": path, "content": content})
}

// Fetch is a call that gets a page, about to be made.
func Fetch(url string) *grapnel.Event {
	return Tool("WebFetch", object{"url": url, "prompt": "What does it say?"})
}

// Tool is a call of any tool, about to be made: by the name that Claude Code has for
// it, of a server's tool mcp__server__tool. The input is written as JSON.
func Tool(name string, input any) *grapnel.Event {
	return event(dialect.ClaudeCode, "PreToolUse", object{"tool_name": name, "tool_input": input, "tool_use_id": "toolu_1"})
}

// After is what follows the event of a call: the same call, made, with this output. An
// error as output means that the call has failed.
func After(call *grapnel.Event, output any) *grapnel.Event {
	if call.Tool == nil {
		panic(fmt.Sprintf("hooktest.After: %s is no call of a tool", call.Kind))
	}
	native, made := "PostToolUse", object{"tool_response": output}
	if err, failed := output.(error); failed {
		native, made = "PostToolUseFailure", object{"error": err.Error()}
	}
	made["tool_name"], made["tool_input"], made["tool_use_id"] = call.Tool.CanonicalName(), call.Tool.Input, call.Tool.ID
	ev := event(dialect.ClaudeCode, native, made)
	ev.Session = call.Session
	return ev
}

// Prompt is what a person asks, before the model sees it.
func Prompt(text string) *grapnel.Event {
	return event(dialect.ClaudeCode, "UserPromptSubmit", object{"prompt": text})
}

// Event is an event of any kind with the parts that it has: a session that starts
// ([grapnel.SessionStart]), a turn that ends ([grapnel.AgentAfter]), an event that one
// agent alone has (native.claude-code.Setup). What is in the parts is made up. It
// panics where there is no such kind.
func Event(kind grapnel.Kind) *grapnel.Event {
	switch kind {
	case grapnel.ToolBefore:
		return Shell("make")
	case grapnel.ToolAfter:
		return After(Shell("make"), object{"stdout": "ok"})
	case grapnel.ToolFailed:
		return After(Shell("make"), errors.New("exit code 2"))
	default:
	}
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode, dialect.GeminiCLI} {
		i := slices.IndexFunc(d.Events, func(r dialect.EventRow) bool { return r.Kind == kind })
		if i >= 0 {
			return event(d, d.Events[i].Native, members[d.Events[i].Native])
		}
	}
	if grapnel.ContractOf(kind) == nil {
		panic(fmt.Sprintf("hooktest.Event: no event %q", kind))
	}
	ev := &grapnel.Event{ // of agents that are written in Go
		Kind: kind, Agent: grapnel.Agent{Name: "hooktest"}, Session: grapnel.Session{ID: session, CWD: directory(), Root: directory()},
	}
	switch kind {
	case grapnel.AgentBefore:
		ev.Prompt = &grapnel.Prompt{Text: "do it", System: "You are a careful agent."}
	case grapnel.TranscriptBefore:
		ev.Message = &grapnel.Message{Role: "assistant", Raw: json.RawMessage(`{"role":"assistant","content":"done"}`)}
	case grapnel.MessageReceived, grapnel.MessageBefore, grapnel.MessageSent:
		ev.Message = &grapnel.Message{ID: "1", Channel: "team", Content: "done"}
	default:
	}
	return ev
}

// members are what agents send beside what all events have, by their names of the
// events. Where two agents share a name, the first of [Event]'s counts.
var members = map[string]object{
	"SessionStart":        {"source": "startup"},
	"UserPromptSubmit":    {"prompt": "do it"},
	"MessageDisplay":      {"delta": "done"},
	"PermissionRequest":   {"tool_name": "Bash", "tool_input": object{"command": "make"}},
	"PermissionDenied":    {"tool_name": "Bash", "tool_input": object{"command": "make"}, "reason": "not today"},
	"PostToolBatch":       {"tool_calls": []any{object{"tool_name": "Read", "tool_input": object{"file_path": "a.go"}, "tool_response": "package a"}}},
	"Notification":        {"notification_type": "permission_prompt", "message": "Claude needs your permission to use Bash"},
	"SubagentStart":       {"agent_id": "a1", "agent_type": "Explore"},
	"SubagentStop":        {"agent_id": "a1", "agent_type": "Explore", "last_assistant_message": "done"},
	"Stop":                {"last_assistant_message": "done"},
	"StopFailure":         {"error": "rate_limit"},
	"TaskCreated":         {"task_id": "1", "task_subject": "build it"},
	"TaskCompleted":       {"task_id": "1", "task_subject": "build it"},
	"PreCompact":          {"trigger": "auto"},
	"PostCompact":         {"trigger": "auto", "compact_summary": "so far"},
	"ConfigChange":        {"source": "user_settings"},
	"Elicitation":         {"mcp_server_name": "lab", "message": "What is your name?"},
	"ElicitationResult":   {"mcp_server_name": "lab", "action": "accept", "content": object{"name": "Bob"}},
	"SessionEnd":          {"reason": "other"},
	"Setup":               {"trigger": "init"},
	"TeammateIdle":        {"teammate_name": "helper"},
	"PreModelSwitch":      {"from_model": "a", "to_model": "b"},
	"PostModelSwitch":     {"from_model": "a", "to_model": "b"},
	"FileChanged":         {"file_path": "a.go", "event": "change"},
	"CwdChanged":          {"old_cwd": "/", "new_cwd": "/tmp"},
	"InstructionsLoaded":  {"file_path": "CLAUDE.md", "load_reason": "session_start"},
	"BeforeModel":         {"llm_request": geminiRequest},
	"AfterModel":          {"llm_request": geminiRequest, "llm_response": object{"text": "t", "candidates": []any{object{"content": object{"role": "model", "parts": []any{"t"}}}}}},
	"BeforeToolSelection": {"llm_request": geminiRequest},
}

var geminiRequest = object{"model": "m", "messages": []any{object{"role": "user", "content": "hi"}}}

// object is a JSON object in the making.
type object = map[string]any

const session = "5d7c1f7e-0000-4000-8000-000000000000"

// directory is where the test runs.
func directory() string {
	dir, err := os.Getwd()
	if err != nil {
		panic("hooktest: " + err.Error())
	}
	return dir
}

// event reads what an agent sends with these members.
func event(d *dialect.Dialect, native string, with object) *grapnel.Event {
	payload := object{"session_id": session, "transcript_path": "", "cwd": directory(), "hook_event_name": native}
	if d == dialect.ClaudeCode {
		payload["permission_mode"] = "default"
	} else {
		payload["timestamp"] = "2026-11-20T20:10:06.168Z"
	}
	maps.Copy(payload, with)
	text, err := marshal(payload)
	if err == nil {
		var ev *grapnel.Event
		if ev, err = d.Read(dialect.Input{Payload: text}); err == nil {
			ev.Can, ev.Budget, ev.Session.Root = nil, 0, ev.Session.CWD
			return ev
		}
	}
	panic("hooktest: " + err.Error())
}

// marshal writes JSON as agents do, without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
