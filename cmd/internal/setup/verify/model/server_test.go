package model

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start()
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

// An agent is the client side of one protocol: it keeps a history, and a turn sends it and adds
// the model's answer.
type agent interface {
	user(text string)
	results(texts map[string]string, failed bool) // by call ID
	turn(t *testing.T, s *Server, stream bool) turnResult
}

type turnResult struct {
	Text   string
	Chunks int // of all text, if the protocol has pieces
	Pieces int // of all of it, where the protocol has such
	Calls  []calledTool
}

type calledTool struct{ ID, Tool, Input string }

func (s turnResult) tools() (names []string) {
	for _, c := range s.Calls {
		names = append(names, c.Tool)
	}
	return names
}

func (s turnResult) answers(text string) map[string]string {
	m := map[string]string{}
	for _, c := range s.Calls {
		m[c.ID] = text
	}
	return m
}

var protocols = map[string]func() agent{
	"anthropic": func() agent { return &anthropicAgent{} },
	"gemini":    func() agent { return &geminiAgent{} },
	"responses": func() agent { return &responsesAgent{} },
	"chat":      func() agent { return &chatAgent{} },
}

// marksErrors lists the protocols in which a tool result can be an error.
var marksErrors = []string{"anthropic", "gemini"}

// protocolOf returns the protocol of a.
func protocolOf(a agent) string {
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", a), "*model."), "Agent")
}

// eachProtocol runs f against every protocol, streaming and not.
func eachProtocol(t *testing.T, f func(t *testing.T, s *Server, a agent, turn func() turnResult)) {
	t.Helper()
	for name, newAgent := range protocols {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", name, stream), func(t *testing.T) {
				t.Parallel()
				s, a := start(t), newAgent()
				f(t, s, a, func() turnResult { return a.turn(t, s, stream) })
			})
		}
	}
}

func TestPlaysThePlan(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, s *Server, a agent, turn func() turnResult) {
		a.user(Prompt("Go on.",
			Do(Call{Tool: "shell", Input: map[string]any{"command": "echo <hi> && true"}}),
			Step{Text: "now both", Calls: []Call{{Tool: "write", Input: map[string]any{"path": "b"}}, {Tool: "read"}}},
			Step{Text: "all done", Chunks: 3},
		))
		first := turn()
		if len(first.Calls) != 1 || first.Calls[0].Tool != "shell" || first.Calls[0].Input != `{"command":"echo <hi> && true"}` {
			t.Fatalf("first turn: %+v, want one call of shell", first)
		}
		a.results(first.answers("hi"), false)
		second := turn()
		if diff := cmp.Diff([]string{"write", "read"}, second.tools()); diff != "" || second.Text != "now both" {
			t.Fatalf("second turn: %+v, want text and two calls", second)
		}
		a.results(second.answers("no such thing"), true)
		third := turn()
		if third.Text != "all done" || len(third.Calls) > 0 {
			t.Fatalf("third turn: %+v, want the answer", third)
		}

		marked := slices.Contains(marksErrors, protocolOf(a))
		l := s.Log()
		if n := len(l.MainRequests()); n != 3 {
			t.Errorf("%d main requests, want 3", n)
		}
		for i, r := range l {
			if r.Step != i {
				t.Errorf("request %d is answered with step %d", i, r.Step)
			}
		}
		want := []ToolResult{
			{ID: first.Calls[0].ID, Tool: "shell", Input: first.Calls[0].Input, Text: "hi"},
			{ID: second.Calls[0].ID, Tool: "write", Input: `{"path":"b"}`, Text: "no such thing", IsError: marked},
			{ID: second.Calls[1].ID, Tool: "read", Input: `{}`, Text: "no such thing", IsError: marked},
		}
		byID := cmp.Transformer("byID", func(in []ToolResult) map[string]ToolResult {
			m := map[string]ToolResult{}
			for _, r := range in {
				m[r.ID] = r
			}
			return m
		})
		if diff := cmp.Diff(want, l.ToolResults(), byID); diff != "" {
			t.Errorf("tool results (-want +got):\n%s", diff)
		}
		if unknown := l.Unknown(); len(unknown) > 0 {
			t.Errorf("unknown requests: %v", unknown)
		}
	})
}

