//go:build system && unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/internal/circuit"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// hookKey is a key in the format of Standard Webhooks.
const hookKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// claudeShell and geminiShell are the same event in the formats of two agents.
const (
	claudeShell = `{"session_id":"c","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`
	geminiShell = `{"session_id":"g","cwd":"/","hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"ls"}}`
)

// asked writes a policy with one hook that calls a server, and returns its root directory.
func asked(t *testing.T, url, more string) (root string) {
	t.Helper()
	root = t.TempDir()
	writePolicy(t, root, fmt.Sprintf("version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - name: company\n    on: [tool.before, tool.after]\n    http:\n      url: %s/decide\n%s", url, more))
	return root
}

func writePolicy(t *testing.T, root, text string) {
	t.Helper()
	file, before := filepath.Join(root, "grapnel.yaml"), time.Now().Add(-time.Minute) // a policy counts only some time after its last change
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, before, before)); err != nil {
		t.Fatal(err)
	}
}

// runHook runs the real grapnel-hook and returns its reply.
func runHook(t *testing.T, agent, root, event string, env ...string) (stdout, stderr string, exit int) {
	t.Helper()
	t.Cleanup(func() { // a drain that the hook started writes to the root
		await.Until(t, "the drains of "+root+" end", func() bool { return !programs.Draining(root) })
	})
	cmd := exec.CommandContext(t.Context(), "grapnel-hook", agent, "--root", root)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "GORACE=atexit_sleep_ms=0"}, env...)
	cmd.Stdin = strings.NewReader(event)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		exit = failed.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), exit
}

// lastError returns the error of the only hook in the last Record.
func lastError(t *testing.T, root string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "state", "journal", "00000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var rec struct {
		Hooks []struct {
			Error, Cause string
		}
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &rec); err != nil || len(rec.Hooks) != 1 {
		t.Fatalf("%v: %s", err, lines[len(lines)-1])
	}
	return rec.Hooks[0].Cause + ": " + rec.Hooks[0].Error
}

// A server's answer reaches the agent in the agent's format, through both programs. The request
// is signed, and the key comes only from places of the user.
func TestAsk(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		agent, event, answer string
		want                 string // part of stdout; empty = no output
	}{
		"Claude Code, block":  {"claude-code", claudeShell, `{"decision":"block","reason":"not on Fridays"}`, `"permissionDecision":"deny","permissionDecisionReason":"not on Fridays"`},
		"Claude Code, ask":    {"claude-code", claudeShell, `{"decision":"ask","reason":"sure?"}`, `"permissionDecision":"ask"`},
		"Claude Code, allow":  {"claude-code", claudeShell, `{"decision":"allow"}`, `"permissionDecision":"allow"`},
		"Claude Code, change": {"claude-code", claudeShell, `{"set":{"tool.command":"ls -l"}}`, `"updatedInput":{"command":"ls -l"}`},
		"Claude Code, none":   {"claude-code", claudeShell, `{}`, ""},
		"Gemini CLI, block":   {"gemini-cli", geminiShell, `{"decision":"block","reason":"not on Fridays"}`, `"decision":"deny","reason":"not on Fridays"`},
		"Gemini CLI, change":  {"gemini-cli", geminiShell, `{"set":{"tool.command":"ls -l"}}`, `"tool_input":{"command":"ls -l"}`},
		"Gemini CLI, none":    {"gemini-cli", geminiShell, ``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var header http.Header
			var body []byte
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				header = r.Header
				body, _ = io.ReadAll(r.Body)
				_, _ = io.WriteString(w, tt.answer)
			}))
			t.Cleanup(server.Close)
			root := asked(t, server.URL, "      secret: [file:key, env:ASK_KEY]\n      headers: {authorization: env:ASK_TOKEN, x-team: core}\n    on_error: closed\n")
			if err := os.WriteFile(filepath.Join(root, "key"), []byte("C2FVsBQIhrscChlQIMV+b5sSYspob7oD\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			stdout, stderr, exit := runHook(t, tt.agent, root, tt.event, "ASK_KEY="+hookKey, "ASK_TOKEN=Bearer s3cret")
			if exit != 0 || stderr != "" || !strings.Contains(stdout, tt.want) || tt.want == "" && stdout != "" {
				t.Errorf("exit %d, %s\n%s\nwant %s", exit, stdout, stderr, tt.want)
			}
			wh, err := standardwebhooks.NewWebhook(hookKey)
			if err != nil {
				t.Fatal(err)
			}
			if err := wh.Verify(body, header); err != nil {
				t.Errorf("%v: %v", err, header)
			}
			var sent struct {
				Kind string
				Tool struct{ Commands []string }
			}
			if err := json.Unmarshal(body, &sent); err != nil || sent.Kind != "tool.before" || len(sent.Tool.Commands) != 1 || header.Get("Authorization") != "Bearer s3cret" || header.Get("X-Team") != "core" {
				t.Errorf("%v, sent %s with %v", err, body, header)
			}
			for _, dir := range []string{"journal", "outbox", "counts", "policy"} { // secrets are not stored
				_ = filepath.WalkDir(filepath.Join(root, "state", dir), func(name string, d os.DirEntry, _ error) error {
					if data, err := os.ReadFile(name); err == nil && (bytes.Contains(data, []byte("s3cret")) || bytes.Contains(data, []byte("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))) {
						t.Errorf("%s holds a secret", name)
					}
					return nil
				})
			}
		})
	}
}

