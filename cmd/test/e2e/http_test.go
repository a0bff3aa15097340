//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/test/e2e/agents"
	"github.com/grapnel-dev/grapnel/internal/await"
)

const policyOverHTTP = `
version: 1
hooks:
  - {name: no-touching, on: tool.before, match: {command: touch blocked.txt}, block: that file belongs to somebody else}
  - {name: safer, on: tool.before, match: {command: touch rewritten.txt}, set: {tool.command: "echo safer > rewritten.txt"}}
  - {name: rules, on: prompt.before, context: the house rule is XYZZY}
  - {name: noting, on: tool.after, match: {tool: shell}, run: "touch ran-where-the-agent-is"}
`

// serve runs the daemon of a world until the test ends or calls stop. It waits until the daemon
// answers over HTTP.
func (g guarded) serve(t *testing.T) (stop func()) {
	t.Helper()
	var output bytes.Buffer
	cmd := exec.Command(filepath.Join(g.bin, "grapnel"), "serve", "--root", g.kit)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = g.Root, g.Env(), &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the daemon ended with %v:\n%s", err, output.String())
		} else if t.Failed() {
			t.Logf("the daemon said:\n%s", output.String())
		}
	})
	t.Cleanup(stop)
	for deadline := time.Now().Add(await.Limit); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", g.door(t), time.Second)
		if err == nil {
			_ = conn.Close()
			return stop
		}
		if time.Now().After(deadline) {
			t.Fatalf("no daemon listens: %v", err)
		}
	}
}

// door returns the address at which the daemon listens for agents.
func (g guarded) door(t *testing.T) string {
	t.Helper()
	var kept struct{ Port json.Number }
	if err := json.Unmarshal([]byte(g.ReadFile(t, filepath.Join(g.kit, "state", "http.json"))), &kept); err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + kept.Port.String()
}

// ask sends a GET request to the daemon.
func (g guarded) ask(t *testing.T, path string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(g.kit, "state", "daemon", "socket"))
	}}}
	resp, err := client.Get("http://grapnel" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", path, resp.Status, err, body)
	}
	return string(body)
}

// Claude Code asks the daemon over HTTP: a blocked call does not run, a changed call runs
// changed, added context reaches the model, and a program of the policy still runs in the agent's
// directory, by a command hook.
func TestOverHTTP(t *testing.T) {
	t.Parallel()
	g := unguarded(t, agents.ClaudeCode, policyOverHTTP)
	before := "{\n  \"cleanupPeriodDays\": 30\n}\n"
	g.WriteFile(t, g.SettingsFile(), before)
	g.grapnel(t, "install", agents.ClaudeCode.ID, "--via", "http", "--yes")
	g.serve(t)
	res := g.Run(t, "Do as planned.",
		model.Do(g.Shell("touch blocked.txt")),
		model.Do(g.Shell("touch rewritten.txt")),
		model.Do(g.Shell("echo free > free.txt")),
		model.Answer("all done"),
	)
	wantFile(t, res, "blocked.txt", "")
	wantFile(t, res, "rewritten.txt", "safer\n")
	wantFile(t, res, "free.txt", "free\n")
	if _, ran := res.Files["ran-where-the-agent-is"]; !ran {
		t.Error("the program after a tool did not run")
	}
	if results := res.Requests.ToolResults(); len(results) != 3 || !results[0].IsError || !strings.Contains(results[0].Text, "belongs to somebody else") {
		t.Errorf("the model was told %+v", results)
	}
	if main := res.Requests.MainRequests(); len(main) == 0 || !strings.Contains(string(main[0].Body), "XYZZY") {
		t.Error("the context of the prompt did not reach the model")
	}
	if records := g.ask(t, "/v1/records"); !strings.Contains(records, `"block"`) || !strings.Contains(records, "no-touching") {
		t.Errorf("the daemon has no Record of the block:\n%s", records)
	}
	g.grapnel(t, "uninstall", agents.ClaudeCode.ID, "--yes")
	if after := g.ReadFile(t, g.SettingsFile()); after != before {
		t.Errorf("uninstall left %s", after)
	}
}

