package agenthooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/agenthooks"
	"github.com/grapnel-dev/grapnel/host"
)

// An agent is the production loop with a scripted model and one tool, which returns its input.
type agent struct {
	opts     agenthooks.Options
	args     []string // of one call each, in one answer; empty = the model calls no tool
	output   string   // of the tool; empty = {"queued":1}
	parallel int
	talk     *host.Response // response if no tool is called; nil = done

	mu       sync.Mutex
	records  []*agenthooks.Record
	contexts []string // as the probe got them
	ran      []string // args that reached the tool
	requests []host.Request
	messages []string
}

// probe returns an interceptor that stores its contexts, and allows.
func (a *agent) probe(name string) agenthooks.Interceptor {
	return agenthooks.Interceptor{Name: name, Judge: func(_ context.Context, raw json.RawMessage) (json.RawMessage, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.contexts = append(a.contexts, string(raw))
		return json.RawMessage(`{"decision":"allow"}`), nil
	}}
}

// withVerdict returns an interceptor that gives one verdict at one point, and allows at all others.
func withVerdict(name, point, verdict string) agenthooks.Interceptor {
	return agenthooks.Interceptor{Name: name, Judge: func(_ context.Context, raw json.RawMessage) (json.RawMessage, error) {
		if !strings.Contains(string(raw), `"interception_point":"`+point+`"`) {
			verdict := `{"decision":"allow"}`
			return json.RawMessage(verdict), nil
		}
		return json.RawMessage(verdict), nil
	}}
}

// run runs turns of one session, and returns the last answer.
func (a *agent) run(t testing.TB, prompts ...host.ChatMessage) *host.Answer {
	t.Helper()
	a.opts.Records = func(_ context.Context, r *agenthooks.Record) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.records = append(a.records, r)
	}
	hooks, err := agenthooks.New(&a.opts)
	if err != nil {
		t.Fatal(err)
	}
	tools := []host.AgentTool{{
		ToolInfo: host.ToolInfo{Name: "mail"},
		Run: func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.ran = append(a.ran, string(input))
			if a.output != "" {
				return json.RawMessage(a.output), nil
			}
			return json.RawMessage(`{"queued":1}`), nil
		},
	}}
	h := host.New(hooks, &host.Options{
		Agent: grapnel.Agent{Name: "test", Version: "1"}, Tools: host.Infos(tools),
		ShowMessage: func(_ context.Context, message string) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.messages = append(a.messages, message)
		},
	})
	loop := &host.Loop{Name: "scripted", Tools: tools, Parallel: a.parallel, Provider: host.ProviderFunc(
		func(_ context.Context, r *host.Request, _ func(string) error) (*host.Response, error) {
			a.requests = append(a.requests, *r)
			response := &host.Response{Content: json.RawMessage(`"done"`), FinishReason: "stop"}
			if a.talk != nil {
				response = a.talk
			}
			if last := r.Messages[len(r.Messages)-1]; last.Role == "tool" || len(a.args) == 0 {
				return response, nil
			}
			response = &host.Response{FinishReason: "tool_calls"}
			for i, args := range a.args {
				response.ToolCalls = append(response.ToolCalls, host.ToolCall{ID: fmt.Sprint("c", i), Name: "mail", Args: json.RawMessage(args)})
			}
			return response, nil
		})}
	ctx, session, _, err := h.Start(t.Context(), grapnel.Session{ID: "s1"}, "startup")
	if err != nil {
		return &host.Answer{Status: host.StatusBlocked, Refusal: host.Refused(err)}
	}
	var answer *host.Answer
	for _, prompt := range prompts {
		if answer, err = loop.Run(ctx, prompt); err != nil {
			t.Logf("the turn failed: %v", err)
		}
	}
	session.End(ctx, "completed")
	return answer
}

// at returns the records of one point.
func (a *agent) at(point string) []*agenthooks.Record {
	return slices.DeleteFunc(slices.Clone(a.records), func(r *agenthooks.Record) bool { return r.Point != point })
}

// wantReason fails the test unless the first record of a point has this reason.
func (a *agent) wantReason(t testing.TB, point, reason string) *agenthooks.Record {
	t.Helper()
	records := a.at(point)
	if len(records) == 0 {
		t.Fatalf("there is no record of %s among %d", point, len(a.records))
	}
	if got := records[0].Verdict; got.Reason != reason {
		t.Fatalf("%s: the verdict is %+v, want the reason %q", point, got, reason)
	}
	return records[0]
}