// For every failure of a server, the agent gets its reply in time, as on_error requires, and
// the Record has the cause.
func TestAskFails(t *testing.T) {
	t.Parallel()
	var inside atomic.Int32
	metadata := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside.Add(1) }))
	t.Cleanup(metadata.Close)
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"hangs":     {func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }, "timeout: .*2s"}, // of a -race build too, which takes a second to exit,
		"500":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "error: .*status 500"},
		"410":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) }, "error: .*status 410.*remove the hook"},
		"429":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, "error: .*limits the request rate"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, metadata.URL, http.StatusFound) }, "error: .*redirect"},
		"no JSON":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }, "error: .*not with a JSON object"},
		"a lot": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(bytes.Repeat([]byte("{"), 1<<16)); err != nil {
					return
				}
			}
		}, "error: .*larger than 1048576 bytes"},
		"dies": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "error: .*EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.answer)
			t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			for mode, want := range map[string]string{"closed": `"permissionDecision":"deny"`, "ask": `"permissionDecision":"ask"`, "open": ""} {
				timeout := "20s"
				if name == "hangs" {
					timeout = "2s"
				}
				root := asked(t, server.URL, "    timeout: "+timeout+"\n    on_error: "+mode+"\n")
				stdout, _, exit := runHook(t, "claude-code", root, claudeShell)
				if exit != 0 || !strings.Contains(stdout, want) || want == "" && strings.Contains(stdout, "permissionDecision") {
					t.Errorf("on_error: %s: exit %d, %s", mode, exit, stdout)
				}
				if recorded := lastError(t, root); !matches(tt.want, recorded) {
					t.Errorf("the Record says %q, want %s", recorded, tt.want)
				}
			}
		})
	}
	t.Cleanup(func() {
		if inside.Load() > 0 {
			t.Error("a redirect was followed")
		}
	})
}

// No server listens. The circuit opens for all processes, so calls fail at once and start
// nothing. After a while one call is tried, and the circuit closes when the server is back.
func TestAskCircuit(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	var up atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1); !up.Load() {
			w.WriteHeader(503)
		}
	}))
	t.Cleanup(server.Close)
	root := asked(t, server.URL, "      breaker: {failures: 2, cooldown: 5m}\n    on_error: closed\n")
	for range 2 {
		runHook(t, "claude-code", root, claudeShell)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if stdout, _, _ := runHook(t, "claude-code", root, claudeShell); !strings.Contains(stdout, "circuit open until") || !strings.Contains(stdout, `"deny"`) {
				t.Error(stdout)
			}
		})
	}
	all.Wait()
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests while the circuit is open, want 2", n)
	}
	if recorded := lastError(t, root); !strings.Contains(recorded, "circuit open until") {
		t.Error(recorded)
	}
	status, err := exec.CommandContext(t.Context(), "grapnel", "status", "--root", root).CombinedOutput()
	if err != nil || !strings.Contains(string(status), "hook company is not asked: circuit open until") {
		t.Errorf("%v: %s", err, status)
	}
	up.Store(true)
	endCooldown(t, root)
	for range 2 {
		if stdout, stderr, exit := runHook(t, "claude-code", root, claudeShell); stdout != "" || stderr != "" || exit != 0 {
			t.Errorf("the server is back: %d %s %s", exit, stdout, stderr)
		}
	}
}

// endCooldown moves the end of the open state of all circuits below a root into the past.
func endCooldown(t *testing.T, root string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "state", "counts", "*", "*", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no circuit is kept: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := circuit.Read(data)
		if s.Until == 0 {
			t.Fatalf("%s is no open circuit: %s", file, data)
		}
		s.Until = 1
		if err := os.WriteFile(file, s.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		later := time.Now().Add(time.Hour) // time at which the file expires
		if err := os.Chtimes(file, later, later); err != nil {
			t.Fatal(err)
		}
	}
}

