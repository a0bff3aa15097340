// Package sample makes events from few arguments. The dialects read them from payloads in the
// agents' formats, so that class, facts, input and payload are the same as in real use:
//
//	ev, err := sample.Call(dir, "Bash", map[string]any{"command": "git push"})
//	ev, err = sample.Event(dir, grapnel.SessionStart)
//
// Values that the caller does not give are fixed sample values. dir is the agent's working
// directory and the root of its project. The package is only for tests of hooks and policies.
package sample

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Object is a JSON object.
type Object = map[string]any

// Session is the session ID of the events.
const Session = "5d7c1f7e-0000-4000-8000-000000000000"

// CallID is the ID of tool calls that have not run yet.
const CallID = "toolu_1"

// New reads the event with an agent's own event name from a payload with the given members. New
// adds the members that all events of the agent have; with overrides them.
func New(d *dialect.Dialect, native, dir string, with Object) (*grapnel.Event, error) {
	payload := Object{"session_id": Session, "transcript_path": "", "cwd": dir, "hook_event_name": native}
	if d.Name == dialect.ClaudeCode().Name {
		payload["permission_mode"] = "default"
	} else {
		payload["timestamp"] = "2026-11-20T20:10:06.168Z"
	}
	maps.Copy(payload, with)
	text, err := rawjson.Marshal(payload)
	if err != nil {
		return nil, err
	}
	ev, err := d.Read(dialect.Input{Payload: text})
	if err != nil {
		return nil, err
	}
	ev.Session.Root = ev.Session.CWD
	if ev.Terms != nil {
		ev.Terms = &grapnel.Terms{Contract: ev.Terms.Contract}
	}
	return ev, nil
}

// Call returns a tool call before it runs. name is Claude Code's name of the tool, or
// mcp__server__tool for the tool of a server. input is encoded as JSON.
func Call(dir, name string, input any) (*grapnel.Event, error) {
	return New(dialect.ClaudeCode(), "PreToolUse", dir, Object{"tool_name": name, "tool_input": input, "tool_use_id": CallID})
}

// Made returns a finished tool call. If output is an error, the call has failed.
func Made(dir, name, id string, input, output any) (*grapnel.Event, error) {
	native, with := "PostToolUse", Object{"tool_response": output}
	if err, failed := output.(error); failed {
		native, with = "PostToolUseFailure", Object{"error": err.Error()}
	}
	with["tool_name"], with["tool_input"], with["tool_use_id"] = name, input, id
	return New(dialect.ClaudeCode(), native, dir, with)
}

// Prompt returns a user's prompt before the model sees it.
func Prompt(dir, text string) (*grapnel.Event, error) {
	return New(dialect.ClaudeCode(), "UserPromptSubmit", dir, Object{"prompt": text})
}

// Event returns an event of any kind, with sample values. It returns an error for an unknown
// kind.
func Event(dir string, kind grapnel.Kind) (*grapnel.Event, error) {
	shell := Object{"command": "make"}
	switch kind {
	case grapnel.ToolBefore:
		return Call(dir, "Bash", shell)
	case grapnel.ToolAfter:
		return Made(dir, "Bash", CallID, shell, Object{"stdout": "ok"})
	case grapnel.ToolFailed:
		return Made(dir, "Bash", CallID, shell, errors.New("exit code 2"))
	default:
	}
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
		i := slices.IndexFunc(d.Events, func(r dialect.EventRow) bool { return r.Kind == kind })
		if i >= 0 {
			return New(d, d.Events[i].Native, dir, members[d.Events[i].Native])
		}
	}
	if !kind.Known() {
		return nil, fmt.Errorf("no event %q", kind)
	}
	ev := &grapnel.Event{ // an event of an agent that is written in Go
		Kind: kind, Agent: grapnel.Agent{Name: "hooktest"}, Session: grapnel.Session{ID: Session, CWD: dir, Root: dir},
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
	return ev, nil
}

// members holds the members that the payload of one event has in addition to the common ones, by
// native event name. If two agents share a name, the entry is for the agent that [Event] tries
// first.
var members = map[string]Object{
	"SessionStart":        {"source": "startup"},
	"UserPromptSubmit":    {"prompt": "do it"},
	"MessageDisplay":      {"delta": "done"},
	"PermissionRequest":   {"tool_name": "Bash", "tool_input": Object{"command": "make"}},
	"PermissionDenied":    {"tool_name": "Bash", "tool_input": Object{"command": "make"}, "reason": "not today"},
	"PostToolBatch":       {"tool_calls": []any{Object{"tool_name": "Read", "tool_input": Object{"file_path": "a.go"}, "tool_response": "package a"}}},
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
	"ElicitationResult":   {"mcp_server_name": "lab", "action": "accept", "content": Object{"name": "Bob"}},
	"SessionEnd":          {"reason": "other"},
	"Setup":               {"trigger": "init"},
	"TeammateIdle":        {"teammate_name": "helper"},
	"PreModelSwitch":      {"from_model": "a", "to_model": "b"},
	"PostModelSwitch":     {"from_model": "a", "to_model": "b"},
	"FileChanged":         {"file_path": "a.go", "event": "change"},
	"CwdChanged":          {"old_cwd": "/", "new_cwd": "/tmp"},
	"InstructionsLoaded":  {"file_path": "CLAUDE.md", "load_reason": "session_start"},
	"BeforeModel":         {"llm_request": geminiRequest},
	"AfterModel":          {"llm_request": geminiRequest, "llm_response": Object{"text": "t", "candidates": []any{Object{"content": Object{"role": "model", "parts": []any{"t"}}}}}},
	"BeforeToolSelection": {"llm_request": geminiRequest},
}

var geminiRequest = Object{"model": "m", "messages": []any{Object{"role": "user", "content": "hi"}}}
