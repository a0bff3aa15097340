package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/host"
)

// TestPieces checks the different ways in which servers split responses.
func TestPieces(t *testing.T) {
	t.Parallel()
	call := func(id, name, args string) host.ToolCall {
		return host.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)}
	}
	const done = `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`
	for name, test := range map[string]struct {
		lines []string
		text  string
		calls []host.ToolCall
		end   string
		err   string
	}{
		"calls that come mixed": {
			lines: []string{
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read"}},{"index":1,"id":"b","function":{"name":"shell"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"x\":"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}},{"index":1,"function":{"arguments":"1}"}}]}}]}`,
				done, "[DONE]",
			},
			calls: []host.ToolCall{call("a", "read", "{}"), call("b", "shell", `{"x":1}`)}, end: "tool_calls",
		},
		"all of one index": {
			lines: []string{
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{}"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"read","arguments":"{\"y\":2}"}}]}}]}`,
				done, "[DONE]",
			},
			calls: []host.ToolCall{call("a", "read", "{}"), call("b", "read", `{"y":2}`)}, end: "tool_calls",
		},
		"ID and name in each piece": {
			lines: []string{
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"z\""}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":":3}"}}]}}]}`,
				done, "[DONE]",
			},
			calls: []host.ToolCall{call("a", "read", `{"z":3}`)}, end: "tool_calls",
		},
		"later pieces have neither index nor ID": {
			lines: []string{
				`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"read","arguments":""}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"y\""}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"id":"","function":{"name":"","arguments":":2}"}}]}}]}`,
				done, "[DONE]",
			},
			calls: []host.ToolCall{call("a", "read", `{"y":2}`)}, end: "tool_calls",
		},
		"an ID for each piece": {
			lines: []string{
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"y\""}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"arguments":":2}"}}]}}]}`,
				done, "[DONE]",
			},
			calls: []host.ToolCall{call("a", "read", `{"y":2}`)}, end: "tool_calls",
		},
		"arguments that are no JSON": {
			lines: []string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{oops"}}]},"finish_reason":"stop"}]}`, "[DONE]"},
			calls: []host.ToolCall{call("a", "read", `"{oops"`)}, end: "stop",
		},
		"no arguments": {
			lines: []string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read"}}]},"finish_reason":"stop"}]}`, "[DONE]"},
			calls: []host.ToolCall{call("a", "read", `{}`)}, end: "stop",
		},
		"no last line": {
			lines: []string{`{"choices":[{"delta":{"content":"Hi <b>"}}]}`, `{"choices":[{"delta":{"content":null},"finish_reason":"stop"}]}`, `{"choices":[]}`},
			text:  "Hi <b>", end: "stop",
		},
		"half an answer": {lines: []string{`{"choices":[{"delta":{"content":"Hi"}}]}`}, text: "Hi", end: host.FinishIncomplete},
		"half a call": {
			lines: []string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"shell","arguments":"{}"}}]}}]}`}, end: host.FinishIncomplete,
		},
		"an error":   {lines: []string{`{"error":{"message":"no memory"}}`}, err: `the model's endpoint returned an error: "{\"message\":\"no memory\"}"`},
		"not JSON":   {lines: []string{`<html>`}, err: "cannot read a piece of the model's answer: \"<html>\""},
		"a new line": {lines: []string{`{"choices":[{"delta":{"content":"a\nb"},"finish_reason":"stop"}]}`, "[DONE]", "never read"}, text: "a\nb", end: "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var in, out strings.Builder
			for _, line := range test.lines {
				in.WriteString(": alive\r\n\r\ndata: " + line + "\r\n\r\n")
			}
			p := &provider{}
			r, err := p.pieces(t.Context(), strings.NewReader(in.String()), func(piece string) error { out.WriteString(piece); return nil })
			if err != nil || test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Fatalf("error %v, want %q", err, test.err)
				}
				return
			}
			got := host.ChatMessage{Content: r.Content}
			if got.Text() != test.text || out.String() != test.text || r.FinishReason != test.end {
				t.Errorf("text %q in pieces %q, ends with %s; want %q and %s", got.Text(), out.String(), r.FinishReason, test.text, test.end)
			}
			if diff := cmp.Diff(test.calls, r.ToolCalls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCallsHaveIDs checks that each call has a unique ID across all responses,
// because results and limits refer to it.
func TestCallsHaveIDs(t *testing.T) {
	t.Parallel()
	const (
		none   = `{"index":0,"function":{"name":"read","arguments":"{}"}},{"index":1,"function":{"name":"read","arguments":"{}"}}`
		theirs = `{"index":0,"id":"x","function":{"name":"read","arguments":"{}"}},{"index":1,"id":"x","function":{"name":"read","arguments":"{}"}}`
	)
	p := &provider{}
	seen := map[string]bool{}
	for _, calls := range []string{none, theirs, theirs} {
		r, err := p.pieces(t.Context(), strings.NewReader(`data: {"choices":[{"delta":{"tool_calls":[`+calls+`]}}]}`+"\n\ndata: [DONE]\n\n"), nil)
		if err != nil || len(r.ToolCalls) != 2 {
			t.Fatalf("%s gives %+v, %v, want two calls", calls, r, err)
		}
		for _, c := range r.ToolCalls {
			if c.ID == "" || seen[c.ID] || string(c.Args) != "{}" {
				t.Errorf("%s gives %+v, want IDs that are new", calls, r.ToolCalls)
			}
			seen[c.ID] = true
		}
	}
	if !seen["x"] {
		t.Error("the server's ID is lost where it is the first")
	}
}

// TestYieldEndsAnswer checks that an error of yield ends the response.
func TestYieldEndsAnswer(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	p := &provider{}
	_, err := p.pieces(t.Context(), strings.NewReader("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: broken"), func(string) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("error %v, want %v", err, enough)
	}
}

// TestRequestBody checks that requests have the format that servers accept: arguments and results
// are strings, and a model gets its own text back unchanged.
func TestRequestBody(t *testing.T) {
	t.Parallel()
	body := body(&host.Request{
		Model: "m", ToolChoice: "any", Params: json.RawMessage(`{"temperature":0}`), Tools: []host.ToolSchema{{Name: "read", Schema: json.RawMessage(`{}`)}},
		Messages: []host.ChatMessage{
			{Role: "assistant", Content: json.RawMessage("null"), ToolCalls: []host.ToolCall{{ID: "a", Name: "read", Args: json.RawMessage(`{"x":"<"}`)}, {ID: "b", Name: "read", Args: json.RawMessage(`"{oops"`)}}},
			{Role: "tool", ToolCallID: "a", Content: json.RawMessage(`{"n":1}`)},
		},
	})
	want := `{"messages":[{"content":null,"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{\"x\":\"<\"}"}},{"id":"b","type":"function","function":{"name":"read","arguments":"{oops"}}]},` +
		`{"content":"{\"n\":1}","role":"tool","tool_call_id":"a"}],"model":"m","stream":true,"temperature":0,"tool_choice":"required","tools":[{"function":{"description":"","name":"read","parameters":{}},"type":"function"}]}`
	if string(body) != want {
		t.Errorf("body %s; want %s", body, want)
	}
}

// TestNoTerminal checks that the null device and files are not treated as a terminal.
func TestNoTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if isTerminal(null) || isTerminal(file) || isTerminal(&strings.Builder{}) {
		t.Error("what is no terminal is taken for one")
	}
}
