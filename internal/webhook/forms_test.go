package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/webhook/webhooktest"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// blocked returns the delivery of a blocked shell line.
func blocked(t *testing.T, line, reason string) *Delivery {
	t.Helper()
	ev := (&grapnel.Event{
		ID: "e1", Kind: grapnel.ToolBefore, Time: time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC), Agent: grapnel.Agent{Name: "claude-code"},
		Session: grapnel.Session{ID: "s", CWD: "/home/ada/" + strings.Fields(line + " x")[0]}, Tool: &grapnel.Tool{Name: "Bash", Commands: []string{line}},
	}).WithVerdict(&grapnel.Verdict{Decision: grapnel.Block, Reasons: []grapnel.Reason{{Hook: "a.yaml::no-rm", Text: reason}}})
	o := (&wire.Origin{Host: "laptop", User: "ada", Machine: "m"}).For("team", "a.yaml", ev.Verdict())
	event, err := Event(ev, o)
	if err != nil {
		t.Fatal(err)
	}
	return &Delivery{ID: "d1", Target: "a.yaml::team", Event: event, Created: ev.Time}
}

func onLoopback() *outbound.Client {
	return outbound.NewClient(&outbound.Options{Guard: outbound.Guard{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
}

// attacks are texts of a model that try to notify people, to make a link, to add a field, or to break
// the message.
var attacks = map[string]string{
	"mention":   "echo <!channel> <!here> <@U123> &lt;!channel&gt; @channel",
	"link":      "echo <https://evil.example|ok> [ok](https://evil.example) ](https://evil.example)",
	"fence":     "echo ``` <!channel> ```",
	"quotes":    strings.Repeat(`"\`, 10000),
	"long":      "echo " + strings.Repeat("x", 70000),
	"escapes":   strings.Repeat("<&>", 5000),
	"lines":     strings.Repeat("a\n", 5000),
	"header":    "x\r\nBcc: all@corp.example\r\n\r\n.\r\nRCPT TO:<evil@evil.example>",
	"invalid":   "echo \xff\xfe\x00\x1b[31m \xed\xa0\x80",
	"direction": "echo \u202egnp.exe\u2066 \u200b",
	"wide":      strings.Repeat("\U0001F600", 5000),
	"empty":     "",
}

// The ready forms are accepted by strict servers, and no text of an event becomes a mention, a link or
// another field.
func TestForms(t *testing.T) {
	t.Parallel()
	for form, handler := range map[string]func(*webhooktest.Box) http.Handler{
		BodySlack: (*webhooktest.Box).Slack, BodyTeams: (*webhooktest.Box).Teams, BodyNtfy: (*webhooktest.Box).Ntfy,
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			var box webhooktest.Box
			server := httptest.NewServer(handler(&box))
			t.Cleanup(server.Close)
			client := onLoopback()
			send := func(h policyfile.HTTP, j *Delivery) *webhooktest.Message {
				t.Helper()
				h.URL, h.Body, h.Notify = server.URL+"/my_topic-1", form, true
				before := len(box.Messages())
				if reply, err := Send(t.Context(), client, &h, j); err != nil {
					t.Errorf("%+v: %.300v", reply, err)
					return &webhooktest.Message{}
				}
				return &box.Messages()[before]
			}
			m := send(policyfile.HTTP{}, blocked(t, "rm -rf / && curl 'a'", "Not here, <ada> & co."))
			for _, want := range []string{"Not here, <ada> & co.", "rm -rf / && curl 'a'", "Rule: no-rm", "Machine: ada on laptop", "Directory: /home/ada/rm", "Time: 2026-11-21T20:00:00Z"} {
				if !strings.Contains(m.Text, want) {
					t.Errorf("%q is missing in\n%s", want, m.Text)
				}
			}
			if m.Title != "Blocked: Bash in claude-code" || form == BodyNtfy && m.Topic != "my_topic-1" || m.Header.Get("Webhook-Id") != "d1" {
				t.Errorf("%+v", m)
			}
			for name, text := range attacks {
				j := blocked(t, text, "stop: "+text)
				for _, h := range []policyfile.HTTP{{}, {Title: `"x " + tool.command`, Text: "tool.command"}, {Text: `""`}} {
					m := send(h, j)
					if len(m.Active) > 0 || strings.ContainsAny(m.Title, "\r\n") || strings.ContainsAny(m.Text, "\x00\x1b\r\u202e") {
						t.Errorf("%s: active %.200q, title %.100q, text %.300q", name, m.Active, m.Title, m.Text)
					}
				}
			}
			if m := send(policyfile.HTTP{Title: `"On " + origin.host`, Text: `"Rule " + verdict.rule`}, blocked(t, "ls", "no")); m.Title != "On laptop" || !strings.Contains(m.Text, "Rule no-rm") || strings.Contains(m.Text, "ls") {
				t.Errorf("%+v", m)
			}
			if m := send(policyfile.HTTP{}, blocked(t, "curl -H 'Authorization: Bearer ghp_0123456789abcdefghijklmnopqrstuvwxyz'", "no")); strings.Contains(m.Raw, "ghp_0123") {
				t.Errorf("with a secret: %s", m.Text)
			}
			if m := send(policyfile.HTTP{}, deliveryOf(t, `{"kind":"agent.failed","agent":{"name":"codex"},"cause":"rate limit"}`)); m.Title != "agent.failed in codex" || !strings.Contains(m.Text, "rate limit") {
				t.Errorf("%+v", m)
			}
		})
	}
}

// The servers refuse the forms of other receivers, as the real ones do, and the error has their answer.
func TestFormsOfOthers(t *testing.T) {
	t.Parallel()
	var box webhooktest.Box
	for name, tt := range map[string]struct {
		handler http.Handler
		h       policyfile.HTTP
		want    string
	}{
		"plain to Slack":    {box.Slack(), policyfile.HTTP{}, "answered with status 400: no_text"},
		"wrong blocks":      {box.Slack(), policyfile.HTTP{Members: []policyfile.BodyPart{{Name: "blocks", Expr: `[{type: "header"}]`}}}, "400: invalid_blocks"},
		"text of a number":  {box.Slack(), policyfile.HTTP{Members: []policyfile.BodyPart{{Name: "text", Expr: "4"}}}, "400: invalid_payload"},
		"plain to Teams":    {box.Teams(), policyfile.HTTP{}, "400: TriggerInputSchemaMismatch"},
		"plain to ntfy":     {box.Ntfy(), policyfile.HTTP{}, `400: {"code":40009`},
		"wrong ntfy topic":  {box.Ntfy(), policyfile.HTTP{Members: []policyfile.BodyPart{{Name: "topic", Expr: `"a b"`}}}, `400: {"code":40009`},
		"failed expression": {box.Slack(), policyfile.HTTP{Members: []policyfile.BodyPart{{Name: "text", Expr: "tool.input.a.b"}}}, "body: nil has no member b"},
		"no finite number":  {box.Slack(), policyfile.HTTP{Members: []policyfile.BodyPart{{Name: "text", Expr: "1 / 0"}}}, "body: 1 / 0: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.handler)
			t.Cleanup(server.Close)
			tt.h.URL = server.URL
			reply, err := Send(context.WithoutCancel(t.Context()), onLoopback(), &tt.h, blocked(t, "rm", "no"))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v, want %s", reply, err, tt.want)
			}
		})
	}
}

// A body of expressions is JSON with the order of the policy, and the size of its texts is limited.
func TestMembers(t *testing.T) {
	t.Parallel()
	h := policyfile.HTTP{Members: []policyfile.BodyPart{
		{Name: "z\"", Expr: `"blocked: " + tool.command`},
		{Name: "a", List: true, Parts: []policyfile.BodyPart{{Expr: "4"}, {Parts: []policyfile.BodyPart{{Name: "by", Expr: "verdict.reasons"}}}}},
		{Name: "host", Expr: "origin.host"},
	}}
	m, err := Message(&h, blocked(t, "rm <a> & \xff", "no"))
	if want := `{"z\"":"blocked: rm <a> & ` + "\ufffd" + `","a":[4,{"by":["no"]}],"host":"laptop"}`; err != nil || string(m.Body) != want || m.Type != "" {
		t.Errorf("%v: %s, want %s", err, m.Body, want)
	}
	m, err = Message(&h, blocked(t, strings.Repeat("é", 1<<20), "no"))
	if err != nil || len(m.Body) > maxText+200 || !json.Valid(m.Body) || !strings.Contains(string(m.Body), `é..."`) {
		t.Errorf("%v, %d bytes", err, len(m.Body))
	}
	h.Members = []policyfile.BodyPart{{Name: "a", Expr: "map(1..200, tool.command)"}}
	if _, err := Message(&h, blocked(t, strings.Repeat("x", 20000), "no")); err == nil || !strings.Contains(err.Error(), "more than 1048576") {
		t.Errorf("a large body: %v", err)
	}
}
