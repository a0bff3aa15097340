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
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// loadText loads a policy file with this text, and returns the servers of its `http:` hooks.
func loadText(t *testing.T, scope grapnel.Scope, text string) (load.Set, []policyfile.HTTP) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var made []policyfile.HTTP
	set := load.Policies(load.Request{
		Files: []load.File{{Path: file, Scope: scope, Must: true}},
		Runners: policy.Runners{HTTP: func(h policyfile.HTTP) (grapnel.Hook, error) {
			if h.Source != file || h.Dir != filepath.Dir(file) {
				t.Errorf("%s is of %q in %q", h.Name, h.Source, h.Dir)
			}
			h.Source, h.Dir = "", ""
			made = append(made, h)
			return noop.Hook{}, nil
		}},
	})
	return set, made
}

// The settings of an `http:` hook reach the function that makes the hook. The hook runs like a
// program.
func TestHTTP(t *testing.T) {
	t.Parallel()
	set, made := loadText(t, grapnel.ScopeUser, `
version: 1
defaults: {timeout: 45s, on_error: ask}
hooks:
  - {name: short, on: tool.before, http: https://policy.example.com/v1}
  - name: long
    on: [tool.before, prompt.before]
    match: {tool: shell}
    http:
      url: http://10.0.0.1:8080/decide?x=y
      secret: [env:NEW, file:/etc/key, whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]
      headers: {x-team: core, authorization: env:TOKEN}
      body: summary
      breaker: {failures: 2, cooldown: 1m}
    timeout: 3s
    on_error: closed
    priority: 5
  - {name: told, on: agent.after, http: {url: https://a.example, secret: env:K}, async: true}
`)
	want := []policyfile.HTTP{
		{Name: "short", URL: "https://policy.example.com/v1", Timeout: policyfile.Duration(30 * time.Second)},
		{
			Name: "long", URL: "http://10.0.0.1:8080/decide?x=y", Secrets: []string{"env:NEW", "file:/etc/key", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
			Headers: map[string]string{"x-team": "core", "authorization": "env:TOKEN"}, Body: "summary",
			Breaker: policyfile.Breaker{Failures: 2, Cooldown: policyfile.Duration(time.Minute)}, Timeout: policyfile.Duration(3 * time.Second),
		},
		{Name: "told", URL: "https://a.example", Secrets: []string{"env:K"}, Async: true, Timeout: policyfile.Duration(30 * time.Second)},
	}
	if diff := cmp.Diff(want, made); diff != "" || len(set.Specs) != 3 {
		t.Fatalf("%d Specs, (-want +got)\n%s", len(set.Specs), diff)
	}
	for i, want := range []grapnel.Spec{
		{Phase: grapnel.PhaseStep, OnError: grapnel.OnErrorAsk, Timeout: 30 * time.Second},
		{Phase: grapnel.PhaseStep, OnError: grapnel.OnErrorClosed, Timeout: 3 * time.Second, Priority: 5 - policyfile.DefaultPriority},
		{Phase: grapnel.PhaseObserve, OnError: grapnel.OnErrorAsk, Timeout: 30 * time.Second},
	} {
		s := set.Specs[i]
		if diff := cmp.Diff(want, grapnel.Spec{Phase: s.Phase, OnError: s.OnError, Timeout: s.Timeout, Priority: s.Priority}); diff != "" {
			t.Errorf("%s (-want +got)\n%s", s.Name, diff)
		}
	}
}

// Without a function for `http:`, these hooks are skipped, like programs. A strict file fails
// closed, and an invalid address blocks like every other error in a policy.
func TestHTTPIsMade(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nstrict: true\nhooks:\n  - {name: x, on: tool.before, http: https://a.example}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	req := load.Request{Files: []load.File{{Path: file}}}
	if set := load.Policies(req); len(set.Specs) != 0 || set.Files[0].State != load.Valid {
		t.Errorf("without anybody who asks: %+v", set)
	}
	req.HTTP = func(policyfile.HTTP) (grapnel.Hook, error) { return noop.Hook{}, nil }
	if set := load.Policies(req); len(set.Specs) != 1 || set.Specs[0].OnError != grapnel.OnErrorClosed {
		t.Errorf("strict: %+v", set)
	}
	req.HTTP = func(policyfile.HTTP) (grapnel.Hook, error) { return nil, errors.New("nobody may go there") }
	set := load.Policies(req)
	if f := set.Files[0]; f.State != load.Broken || !strings.Contains(f.Errors[0].Error(), `grapnel.yaml:4:1: hook "x": http: nobody may go there`) {
		t.Errorf("an address that is refused: %+v", f)
	}
}

// A project's policy may name a server. It cannot send a secret, a variable of the environment,
// the content of a file, or anything unencrypted to it, and it cannot open a network.
func TestHTTPOfAProject(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ http, want string }{
		"plain":    {"https://a.example/decide", ""},
		"headers":  {"{url: https://a.example, headers: {x-team: core}, breaker: {failures: 1}}", ""},
		"variable": {"{url: https://a.example, secret: env:HOME}", "a project has no `secret`"},
		"file":     {"{url: https://a.example, secret: ['file:~/.ssh/id_rsa']}", "a project has no `secret`"},
		"literal":  {"{url: https://a.example, secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}", "a project has no `secret`"},
		"header":   {"{url: https://a.example, headers: {x: env:GITHUB_TOKEN}}", "header x: a project must not send the value"},
		"contents": {"{url: https://a.example, headers: {x: 'file:~/.netrc'}}", "header x: a project must not send the value"},
		"clear":    {"http://127.0.0.1:8080/", "may only use https"},
		"shouted":  {"HTTP://127.0.0.1:8080/", "may only use https"},
	} {
		text := "version: 1\nhooks:\n  - name: x\n    on: tool.before\n    http: " + tt.http + "\n"
		for _, scope := range []grapnel.Scope{grapnel.ScopeProject, grapnel.ScopePlugin} {
			set, made := loadText(t, scope, text)
			f := set.Files[0]
			switch {
			case tt.want == "":
				if f.State != load.Valid || len(made) != 1 || made[0].Scope != scope {
					t.Errorf("%s, %s: %+v, %d hooks", name, scope, f, len(made))
				}
			case f.State != load.Broken || len(made) != 0 || !strings.Contains(f.Errors[0].Error(), "grapnel.yaml:3:1: hook \"x\": http: ") || !strings.Contains(f.Errors[0].Error(), tt.want):
				t.Errorf("%s, %s: %+v, want %q", name, scope, f, tt.want)
			}
		}
		for _, scope := range []grapnel.Scope{grapnel.ScopeManaged, grapnel.ScopeUser, grapnel.ScopeSession} {
			if set, made := loadText(t, scope, text); set.Files[0].State != load.Valid || len(made) != 1 {
				t.Errorf("%s, %s: %+v", name, scope, set.Files[0])
			}
		}
		file := filepath.Join(t.TempDir(), "grapnel.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, errs := load.Examine(file, filepath.Dir(file), load.Packs{}); (len(errs) == 0) != (tt.want == "") {
			t.Errorf("%s: it is examined with the errors %v", name, errs)
		}
	}
}

// The server of a trusted project is called unless the grants of a stronger policy exclude
// that. Its allow has no effect unless they grant it.
func TestHTTPOfATrustedProject(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		grants string
		asked  bool
		want   grapnel.Decision
	}{
		"nobody says anything": {"", true, grapnel.None},
		"granted":              {"grants: [{source: '**', may: [allow, http]}]\n", true, grapnel.Allow},
		"not granted":          {"grants: [{source: '**', may: [allow, run]}]\n", false, grapnel.None},
	} {
		p := newProject(t, "version: 1\nhooks:\n  - {name: far, on: tool.before, http: 'https://a.example'}\n")
		p.trust()
		asked := 0
		req := load.Request{
			Files:     append(policiesOf(t, grapnel.ScopeUser, "version: 1\n"+tt.grants), load.File{Path: p.file, Scope: grapnel.ScopeProject, Trust: true}),
			Snapshots: p.snapshots(), Trusts: p.trusts(),
			Runners: policy.Runners{HTTP: func(policyfile.HTTP) (grapnel.Hook, error) {
				return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
					asked++
					return grapnel.Outcome{Decision: grapnel.Allow}, nil
				}), nil
			}},
		}
		set := load.Policies(req)
		e, err := grapnel.New(set.Specs, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Fire(t.Context(), fixture.Shell("ls")); v.Decision != tt.want || (asked > 0) != tt.asked {
			t.Errorf("%s: %v, asked %d times, want %v", name, v.Decision, asked, tt.want)
		}
		if message := set.Files[1].Notice; strings.Contains(message, "1 of 1 hooks of") == tt.asked || !tt.asked && !strings.Contains(message, "reach servers") {
			t.Errorf("%s: the person is told %q", name, message)
		}
	}
}
