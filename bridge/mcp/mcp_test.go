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
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/mcp"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// A scene describes the effect of hooks on one call.
type scene struct {
	specs []grapnel.Spec
	tool  string
	input string
	want  string // the text of the result
	bad   bool   // the result is an error
	got   []string
}

var scenes = map[string]scene{
	"nothing": {nil, "structured", "dig", `{"result":"did dig"}; {"result":"did dig"}`, false, []string{"dig"}},
	"blocked": {
		[]grapnel.Spec{hook("no", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) { return block("not on a Sunday") })},
		"plain", "dig", "The call was blocked: not on a Sunday", true, nil,
	},
	"guarded": {
		[]grapnel.Spec{hook("guard", grapnel.ToolBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			if slices.Contains(ev.Tool.Commands, "rm") {
				return block("not here")
			}
			return grapnel.Outcome{}, nil
		})},
		"plain", "dig", "did dig", false,
		[]string{"dig"},
	},
	"guard fails": {
		[]grapnel.Spec{hook("bad", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, errors.New("broken") })},
		"plain", "dig", "The call was blocked, since a guard could not answer: hook \"bad\" could not answer: broken", true, nil,
	},
	"known": {
		[]grapnel.Spec{hook("who", grapnel.ToolBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			tool := ev.Tool
			if tool.Name != "mcp__files__plain" || tool.Class != grapnel.ClassMCP || *tool.MCP != (grapnel.MCP{Server: "files", Tool: "plain"}) || ev.Session.ID == "" || tool.ID == "" {
				return block(fmt.Sprintf("%+v %+v", tool, ev.Session))
			}
			return grapnel.Outcome{}, nil
		})},
		"plain", "dig", "did dig", false,
		[]string{"dig"},
	},
	"rewritten": {
		[]grapnel.Spec{hook("plant", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldInput, work{"plant"})
		})},
		"plain", "dig", "did plant", false,
		[]string{"plant"},
	},
	"answered": {
		[]grapnel.Spec{hook("cache", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldOutput, "from the cache")
		})},
		"plain", "dig", "from the cache", false, nil,
	},
	"answered in full": {
		[]grapnel.Spec{hook("cache", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldOutput, &sdk.CallToolResult{
				Content: []sdk.Content{&sdk.TextContent{Text: "cached"}}, StructuredContent: done{"cached"},
			})
		})},
		"structured", "dig", `cached; {"result":"cached"}`, false, nil,
	},
	"redacted": {
		[]grapnel.Spec{hook("redact", grapnel.ToolAfter, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			clean := strings.ReplaceAll(string(ev.Tool.Output), "hunter2", "***")
			return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldOutput: json.RawMessage(clean)}}, nil
		})},
		"structured", "hunter2", `{"result":"did ***"}; {"result":"did ***"}`, false,
		[]string{"hunter2"},
	},
	"commented": {
		[]grapnel.Spec{hook("comment", grapnel.ToolAfter, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "do it again", Context: []string{"it is late"}}, nil
		})},
		"plain", "dig", "did dig; do it again\n\nit is late", false,
		[]string{"dig"},
	},
	"commented before": {
		[]grapnel.Spec{hook("comment", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Context: []string{"it is late"}}, nil
		})},
		"plain", "dig", "did dig; it is late", false,
		[]string{"dig"},
	},
	"failed": {
		[]grapnel.Spec{hook("help", grapnel.ToolFailed, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			if !strings.Contains(string(ev.Tool.Output), "out of paint") {
				return block("other output: " + string(ev.Tool.Output))
			}
			return grapnel.Outcome{Context: []string{"there is more in the cellar"}}, nil
		})},
		"fails", "dig", "out of paint; there is more in the cellar", true, nil,
	},
	"unknown tool": {
		[]grapnel.Spec{hook("help", grapnel.ToolFailed, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldOutput, "there is no such tool")
		})},
		"missing", "dig", "there is no such tool", true, nil,
	},
	"next": {
		[]grapnel.Spec{hook("next", grapnel.ToolAfter, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			if ev.Tool.MCP.Tool == "structured" {
				return grapnel.Outcome{}, nil
			}
			return grapnel.Replace(grapnel.FieldNext, map[string]any{"name": "mcp__files__structured", "input": work{"water"}})
		})},
		"plain", "dig", `{"result":"did water"}; {"result":"did water"}`, false,
		[]string{"dig", "water"},
	},
	"agreed": {
		[]grapnel.Spec{hook("ask", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"}, nil
		})},
		"plain", "please", "did please", false,
		[]string{"please"},
	},
	"not agreed": {
		[]grapnel.Spec{hook("ask", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"}, nil
		})},
		"plain", "now", "The call was blocked: I would rather not", true, nil,
	},
	"input asked for": { // one result, though the protocol may take two calls for it
		[]grapnel.Spec{hook("result", grapnel.ToolAfter, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			if !strings.Contains(string(ev.Tool.Output), "accept") {
				return grapnel.Replace(grapnel.FieldOutput, "this is no result yet")
			}
			return grapnel.Outcome{Context: []string{"judged"}}, nil
		})},
		"asks", "x", "accept Eve; judged", false, nil,
	},
	"hidden": {
		[]grapnel.Spec{hook("only", grapnel.ToolsetBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldTools, []string{"mcp__files__plain"})
		})},
		"plain", "dig", "did dig", false,
		[]string{"dig"},
	},
	"halted": {[]grapnel.Spec{hook("halt", grapnel.ToolBefore, halt)}, "plain", "dig", "The call was blocked: the budget is spent", true, nil},
	"halted after": {
		[]grapnel.Spec{hook("halt", grapnel.ToolAfter, halt)}, "plain", "dig", "the budget is spent", true, []string{"dig"},
	},
}