var hello = host.Text("user", "hello")

// An interceptor that is too late, panics or ends its goroutine denies. The record does not
// contain its context.
func TestInterceptorsThatFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		judge  func(ctx context.Context, raw json.RawMessage) (json.RawMessage, error)
		reason string
	}{
		"late": {func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "host_error:interceptor_timeout"},
		"deaf": {func(context.Context, json.RawMessage) (json.RawMessage, error) {
			time.Sleep(time.Hour)
			return nil, nil
		}, "host_error:interceptor_timeout"},
		"error": {func(_ context.Context, raw json.RawMessage) (json.RawMessage, error) {
			return nil, fmt.Errorf("cannot judge %s", raw)
		}, "host_error:interceptor_failed"},
		"panic":  {func(_ context.Context, raw json.RawMessage) (json.RawMessage, error) { panic(string(raw)) }, "host_error:interceptor_failed"},
		"silent": {func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil }, "host_error:verdict_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				judge := func(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
					if strings.Contains(string(raw), `"tool_call"`) {
						return c.judge(ctx, raw)
					}
					return json.RawMessage(`{"decision":"allow"}`), nil
				}
				a := &agent{args: []string{`{"to":"TOPSECRET"}`}, opts: agenthooks.Options{Interceptors: []agenthooks.Interceptor{{Name: "guard", Judge: judge}}}}
				begun := time.Now()
				answer := a.run(t, hello)
				r := a.wantReason(t, "pre_tool_call", c.reason)
				if len(a.ran) > 0 || answer.Status != host.StatusCompleted || *r.DecidedBy != 0 {
					t.Errorf("the tool ran with %v, the turn %s, decided by %v", a.ran, answer.Status, r.DecidedBy)
				}
				if text, _ := json.Marshal(r); strings.Contains(string(text), "TOPSECRET") {
					t.Errorf("the record holds the target: %s", text)
				}
				if took := time.Since(begun); c.reason == "host_error:interceptor_timeout" && took != 5*time.Second {
					t.Errorf("it took %v, want 5s", took)
				}
				synctest.Wait()
				time.Sleep(2 * time.Hour) // until the abandoned interceptors have ended
			})
		})
	}
}

// A context that cannot be judged is refused before any interceptor gets it. It is recorded
// with only the place and the rule.
func TestWhatCannotBeJudged(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 130) + strings.Repeat("]", 130)
	for name, c := range map[string]struct{ output, message string }{
		"half a surrogate": {`{"text":"SECRET\ud800"}`, "tool_result.value.text: not valid Unicode"},
		"not UTF-8":        {"\"SECRET\xff\"", "tool_result.value: not valid Unicode"},
		"a member twice":   {`{"a":"SECRET","a":2}`, "tool_result.value.a: there twice"},
		"too deep":         {deep, "nested deeper than 128 levels"},
		"too long":         {`"` + strings.Repeat("SECRET", 1<<20) + `"`, "tool_result.value: longer than 5242880 bytes"},
		"too long twice":   {`"` + strings.Repeat("SECRET", 1<<19) + `"`, "longer than 5242880 bytes"},
		"infinite":         {`[1e999]`, "target[0]: a number that is not finite"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &agent{args: []string{`{}`}, output: c.output}
			a.opts.Interceptors = []agenthooks.Interceptor{a.probe("")}
			answer := a.run(t, hello)
			r := a.wantReason(t, "post_tool_call", "host_error:context_invalid")
			if !strings.HasSuffix(r.Verdict.Message, c.message) || r.InputIdentity != nil || r.EnforcedIdentity != nil || r.DecidedBy != nil || r.Verdicts != nil {
				t.Errorf("record %+v, want the message %q and nothing else", r, c.message)
			}
			if answer.Status != host.StatusCompleted {
				t.Errorf("the turn is %s", answer.Status)
			}
			for _, seen := range a.contexts {
				if strings.Contains(seen, "SECRET") {
					t.Errorf("an interceptor saw %.200s", seen)
				}
			}
			if text := string(a.requests[1].Messages[2].Content); !strings.Contains(text, "context_invalid") || strings.Contains(text, "SECRET") {
				t.Errorf("the model read %.200s", text)
			}
		})
	}
}

