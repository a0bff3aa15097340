//go:build system && unix

package main

import (
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/internal/webhook/webhooktest"
)

const claudeEvil = `{"session_id":"s","cwd":"/tmp","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"rm <!channel> \r\nBcc: x@evil.example ](https://evil.example)"}}`

// A hook that Slack refuses is reported until a later event arrives: by status, doctor and the test of the
// hook, which name the way out.
func TestNotifySlack(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var box webhooktest.Box
	server := httptest.NewServer(box.Slack())
	t.Cleanup(server.Close)
	hooks := func(more string) string {
		return "version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - {name: guard, on: tool.before, match: {command: rm}, block: Not here.}\n" +
			"  - {name: chat, on: tool.before, when: verdict.decision == \"block\", notify: {url: " + server.URL + "/services/T0/s3cret-token" + more + "}}\n"
	}
	writePolicy(t, root, hooks(""))
	runHook(t, "claude-code", root, claudeEvil)
	const refusal = "127.0.0.1 answered with status 400: no_text"
	await.Until(t, "the first attempt is made", func() bool {
		_, _, _ = typed(t, root, "drain")
		list, _, _ := typed(t, root, "deliveries")
		return strings.Contains(list, refusal)
	})
	wants(t, root, 0, `its target refuses deliveries: `+refusal, "status")
	if report, _, _ := typed(t, root, "doctor", "--no-run"); !strings.Contains(report, "notify.refused") || !strings.Contains(report, refusal) {
		t.Errorf("%s", report)
	}
	tried := wants(t, root, 1, "answer  400 no_text", "deliveries", "test", "chat")
	for _, want := range []string{"result  failed: " + refusal, `"text":"This is a test of the hook chat. Nothing was blocked."`, "next    check `body` of the hook", "to      http://127.0.0.1:"} {
		if !strings.Contains(tried, want) {
			t.Errorf("%q is missing in\n%s", want, tried)
		}
	}
	if strings.Contains(tried, "s3cret") {
		t.Errorf("with the address: %s", tried)
	}
	wants(t, root, 1, "known hooks: chat", "deliveries", "test", "chut")
	wants(t, root, 64, "needs HOOK", "deliveries", "test")

	writePolicy(t, root, hooks(", body: slack"))
	var trial struct {
		Delivered bool
		Status    int
		Answer    string
	}
	if err := json.Unmarshal([]byte(wants(t, root, 0, "", "deliveries", "test", "chat", "--json")), &trial); err != nil || !trial.Delivered || trial.Status != 200 || trial.Answer != "ok" {
		t.Errorf("%v: %+v", err, trial)
	}
	runHook(t, "claude-code", root, claudeEvil)
	await.Until(t, "the message arrives", func() bool {
		_, _, _ = typed(t, root, "drain")
		return len(box.Messages()) == 2
	})
	if m := box.Messages()[1]; len(m.Active) > 0 || m.Title != "Blocked: Bash in claude-code" || !strings.Contains(m.Text, "<!channel>") || !strings.Contains(m.Text, "Not here.") || !strings.Contains(m.Text, "Rule: guard") {
		t.Errorf("%+v", m)
	}
	await.Until(t, "the success is stored", func() bool {
		output, _, _ := typed(t, root, "status")
		return !strings.Contains(output, "refuses deliveries")
	})
	if report, _, _ := typed(t, root, "doctor", "--no-run"); strings.Contains(report, "notify.refused") {
		t.Errorf("%s", report)
	}
}

// One policy sends to ntfy, by e-mail and to a server with its own format.
func TestNotifyForms(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var phone, teams webhooktest.Box
	ntfy, card := httptest.NewServer(phone.Ntfy()), httptest.NewServer(teams.Teams())
	t.Cleanup(ntfy.Close)
	t.Cleanup(card.Close)
	mail := webhooktest.NewMailServer(t)
	mail.Password = "hunter2"
	mail.Start(t)
	for name, text := range map[string]string{
		"ca.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: mail.Authority})), "pw": "hunter2\n",
		"grapnel.yaml": `version: 1
networks: [127.0.0.0/8]
ca: ca.pem
hooks:
  - {name: guard, on: tool.before, match: {command: rm}, block: Not here.}
  - {name: phone, on: tool.before, notify: {url: ` + ntfy.URL + `/my_topic, body: ntfy, title: '"Blocked on " + origin.host'}}
  - {name: card, on: tool.before, notify: {url: ` + card.URL + `/x, body: teams}}
  - {name: mail, on: tool.before, notify: {smtp: {server: "` + mail.Addr + `", from: grapnel@corp.example, to: [ada@corp.example], user: grapnel, password: file:pw}}}
`,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"phone", "card", "mail"} {
		if output := wants(t, root, 0, "result  delivered", "deliveries", "test", name); strings.Contains(output, "hunter2") || strings.Contains(output, "my_topic") {
			t.Errorf("%s", output)
		}
	}
	runHook(t, "claude-code", root, claudeEvil)
	await.Until(t, "all messages arrive", func() bool {
		_, _, _ = typed(t, root, "drain")
		return len(phone.Messages()) == 2 && len(teams.Messages()) == 2 && len(mail.Box.Messages()) == 2
	})
	for _, box := range []*webhooktest.Box{&phone, &teams, mail.Box} {
		if m := box.Messages()[1]; len(m.Active) > 0 || !strings.HasPrefix(m.Title, "Blocked") || strings.Contains(m.Title, "\n") || !strings.Contains(m.Text, "rm <!channel>") || m.Header.Get("Bcc") != "" {
			t.Errorf("%+v", m)
		}
	}
}