// If a daemon ends while an agent works, the pages describe the effect: Claude Code continues
// unguarded, and with --fail-closed it blocks calls and prompts.
func TestOverHTTPWithoutDaemon(t *testing.T) {
	t.Parallel()
	for name, closed := range map[string]bool{"as it is": false, "fail closed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := unguarded(t, agents.ClaudeCode, policyOverHTTP)
			args := []string{"install", agents.ClaudeCode.ID, "--via", "http", "--yes"}
			if closed {
				args = append(args, "--fail-closed")
			}
			g.grapnel(t, args...)
			stop := g.serve(t)
			ended := make(chan error, 1)
			go func() {
				ended <- func() error {
					for deadline := time.Now().Add(await.Limit); ; time.Sleep(20 * time.Millisecond) {
						if _, err := os.Stat(g.Path("now")); err == nil {
							stop()
							return os.WriteFile(g.Path("ended"), nil, 0o600)
						} else if time.Now().After(deadline) {
							return err
						}
					}
				}()
			}()
			res := g.Run(t, "Do as planned.",
				model.Do(g.Shell("touch blocked.txt")),
				model.Do(g.Shell("touch now; while [ ! -e ended ]; do sleep 0.1; done")),
				model.Do(g.Shell("touch rewritten.txt")),
				model.Do(g.Shell("touch blocked.txt")),
				model.Answer("all done"),
			)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			results := res.Requests.ToolResults()
			if len(results) != 4 || !strings.Contains(results[0].Text, "belongs to somebody else") {
				t.Fatalf("the model was told %+v, want four results and the first a block of ours", results)
			}
			_, written := res.Files["blocked.txt"]
			if written == closed || results[3].IsError != closed {
				t.Errorf("written: %v, and the model was told %+v", written, results[3])
			}
			if content, written := res.Files["rewritten.txt"]; written == closed || content != "" {
				t.Errorf("rewritten.txt holds %q (written: %v)", content, written)
			}
			if closed {
				if res := g.Run(t, "Are you there?", model.Answer("yes, I am")); len(res.Requests.MainRequests()) != 0 {
					t.Errorf("a prompt reached the model: %s", res.Shown)
				}
			}
		})
	}
}

// The pages describe the effect of proxies: if a project's settings name a proxy, and no setting
// of the user exempts this machine, Claude Code sends the request to the proxy instead of the
// daemon. The proxy sees the secret, and its answers take effect.
func TestOverHTTPThroughProxy(t *testing.T) {
	t.Parallel()
	g := unguarded(t, agents.ClaudeCode, policyOverHTTP)
	g.grapnel(t, "install", agents.ClaudeCode.ID, "--via", "http", "--yes")
	g.serve(t)
	door := g.door(t)
	var mu sync.Mutex
	var secrets []string
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}}).ServeHTTP(w, r)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		if r.Host == door {
			if asked, err := http.ReadRequest(rw.Reader); err == nil {
				mu.Lock()
				secrets = append(secrets, asked.Header.Get("Authorization"))
				mu.Unlock()
				_, _ = io.Copy(io.Discard, asked.Body)
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
			}
			return
		}
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			return
		}
		defer to.Close()
		go func() { _, _ = io.Copy(to, rw) }()
		_, _ = io.Copy(conn, to)
	})}
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(l) }()
	t.Cleanup(func() {
		_ = proxy.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	url := "http://" + l.Addr().String()
	g.WriteFile(t, ".claude/settings.json", `{"env": {"HTTP_PROXY": "`+url+`", "http_proxy": "`+url+`"}}`)
	real := g.Program.Command
	without := []string{"/usr/bin/env", "-u", "HTTP_PROXY", "-u", "http_proxy", "-u", "HTTPS_PROXY", "-u", "https_proxy"}
	for _, c := range []struct {
		what  string
		env   []string
		asked bool
	}{
		{"this machine is excepted by the person's NO_PROXY", without, false},
		{"nothing is excepted", slices.Concat(without, []string{"-u", "NO_PROXY", "-u", "no_proxy"}), true},
	} {
		secrets = nil
		_ = os.Remove(g.Path("blocked.txt"))
		g.Program.Command = slices.Concat(c.env, real)
		res := g.Run(t, "Do as planned.", model.Do(g.Shell("touch blocked.txt")), model.Answer("all done"))
		mu.Lock()
		_, written := res.Files["blocked.txt"]
		if written != c.asked || len(secrets) > 0 != c.asked {
			t.Errorf("%s: written %v, and the proxy was shown %d secrets; the pages say %v to both", c.what, written, len(secrets), c.asked)
		}
		mu.Unlock()
	}
}