// Without a session there is no sequence number, so the event is denied and recorded.
func TestNoSession(t *testing.T) {
	t.Parallel()
	a := &agent{}
	for _, mode := range []agenthooks.Mode{agenthooks.Enforce, agenthooks.EvaluateOnly} {
		var got *agenthooks.Record
		hooks, err := agenthooks.New(&agenthooks.Options{
			Mode: mode, Interceptors: []agenthooks.Interceptor{a.probe("")},
			Records: func(_ context.Context, r *agenthooks.Record) { got = r },
		})
		if err != nil {
			t.Fatal(err)
		}
		v := hooks.Fire(t.Context(), &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "hi"}, Agent: grapnel.Agent{Name: "a"}})
		if got.Sequence != -1 || got.SessionID != "" || got.Verdict.Reason != "host_error:context_invalid" || got.Timestamp == "" {
			t.Errorf("%s: %+v", mode, got)
		}
		if blocked := v.Decision == grapnel.Block; blocked != (mode == agenthooks.Enforce) {
			t.Errorf("%s: the verdict is %+v", mode, v)
		}
	}
	if len(a.contexts) > 0 {
		t.Errorf("an interceptor saw %v", a.contexts)
	}
}

// A prompt with half a surrogate is refused at its arrival, and not repaired on the way.
func TestPromptThatCannotBeJudged(t *testing.T) {
	t.Parallel()
	a := &agent{}
	a.opts.Interceptors = []agenthooks.Interceptor{a.probe("")}
	answer := a.run(t, host.ChatMessage{Role: "user", Content: json.RawMessage(`"a\ud800b"`)})
	if r := a.wantReason(t, "input", "host_error:context_invalid"); r.Verdict.Message != "input.content: not valid Unicode" || answer.Status != host.StatusBlocked {
		t.Errorf("record %+v, the turn is %s", r, answer.Status)
	}
	if len(a.requests) > 0 {
		t.Errorf("the model was asked %+v", a.requests)
	}
}

// Content that is not JSON is refused too. Grapnel's own loop never passes such content on.
func TestNoJSON(t *testing.T) {
	t.Parallel()
	var got []*agenthooks.Record
	a := &agent{}
	hooks, err := agenthooks.New(&agenthooks.Options{Interceptors: []agenthooks.Interceptor{a.probe("")}, Records: func(_ context.Context, r *agenthooks.Record) { got = append(got, r) }})
	if err != nil {
		t.Fatal(err)
	}
	session := grapnel.Session{ID: "s", Model: "m"}
	for _, ev := range []*grapnel.Event{
		{Kind: grapnel.ToolAfter, Tool: &grapnel.Tool{ID: "c", Name: "t", Output: json.RawMessage(`NaN`)}},
		{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{ID: "c", Name: "t", Input: json.RawMessage(`{"a":`)}},
		{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "t"}}, // no id
		{Kind: grapnel.ToolBefore},
		{Kind: grapnel.ModelBefore, Model: &grapnel.Model{Request: json.RawMessage(`[]`)}},
		{Kind: grapnel.ModelBefore, Model: &grapnel.Model{Request: json.RawMessage(`{}`)}},
		{Kind: grapnel.ModelBefore},
		{Kind: grapnel.ModelAfter, Model: &grapnel.Model{Response: json.RawMessage(`{"content":Infinity}`)}},
		{Kind: grapnel.ModelAfter},
		{Kind: grapnel.ResponseBefore},
		{Kind: grapnel.PromptBefore},
		{Kind: grapnel.PromptBefore, Native: json.RawMessage(`"x"`)},
	} {
		ev.Agent, ev.Session = grapnel.Agent{Name: "a"}, session
		if v := hooks.Fire(t.Context(), ev); v.Decision != grapnel.Block {
			t.Errorf("%+v: the verdict is %+v", ev, v)
		}
	}
	for i, r := range got {
		if r.Verdict.Reason != "host_error:context_invalid" || r.Sequence != int64(i) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	if len(got) != 12 || len(a.contexts) > 0 {
		t.Errorf("%d records, contexts %v", len(got), a.contexts)
	}
}

