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
	"github.com/grapnel-dev/grapnel/internal/wire"
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

func TestSummaryBody(t *testing.T) {
	t.Parallel()
	got, err := writeSummary("team", (&grapnel.Event{
		ID: "e1", Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "claude-code", Version: "2"}, Session: grapnel.Session{ID: "s1", CWD: "/secret", User: "secret"},
		Tool: &grapnel.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"secret"}`)}, Native: json.RawMessage(`"secret"`),
	}).WithVerdict(&grapnel.Verdict{Decision: grapnel.Block, Reasons: []grapnel.Reason{{Text: "secret"}}}), time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	want := `{"hook":"team","time":"2026-03-04T05:06:07Z","id":"e1","agent":"claude-code","session":"s1","event":"tool.before","tool":"Bash","decision":"block"}`
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// A notification names the origin of the event, unless another system defines the format.
func TestWebhookOrigin(t *testing.T) {
	t.Parallel()
	for language, want := range map[string]string{"": `,"origin":{"host":"h"}}`, "ironclaw": `"metadata_present":false}`} {
		w, err := NewClient(nil).Webhook(Config{Name: "team", URL: "https://hooks.example.com/", Body: language})
		if err != nil {
			t.Fatal(err)
		}
		text, err := w.text(wire.WithOrigin(t.Context(), &wire.Origin{Host: "h"}), command)
		if err != nil || !strings.HasSuffix(string(text), want) {
			t.Errorf("%q: %s, %v", language, text, err)
		}
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
	// webhook "team": url: host "metadata.google.internal": this is a local name: only names that are allowed can be reached
}