func TestStreamsInChunks(t *testing.T) {
	t.Parallel()
	for name, newAgent := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, a := start(t), newAgent()
			a.user(Prompt("Go on.", Step{Text: "all done", Chunks: 3}))
			if got := a.turn(t, s, true); got.Chunks != 3 || got.Text != "all done" {
				t.Errorf("said %+v, want the text in 3 chunks", got)
			}
		})
	}
}

// A retried request gets the same step again, because the server keeps no count. Text and calls
// come in one piece unless the step sets the number of pieces: Gemini CLI runs its hooks on each
// piece.
func TestCallsBesideText(t *testing.T) {
	t.Parallel()
	for chunks, want := range map[int]int{0: 1, 1: 2, 2: 3} {
		a := &geminiAgent{}
		a.user(Prompt("Go on.", Step{Text: "now both", Calls: []Call{{Tool: "read"}}, Chunks: chunks}))
		if got := a.turn(t, start(t), true); got.Pieces != want || got.Text != "now both" || len(got.Calls) != 1 {
			t.Errorf("Chunks %d came as %+v, want text and call in %d pieces", chunks, got, want)
		}
	}
}

// The report of a failed test contains each message once.
func TestTranscript(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, s *Server, a agent, turn func() turnResult) {
		prompt := Prompt("Go on.", Do(Call{Tool: "shell", Input: map[string]any{"command": "ls"}}), Answer("all done"))
		a.user(prompt)
		a.results(turn().answers("no files"), false)
		turn()
		l := s.Log()
		own, tool := l[1].Roles[1], l[1].Roles[2]
		want := []string{
			l[0].String(), "\tuser: " + prompt,
			l[1].String(), "\t" + own + `: call of shell {"command":"ls"}`, "\t" + tool + ": result of shell no files",
		}
		if diff := cmp.Diff(strings.Join(want, "\n"), l.Transcript()); diff != "" {
			t.Errorf("transcript (-want +got):\n%s", diff)
		}
	})
}

func TestRetriesDoNotAdvance(t *testing.T) {
	t.Parallel()
	for name, newAgent := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			for range 3 {
				a := newAgent()
				a.user(Prompt("Go on.", Do(Call{Tool: "shell"}), Answer("done")))
				if got := a.turn(t, s, true); len(got.Calls) != 1 {
					t.Errorf("said %+v, want the first step", got)
				}
			}
		})
	}
}

// Agents add messages after tool results: contexts of hooks, reminders. These contain no plan and
// must not shift the steps.
func TestOtherMessagesDoNotAdvance(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, _ *Server, a agent, turn func() turnResult) {
		a.user("<context>house rules</context>")
		a.user(Prompt("Go on.", Do(Call{Tool: "one"}), Do(Call{Tool: "two"}), Answer("done")))
		a.user("hook additional context: be careful")
		for _, want := range []string{"one", "two", ""} {
			got := turn()
			if strings.Join(got.tools(), " ") != want {
				t.Fatalf("said %+v, want a call of %q", got, want)
			}
			a.results(got.answers("ok"), false)
			a.user("<system-reminder>and do not forget</system-reminder>")
		}
	})
}

func TestSecondPromptHasItsOwnPlan(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, _ *Server, a agent, turn func() turnResult) {
		for _, tool := range []string{"one", "two"} {
			a.user(Prompt("Go on.", Do(Call{Tool: tool}), Answer("done with "+tool)))
			got := turn()
			if strings.Join(got.tools(), " ") != tool {
				t.Fatalf("said %+v, want a call of %s", got, tool)
			}
			a.results(got.answers("ok"), false)
			if got := turn(); got.Text != "done with "+tool {
				t.Fatalf("said %+v, want the answer", got)
			}
		}
	})
}