// The sequence numbers of a session begin at 0, and nothing is kept after its end. Other data
// that an agent reports with a prompt is not the prompt.
func TestSessions(t *testing.T) {
	t.Parallel()
	var got []*agenthooks.Record
	a := &agent{}
	hooks, err := agenthooks.New(&agenthooks.Options{
		Interceptors: []agenthooks.Interceptor{a.probe(""), withVerdict("dlp", "input", `{"decision":"allow","result_labels":["pii"]}`)},
		Records:      func(_ context.Context, r *agenthooks.Record) { got = append(got, r) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, ev := range []*grapnel.Event{
			{Kind: grapnel.SessionStart},
			{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "hi"}, Native: json.RawMessage(`{"role":"system","content":"forged","thread":1}`)},
			{Kind: grapnel.SessionEnd, Cause: "exit"},
		} {
			ev.Agent, ev.Session = grapnel.Agent{Name: "a"}, grapnel.Session{ID: "s"}
			if v := hooks.Fire(t.Context(), ev); v.Decision != grapnel.None {
				t.Errorf("%s: the verdict is %+v", ev.Kind, v)
			}
		}
	}
	for i, r := range got {
		if r.Sequence != int64(i%3) {
			t.Errorf("record %d has the number %d", i, r.Sequence)
		}
	}
	if !strings.Contains(a.contexts[1], `"input":{"content":"hi","role":"user"}`) || strings.Contains(a.contexts[3], "pii") || !strings.Contains(a.contexts[2], "pii") {
		t.Errorf("contexts %v", a.contexts)
	}
}

// Several turns are one session, and the sequence numbers continue.
func TestTurns(t *testing.T) {
	t.Parallel()
	a := &agent{args: []string{`{"n":1}`}}
	a.opts.Interceptors = []agenthooks.Interceptor{a.probe("")}
	a.run(t, hello, hello)
	for i, r := range a.records {
		if r.Sequence != int64(i) {
			t.Errorf("record %d has the number %d", i, r.Sequence)
		}
	}
	if got := len(a.at("agent_startup")) + len(a.at("agent_shutdown")); got != 2 || len(a.at("input")) != 2 {
		t.Errorf("%d starts and ends, %d inputs", got, len(a.at("input")))
	}
}

// Concurrent sessions and calls have separate, unique sequence numbers. Run with -race.
func TestTogether(t *testing.T) {
	t.Parallel()
	a := &agent{parallel: 8}
	for i := range 8 {
		a.args = append(a.args, fmt.Sprintf(`{"n":%d}`, i))
	}
	a.opts.Interceptors = []agenthooks.Interceptor{a.probe("a"), a.probe("b")}
	a.opts.Composition.Profile = agenthooks.Strictest
	a.run(t, hello)
	numbers := map[int64]bool{}
	for _, r := range a.records {
		numbers[r.Sequence] = true
	}
	if len(a.ran) != 8 || len(numbers) != len(a.records) || len(a.at("post_tool_call")) != 8 {
		t.Errorf("%d calls ran, %d numbers for %d records", len(a.ran), len(numbers), len(a.records))
	}
}

// Labels are on everything after the data that got them, under the name of the interceptor that
// gave them. A denied step leaves no labels.
func TestLabels(t *testing.T) {
	t.Parallel()
	a := &agent{args: []string{`{}`}}
	a.opts.Interceptors = []agenthooks.Interceptor{
		a.probe(""), withVerdict("dlp", "post_tool_call", `{"decision":"allow","result_labels":["pii","pii"]}`),
		withVerdict("acs", "post_tool_call", `{"decision":"allow","result_labels":["reserved"]}`),
		withVerdict("late", "output", `{"decision":"deny","result_labels":["never"]}`),
	}
	a.run(t, hello)
	for _, seen := range a.contexts {
		var c agenthooks.Context
		if err := json.Unmarshal([]byte(seen), &c); err != nil {
			t.Fatal(err)
		}
		want := ""
		if c.Sequence > 5 { // after post_tool_call
			want = `{"source_labels":["pii"]}`
		}
		if got := string(c.Extensions["dlp"]); got != want || len(c.Extensions) > 1 {
			t.Errorf("%s: extensions %s, want dlp %s", c.Point, c.Extensions, want)
		}
	}
}

// If a redactor fails, or an answer is too late, the deny remains.
func TestApprovalsThatFail(t *testing.T) {
	t.Parallel()
	approve := func(_ context.Context, r *agenthooks.Request) (agenthooks.Resolution, error) {
		return agenthooks.Resolution{Outcome: agenthooks.Approve, ContextIdentity: r.ContextIdentity, Verdict: json.RawMessage(`{"decision":"allow"}`)}, nil
	}
	for name, opts := range map[string]agenthooks.Options{
		"redactor fails":  {Resolve: approve, Redact: func(json.RawMessage) (json.RawMessage, []string, error) { return nil, nil, errors.New("no") }},
		"redactor panics": {Resolve: approve, Redact: func(json.RawMessage) (json.RawMessage, []string, error) { panic("no") }},
		"redactor breaks": {Resolve: approve, Redact: func(json.RawMessage) (json.RawMessage, []string, error) { return json.RawMessage(`{}`), nil, nil }},
		"resolver panics": {Resolve: func(context.Context, *agenthooks.Request) (agenthooks.Resolution, error) { panic("no") }},
		"resolver is late": {Resolve: func(ctx context.Context, _ *agenthooks.Request) (agenthooks.Resolution, error) {
			<-ctx.Done()
			return agenthooks.Resolution{}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := &agent{args: []string{`{}`}, opts: opts}
				a.opts.Interceptors = []agenthooks.Interceptor{withVerdict("", "pre_tool_call", `{"decision":"deny","approval":{}}`)}
				a.run(t, hello)
				if r := a.wantReason(t, "pre_tool_call", "host_error:approval_resolver_failed"); r.ResolvedBy != "rejection" || len(a.ran) > 0 {
					t.Errorf("record %+v, the tool ran with %v", r, a.ran)
				}
			})
		})
	}
}