func ask(t *testing.T, s *sdk.ClientSession, tool, input string) (*sdk.CallToolResult, error) {
	t.Helper()
	return s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: work{input}})
}

// Every scene has the same result over every wire, on either side and under both protocols. The
// only difference: a client ends the turn where a server can only refuse.
func TestScenes(t *testing.T) {
	t.Parallel()
	for name, want := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, side string, run func(string) (*workshop, *sdk.ClientSession)) {
				if want.tool == "asks" && strings.Contains(t.Name(), "alone") {
					t.Skip("such a server cannot ask")
				}
				w, s := run(name)
				result, err := ask(t, s, want.tool, want.input)
				switch {
				case side == "client" && strings.HasPrefix(name, "halted"):
					if no := host.Refused(err); no == nil || !no.Halt || no.Reason != "the budget is spent" {
						t.Errorf("the call ended with %v, want a halt", err)
					}
				case err != nil:
					t.Fatal(err)
				case text(t, result) != want.want || result.IsError != want.bad:
					t.Errorf("the result is %q (error: %v), want %q (%v)", text(t, result), result.IsError, want.want, want.bad)
				}
				if got := w.got(t); !slices.Equal(got, want.got) {
					t.Errorf("the tools got %q, want %q", got, want.got)
				}
			})
		})
	}
}

// The wires use the protocols in their names.
func TestProtocols(t *testing.T) {
	t.Parallel()
	for name, over := range wires {
		s := over(t, &workshop{filepath.Join(t.TempDir(), "got")}, "", nil, newClient(nil))
		want := "2026-07-28"
		if strings.Contains(name, "older") || strings.Contains(name, "alone") {
			want = older
		}
		if got := s.InitializeResult().ProtocolVersion; got != want {
			t.Errorf("%s: the protocol is that of %s, want %s", name, got, want)
		}
	}
}

// A hook of toolset.before removes tools from the list.
func TestList(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ string, run func(string) (*workshop, *sdk.ClientSession)) {
		for scene, want := range map[string]string{"nothing": "asks fails plain structured thinks", "hidden": "plain"} {
			_, s := run(scene)
			page, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range page.Tools {
				names = append(names, tool.Name)
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%s: the list has %q, want %q", scene, got, want)
			}
		}
	})
}