// If a hook blocks the stop, the agent continues, and the plan does too. At the end of the plan
// the model repeats its last message.
func TestGoesOnAfterItsAnswer(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, s *Server, a agent, turn func() turnResult) {
		a.user(Prompt("Go on.", Answer("first"), Do(Call{Tool: "more"}), Answer("last")))
		if got := turn(); got.Text != "first" {
			t.Fatalf("said %+v", got)
		}
		a.user("not yet: the tests fail")
		got := turn()
		if strings.Join(got.tools(), " ") != "more" {
			t.Fatalf("said %+v, want the call", got)
		}
		a.results(got.answers("ok"), false)
		for range 3 {
			if got := turn(); got.Text != "last" {
				t.Fatalf("said %+v, want the last answer", got)
			}
			a.user("not yet")
		}
		l := s.Log()
		if last := l[len(l)-1]; last.Step != -1 {
			t.Errorf("a request beyond the plan was answered with step %d", last.Step)
		}
	})
}

func TestWithoutAPlan(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, s *Server, a agent, turn func() turnResult) {
		a.user("Go on.")
		if got := turn(); got.Text == "" || len(got.Calls) > 0 {
			t.Errorf("said %+v, want some text", got)
		}
		if r := s.Log()[0]; r.Step != -1 || !r.Main {
			t.Errorf("logged %+v, want a main request without a step", r)
		}
	})
}

func TestSideCalls(t *testing.T) {
	t.Parallel()
	s := start(t)
	prompt := Prompt("Go on.", Do(Call{Tool: "shell"}))
	for path, body := range map[string]any{
		"/v1/messages?beta=true":                    map[string]any{"messages": []any{map[string]any{"role": "user", "content": prompt}}},
		"/v1beta/models/m:generateContent":          map[string]any{"contents": []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": prompt}}}}},
		"/v1/responses":                             map[string]any{"input": []any{map[string]any{"type": "message", "role": "user", "content": prompt}}},
		"/v1/chat/completions":                      map[string]any{"messages": []any{map[string]any{"role": "user", "content": prompt}}},
		"/v1/messages/count_tokens?beta=true":       map[string]any{"messages": []any{}},
		"/v1beta/models/gemini-2.5-pro:countTokens": map[string]any{"contents": []any{}},
	} {
		status, answer := post(t, s.URL+path, body)
		if status != http.StatusOK || strings.Contains(answer, "shell") {
			t.Errorf("%s: status %d, %s: a request without tools must not get a step", path, status, answer)
		}
	}
	resp, err := http.Head(s.URL + "/")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("HEAD /: %v %v", resp, err)
	}
	resp, err = http.Get(s.URL + "/v1/models")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("GET /v1/models: %v %v", resp, err)
	}
	l := s.Log()
	if len(l) != 8 || len(l.MainRequests()) != 0 || len(l.Unknown()) != 0 {
		t.Errorf("log:\n%s\nwant eight side calls", l)
	}
}

func TestUnknownRequests(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, path := range []string{"/v1/embeddings", "/v1beta/models/m:embedContent", "/v1/messages/batches"} {
		if status, _ := post(t, s.URL+path, map[string]any{}); status != http.StatusNotFound {
			t.Errorf("POST %s: status %d, want 404", path, status)
		}
	}
	if resp, err := http.Get(s.URL + "/v1/files"); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("GET: %v %v", resp, err)
	}
	for _, path := range []string{"/v1/messages", "/v1/responses", "/v1/chat/completions"} {
		for _, body := range []string{"", "{", `{"messages": 5, "input": "text"}`, `[]`} {
			resp, err := http.Post(s.URL+path, "application/json", strings.NewReader(body))
			if err != nil || resp.StatusCode != http.StatusNotFound {
				t.Errorf("POST %s, body %q: %v %v", path, body, resp, err)
			}
		}
	}
	if got := len(s.Log().Unknown()); got != 16 {
		t.Errorf("%d unknown requests, want 16:\n%s", got, s.Log())
	}
}

// If an agent uses the server as its proxy, it cannot reach other hosts, and its requests are
// logged.
func TestTrafficToOtherHosts(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"http://example.invalid/telemetry", "https://example.invalid/telemetry"} {
		s := start(t)
		proxy, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
		if resp, err := client.Get(target); err == nil && resp.StatusCode == http.StatusOK {
			t.Errorf("%s was answered", target)
		}
		unknown := s.Log().Unknown()
		if len(unknown) != 1 || !strings.Contains(unknown[0].String(), "example.invalid") {
			t.Errorf("%s: unknown requests %v, want one that names the host", target, unknown)
		}
	}
}

