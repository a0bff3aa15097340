package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/mcp"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// TestMain also runs the stdio server, in a child process of the tests.
func TestMain(m *testing.M) {
	file, child := os.LookupEnv("MCP_TEST_FILE")
	if !child {
		await.Main(m)
		return
	}
	bridge := mcp.New(host.New(engine(scenes[os.Getenv("MCP_TEST_SCENE")].specs), approves), nil)
	if err := newServer(&workshop{file}, bridge, "").Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bridge.Close()
}

// A workshop has the tools of a server. They write their inputs to a file, so that another
// process can read them.
type workshop struct{ file string }

type work struct {
	Text string `json:"text"`
}

type done struct {
	Result string `json:"result"`
}

func (w *workshop) note(text string) (string, error) {
	f, err := os.OpenFile(w.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	if _, err = fmt.Fprintln(f, text); err != nil {
		return "", err
	}
	return "did " + text, f.Close()
}

func (w *workshop) got(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(w.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return slices.Sorted(slices.Values(strings.Fields(string(data))))
}

// newServer returns a server with a tool of each type. b may be nil.
func newServer(w *workshop, b *mcp.Bridge, version string) *sdk.Server {
	opts := &sdk.ServerOptions{}
	if version != "" {
		opts.SupportedProtocolVersions = []string{version}
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "workshop", Version: "1"}, opts)
	sdk.AddTool(s, &sdk.Tool{Name: "plain"}, func(_ context.Context, _ *sdk.CallToolRequest, in work) (*sdk.CallToolResult, any, error) {
		text, err := w.note(in.Text)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, err
	})
	sdk.AddTool(s, &sdk.Tool{Name: "structured"}, func(_ context.Context, _ *sdk.CallToolRequest, in work) (*sdk.CallToolResult, done, error) {
		text, err := w.note(in.Text)
		return nil, done{text}, err
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fails"}, func(_ context.Context, _ *sdk.CallToolRequest, _ work) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New("out of paint")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "asks"}, func(_ context.Context, r *sdk.CallToolRequest, _ work) (*sdk.CallToolResult, any, error) {
		answer, ok := r.Params.InputResponses["q"].(*sdk.ElicitResult)
		if !ok {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{
				Mode: "form", Message: "your name?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`),
			}}}, nil, nil
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(answer.Action, " ", answer.Content["name"])}}}, nil, nil
	})
	addThinks(s)
	if b != nil {
		s.AddReceivingMiddleware(b.Server("files"))
	}
	return s
}

// newClient returns a client with a user named Eve, and a model that repeats its input. b may
// be nil.
func newClient(b *mcp.Bridge) *sdk.Client { return newClientOf(b, false) }

// newClientOf is newClient; tools chooses whether the model's handler supports tools.
func newClientOf(b *mcp.Bridge, tools bool) *sdk.Client {
	impl := &sdk.Implementation{Name: "agent", Version: "1"}
	opts := &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Eve"}}, nil
		},
	}
	addParrot(opts, tools)
	if b == nil {
		return sdk.NewClient(impl, opts)
	}
	return b.NewClient("files", impl, opts)
}

const older = "2025-11-25"

// A wire connects a client with a new server of a workshop. The bridge server guards the
// server; it may be nil.
type wire func(t *testing.T, w *workshop, scene string, server *mcp.Bridge, client *sdk.Client) *sdk.ClientSession

var wires = map[string]wire{
	"memory":          memory(""),
	"memory, older":   memory(older),
	"http, older":     overHTTP("", nil), // the newer protocol has no sessions over HTTP
	"http, stateless": overHTTP("", &sdk.StreamableHTTPOptions{Stateless: true}),
	"http, alone":     overHTTP(older, &sdk.StreamableHTTPOptions{Stateless: true}),
}

func memory(version string) wire {
	return func(t *testing.T, w *workshop, _ string, server *mcp.Bridge, client *sdk.Client) *sdk.ClientSession {
		t.Helper()
		here, there := sdk.NewInMemoryTransports()
		s, err := newServer(w, server, version).Connect(t.Context(), there, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Wait() }) // it ends with the client
		return connect(t, client, here)
	}
}

func overHTTP(version string, opts *sdk.StreamableHTTPOptions) wire {
	return func(t *testing.T, w *workshop, _ string, server *mcp.Bridge, client *sdk.Client) *sdk.ClientSession {
		t.Helper()
		s := newServer(w, server, version)
		web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, opts))
		t.Cleanup(web.Close)
		return connect(t, client, &sdk.StreamableClientTransport{Endpoint: web.URL, HTTPClient: web.Client()})
	}
}

func connect(t *testing.T, client *sdk.Client, over sdk.Transport) *sdk.ClientSession {
	t.Helper()
	s, err := client.Connect(t.Context(), over, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// each runs a test over every wire, with the guard on either side. run connects with the hooks
// of a scene.
func each(t *testing.T, f func(t *testing.T, side string, run func(scene string) (*workshop, *sdk.ClientSession))) {
	t.Helper()
	for name, over := range wires {
		for _, side := range []string{"server", "client"} {
			t.Run(name+", "+side, func(t *testing.T) {
				t.Parallel()
				f(t, side, func(scene string) (*workshop, *sdk.ClientSession) {
					w := &workshop{filepath.Join(t.TempDir(), "got")}
					b := mcp.New(host.New(engine(scenes[scene].specs), approves), nil)
					t.Cleanup(b.Close) // runs after the connection was closed
					if side == "server" {
						return w, over(t, w, scene, b, newClient(nil))
					}
					return w, over(t, w, scene, nil, newClient(b))
				})
			})
		}
	}
}

// approves agrees to inputs that contain "please".
var approves = &host.Options{Approve: host.ApproverFunc(func(_ context.Context, q *host.Question) (host.Consent, error) {
	return host.Consent{Yes: strings.Contains(string(q.Event.Tool.Input), "please"), Reason: "I would rather not"}, nil
})}

func engine(specs []grapnel.Spec) *grapnel.Engine {
	e, err := grapnel.New(specs, nil)
	if err != nil {
		panic(err)
	}
	return e
}

func hook(name string, kind grapnel.Kind, f func(ev *grapnel.Event) (grapnel.Outcome, error)) grapnel.Spec {
	return grapnel.Spec{Name: name, On: []grapnel.Kind{kind}, OnError: grapnel.OnErrorClosed, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) { return f(ev) })}
}

func block(reason string) (grapnel.Outcome, error) {
	return grapnel.Outcome{Decision: grapnel.Block, Reason: reason}, nil
}

func halt(*grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome{Halt: "the budget is spent"}, nil
}

// text returns all text of a result, and the structured content after it.
func text(t *testing.T, r *sdk.CallToolResult) string {
	t.Helper()
	var list []string
	for _, c := range r.Content {
		list = append(list, c.(*sdk.TextContent).Text)
	}
	if r.StructuredContent != nil {
		raw, err := json.Marshal(r.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(raw))
	}
	return strings.Join(list, "; ")
}
