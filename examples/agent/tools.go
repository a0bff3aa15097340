package main

import (
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
	dir    string   // base of relative paths
	env    []string // environment of shells
	client *http.Client
	note   func(format string, args ...any) // shows the user the current action
}

func newToolbox(dir string, secret string, guard outbound.Guard, note func(format string, args ...any)) *toolbox {
	var env []string
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != secret { // tools must not get the model's key
			env = append(env, v)
		}
	}
	dialer := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return guard.CheckAddr(to.Addr())
	}}
	return &toolbox{dir: dir, env: env, note: note, client: &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second, DisableKeepAlives: true},
		// Rules have judged only this address, not the target of a redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// tools returns the agent's tools. Shell, write and fetch need consent unless a rule allows them.
func (b *toolbox) tools() []host.AgentTool {
	return []host.AgentTool{
		{
			ToolInfo: host.ToolInfo{
				Name: "shell", Class: grapnel.ClassShell, Ask: true,
				Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}},
			},
			Description: "Runs a shell command line in the working directory, and returns its output and exit code.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`),
			Run:         run(b.shell),
		},
		{
			ToolInfo: host.ToolInfo{
				Name: "read", Class: grapnel.ClassRead,
				Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}},
			},
			Description: "Returns the content of a text file.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`),
			Run:         run(b.read),
		},
		{
			ToolInfo: host.ToolInfo{
				Name: "write", Class: grapnel.ClassWrite, Ask: true,
				Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}, {Field: grapnel.FieldContent, At: "/content"}},
			},
			Description: "Writes a file. Replaces an existing file and creates missing directories.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}`),
			Run:         run(b.write),
		},
		{
			ToolInfo: host.ToolInfo{
				Name: "fetch", Class: grapnel.ClassFetch, Ask: true, Secrets: []string{"bearer"},
				Facts: []grapnel.Fact{{Field: grapnel.FieldURL, At: "/url"}},
			},
			Description: "Gets a page over HTTP. bearer is a token for authorization. Does not follow redirects.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"url":{"type":"string"},"bearer":{"type":"string"}},"required":["url"]}`),
			Run:         run(b.fetch),
		},
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
		if err != nil {
			return nil, err
		}
		return toJSON(text), nil
	}
}

func (b *toolbox) shell(ctx context.Context, in map[string]string) (string, error) {
	line := in["command"]
	if line == "" {
		return "", errors.New("the command is missing")
	}
	b.note("shell: %s", line)
	args := []string{"/bin/sh", "-c", line}
	if runtime.GOOS == "windows" {
		args = []string{"cmd", "/C", line}
	}
	end, err := process.System.Run(ctx, &process.Program{Args: args, Env: b.env, Dir: b.dir, MaxOutput: maxOutput})
	if err != nil {
		return "", err
	}
	text := outputText(end.Stdout) + outputText(end.Stderr)
	switch {
	case end.Stopped != nil:
		return "", fmt.Errorf("stopped before it was done: %w\n%s", end.Stopped, text)
	case end.Signal != "":
		return "", fmt.Errorf("ended by %s\n%s", end.Signal, text)
	case end.Exit != 0:
		return "", fmt.Errorf("exit code %d\n%s", end.Exit, text)
	}
	return text, nil
}

func outputText(o process.Output) string {
	if o.Cut == 0 {
		return string(o.Head)
	}
	return fmt.Sprintf("%s\n[%d more bytes]\n", o.Head, o.Cut)
}

func (b *toolbox) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(b.dir, name)
}

func (b *toolbox) read(_ context.Context, in map[string]string) (string, error) {
	b.note("read: %s", in["path"])
	name := b.path(in["path"])
	if info, err := os.Stat(name); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() { // reading a pipe could block forever
		return "", fmt.Errorf("%s is not a regular file", in["path"])
	}
	f, err := os.Open(name)
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
	name := b.path(in["path"])
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:security // a project directory, with the usual permissions
		return "", err
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil { //nolint:security // see above
		return "", err
	}
	return fmt.Sprintf("wrote %d bytes", len(content)), nil
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
			loop := newLoop()
			return host.Subagent(ctx, grapnel.Subagent{ID: rand.Text(), Type: "task"}, in["prompt"], func(ctx context.Context, prompt string) (string, error) {
				answer, err := loop.Run(ctx, host.Text("user", prompt))
				switch {
				case err != nil:
					return "", err
				case answer.Status == host.StatusBlocked:
					return answer.Text(), answer.Refusal
				}
				return answer.Text(), nil
			})
		}),
	}
}