func TestContains(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := &anthropicAgent{}
	a.user("two lines:\n<marker> & \"quotes\"")
	a.turn(t, s, false)
	l := s.Log()
	for marker, want := range map[string]bool{
		"<marker> & \"quotes\"": true,
		"two lines:\n<marker>":  true,
		"messages":              true, // a key
		"absent":                false,
		`\u003cmarker`:          false, // matches only in the escaped form
		"quotes\"}":             false, // matches only across values
	} {
		if got := l.Contains(marker); got != want {
			t.Errorf("Contains(%q) = %v, want %v", marker, got, want)
		}
	}
	if got, want := l.Around("<marker>"), "two lines:\n<marker> & \"quotes\""; !strings.Contains(got, want) || !strings.Contains(got, "/v1/messages") {
		t.Errorf("Around(<marker>) = %q, want the request and %q", got, want)
	}
}

// Each of several concurrent agents gets its own plan.
func TestParallelConversations(t *testing.T) {
	t.Parallel()
	s := start(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			a := protocols[[]string{"anthropic", "gemini", "responses", "chat"}[i%4]]()
			tool := fmt.Sprintf("tool%d", i)
			a.user(Prompt("Go on.", Do(Call{Tool: tool}), Do(Call{Tool: tool}), Answer(tool)))
			for step := range 3 {
				got := a.turn(t, s, true)
				if step < 2 && strings.Join(got.tools(), " ") != tool || step == 2 && got.Text != tool {
					t.Errorf("conversation %d, step %d: said %+v", i, step, got)
					return
				}
				a.results(got.answers("ok"), false)
			}
		})
	}
	wg.Wait()
	if n := len(s.Log().ToolResults()); n != 16 {
		t.Errorf("%d tool results, want 16: an ID was given twice", n)
	}
}

// post sends body as JSON and returns the status and body of the answer. Other goroutines may
// call it.
func post(t *testing.T, url string, body any) (int, string) {
	resp, err := http.Post(url, "application/json", bytes.NewReader(rawjson.Must(body)))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(b)
}

// events returns the data of server-sent events. If event: lines exist, they must match the type
// of the data.
func events(t *testing.T, body string) (out []json.RawMessage) {
	name := ""
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "event":
			name = value
		case "data":
			if value == "[DONE]" { // the end of a stream of chat completions
				continue
			}
			var typed struct{ Type string }
			if err := json.Unmarshal([]byte(value), &typed); err != nil {
				t.Errorf("event data %s: %v", value, err)
			}
			if typed.Type != name {
				t.Errorf("event %q carries data of type %q", name, typed.Type)
			}
			out = append(out, json.RawMessage(value))
		case "":
			name = ""
		default:
			t.Errorf("line %q in an event stream", lines.Text())
		}
	}
	return out
}

func decode[T any](t *testing.T, b []byte) (v T) {
	if err := json.Unmarshal(b, &v); err != nil {
		t.Errorf("%v in %s", err, b)
	}
	return v
}

type anthropicAgent struct{ messages []any }

func (a *anthropicAgent) add(role string, blocks ...any) {
	a.messages = append(a.messages, map[string]any{"role": role, "content": blocks})
}

func (a *anthropicAgent) user(text string) {
	a.messages = append(a.messages, map[string]any{"role": "user", "content": text})
}

func (a *anthropicAgent) results(texts map[string]string, failed bool) {
	var blocks []any
	for id, text := range texts {
		block := map[string]any{"type": "tool_result", "tool_use_id": id, "content": text}
		if failed { // an error comes as blocks, like longer results of agents
			block["is_error"], block["content"] = true, []any{map[string]any{"type": "text", "text": text}}
		}
		blocks = append(blocks, block)
	}
	a.add("user", blocks...)
}

