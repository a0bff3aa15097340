//go:build unix

package answer

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

// IC-57: an event goes to the program beside this one, with nothing of the environment
// that could tell it whom to trust, and what it says is the error.
func TestSend(t *testing.T) {
	t.Setenv("SSL_CERT_FILE", "/tmp/somebody.pem")
	dir := t.TempDir()
	place := Place{Policy: filepath.Join(dir, "grapnel.yaml"), State: filepath.Join(dir, "state")}
	self := filepath.Join(dir, "bin", "grapnel-hook")
	w := policy.Webhook{Name: "src::x", URL: "https://example.com/<a>", Timeout: policy.Duration(2 * time.Second), Body: "ironclaw"}
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "shell", Input: json.RawMessage(`{"a":1}`)}}

	if err := send(t.Context(), place, self, w, ev); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "bin", "grapnel")) || !strings.Contains(err.Error(), "same directory") {
		t.Errorf("without the program: %v", err)
	}
	write := func(name, text string) {
		t.Helper()
		syscall.ForkLock.RLock() // a child that is started now must not hold the file open
		defer syscall.ForkLock.RUnlock()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "bin", "grapnel")
	write(program, "#!/bin/sh\ncat >got.json; echo \"$1\" >args; env >env\n")
	write(place.Policy, "version: 1\nnetworks: [10.1.2.0/24, 'fd12::/16']\n")
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
	if diff := cmp.Diff(Delivery{w, []string{"10.1.2.0/24", "fd12::/16"}, ev}, got); diff != "" {
		t.Errorf("the program reads (-want +got)\n%s", diff)
	}
	if args, env := read("args"), read("env"); args != "deliver\n" || strings.Contains(env, "SSL_CERT") {
		t.Errorf("arguments %q, environment\n%s", args, env)
	}

	write(program, "#!/bin/sh\ncat >/dev/null; echo 'grapnel: error: nobody is there' >&2; exit 1\n")
	if err := send(t.Context(), place, self, w, ev); err == nil || !strings.Contains(err.Error(), "exit code 1: nobody is there") {
		t.Errorf("a delivery that fails: %v", err)
	}
	write(program, "#!/bin/sh\nexec sleep 60\n")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := send(ctx, place, self, w, ev); err == nil || ctx.Err() == nil {
		t.Errorf("one that hangs: %v", err)
	}
}
