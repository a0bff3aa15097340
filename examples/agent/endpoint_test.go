//go:build system && unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A step is the endpoint's response to one request. The script runs in order, regardless of the
// caller.
type step struct {
	Text   string     `json:"say"`
	Calls  []stepCall `json:"calls"`
	Status int        `json:"status"` // not 0: an error status, with Say as the body
	Raw    string     `json:"raw"`    // a verbatim body
	Break  bool       `json:"break"`  // the connection breaks before the end of the response
	Hang   bool       `json:"hang"`   // the response stops after Say and stays open
}

type stepCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// An endpoint is a scripted model, and a page that requires a token.
type endpoint struct {
	URL string

	mu     sync.Mutex
	script []step
	asked  []map[string]any
}

const token = "t0ps3cret"

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{}
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/chat/completions":
			e.complete(w, r, over)
		case "/page":
			if r.Header.Get("Authorization") != "Bearer "+token {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, "the token was right")
		case "/moved":
			http.Redirect(w, r, "/page", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	e.URL = server.URL
	return e
}

// play sets the script.
func (e *endpoint) play(script []step) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.script = script
}

func (e *endpoint) complete(w http.ResponseWriter, r *http.Request, over <-chan struct{}) {
	body, err := io.ReadAll(r.Body)
	var request map[string]any
	if err != nil || json.Unmarshal(body, &request) != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	request["key"] = r.Header.Get("Authorization")
	e.mu.Lock()
	e.asked = append(e.asked, request)
	s := step{Status: http.StatusTeapot, Text: "the script is over"}
	if len(e.script) > 0 {
		s, e.script = e.script[0], e.script[1:]
	}
	e.mu.Unlock()
	hang := func() {
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}
	switch {
	case s.Hang && s.Text == "":
		hang()
	case s.Status != 0:
		http.Error(w, s.Text, s.Status)
	case s.Raw != "":
		fmt.Fprint(w, s.Raw)
	case request["stream"] == true:
		w.Header().Set("Content-Type", "text/event-stream")
		s.stream(w, hang)
	default:
		w.Header().Set("Content-Type", "application/json")
		s.whole(w)
	}
}

func (s *step) whole(w io.Writer) {
	message := map[string]any{"role": "assistant", "content": nil}
	if s.Text != "" {
		message["content"] = s.Text
	}
	var calls []any
	for _, c := range s.Calls {
		calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": string(c.Args)}})
	}
	message["tool_calls"] = calls
	fmt.Fprint(w, encoded(map[string]any{
		"choices": []any{map[string]any{"message": message, "finish_reason": "stop"}},
		"usage":   map[string]any{"prompt_tokens": 7, "completion_tokens": 3},
	}))
}

// stream writes the response in pieces: one per word, and for a call its name and then its
// arguments in two halves.
func (s *step) stream(w http.ResponseWriter, hang func()) {
	piece := func(delta map[string]any, finish any) {
		fmt.Fprintf(w, ": on\n\ndata: %s\n\n", encoded(map[string]any{"choices": []any{map[string]any{"delta": delta, "finish_reason": finish}}}))
		w.(http.Flusher).Flush()
	}
	for word := range strings.SplitAfterSeq(s.Text, " ") {
		piece(map[string]any{"content": word}, nil)
	}
	if s.Hang {
		hang()
		return
	}
	if s.Break {
		panic(http.ErrAbortHandler)
	}
	for i, c := range s.Calls {
		half := len(c.Args) / 2
		call := func(m map[string]any) {
			m["index"] = i
			piece(map[string]any{"tool_calls": []any{m}}, nil)
		}
		call(map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": ""}})
		call(map[string]any{"function": map[string]any{"arguments": string(c.Args[:half])}})
		call(map[string]any{"function": map[string]any{"arguments": string(c.Args[half:])}})
	}
	piece(map[string]any{}, "stop")
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func encoded(v any) string { return string(toJSON(v)) }

// requests returns the requests to the model. For a request that continues an earlier one, it
// returns only the new messages.
func (e *endpoint) requests() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	var all [][]string
	for i, request := range e.asked {
		messages := lines(request["messages"])
		fmt.Fprintf(&b, "%d", i+1)
		for _, key := range []string{"model", "stream", "temperature", "tool_choice"} {
			if v, ok := request[key]; ok {
				fmt.Fprintf(&b, " %s=%v", key, v)
			}
		}
		var names []string
		for _, tool := range list(request["tools"]) {
			names = append(names, fmt.Sprint(object(object(tool)["function"])["name"]))
		}
		fmt.Fprintf(&b, " tools=%s\n", strings.Join(names, ","))
		from, same := 0, 0
		for j, other := range all {
			n := 0
			for n < min(len(other), len(messages)) && other[n] == messages[n] {
				n++
			}
			if n >= same && n > 0 {
				from, same = j+1, n
			}
		}
		if same > 0 {
			fmt.Fprintf(&b, "  the first %d as in %d\n", same, from)
		}
		for _, m := range messages[same:] {
			b.WriteString("  " + m + "\n")
		}
		all = append(all, messages)
	}
	return b.String()
}

func lines(messages any) []string {
	var all []string
	for _, m := range list(messages) {
		m := object(m)
		text := fmt.Sprint(m["role"])
		if id, ok := m["tool_call_id"]; ok {
			text += fmt.Sprintf(" %v", id)
		}
		if content, ok := m["content"].(string); ok {
			text += ": " + strings.ReplaceAll(strings.TrimSpace(content), "\n", "\n    ")
		} else if m["content"] != nil {
			text += ": " + encoded(m["content"])
		}
		for _, c := range list(m["tool_calls"]) {
			f := object(object(c)["function"])
			text += fmt.Sprintf("\n    calls %v %v %v", object(c)["id"], f["name"], f["arguments"])
		}
		all = append(all, text)
	}
	return all
}

func list(v any) []any            { l, _ := v.([]any); return slices.Clone(l) }
func object(v any) map[string]any { o, _ := v.(map[string]any); return o }