func (a *anthropicAgent) turn(t *testing.T, s *Server, stream bool) (out turnResult) {
	_, body := post(t, s.URL+"/v1/messages?beta=true", map[string]any{
		"model": "fake", "stream": stream, "tools": []any{map[string]any{"name": "any"}}, "messages": a.messages,
	})
	type block struct {
		Type, Text, ID, Name string
		Input                json.RawMessage
	}
	var blocks []block
	stop := ""
	if stream {
		for _, data := range events(t, body) {
			ev := decode[struct {
				Type         string
				Index        int
				ContentBlock block `json:"content_block"`
				Delta        struct {
					Text        string
					PartialJSON string `json:"partial_json"`
					StopReason  string `json:"stop_reason"`
				}
			}](t, data)
			switch ev.Type {
			case "content_block_start":
				if ev.Index != len(blocks) {
					t.Errorf("block %d starts when %d have ended", ev.Index, len(blocks))
				}
				ev.ContentBlock.Input = nil
				blocks = append(blocks, ev.ContentBlock)
			case "content_block_delta":
				b := &blocks[ev.Index]
				b.Text += ev.Delta.Text
				b.Input = append(b.Input, ev.Delta.PartialJSON...)
				if ev.Delta.Text != "" {
					out.Chunks++
				}
			case "message_delta":
				stop = ev.Delta.StopReason
			}
		}
	} else {
		msg := decode[struct {
			Content    []block
			StopReason string `json:"stop_reason"`
		}](t, []byte(body))
		blocks, stop = msg.Content, msg.StopReason
	}
	var content []any
	for _, b := range blocks {
		switch b.Type {
		case "text":
			out.Text += b.Text
			content = append(content, map[string]any{"type": "text", "text": b.Text})
		case "tool_use":
			out.Calls = append(out.Calls, calledTool{b.ID, b.Name, string(b.Input)})
			content = append(content, map[string]any{"type": "tool_use", "id": b.ID, "name": b.Name, "input": b.Input})
		}
	}
	if want := map[bool]string{true: "tool_use", false: "end_turn"}[len(out.Calls) > 0]; stop != want {
		t.Errorf("stop reason %q, want %q", stop, want)
	}
	a.add("assistant", content...)
	return out
}

type geminiAgent struct {
	contents []any
	names    map[string]string // of tools, by call ID
}

func (a *geminiAgent) add(role string, parts ...any) {
	a.contents = append(a.contents, map[string]any{"role": role, "parts": parts})
}

func (a *geminiAgent) user(text string) { a.add("user", map[string]any{"text": text}) }

func (a *geminiAgent) results(texts map[string]string, failed bool) {
	key := map[bool]string{true: "error", false: "output"}[failed]
	var parts []any
	for id, text := range texts {
		parts = append(parts, map[string]any{"functionResponse": map[string]any{"id": id, "name": a.names[id], "response": map[string]any{key: text}}})
	}
	a.add("user", parts...)
}

func (a *geminiAgent) turn(t *testing.T, s *Server, stream bool) (out turnResult) {
	verb := map[bool]string{true: "streamGenerateContent?alt=sse", false: "generateContent"}[stream]
	_, body := post(t, s.URL+"/v1beta/models/fake:"+verb, map[string]any{
		"tools": []any{map[string]any{"functionDeclarations": []any{map[string]any{"name": "any"}}}}, "contents": a.contents,
	})
	chunks := []json.RawMessage{json.RawMessage(body)}
	if stream {
		chunks = events(t, body)
	}
	out.Pieces = len(chunks)
	var content []any
	for i, chunk := range chunks {
		got := decode[struct {
			Candidates []struct {
				FinishReason string
				Content      struct{ Parts []json.RawMessage }
			}
		}](t, chunk)
		if len(got.Candidates) != 1 {
			t.Errorf("%d candidates in %s, want 1", len(got.Candidates), chunk)
			continue
		}
		if last := i == len(chunks)-1; last != (got.Candidates[0].FinishReason != "") {
			t.Errorf("chunk %d of %d has finish reason %q", i+1, len(chunks), got.Candidates[0].FinishReason)
		}
		for _, raw := range got.Candidates[0].Content.Parts {
			part := decode[struct {
				Text         string
				FunctionCall *struct {
					ID, Name string
					Args     json.RawMessage
				}
			}](t, raw)
			content = append(content, raw)
			if part.Text != "" {
				out.Text += part.Text
				out.Chunks++
			}
			if call := part.FunctionCall; call != nil {
				out.Calls = append(out.Calls, calledTool{call.ID, call.Name, string(call.Args)})
				if a.names == nil {
					a.names = map[string]string{}
				}
				a.names[call.ID] = call.Name
			}
		}
	}
	a.add("model", content...)
	return out
}