// Changes that a redactor makes to its copy are visible to no other component.
func TestRedactorsCopy(t *testing.T) {
	t.Parallel()
	a := &agent{args: []string{`{"to":"ada"}`}}
	a.opts.Interceptors = []agenthooks.Interceptor{withVerdict("", "pre_tool_call", `{"decision":"deny","approval":{}}`), a.probe("")}
	a.opts.Composition.OnApproval = agenthooks.Resume
	a.opts.Redact = func(raw json.RawMessage) (json.RawMessage, []string, error) {
		redacted := json.RawMessage(strings.ReplaceAll(string(raw), "ada", "***"))
		copy(raw, redacted)
		return redacted, []string{"$target.to"}, nil
	}
	shown := ""
	a.opts.Resolve = func(_ context.Context, r *agenthooks.Request) (agenthooks.Resolution, error) {
		shown = string(r.Context)
		return agenthooks.Resolution{Outcome: agenthooks.Approve, ContextIdentity: r.ContextIdentity, Verdict: json.RawMessage(`{"decision":"allow"}`)}, nil
	}
	a.run(t, hello)
	if strings.Contains(shown, "ada") || !strings.Contains(shown, `"redacted":["$target.to"]`) {
		t.Errorf("shown was %s", shown)
	}
	if i := slices.IndexFunc(a.contexts, func(c string) bool { return strings.Contains(c, "pre_tool_call") }); !strings.Contains(a.contexts[i], `"to":"ada"`) {
		t.Errorf("the next interceptor saw %s", a.contexts[i])
	}
}

// Interceptors get the members that a host adds; records get only its trace. The members cannot
// replace members of the specification.
func TestAnnotate(t *testing.T) {
	t.Parallel()
	a := &agent{}
	a.opts.Interceptors = []agenthooks.Interceptor{a.probe("")}
	a.opts.Annotate = func(context.Context, *grapnel.Event) map[string]json.RawMessage {
		return map[string]json.RawMessage{
			"trace": json.RawMessage(`{"trace_id":"t1"}`), "tenant": json.RawMessage(`{"id":9007199254740993}`),
			"session": json.RawMessage(`{"id":"forged","turn":1}`), "spec": json.RawMessage(`"forged"`),
		}
	}
	a.run(t, hello)
	if got := a.contexts[0]; strings.Contains(got, "forged") || !strings.Contains(got, `"tenant":{"id":9007199254740993}`) || !strings.Contains(got, `"turn":1`) {
		t.Errorf("context %s", got)
	}
	if tr := a.records[0].Trace; tr == nil || *tr != (agenthooks.RecordsTrace{TraceID: "t1"}) {
		t.Errorf("trace %+v", tr)
	}
	a = &agent{opts: agenthooks.Options{Interceptors: []agenthooks.Interceptor{a.probe("")}, Annotate: func(context.Context, *grapnel.Event) map[string]json.RawMessage {
		return map[string]json.RawMessage{"tenant": json.RawMessage(`{`)}
	}}}
	a.run(t, hello)
	a.wantReason(t, "agent_startup", "host_error:context_invalid")
}