// Eight hooks for one event call the server concurrently, and each gets its own answer.
func TestAskConcurrency(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for was := most.Load(); n > was; was = most.Load() {
			most.CompareAndSwap(was, n)
		}
		for most.Load() < 8 && r.Context().Err() == nil { // each request waits for all others, or for its timeout
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Fprintf(w, `{"decision":"ask","reason":"reason of %s"}`, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	root := t.TempDir()
	policy := "version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n"
	for i := range 8 {
		policy += fmt.Sprintf("  - {name: h%d, on: tool.before, http: '%s/h%d', on_error: closed, timeout: 25s}\n", i, server.URL, i)
	}
	writePolicy(t, root, policy)
	stdout, _, _ := runHook(t, "claude-code", root, claudeShell)
	for i := range 8 {
		if !strings.Contains(stdout, fmt.Sprintf("reason of /h%d", i)) {
			t.Errorf("h%d is not heard: %s", i, stdout)
		}
	}
	if most.Load() != 8 || !strings.Contains(stdout, `"ask"`) {
		t.Errorf("%d at once: %s", most.Load(), stdout)
	}
}

// A project's policy calls no server before it is trusted. Afterwards it may only call public
// addresses over https, its allow has no effect, and it can never open a network.
func TestAskOfAProject(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(server.Close)
	for text, want := range map[string]string{
		"version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - {name: spy, on: tool.before, http: 'URL'}\n":            "networks",
		"version: 1\nhooks:\n  - {name: spy, on: tool.before, http: 'URL'}\n":                                     "may only use https",
		"version: 1\nhooks:\n  - {name: spy, on: tool.before, http: {url: 'https://a.example', secret: env:K}}\n": "a project has no `secret`",
	} {
		root, project := t.TempDir(), t.TempDir()
		if err := os.Mkdir(filepath.Join(project, ".git"), 0o700); err != nil {
			t.Fatal(err)
		}
		writePolicy(t, root, "version: 1\nnetworks: [127.0.0.0/8]\n") // the user's policy
		writePolicy(t, project, strings.ReplaceAll(text, "URL", server.URL))
		event := strings.Replace(claudeShell, `"cwd":"/"`, fmt.Sprintf(`"cwd":%q`, project), 1)
		runHook(t, "claude-code", root, event)
		out, err := exec.CommandContext(t.Context(), "grapnel", "trust", filepath.Join(project, "grapnel.yaml"), "--root", root).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s, want %s", err, out, want)
		}
		runHook(t, "claude-code", root, event)
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// With async the reply does not wait, and the server's answer changes nothing.
func TestAskLater(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"decision":"block"}`)
		asked <- string(body)
	}))
	t.Cleanup(server.Close)
	root := t.TempDir()
	writePolicy(t, root, fmt.Sprintf("version: 1\nnetworks: [127.0.0.0/8]\nhooks:\n  - {name: told, on: tool.before, http: {url: '%s', body: summary}, async: true}\n", server.URL))
	if stdout, stderr, exit := runHook(t, "claude-code", root, claudeShell); stdout != "" || stderr != "" || exit != 0 {
		t.Errorf("exit %d, %s%s", exit, stdout, stderr)
	}
	if body := await.Receive(t, "the body of a request", asked); !strings.Contains(body, `"event":"tool.before","tool":"Bash"`) || strings.Contains(body, "ls") {
		t.Errorf("it is sent %s", body)
	}
	await.Until(t, "a record of the drain says how it ended", func() bool {
		data, _ := os.ReadFile(filepath.Join(root, "state", "journal", "00000001.jsonl"))
		return bytes.Contains(data, []byte(`"late":true`))
	})
}

// If grapnel-hook is ended, the program that calls the server ends too, even if grapnel-hook
// cannot notify it.
func TestAskEnds(t *testing.T) {
	t.Parallel()
	arrived, gone := make(chan struct{}, 4), make(chan struct{}, 4)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	root := asked(t, server.URL, "    timeout: 30s\n")
	for name, end := range map[string]func(p *os.Process) error{
		"killed": (*os.Process).Kill, "interrupted": func(p *os.Process) error { return p.Signal(os.Interrupt) },
	} {
		cmd := exec.CommandContext(t.Context(), "grapnel-hook", "claude-code", "--root", root)
		cmd.Stdin = strings.NewReader(claudeShell)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-arrived
		if err := end(cmd.Process); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		await.Receive(t, "the end of the request: "+name, gone)
	}
}

func matches(pattern, text string) bool {
	for part := range strings.SplitSeq(pattern, ".*") {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}