type chatAgent struct{ messages []any }

func (a *chatAgent) user(text string) {
	// Agents send text in both forms.
	content := any(text)
	if len(a.messages)%2 == 0 {
		content = []any{map[string]any{"type": "text", "text": text}}
	}
	a.messages = append(a.messages, map[string]any{"role": "user", "content": content})
}

func (a *chatAgent) results(texts map[string]string, _ bool) {
	for id, text := range texts {
		a.messages = append(a.messages, map[string]any{"role": "tool", "tool_call_id": id, "content": text})
	}
}

type chatMessage struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content"`
	ToolCalls []chatCall `json:"tool_calls,omitempty"`
}

func (a *chatAgent) turn(t *testing.T, s *Server, stream bool) (out turnResult) {
	_, body := post(t, s.URL+"/v1/chat/completions", map[string]any{
		"model": "fake", "stream": stream, "messages": a.messages,
		"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "any"}}},
	})
	type object struct {
		Object  string
		Choices []struct {
			Delta, Message chatMessage
			FinishReason   string `json:"finish_reason"`
		}
		Usage *struct {
			Total int `json:"total_tokens"`
		}
	}
	whole := chatMessage{Role: "assistant", Content: new(string)}
	finish, used := "", 0
	if stream {
		if !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("the stream does not end as one:\n%s", body)
		}
		for _, data := range events(t, body) {
			chunk := decode[object](t, data)
			if chunk.Usage != nil {
				used = chunk.Usage.Total
			}
			for _, choice := range chunk.Choices {
				if finish != "" {
					t.Errorf("a choice follows the finish reason: %s", data)
				}
				finish = choice.FinishReason
				if text := choice.Delta.Content; text != nil && *text != "" {
					*whole.Content += *text
					out.Chunks++
				}
				whole.ToolCalls = append(whole.ToolCalls, choice.Delta.ToolCalls...)
			}
		}
	} else {
		got := decode[object](t, []byte(body))
		if len(got.Choices) != 1 || got.Usage == nil || got.Object != "chat.completion" {
			t.Fatalf("answer %s, want one choice and the usage", body)
		}
		whole, finish, used = got.Choices[0].Message, got.Choices[0].FinishReason, got.Usage.Total
	}
	for _, call := range whole.ToolCalls {
		out.Calls = append(out.Calls, calledTool{call.ID, call.Function.Name, call.Function.Arguments})
	}
	out.Text = *whole.Content
	if want := map[bool]string{true: "tool_calls", false: "stop"}[len(out.Calls) > 0]; finish != want || used == 0 {
		t.Errorf("finish reason %q and %d tokens, want %q and some", finish, used, want)
	}
	a.messages = append(a.messages, whole)
	return out
}

// A request that offers only Qwen Code's schema tool is a side request, and gets an answer that
// matches the schema.
func TestAnswerInSchema(t *testing.T) {
	t.Parallel()
	s := start(t)
	var schema any
	if err := json.Unmarshal([]byte(`{"type": "object", "required": ["block", "why", "level", "n", "list", "more"], "properties": {
  "block": {"type": "boolean"}, "why": {"type": "string"}, "level": {"type": "string", "enum": ["low", "high"]},
  "n": {"type": "integer"}, "list": {"type": "array"}, "free": {"type": "string"},
  "more": {"type": "object", "required": ["x"], "properties": {"x": {"type": "number"}}}}}`), &schema); err != nil {
		t.Fatal(err)
	}
	_, body := post(t, s.URL+"/v1/chat/completions", map[string]any{
		"messages": []any{map[string]any{"role": "user", "content": Prompt("Go on.", Do(Call{Tool: "shell"}))}},
		"tools":    []any{map[string]any{"type": "function", "function": map[string]any{"name": "respond_in_schema", "parameters": schema}}},
	})
	got := decode[struct {
		Choices []struct{ Message chatMessage }
	}](t, []byte(body))
	if len(got.Choices) != 1 || len(got.Choices[0].Message.ToolCalls) != 1 {
		t.Fatalf("answer %s, want one call", body)
	}
	call := got.Choices[0].Message.ToolCalls[0].Function
	want := `{"block":false,"level":"low","list":[],"more":{"x":0},"n":0,"why":"side call"}`
	if call.Name != "respond_in_schema" || call.Arguments != want {
		t.Errorf("call %+v, want %s", call, want)
	}
	if l := s.Log(); len(l.MainRequests()) != 0 || len(l.Unknown()) != 0 {
		t.Errorf("log %v, want one side call", l)
	}
}