// Without hooks, results and errors are the same as without the bridge, in every field.
func TestNoHooks(t *testing.T) {
	t.Parallel()
	for name, over := range wires {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			for _, bridges := range []struct{ server, client *mcp.Bridge }{
				{}, {server: mcp.New(host.New(nil, nil), nil)}, {client: mcp.New(host.New(engine(nil), nil), nil)},
			} {
				w := &workshop{filepath.Join(t.TempDir(), "got")}
				s := over(t, w, "nothing", bridges.server, newClient(bridges.client))
				var got []string
				for _, tool := range []string{"plain", "structured", "fails", "asks", "thinks", "missing"} {
					result, err := ask(t, s, tool, "x")
					raw, bad := json.Marshal(result)
					if bad != nil {
						t.Fatal(bad)
					}
					got = append(got, fmt.Sprintf("%s: %s %v", tool, raw, err))
				}
				if want == nil {
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("results differ (-without, +with):\n%s", diff)
				}
			}
		})
	}
}

// The client judges a server's questions for the user, under both protocols: hooks answer for
// the user, or refuse.
func TestElicitation(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer func(ev *grapnel.Event) (grapnel.Outcome, error)
		want   string
		halt   bool
	}{
		"let through": {func(*grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil }, "accept Eve", false},
		"refused":     {func(*grapnel.Event) (grapnel.Outcome, error) { return block("phishing") }, "decline <nil>", false},
		"answered": {func(ev *grapnel.Event) (grapnel.Outcome, error) {
			if ev.Elicitation.Server != "files" || ev.Elicitation.Message != "your name?" || !strings.Contains(string(ev.Elicitation.Schema), "name") {
				return block(fmt.Sprintf("%+v", ev.Elicitation))
			}
			return grapnel.Replace(grapnel.FieldAnswer, map[string]any{"action": "accept", "content": map[string]string{"name": "Adam"}})
		}, "accept Adam", false},
		"halted": {halt, "", true},
	} {
		for wire, over := range wires {
			t.Run(name+", "+wire, func(t *testing.T) {
				t.Parallel()
				if wire == "http, alone" {
					t.Skip("such a server cannot ask")
				}
				b := mcp.New(host.New(engine([]grapnel.Spec{hook("elicit", grapnel.ElicitationBefore, tt.answer)}), nil), nil)
				t.Cleanup(b.Close)
				s := over(t, &workshop{filepath.Join(t.TempDir(), "got")}, "", nil, newClient(b))
				result, err := ask(t, s, "asks", "x")
				switch {
				case tt.halt && err == nil:
					t.Errorf("the call gave %q, want an error", text(t, result))
				case tt.halt:
				case err != nil:
					t.Fatal(err)
				case text(t, result) != tt.want:
					t.Errorf("the tool got %q, want %q", text(t, result), tt.want)
				}
			})
		}
	}
}