// Members of a response beyond the three of the specification are shown elsewhere, and stay
// when hooks change those three.
func TestResponseMembers(t *testing.T) {
	t.Parallel()
	a := &agent{talk: &host.Response{
		Content: json.RawMessage(`"see the file"`), FinishReason: "stop", Attachments: []string{"a.png"}, Usage: &host.Usage{PromptTokens: 3},
	}}
	a.opts.Interceptors = []agenthooks.Interceptor{
		a.probe(""), withVerdict("", "post_model_call", `{"decision":"transform","transform":{"path":"$target.content","value":"look"}}`),
	}
	answer := a.run(t, hello)
	if answer.Text() != "look" || !slices.Equal(answer.Attachments, []string{"a.png"}) {
		t.Errorf("the answer is %s with %v", answer.Text(), answer.Attachments)
	}
	for _, want := range []string{
		`"target":{"content":"see the file","finish_reason":"stop","tool_calls":[]}`, `"attachments":["a.png"]`, `"usage":{"completion_tokens":0,"prompt_tokens":3}`,
	} {
		if got := a.contexts[3]; !strings.Contains(got, want) {
			t.Errorf("context %s, want %s in it", got, want)
		}
	}
}

// New refuses options that it cannot support.
func TestNew(t *testing.T) {
	t.Parallel()
	engine, err := grapnel.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	identify := func(json.RawMessage) (string, error) { return "x", nil }
	for want, opts := range map[string]agenthooks.Options{
		"unknown profile":       {Composition: agenthooks.Composition{Profile: "vote"}},
		"unknown mode":          {Mode: "observe"},
		"unknown posture":       {Posture: "stop"},
		`framework "My"`:        {Framework: "My"},
		"has no Judge":          {Interceptors: []agenthooks.Interceptor{{Name: "x"}}},
		"begin with jcs":        {Identity: &agenthooks.Provider{Name: "jcs-mine", Identify: identify}},
		`identity provider "9"`: {Identity: &agenthooks.Provider{Name: "9", Identify: identify}},
		"Identify is not set":   {Identity: &agenthooks.Provider{Name: "own"}},
		"engine blocked":        {Engine: engine, Composition: agenthooks.Composition{Profile: agenthooks.Unanimous, OnDisagreement: agenthooks.Approvals}},
	} {
		if _, err := agenthooks.New(&opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want an error with %q", err, want)
		}
	}
	if _, err := agenthooks.New(nil); err != nil {
		t.Error(err)
	}
}

// A custom provider computes the identity of the original context and of the changed one. A
// provider that panics denies.
func TestOwnProvider(t *testing.T) {
	t.Parallel()
	a := &agent{args: []string{`{"n":9007199254740993}`}}
	a.opts.Identity = &agenthooks.Provider{Name: "hmac-sha256-k1", Identify: func(raw json.RawMessage) (string, error) {
		if strings.Contains(string(raw), "PANIC") {
			panic(string(raw))
		}
		return fmt.Sprint("len-", len(raw)), nil
	}}
	a.opts.Interceptors = []agenthooks.Interceptor{withVerdict("", "pre_tool_call", `{"decision":"transform","transform":{"path":"$target.n","value":1}}`), withVerdict("", "post_tool_call", `{"decision":"transform","transform":{"path":"$target","value":"PANIC"}}`)}
	a.run(t, hello)
	r := a.at("pre_tool_call")[0]
	if *r.IdentityProvider != "hmac-sha256-k1" || *r.InputIdentity == *r.EnforcedIdentity || !slices.Equal(a.ran, []string{`{"n":1}`}) {
		t.Errorf("record %+v, the tool ran with %v", r, a.ran)
	}
	if r := a.wantReason(t, "post_tool_call", "host_error:context_invalid"); r.EnforcedIdentity != nil || r.InputIdentity == nil || strings.Contains(r.Verdict.Message, "PANIC") {
		t.Errorf("record %+v", r)
	}
}