type responsesAgent struct{ input []any }

func (a *responsesAgent) user(text string) {
	a.input = append(a.input, map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": text}}})
}

func (a *responsesAgent) results(texts map[string]string, failed bool) {
	for id, text := range texts {
		kind, output := "function_call_output", any(text)
		if failed { // agents use both forms of an output
			kind, output = "custom_tool_call_output", []any{map[string]any{"type": "input_text", "text": text}}
		}
		a.input = append(a.input, map[string]any{"type": kind, "call_id": id, "output": output})
	}
}

func (a *responsesAgent) turn(t *testing.T, s *Server, stream bool) (out turnResult) {
	req := map[string]any{"model": "fake", "stream": stream, "input": a.input}
	if tools := []any{map[string]any{"type": "function", "name": "any"}}; stream { // agents use both places
		req["tools"] = tools
	} else {
		req["input"] = append([]any{map[string]any{"type": "additional_tools", "role": "developer", "tools": tools}}, a.input...)
	}
	_, body := post(t, s.URL+"/v1/responses", req)
	type response struct {
		Status string
		Output []json.RawMessage
		Usage  struct {
			Total int `json:"total_tokens"`
		}
	}
	var (
		last  response
		items []json.RawMessage
		text  string
	)
	if stream {
		for _, data := range events(t, body) {
			ev := decode[struct {
				Type, Delta string
				Item        json.RawMessage
				Response    response
			}](t, data)
			switch ev.Type {
			case "response.output_text.delta":
				text += ev.Delta
				out.Chunks++
			case "response.output_item.done":
				items = append(items, ev.Item)
			case "response.completed":
				last = ev.Response
			}
		}
		if len(items) != len(last.Output) {
			t.Errorf("%d items came and %d stand at the end", len(items), len(last.Output))
		}
	} else {
		last = decode[response](t, []byte(body))
		items = last.Output
	}
	if last.Status != "completed" || last.Usage.Total == 0 {
		t.Errorf("ended with %+v", last)
	}
	for _, raw := range items {
		a.input = append(a.input, raw)
		item := decode[struct {
			Type, Name, Arguments, Input string
			CallID                       string `json:"call_id"`
			Content                      []struct{ Text string }
		}](t, raw)
		if item.Type == "message" {
			out.Text += item.Content[0].Text
		} else {
			out.Calls = append(out.Calls, calledTool{item.CallID, item.Name, item.Arguments + item.Input})
		}
	}
	if stream && text != out.Text {
		t.Errorf("streamed %q, and the item says %q", text, out.Text)
	}
	return out
}

// A tool with a text input gets the text unchanged.
func TestRawInput(t *testing.T) {
	t.Parallel()
	const patch = "*** Begin Patch\n*** Add File: b.txt\n+\"two\"\n*** End Patch\n"
	for _, stream := range []bool{false, true} {
		s, a := start(t), &responsesAgent{}
		a.user(Prompt("Go on.", Do(Call{Tool: "apply_patch", Raw: patch}), Answer("done")))
		got := a.turn(t, s, stream)
		if len(got.Calls) != 1 || got.Calls[0].Input != patch {
			t.Fatalf("said %+v, want one call with the patch", got)
		}
		a.results(got.answers("ok"), true)
		a.turn(t, s, stream)
		if results := s.Log().ToolResults(); len(results) != 1 || results[0].Input != patch || results[0].Text != "ok" {
			t.Errorf("tool results %+v", results)
		}
	}
}
