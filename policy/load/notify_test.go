package load_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// The settings of a `notify:` hook reach the function that makes the hook, also from a
// snapshot. The hook runs after the Verdict, for any on_error of the file.
func TestNotify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "grapnel.yaml")
	text := `
version: 1
strict: true
defaults: {timeout: 45s, on_error: ask}
hooks:
  - {name: short, on: tool.before, notify: https://hooks.example.com/agents}
  - name: long
    on: [tool.before, agent.failed]
    when: kind == "agent.failed" || verdict.decision == "block"
    notify:
      url: http://10.0.0.1:8080/agents?x=y
      secret: [env:NEW, file:/etc/key, whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]
      headers: {x-team: core, authorization: env:TOKEN}
      body: cloudevents
      ordered: true
      timeout: 5s
      max_in_flight: 4
  - name: custom
    on: tool.before
    notify:
      url: https://a.example
      body: {text: '"blocked: " + tool.command', n: 4, of: [origin.host, {rule: verdict.rule}]}
  - {name: chat, on: tool.before, notify: {url: https://ntfy.sh/my_topic-1, body: ntfy, title: '"Blocked"', text: verdict.reason}}
  - name: mail
    on: tool.before
    notify: {smtp: {server: "mail.example.com:587", from: grapnel@example.com, to: [a@example.com, "B <b@example.com>"], user: u, password: file:pw}}
  - {name: late, on: agent.after, timeout: 2s, notify: {url: https://a.example, body: summary}}
`
	want := []policyfile.HTTP{
		{Name: "short", URL: "https://hooks.example.com/agents", Notify: true, Async: true, Timeout: policyfile.Duration(30 * time.Second)},
		{
			Name: "long", URL: "http://10.0.0.1:8080/agents?x=y", Secrets: []string{"env:NEW", "file:/etc/key", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
			Headers: map[string]string{"x-team": "core", "authorization": "env:TOKEN"}, Body: "cloudevents", Ordered: true, Most: 4,
			Notify: true, Async: true, Timeout: policyfile.Duration(5 * time.Second),
		},
		{
			Name: "custom", URL: "https://a.example", Notify: true, Async: true, Timeout: policyfile.Duration(30 * time.Second), Members: []policyfile.BodyPart{
				{Name: "text", Expr: `"blocked: " + tool.command`},
				{Name: "n", Expr: "4"},
				{Name: "of", List: true, Parts: []policyfile.BodyPart{{Expr: "origin.host"}, {Parts: []policyfile.BodyPart{{Name: "rule", Expr: "verdict.rule"}}}}},
			},
		},
		{Name: "chat", URL: "https://ntfy.sh/my_topic-1", Body: "ntfy", Title: `"Blocked"`, Text: "verdict.reason", Notify: true, Async: true, Timeout: policyfile.Duration(30 * time.Second)},
		{
			Name: "mail", Notify: true, Async: true, Timeout: policyfile.Duration(30 * time.Second),
			SMTP: &policyfile.SMTP{Server: "mail.example.com:587", From: "grapnel@example.com", To: []string{"a@example.com", "B <b@example.com>"}, User: "u", Password: "file:pw"},
		},
		{Name: "late", URL: "https://a.example", Body: "summary", Notify: true, Async: true, Timeout: policyfile.Duration(2 * time.Second)},
	}
	for i := range want {
		want[i].Source, want[i].Dir, want[i].Scope = file, dir, grapnel.ScopeUser
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"the file", "the snapshot"} {
		if from == "the snapshot" {
			if err := os.WriteFile(file, []byte("broken"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var made []policyfile.HTTP
		set := load.Policies(load.Request{
			Files: []load.File{{Path: file, Scope: grapnel.ScopeUser, Must: true}}, Snapshots: filepath.Join(dir, "snapshots"),
			Runners: policy.Runners{HTTP: func(policyfile.HTTP) (grapnel.Hook, error) { return nil, errors.New("nobody is asked") }, Notify: func(h policyfile.HTTP) (grapnel.Hook, error) { made = append(made, h); return noop.Hook{}, nil }},
		})
		if diff := cmp.Diff(want, made); diff != "" {
			t.Errorf("%s (-want +got)\n%s", from, diff)
		}
		for _, s := range set.Specs {
			if s.Source.File == file && !notice.Own(&s) && s.Line > 0 && s.Phase != grapnel.PhaseObserve {
				t.Errorf("%s: %s runs in the phase %v", from, s.Name, s.Phase)
			}
		}
	}
}

// A webhook gets its events, including blocked ones, and cannot change the Verdict. Without a
// function for `notify:`, these hooks are skipped; `http:` hooks are not.
func TestNotifyGetsEvents(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	text := `
version: 1
hooks:
  - {name: guard, on: tool.before, match: {command: rm}, block: no}
  - {name: team, on: [tool.before, agent.failed], when: 'kind == "agent.failed" || verdict.decision == "block"', notify: https://a.example}
  - {name: judge, on: tool.before, http: https://a.example}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var heard []string
	req := load.Request{
		Files: []load.File{{Path: file}},
		Runners: policy.Runners{
			HTTP: func(policyfile.HTTP) (grapnel.Hook, error) { return noop.Hook{}, nil },
			Notify: func(policyfile.HTTP) (grapnel.Hook, error) {
				return grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
					heard = append(heard, string(ev.Kind)+" "+ev.Verdict().Decision.String())
					return grapnel.Outcome{Decision: grapnel.Block, Reason: "not its to say"}, errors.New("nobody cares")
				}), nil
			},
		},
	}
	e, err := grapnel.New(load.Policies(req).Specs, &grapnel.Options{Background: atOnce})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		ev   *grapnel.Event
		want grapnel.Decision
	}{
		{fixture.Shell("ls"), grapnel.None},
		{fixture.Shell("rm x"), grapnel.Block},
		{&grapnel.Event{Kind: grapnel.AgentFailed}, grapnel.None},
	} {
		if v := e.Fire(t.Context(), tt.ev); v.Decision != tt.want || strings.Contains(v.Reason(), "not its") {
			t.Errorf("%s: %+v, want %v", tt.ev.Kind, v, tt.want)
		}
	}
	if diff := cmp.Diff([]string{"tool.before block", "agent.failed none"}, heard); diff != "" {
		t.Errorf("the webhook heard (-want +got)\n%s", diff)
	}
	req.Notify = nil
	if set := load.Policies(req); len(set.Specs) != 3 || set.Files[0].State != load.Valid {
		t.Errorf("without anybody who tells: %+v", set)
	}
	req.Notify = func(policyfile.HTTP) (grapnel.Hook, error) { return nil, errors.New("nobody may go there") }
	if f := load.Policies(req).Files[0]; f.State != load.Broken || !strings.Contains(f.Errors[0].Error(), `hook "team": notify: nobody may go there`) {
		t.Errorf("an address that is refused: %+v", f)
	}
}

// atOnce runs observing hooks immediately and returns their errors.
func atOnce(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) (err error) {
	for _, h := range hooks {
		_, failed := h.Hook.Handle(ctx, ev)
		err = errors.Join(err, failed)
	}
	return err
}

// A project's policy may name a webhook, and only the event is sent to it. If the user's grants
// exclude http, the webhook gets nothing.
func TestNotifyOfAProject(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ notify, want string }{
		"plain":    {"https://a.example/x", ""},
		"headers":  {"{url: https://a.example, headers: {x-team: core}, ordered: true}", ""},
		"variable": {"{url: https://a.example, secret: env:HOME}", "a project has no `secret`"},
		"literal":  {"{url: https://a.example, secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}", "a project has no `secret`"},
		"header":   {"{url: https://a.example, headers: {x: env:GITHUB_TOKEN}}", "header x: a project must not send the value"},
		"mail":     {"{smtp: {server: 'mail.example.com:587', from: a@b.example, to: c@d.example}}", "a project sends no e-mail"},
		"clear":    {"http://127.0.0.1:8080/", "hooks of a project may only use https"},
		"shouted":  {"HTTP://127.0.0.1:8080/", "hooks of a project may only use https"},
	} {
		p := newProject(t, "version: 1\nhooks:\n  - name: x\n    on: tool.before\n    notify: "+tt.notify+"\n")
		if _, errs := load.Examine(p.file, filepath.Dir(p.file), load.Packs{}); tt.want == "" && len(errs) > 0 || tt.want != "" && (len(errs) == 0 || !strings.Contains(errs[0].Error(), "grapnel.yaml:3:1: hook \"x\": notify: "+tt.want)) {
			t.Errorf("%s: it is examined with the errors %v, want %q", name, errs, tt.want)
		}
	}
	for grants, want := range map[string]int{"": 1, "grants: [{source: '**', may: http}]\n": 1, "grants: [{source: '**', may: [allow, run]}]\n": 0} {
		p := newProject(t, "version: 1\nhooks:\n  - {name: far, on: tool.before, notify: 'https://a.example'}\n")
		p.trust()
		made := 0
		set := load.Policies(load.Request{
			Files:     append(policiesOf(t, grapnel.ScopeUser, "version: 1\n"+grants), load.File{Path: p.file, Scope: grapnel.ScopeProject, Trust: true}),
			Snapshots: p.snapshots(), Trusts: p.trusts(),
			Runners: policy.Runners{Notify: func(policyfile.HTTP) (grapnel.Hook, error) { made++; return noop.Hook{}, nil }},
		})
		if message := set.Files[1].Notice; made != want || (want == 0) != strings.Contains(message, "reach servers") {
			t.Errorf("%q: %d hooks, the person is told %q", grants, made, message)
		}
	}
}
