//nolint:staticcheck // Sampling is deprecated since the protocol of 2026-07-28, but must still be guarded.
package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/mcp"
	"github.com/grapnel-dev/grapnel/host"
)

// addThinks adds a tool that calls the client's model.
func addThinks(s *sdk.Server) {
	sdk.AddTool(s, &sdk.Tool{Name: "thinks"}, func(_ context.Context, r *sdk.CallToolRequest, in work) (*sdk.CallToolResult, any, error) {
		answer, ok := r.Params.InputResponses["q"].(*sdk.CreateMessageWithToolsResult)
		if !ok {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.CreateMessageParams{
				MaxTokens: 10, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: in.Text}}},
			}}}, nil, nil
		}
		return &sdk.CallToolResult{Content: answer.Content}, nil, nil
	})
}

// addParrot adds a model that repeats its input.
func addParrot(opts *sdk.ClientOptions, tools bool) {
	if tools {
		opts.CreateMessageWithToolsHandler = func(_ context.Context, r *sdk.CreateMessageWithToolsRequest) (*sdk.CreateMessageWithToolsResult, error) {
			said := r.Params.Messages[0].Content[0].(*sdk.TextContent).Text
			return &sdk.CreateMessageWithToolsResult{Role: "assistant", Model: "parrot", Content: []sdk.Content{&sdk.TextContent{Text: said + "!"}}}, nil
		}
		return
	}
	opts.CreateMessageHandler = func(_ context.Context, r *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
		said := r.Params.Messages[0].Content.(*sdk.TextContent).Text
		return &sdk.CreateMessageResult{Role: "assistant", Model: "parrot", Content: &sdk.TextContent{Text: said + "!"}}, nil
	}
}

// If a server requests the client's model, hooks can change, answer or refuse the request, and
// change the response.
func TestSampling(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec grapnel.Spec
		want string // empty = an error
	}{
		"request": {hook("request", grapnel.ModelBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			kind := strings.ReplaceAll(string(ev.Model.Request), "hello", "good day")
			return grapnel.Replace(grapnel.FieldRequest, json.RawMessage(kind))
		}), "good day!"},
		"answered": {hook("answer", grapnel.ModelBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldResponse, &sdk.CreateMessageResult{Role: "assistant", Model: "hook", Content: &sdk.TextContent{Text: "by the hook"}})
		}), "by the hook"},
		"response": {hook("response", grapnel.ModelAfter, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			loud := strings.ReplaceAll(string(ev.Model.Response), "hello!", "HELLO")
			return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldResponse: json.RawMessage(loud)}}, nil
		}), "HELLO"},
		"refused": {hook("no", grapnel.ModelBefore, func(*grapnel.Event) (grapnel.Outcome, error) { return block("too dear") }), ""},
	} {
		for wire, over := range wires {
			for _, tools := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, tools: %v", name, wire, tools), func(t *testing.T) {
					t.Parallel()
					if wire == "http, alone" {
						t.Skip("such a server cannot ask")
					}
					b := mcp.New(host.New(engine([]grapnel.Spec{tt.spec}), nil), nil)
					t.Cleanup(b.Close)
					s := over(t, &workshop{filepath.Join(t.TempDir(), "got")}, "", nil, newClientOf(b, tools))
					result, err := ask(t, s, "thinks", "hello")
					switch {
					case tt.want == "" && (err == nil || !strings.Contains(err.Error(), "too dear")):
						t.Errorf("the call gave %v, %v, want the reason why the model was not asked", result, err)
					case tt.want == "":
					case err != nil:
						t.Fatal(err)
					case text(t, result) != tt.want:
						t.Errorf("the tool got %q, want %q", text(t, result), tt.want)
					}
				})
			}
		}
	}
}