// A policy identifies tools by server and, if the host declares them, by class and facts.
func TestPolicy(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	err := os.WriteFile(file, []byte(`version: 1
hooks:
  - name: no-digging
    on: tool.before
    match: {mcp: files, tool: mcp__files__plain, content: dig}
    block: The garden stays.
  - name: nothing-structured
    on: tool.before
    match: {tool: mcp, mcp: files}
    except: {tool: mcp__files__plain}
    block: Only plain work.
  - name: hide-keys
    on: tool.after
    replace: [{pattern: 'sk-[a-z0-9]+', with: sk-***}]
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	set := load.Policies(load.Request{Files: []load.File{{Path: file, Must: true}}})
	if len(set.Specs) != 3 {
		t.Fatalf("%+v", set.Files)
	}
	b := mcp.New(host.New(engine(set.Specs), &host.Options{Tools: []host.ToolInfo{
		{Name: "mcp__files__plain", Class: grapnel.ClassWrite, Facts: []grapnel.Fact{{Field: grapnel.FieldContent, At: "/text"}}},
	}}), nil)
	t.Cleanup(b.Close)
	w := &workshop{filepath.Join(t.TempDir(), "got")}
	s := wires["memory"](t, w, "", b, newClient(nil))
	for _, tt := range []struct{ tool, input, want string }{
		{"plain", "dig", "The call was blocked: The garden stays."},
		{"plain", "sk-abc123", "did sk-***"},
		{"structured", "x", "The call was blocked: Only plain work."},
	} {
		result, err := ask(t, s, tt.tool, tt.input)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, result); got != tt.want {
			t.Errorf("%s %q gave %q, want %q", tt.tool, tt.input, got, tt.want)
		}
	}
}

// The session in a context is used. Without one, each connection is a session and ends with it.
// After hooks refuse a session, it does nothing.
func TestSession(t *testing.T) {
	t.Parallel()
	var ids []string
	var started, ended atomic.Int32
	e := engine([]grapnel.Spec{
		hook("start", grapnel.SessionStart, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			started.Add(1)
			if ev.Session.ID == "unwanted" {
				return halt(ev)
			}
			return grapnel.Outcome{}, nil
		}),
		hook("who", grapnel.ToolBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			ids = append(ids, ev.Session.ID)
			return grapnel.Outcome{}, nil
		}),
		hook("end", grapnel.SessionEnd, func(*grapnel.Event) (grapnel.Outcome, error) {
			ended.Add(1)
			return grapnel.Outcome{}, nil
		}),
	})
	h := host.New(e, nil)
	b := mcp.New(h, &mcp.Options{Session: grapnel.Session{ID: "connection"}})
	given, _, _, err := h.Start(t.Context(), grapnel.Session{ID: "given"}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	open := func(b *mcp.Bridge) *sdk.ClientSession {
		return wires["memory"](t, &workshop{filepath.Join(t.TempDir(), "got")}, "", nil, newClient(b))
	}
	s := open(b)
	for _, ctx := range []context.Context{given, t.Context(), t.Context()} {
		if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "plain", Arguments: work{"x"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if want := []string{"given", "connection", "connection"}; !slices.Equal(ids, want) || started.Load() != 2 || ended.Load() != 1 {
		t.Errorf("the sessions were %q, %d started and %d ended; want %q, 2 and 1", ids, started.Load(), ended.Load(), want)
	}
	b = mcp.New(h, &mcp.Options{Session: grapnel.Session{ID: "unwanted"}})
	t.Cleanup(b.Close)
	s = open(b)
	if result, err := ask(t, s, "plain", "x"); host.Refused(err) == nil {
		t.Errorf("a session that hooks did not let begin gave %v, %v", result, err)
	}
}

// The session in the context of Connect is used for every request of the connection.
func TestSessionOfConnect(t *testing.T) {
	t.Parallel()
	var ids []string
	note := func(ev *grapnel.Event) (grapnel.Outcome, error) {
		ids = append(ids, ev.Session.ID)
		return grapnel.Outcome{}, nil
	}
	h := host.New(engine([]grapnel.Spec{hook("tool", grapnel.ToolBefore, note), hook("elicit", grapnel.ElicitationBefore, note)}), nil)
	b := mcp.New(h, nil)
	t.Cleanup(b.Close)
	start := func(id string) context.Context {
		ctx, _, _, err := h.Start(t.Context(), grapnel.Session{ID: id}, "startup")
		if err != nil {
			t.Fatal(err)
		}
		return ctx
	}
	here, there := sdk.NewInMemoryTransports()
	server, err := newServer(&workshop{filepath.Join(t.TempDir(), "got")}, b, older).Connect(start("server"), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := newClient(b).Connect(start("client"), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CallTool(start("call"), &sdk.CallToolParams{Name: "asks", Arguments: work{"x"}}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(client.Close(), server.Wait()); err != nil {
		t.Error(err)
	}
	if want := []string{"call", "server", "client"}; !slices.Equal(ids, want) {
		t.Errorf("the sessions were %q, want %q", ids, want)
	}
}

// If a connection uses its own session, hooks see the user of the request's token.
func TestUserOfToken(t *testing.T) {
	t.Parallel()
	var user atomic.Value
	b := mcp.New(host.New(engine([]grapnel.Spec{hook("who", grapnel.ToolBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
		user.Store(ev.Session.User)
		return grapnel.Outcome{}, nil
	})}), nil), nil)
	t.Cleanup(b.Close)
	server := newServer(&workshop{filepath.Join(t.TempDir(), "got")}, b, "")
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	web := httptest.NewServer(auth.RequireBearerToken(verify, nil)(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)))
	t.Cleanup(web.Close)
	client := &http.Client{Transport: bearer{web.Client().Transport}}
	s := connect(t, newClient(nil), &sdk.StreamableClientTransport{Endpoint: web.URL, HTTPClient: client})
	if _, err := ask(t, s, "plain", "x"); err != nil {
		t.Fatal(err)
	}
	if user.Load() != "eve" {
		t.Errorf("the user is %q, want eve", user.Load())
	}
}

// A bearer adds Eve's token to requests.
type bearer struct{ http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer eve")
	return b.RoundTripper.RoundTrip(r)
}

// A bridge without a name for the server uses the name that the server reports.
func TestOwnName(t *testing.T) {
	t.Parallel()
	var server atomic.Value
	b := mcp.New(host.New(engine([]grapnel.Spec{hook("who", grapnel.ToolBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
		server.Store(ev.Tool.MCP.Server)
		return grapnel.Outcome{}, nil
	})}), nil), nil)
	t.Cleanup(b.Close)
	for _, wire := range []string{"memory", "memory, older"} {
		s := wires[wire](t, &workshop{filepath.Join(t.TempDir(), "got")}, "", nil, b.NewClient("", &sdk.Implementation{Name: "agent"}, nil))
		if _, err := ask(t, s, "plain", "x"); err != nil {
			t.Fatal(err)
		}
		if server.Load() != "workshop" {
			t.Errorf("%s: the server is %q, want workshop", wire, server.Load())
		}
	}
}

// The caller's parameters are not modified, even if hooks change the call.
func TestParamsAreTheCallers(t *testing.T) {
	t.Parallel()
	b := mcp.New(host.New(engine(scenes["rewritten"].specs), nil), nil)
	t.Cleanup(b.Close)
	s := wires["memory, older"](t, &workshop{filepath.Join(t.TempDir(), "got")}, "", nil, newClient(b))
	params := &sdk.CallToolParams{Name: "plain", Arguments: work{"dig"}}
	if _, err := s.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	if params.Arguments != (work{"dig"}) {
		t.Errorf("the arguments are now %v", params.Arguments)
	}
}

// Many concurrent calls use one bridge, over every wire.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const many = 32
	each(t, func(t *testing.T, _ string, run func(string) (*workshop, *sdk.ClientSession)) {
		w, s := run("redacted")
		errs := make(chan error, many)
		for range many {
			go func() {
				result, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "plain", Arguments: work{"hunter2"}})
				if err == nil && result.Content[0].(*sdk.TextContent).Text != "did ***" {
					err = fmt.Errorf("got %v", result.Content)
				}
				errs <- err
			}()
		}
		for range many {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if got := len(w.got(t)); got != many {
			t.Errorf("%d calls ran, want %d", got, many)
		}
	})
}

// After hooks refuse the session, no tools are listed or called, on either side.
func TestSessionRefused(t *testing.T) {
	t.Parallel()
	scene := []grapnel.Spec{hook("no", grapnel.SessionStart, halt)}
	b := mcp.New(host.New(engine(scene), nil), nil)
	t.Cleanup(b.Close)
	w := &workshop{filepath.Join(t.TempDir(), "got")}
	s := wires["memory"](t, w, "", b, newClient(nil))
	if result, err := ask(t, s, "plain", "x"); err != nil || !result.IsError || !strings.Contains(text(t, result), "the budget is spent") {
		t.Errorf("the server gave %v, %v, want the reason", result, err)
	}
	if list, err := s.ListTools(t.Context(), nil); err == nil {
		t.Errorf("the server listed %v", list.Tools)
	}
	s = wires["memory, older"](t, w, "", nil, newClient(b))
	for _, tool := range []string{"plain", "asks", "thinks"} {
		if result, err := ask(t, s, tool, "x"); host.Refused(err) == nil {
			t.Errorf("the client gave %v, %v for %s, want a Refusal", result, err, tool)
		}
	}
	if got := w.got(t); got != nil {
		t.Errorf("the tools got %q", got)
	}
}

// Hooks see the URL that the user would open.
func TestElicitationOfURL(t *testing.T) {
	t.Parallel()
	var message atomic.Value
	b := mcp.New(host.New(engine([]grapnel.Spec{hook("see", grapnel.ElicitationBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
		message.Store(ev.Elicitation.Message)
		return block("no")
	})}), nil), nil)
	t.Cleanup(b.Close)
	server := sdk.NewServer(&sdk.Implementation{Name: "workshop"}, &sdk.ServerOptions{SupportedProtocolVersions: []string{older}})
	here, there := sdk.NewInMemoryTransports()
	connection, err := server.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Wait() })
	client := b.NewClient("files", &sdk.Implementation{Name: "agent"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}}},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			t.Error("the person was asked")
			return &sdk.ElicitResult{Action: "accept"}, nil
		},
	})
	connect(t, client, here)
	answer, err := connection.Elicit(t.Context(), &sdk.ElicitParams{Mode: "url", Message: "Please log in.", URL: "https://example.com/login", ElicitationID: "1"})
	if err != nil || answer.Action != "decline" || message.Load() != "Please log in.\nhttps://example.com/login" {
		t.Errorf("the answer is %v, %v, and hooks read %q", answer, err, message.Load())
	}
}

// An invalid answer of a hook to a question is an error. A hook that requests the same tool
// again and again is an error too.
func TestBadHooks(t *testing.T) {
	t.Parallel()
	bad := hook("bad", grapnel.ElicitationBefore, func(*grapnel.Event) (grapnel.Outcome, error) { return grapnel.Replace(grapnel.FieldAnswer, 1) })
	again := hook("again", grapnel.ToolAfter, func(ev *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Replace(grapnel.FieldNext, map[string]any{"name": ev.Tool.Name, "input": work{"x"}})
	})
	b := mcp.New(host.New(engine([]grapnel.Spec{bad, again}), nil), nil)
	t.Cleanup(b.Close)
	w := &workshop{filepath.Join(t.TempDir(), "got")}
	s := wires["memory"](t, w, "", nil, newClient(b))
	for tool, want := range map[string]string{"asks": "cannot decode the answer", "plain": "calls in a row"} {
		if result, err := ask(t, s, tool, "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gave %v, %v, want an error: %s", tool, result, err, want)
		}
	}
	if got := len(w.got(t)); got != grapnel.MaxStops {
		t.Errorf("the tool ran %d times, want %d", got, grapnel.MaxStops)
	}
}

// Tools read a member in any letter case. A guard sees it, too, and a call with two such members is
// refused.
func TestLetterCase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ string, run func(string) (*workshop, *sdk.ClientSession)) {
		w, s := run("guarded")
		for input, want := range map[string]string{
			`{"COMMAND":"rm","text":"dig"}`:                "not here",
			`{"command":"ls","Command":"rm","text":"dig"}`: "could use either value",
			`{"command":"rm","command":null,"text":"dig"}`: "could use either value",
			`{"text":"dig","a":{"b":[{"c":1,"C":2}]}}`:     "could use either value",
		} {
			result, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "plain", Arguments: json.RawMessage(input)})
			if err != nil {
				t.Fatal(err)
			}
			if got := text(t, result); !strings.Contains(got, want) || !result.IsError {
				t.Errorf("%s: the result is %q, want %q", input, got, want)
			}
		}
		if got := w.got(t); len(got) > 0 {
			t.Errorf("the tools got %q, want nothing", got)
		}
	})
}
