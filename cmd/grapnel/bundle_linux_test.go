//go:build system

package main

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program pulls what it signed from a server with a private authority, and the hook
// program enforces it.
func TestBundle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := httptest.NewTLSServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	trusted := filepath.Join(dir, "ca.pem")
	run := func(stdin string, args ...string) (stdout, stderr string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		var out, err bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &err
		_ = cmd.Run() // the texts are checked
		return out.String(), err.String()
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(what, got, want string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Fatalf("%s: %q, want %q", what, got, want)
		}
	}
	write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	write("policy.yaml", "version: 1\nrevision: 1\nexpires: 2089-12-31\nhooks:\n  - {name: no-rm, on: tool.before, match: {command: rm}, block: not in this company}\n")
	url := server.URL + "/policy.yaml"
	pull := []string{"grapnel", "bundle", "pull", url, "--root", "r", "--ca", trusted, "--network", "127.0.0.0/8"}
	_, err := run("", pull...)
	wants("no keys", err, "keys.pub does not exist")
	run("", "grapnel", "bundle", "keygen", "--no-password")
	public, readErr := os.ReadFile(filepath.Join(dir, "grapnel.pub"))
	if readErr != nil {
		t.Fatal(readErr)
	}
	write("r/etc/grapnel/keys.pub", string(public))
	_, err = run("", pull...)
	wants("no signature", err, "cannot download the signature: 127.0.0.1 answered with status 404")
	out, err := run("", "grapnel", "bundle", "sign", "policy.yaml")
	wants("sign", out+err, "signed policy.yaml: revision 1")
	_, err = run("", pull[:len(pull)-2]...)
	wants("a private address", err, "127.0.0.1 is loopback")
	wants("a private address", err, "--network")
	_, err = run("", "grapnel", "bundle", "pull", url, "--root", "r", "--network", "127.0.0.0/8")
	wants("an unknown authority", err, "certificate")
	out, err = run("", pull...)
	wants("pull", out+err, "revision 1 is in force now: ")
	out, _ = run("", append(pull, "--json")...)
	wants("the same again", out, `"changed": false`)
	out, err = run("", "grapnel", "bundle", "verify", "r/etc/grapnel/policy.d/signed.yaml", "--root", "r")
	wants("verify", out+err, "valid r/etc/grapnel/policy.d/signed.yaml: revision 1")
	out, _ = run(`{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"rm -rf x"},"tool_use_id":"1"}`, "grapnel-hook", "claude-code", "--root", "r")
	wants("the hook", out, "not in this company")
	write("policy.yaml", "version: 1\n")
	out, err = run("", append(pull, "--json")...)
	wants("a changed policy", err, "do not match, also at the second attempt")
	wants("a changed policy", out, `"hint": "the policy, the signature or its trusted comment was changed`)
}
