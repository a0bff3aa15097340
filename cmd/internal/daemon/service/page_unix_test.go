//go:build linux || darwin

package service

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd/ancestor"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// post sends a request to a daemon's socket and returns the status and the body.
func post(t *testing.T, c *http.Client, address, kind, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// The daemon serves its page after a client of the socket has asked for it, shows its policies and
// Records, and confirms a browser unless an agent asks. After a restart, it knows the browser.
func TestPage(t *testing.T) {
	t.Parallel()
	place := shortPlace(t)
	policy := "version: 1\nhooks:\n  - {name: no-push, on: tool.before, match: {command: git push}, block: no <pushing>}\n"
	if err := os.WriteFile(place.Policy, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := client.Socket(place.State)
	start := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, place, slog.New(slog.DiscardHandler), Options{}) }()
		await.Until(t, "the daemon replies", func() bool {
			_, err := server.Look(t.Context(), socket)
			return err == nil
		})
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run = %v", err)
			}
		}
	}
	stop := start()
	if err := records.Note(place, "Test", "hello"); err != nil {
		t.Fatal(err)
	}
	daemon := server.Client(socket, time.Minute)
	status, text := post(t, daemon, "http://grapnel/v1/ui", "application/json", "{}")
	var reply struct{ Link string }
	if err := json.Unmarshal([]byte(text), &reply); err != nil || status != http.StatusOK {
		t.Fatalf("/v1/ui answers %d, %s, %v", status, text, err)
	}
	base, _, _ := strings.Cut(reply.Link, "/login")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	get := func(address string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s answers %s, %v: %s", address, resp.Status, err, body)
		}
		return string(body)
	}
	if body := get(reply.Link); !strings.Contains(body, "works") {
		t.Errorf("the overview is %s", body)
	}
	if body := get(base + "/policy"); !strings.Contains(body, "no-push") || !strings.Contains(body, "grapnel.yaml:3") || !strings.Contains(body, "no &lt;pushing&gt;") {
		t.Errorf("the policies are %s", body)
	}
	await.Until(t, "the page shows the Record", func() bool { return strings.Contains(get(base+"/events"), "<b>test</b>") })

	key := strings.Repeat("k", 64)
	_, code := post(t, browser, base+"/approvals/code", "application/x-www-form-urlencoded", url.Values{"key": {key}}.Encode())
	agent, err := ancestor.Of(os.Getpid()) // an agent may run the tests
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system shows no ancestors of processes")
	}
	if err != nil {
		t.Fatal(err)
	}
	want := http.StatusOK
	if agent != nil {
		want = http.StatusForbidden
	}
	for _, step := range []struct {
		code string
		want int
	}{{"0000-000x", http.StatusForbidden}, {code, want}, {code, http.StatusForbidden}} {
		if status, text := post(t, daemon, "http://grapnel/v1/ui/confirm", "application/json", `{"code":"`+step.code+`"}`); status != step.want {
			t.Errorf("the code %s answers %d, want %d: %s", step.code, status, step.want, text)
		}
	}
	stop()
	stop = start()
	defer stop()
	if body := get(base + "/approvals"); strings.Contains(body, "Log in") {
		t.Error("after a restart, the daemon does not know the browser")
	}
}
