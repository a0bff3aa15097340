package webhook_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/systems/ironclaw/webhook"
)

// The exact bytes that IronClaw's receivers get.
//
// Proves: IC-66, IC-67
func TestBody(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 6, 6, 7, 0, time.FixedZone("CET", 3600))
	head := func(point string) string {
		return `{"hook":"src::<w>","point":"` + point + `","timestamp":"2026-03-04T05:06:07+00:00","event":`
	}
	const tail = `,"metadata_present":false}`
	tool := func(input, job string) *grapnel.Event {
		return &grapnel.Event{
			Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "shell", Input: json.RawMessage(input)}, Session: grapnel.Session{User: "user-1", Job: job},
			Native: json.RawMessage(`{"context":"of another agent","thread_id":"too"}`),
		}
	}
	called := func(context string, n int) string {
		return head("beforeToolCall") + fmt.Sprintf(`{"type":"toolCall","tool_name":"shell","context":%q,"parameter_count":%d}`, context, n) + tail
	}
	for name, tt := range map[string]struct {
		ev   *grapnel.Event
		want string
	}{
		"prompt": {
			&grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "größe"}, Session: grapnel.Session{Channel: "web", Thread: "t"}},
			head("beforeInbound") + `{"type":"inbound","channel":"web","has_thread_id":true,"content_length":7}` + tail,
		},
		"prompt without a thread": {
			&grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{}, Native: json.RawMessage(`{"thread_id":"of another agent"}`)},
			head("beforeInbound") + `{"type":"inbound","channel":"","has_thread_id":false,"content_length":0}` + tail,
		},
		"prompt of another agent": {
			&grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "hi"}, Session: grapnel.Session{ID: "s"}},
			head("beforeInbound") + `{"type":"inbound","channel":"","has_thread_id":true,"content_length":2}` + tail,
		},
		"message": {
			&grapnel.Event{Kind: grapnel.MessageBefore, Message: &grapnel.Message{Channel: "web", Content: "hello"}, Session: grapnel.Session{Channel: "other"}},
			head("beforeOutbound") + `{"type":"outbound","channel":"web","has_thread_id":false,"content_length":5}` + tail,
		},
		"tool":                {tool(`{"a":1,"b":{"c":2,"d":3}}`, "job:7"), called("job:7", 2)},
		"tool without":        {tool(`{}`, ""), called("chat", 0)},
		"tool with null":      {tool(`null`, ""), called("chat", 0)},
		"tool with nothing":   {tool(``, ""), called("chat", 0)},
		"tool with a list":    {tool(`[1,2]`, ""), called("chat", 1)},
		"tool with a text":    {tool(`"x"`, ""), called("chat", 1)},
		"tool with no JSON":   {tool(`{`, ""), called("chat", 1)},
		"response":            {&grapnel.Event{Kind: grapnel.ResponseBefore, Model: &grapnel.Model{Response: json.RawMessage(`"größe\n"`)}}, head("transformResponse") + `{"type":"responseTransform","response_length":8}` + tail},
		"response, no text":   {&grapnel.Event{Kind: grapnel.ResponseBefore, Model: &grapnel.Model{Response: json.RawMessage(`{"a":1}`)}}, head("transformResponse") + `{"type":"responseTransform","response_length":7}` + tail},
		"session start":       {&grapnel.Event{Kind: grapnel.SessionStart, Session: grapnel.Session{ID: "s", User: "u"}}, head("onSessionStart") + `{"type":"sessionStart"}` + tail},
		"session end":         {&grapnel.Event{Kind: grapnel.SessionEnd}, head("onSessionEnd") + `{"type":"sessionEnd"}` + tail},
		"events without part": {&grapnel.Event{Kind: grapnel.ResponseBefore}, head("transformResponse") + `{"type":"responseTransform","response_length":0}` + tail},
	} {
		got, err := webhook.Body("src::<w>", tt.ev, at)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, tt.want)
		}
	}
	for _, k := range []grapnel.Kind{grapnel.PromptBefore, grapnel.MessageBefore, grapnel.ToolBefore} { // events without their optional parts
		if _, err := webhook.Body("w", &grapnel.Event{Kind: k}, at); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	if _, err := webhook.Body("w", &grapnel.Event{Kind: grapnel.TaskAfter}, at); err == nil {
		t.Errorf("an event that IronClaw does not have: %v", err)
	}
}
