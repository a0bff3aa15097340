package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/process"
)

// maxOutput is the maximum length of a tool's output for the model in bytes.
const maxOutput = 64 << 10

// A toolbox holds the resources of the tools.
type toolbox struct {
	env    []string // environment of shells
	client *http.Client
	note   func(format string, args ...any) // shows the user the current action
}

func newToolbox(secret string, guard outbound.Guard, note func(format string, args ...any)) *toolbox {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, secret+"=") }) // tools must not get the model's key
	dialer := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		return cmp.Or(err, guard.CheckAddr(to.Addr()))
	}}
	return &toolbox{env: env, note: note, client: &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second, DisableKeepAlives: true},
		// Rules have judged only this address, not the target of a redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// tools returns the agent's tools. Shell, write and fetch need consent unless a rule allows them. Facts
// are the places of commands, paths and addresses in the arguments.
func (b *toolbox) tools() []host.AgentTool {
	tool := func(info host.ToolInfo, description, members string, f func(context.Context, map[string]string) (string, error)) host.AgentTool {
		return host.AgentTool{ToolInfo: info, Description: description, Schema: json.RawMessage(`{"type":"object",` + members + `}`), Run: run(f)}
	}
	return []host.AgentTool{
		tool(host.ToolInfo{Name: "shell", Class: grapnel.ClassShell, Ask: true, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}},
			"Runs a shell command line in the working directory, and returns its output and exit code.",
			`"properties":{"command":{"type":"string"}},"required":["command"]`, b.shell),
		tool(host.ToolInfo{Name: "read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}},
			"Returns the content of a text file.",
			`"properties":{"path":{"type":"string"}},"required":["path"]`, b.read),
		tool(host.ToolInfo{Name: "write", Class: grapnel.ClassWrite, Ask: true, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/content"}}},
			"Writes a file. Replaces an existing file and creates missing directories.",
			`"properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]`, b.write),
		tool(host.ToolInfo{Name: "fetch", Class: grapnel.ClassFetch, Ask: true, Secrets: []string{"bearer"}, Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}}},
			"Gets a page over HTTP. bearer is a token for authorization. Does not follow redirects.",
			`"properties":{"url":{"type":"string"},"bearer":{"type":"string"}},"required":["url"]`, b.fetch),
	}
}

// run returns a tool function with string arguments and a string result. Argument names must
// match exactly: rules would not have seen a member "Command" next to "command".
func run(tool func(ctx context.Context, in map[string]string) (string, error)) host.ToolFunc {
	return func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
		var in map[string]string
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, fmt.Errorf("cannot read the arguments: %w; want an object with string members, as in the schema", err)
		}
		text, err := tool(ctx, in)
		return toJSON(text), err
	}
}

func (b *toolbox) shell(ctx context.Context, in map[string]string) (string, error) {
	line := in["command"]
	b.note("shell: %s", line)
	args := []string{"/bin/sh", "-c", line}
	if runtime.GOOS == "windows" {
		args = []string{"cmd", "/C", line}
	}
	end, err := process.System.Run(ctx, &process.Program{Args: args, Env: b.env, MaxOutput: maxOutput})
	if err != nil {
		return "", err
	}
	text := string(end.Stdout.Head) + string(end.Stderr.Head)
	if cut := end.Stdout.Cut + end.Stderr.Cut; cut > 0 {
		text += fmt.Sprintf("\n[%d more bytes]\n", cut)
	}
	switch {
	case end.Stopped != nil:
		return "", fmt.Errorf("stopped before it was done: %w\n%s", end.Stopped, text)
	case end.Exit != 0: // of a signal, -1
		return "", fmt.Errorf("exit code %d %s\n%s", end.Exit, end.Signal, text)
	}
	return text, nil
}

func (b *toolbox) read(_ context.Context, in map[string]string) (string, error) {
	b.note("read: %s", in["path"])
	if info, err := os.Stat(in["path"]); err == nil && !info.Mode().IsRegular() { // reading a pipe could block forever
		return "", fmt.Errorf("%s is not a regular file", in["path"])
	}
	f, err := os.Open(in["path"])
	if err != nil {
		return "", err
	}
	defer f.Close()
	return upTo(f)
}

// upTo reads at most maxOutput bytes and adds a notice if more data follows.
func upTo(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxOutput+1))
	if len(text) > maxOutput {
		return string(text[:maxOutput]) + "\n[cut: the rest is not shown]\n", err
	}
	return string(text), err
}

func (b *toolbox) write(_ context.Context, in map[string]string) (string, error) {
	content, ok := in["content"]
	if !ok {
		return "", errors.New("the content is missing")
	}
	b.note("write: %s", in["path"])
	err := os.MkdirAll(filepath.Dir(in["path"]), 0o755) //nolint:security // a project directory, with the usual permissions
	if err == nil {
		err = os.WriteFile(in["path"], []byte(content), 0o644) //nolint:security // see above
	}
	return fmt.Sprintf("wrote %d bytes", len(content)), err
}

func (b *toolbox) fetch(ctx context.Context, in map[string]string) (string, error) {
	b.note("fetch: %s", in["url"])
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, in["url"], nil)
	if err != nil {
		return "", err
	}
	if in["bearer"] != "" {
		req.Header.Set("Authorization", "Bearer "+in["bearer"])
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := upTo(resp.Body)
	if err != nil {
		return "", err
	}
	if to := resp.Header.Get("Location"); to != "" {
		text = "redirects to " + to + "\n" + text
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return "", fmt.Errorf("%s\n%s", resp.Status, text)
	}
	return resp.Status + "\n" + text, nil
}

// task returns the tool that runs a sub-agent in a new conversation, with the hooks of the
// session.
func task(newLoop func() *host.Loop, note func(format string, args ...any)) host.AgentTool {
	return host.AgentTool{
		ToolInfo:    host.ToolInfo{Name: "task", Class: grapnel.ClassTask},
		Description: "Lets a sub-agent work on a task and returns its answer. The sub-agent does not see this conversation.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"prompt":{"type":"string","description":"the task, with all necessary information"}},"required":["prompt"]}`),
		Run: run(func(ctx context.Context, in map[string]string) (string, error) {
			note("task: %s", in["prompt"])
			return host.Subagent(ctx, grapnel.Subagent{ID: rand.Text(), Type: "task"}, in["prompt"], func(ctx context.Context, prompt string) (string, error) {
				answer, err := newLoop().Run(ctx, host.Text("user", prompt))
				if err == nil && answer.Status == host.StatusBlocked {
					err = answer.Refusal
				}
				return answer.Text(), err
			})
		}),
	}
}
