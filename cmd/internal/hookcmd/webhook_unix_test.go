//go:build system && unix

package hookcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// An event goes to the program in the same directory, without environment variables that could
// change its trusted certificates. The program's output is the error.
//
// Proves: IC-57
func TestSend(t *testing.T) {
	t.Setenv("SSL_CERT_FILE", "/tmp/somebody.pem")
	dir := t.TempDir()
	place := local.Place{Policy: filepath.Join(dir, "grapnel.yaml"), State: filepath.Join(dir, "state")}
	self := filepath.Join(dir, "bin", "grapnel-hook")
	w := policyfile.Webhook{Name: "src::x", URL: "https://example.com/<a>", Timeout: policyfile.Duration(2 * time.Second), Body: "ironclaw"}
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "shell", Input: json.RawMessage(`{"a":1}`)}}

	if err := send(t.Context(), place, self, w, ev); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "bin", "grapnel")) || !strings.Contains(err.Error(), "same directory") {
		t.Errorf("without the program: %v", err)
	}
	program := filepath.Join(dir, "bin", "grapnel")
	programs.Write(t, program, "#!/bin/sh\ncat >got.json; echo \"$1\" >args; env >env\n")
	if err := os.WriteFile(place.Policy, []byte("version: 1\nnetworks: [10.1.2.0/24, 'fd12::/16']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := send(t.Context(), place, self, w, ev); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "bin", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var got Delivery
	if err := json.Unmarshal([]byte(read("got.json")), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Delivery{Webhook: w, Reach: policyfile.Reach{Networks: []string{"10.1.2.0/24", "fd12::/16"}}, Event: encoded(t, ev)}, got); diff != "" {
		t.Errorf("the program reads (-want +got)\n%s", diff)
	}
	if args, env := read("args"), read("env"); args != "deliver\n" || strings.Contains(env, "SSL_CERT") {
		t.Errorf("arguments %q, environment\n%s", args, env)
	}

	programs.Write(t, program, "#!/bin/sh\ncat >/dev/null; echo 'grapnel: error: nobody is there' >&2; exit 1\n")
	if err := send(t.Context(), place, self, w, ev); err == nil || !strings.Contains(err.Error(), "exit code 1: nobody is there") {
		t.Errorf("a delivery that fails: %v", err)
	}
	programs.Write(t, program, "#!/bin/sh\nexec sleep 60\n")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // must fire: the program hangs
	defer cancel()
	if err := send(ctx, place, self, w, ev); err == nil || ctx.Err() == nil {
		t.Errorf("one that hangs: %v", err)
	}
}

// The program is asked once about each webhook that it allows and each list of networks. If it refuses
// or cannot answer, the webhook is refused, and the next event asks again.
func TestWebhookIsAskedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place := local.Place{Policy: filepath.Join(dir, "grapnel.yaml"), State: filepath.Join(dir, "state")}
	w := policyfile.Webhook{Name: "src::x", URL: "https://example.com/"}
	ask := func() error {
		return askedOnce(place, w, func() (string, error) { return beside(filepath.Join(dir, "grapnel-hook")) })
	}
	asked := func() int {
		text, _ := os.ReadFile(filepath.Join(dir, "asked"))
		return strings.Count(string(text), "\n")
	}
	if err := ask(); err == nil || !strings.Contains(err.Error(), "same directory") {
		t.Errorf("without the program: %v", err)
	}
	program := filepath.Join(dir, "grapnel")
	programs.Write(t, program, "#!/bin/sh\nexit 1\n")
	if err := ask(); err == nil || !strings.Contains(err.Error(), "exit code 1") {
		t.Errorf("a program that fails: %v", err)
	}
	programs.Write(t, program, `#!/bin/sh
read -r question; echo x >>asked
case "$question" in *10.1.2.0*'"check":true'*) echo '{}' ;; *) echo '{"error":"10.1.2.3 is private"}' ;; esac
`)
	for i := range 2 {
		if err := ask(); err == nil || err.Error() != "10.1.2.3 is private" || asked() != i+1 {
			t.Errorf("a refusal: %v after %d questions, want one for each event", err, asked())
		}
	}
	if err := os.WriteFile(place.Policy, []byte("version: 1\nnetworks: [10.1.2.0/24]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := ask(); err != nil || asked() != 3 {
			t.Errorf("with its network: %v after %d questions, want one more", err, asked())
		}
	}
	w.Headers = map[string]string{"X-Team": "a"}
	if err := ask(); err != nil || asked() != 4 {
		t.Errorf("after an edit: %v after %d questions, want one more", err, asked())
	}
	// The store does not grow without end.
	for i := range maxAllowed {
		if err := os.WriteFile(filepath.Join(place.State, "webhooks", fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.URL += "other"
	if err := ask(); err != nil {
		t.Error(err)
	}
	if kept, err := os.ReadDir(filepath.Join(place.State, "webhooks")); err != nil || len(kept) != 1 {
		t.Errorf("%d answers are stored, %v, want one", len(kept), err)
	}
}

// The program for requests starts without environment variables, gets the unchanged event and a
// shorter timeout. Its output is the answer or the error.
func TestAsker(t *testing.T) {
	t.Setenv("SSL_CERT_FILE", "/tmp/somebody.pem")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	dir := t.TempDir()
	program := filepath.Join(dir, "grapnel")
	writeProgram := func(text string) {
		t.Helper()
		programs.Write(t, program, "#!/bin/sh\ncat >got.json; /usr/bin/env >env; pwd >dir\n"+text+"\n")
	}
	sp, err := spool.Open(filepath.Join(dir, "spool"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sp.Close() })
	a := &ask.Hook{
		HTTP:     policyfile.HTTP{Name: "x", Source: "src", URL: "https://example.com/", Timeout: policyfile.Duration(time.Hour), Breaker: policyfile.Breaker{Failures: 2}},
		Reach:    func() policyfile.Reach { return policyfile.Reach{Networks: []string{"10.0.0.0/8"}} },
		Circuits: sp,
		Send: func(ctx context.Context, question []byte) (ask.Reply, error) {
			return runDeliver(ctx, program, "x", question)
		},
	}
	ev := &grapnel.Event{ID: "e", Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "shell", Input: json.RawMessage(`{"a":1.0,"b":"<&>"}`)}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
	defer cancel()

	writeProgram(`echo '{"answer":{"decision":"block","reason":"no"}}'`)
	if out, err := a.Handle(ctx, ev); err != nil || out.Decision != grapnel.Block || out.Reason != "no" {
		t.Errorf("%+v, %v", out, err)
	}
	got, _ := os.ReadFile(filepath.Join(dir, "got.json"))
	var q ask.Question
	if err := json.Unmarshal(got, &q); err != nil || q.HTTP.Name != "src::x" || q.ID != "e" || len(q.Networks) != 1 || q.HTTP.Timeout != policyfile.Duration(time.Hour) || !strings.Contains(string(q.Event), `{"a":1.0,"b":"<&>"}`) {
		t.Errorf("%v: it reads %s", err, got)
	}
	env, _ := os.ReadFile(filepath.Join(dir, "env"))
	for line := range strings.Lines(string(env)) { // the shell sets its own
		if name, _, _ := strings.Cut(line, "="); name != "PWD" && name != "SHLVL" && name != "_" && name != "OLDPWD" {
			t.Errorf("it is started with %s", line)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	if _, err := a.Handle(short, ev); err != nil {
		t.Error(err)
	}
	end, _ := short.Deadline()
	got, _ = os.ReadFile(filepath.Join(dir, "got.json"))
	if err := json.Unmarshal(got, &q); err != nil || !q.Until.Before(end) || end.Sub(q.Until) > 200*time.Millisecond {
		t.Errorf("it gets until %v, and there is time until %v", q.Until, end)
	}

	for text, want := range map[string]string{
		`exit 2`:                                "exit code 2",
		`echo nonsense`:                         "do both programs have the same version?",
		`echo '{"answer":{"decision":"deny"}}'`: "cannot read its answer",
		`kill -9 $$`:                            "was ended by signal",
		`echo 'grapnel: error: no' >&2; exit 1`: "exit code 1: no",
	} {
		writeProgram(text)
		b := *a
		b.HTTP.URL += strings.ReplaceAll(want, " ", "") // another circuit breaker
		if out, err := b.Handle(ctx, ev); err == nil || !strings.Contains(err.Error(), want) || out.Decision != grapnel.None {
			t.Errorf("%s: %v, %v, want %s", text, out, err, want)
		}
	}

	// A failure of the server opens the circuit breaker; an invalid request does not.
	writeProgram(`echo '{"error":"status 400"}'`)
	for range 4 {
		if _, err := a.Handle(ctx, ev); err == nil || err.Error() != "status 400" {
			t.Error(err)
		}
	}
	writeProgram(`echo '{"error":"down","failed":true,"timeout":true}'`)
	for range 2 {
		if _, err := a.Handle(ctx, ev); !errors.Is(err, grapnel.ErrTimeout) {
			t.Error(err)
		}
	}
	writeProgram(`echo '{}'; echo >asked`)
	if _, err := a.Handle(ctx, ev); err == nil || !strings.Contains(err.Error(), "circuit open until") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "asked")); err == nil {
		t.Error("the program is started while the circuit is open")
	}
	other := *a
	other.HTTP.Source = "project"
	if _, err := other.Handle(ctx, ev); err != nil {
		t.Errorf("another hook pays for it: %v", err)
	}
}

func encoded(t *testing.T, ev *grapnel.Event) json.RawMessage {
	t.Helper()
	text, err := rawjson.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
