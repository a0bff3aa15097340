package outbound

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
)

// All errors of a webhook's configuration, in the order in which they are reported.
//
// Proves: IC-56, IC-58
func TestWebhookOrder(t *testing.T) {
	t.Parallel()
	cfg := Config{Name: "src::w", URL: "ftp://user@", Headers: map[string]string{"A B": "", "Host": ""}, Timeout: -1, MaxInFlight: -1, Body: "esperanto"}
	for _, step := range []struct {
		want   Fault
		repair func()
	}{
		{BadScheme, func() { cfg.URL = "https://user@" }},
		{UserInfo, func() { cfg.URL = "https://" }},
		{NoHost, func() { cfg.URL = "https://localhost:22" }},
		{ForbiddenHost, func() { cfg.URL = "https://example.com:22" }},
		{ForbiddenPort, func() { cfg.URL = "https://example.com:8443" }},
		{BadHeader, func() { delete(cfg.Headers, "A B") }},
		{ForbiddenHeader, func() { cfg.Headers = nil }},
		{BadTimeout, func() { cfg.Timeout = MaxTimeout + 1 }},
		{BadTimeout, func() { cfg.Timeout = MaxTimeout }},
		{BadMaxInFlight, func() { cfg.MaxInFlight = 1 }},
		{BadBody, func() { cfg.Body = "ironclaw" }},
		{"ok", func() {}},
	} {
		_, err := NewClient(nil).Webhook(cfg)
		if faultOf(err) != step.want || err != nil && !strings.HasPrefix(err.Error(), `webhook "src::w": `) {
			t.Errorf("%+v: %v, want %s", cfg, err, step.want)
		}
		step.repair()
	}
}

// The exact bytes that IronClaw's receivers get.
//
// Proves: IC-66, IC-67
func TestIronClawBody(t *testing.T) {
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
		got, err := writeIronClaw("src::<w>", tt.ev, at)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, tt.want)
		}
	}
	for _, k := range []grapnel.Kind{grapnel.PromptBefore, grapnel.MessageBefore, grapnel.ToolBefore} { // events without their optional parts
		if _, err := writeIronClaw("w", &grapnel.Event{Kind: k}, at); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	if _, err := writeIronClaw("w", &grapnel.Event{Kind: grapnel.TaskAfter}, at); faultOf(err) != BadBody {
		t.Errorf("an event that IronClaw does not have: %v", err)
	}
}

func TestSummaryBody(t *testing.T) {
	t.Parallel()
	got, err := writeSummary("team", &grapnel.Event{
		ID: "e1", Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "claude-code", Version: "2"}, Session: grapnel.Session{ID: "s1", CWD: "/secret", User: "secret"},
		Tool: &grapnel.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"secret"}`)}, Native: json.RawMessage(`"secret"`),
		Verdict: &grapnel.Verdict{Decision: grapnel.Block, Reasons: []grapnel.Reason{{Text: "secret"}}},
	}, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	want := `{"hook":"team","time":"2026-03-04T05:06:07Z","id":"e1","agent":"claude-code","session":"s1","event":"tool.before","tool":"Bash","decision":"block"}`
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func ExampleClient_Webhook() {
	client := NewClient(nil)
	defer func() { _ = client.Close(context.Background()) }()
	for _, url := range []string{"https://hooks.example.com/agents", "https://0x7f.1/", "https://metadata.google.internal/"} {
		_, err := client.Webhook(Config{Name: "team", URL: url})
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// webhook "team": url: 127.0.0.1 is loopback: only public addresses and allowed networks can be reached
	// webhook "team": url: host "metadata.google.internal": this is a local name
}
