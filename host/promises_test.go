package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/host"
)

// foreign returns a hook that answers an event in another system's dialect, like a program that
// was written for it.
func foreign(d *dialect.Dialect, on grapnel.Kind, exit int, stdout, stderr string) grapnel.Spec {
	return grapnel.Spec{
		Name: "foreign", On: []grapnel.Kind{on},
		Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			return d.ReadOutcome(ev, dialect.Output{Exit: exit, Stdout: []byte(stdout), Stderr: []byte(stderr)})
		}),
	}
}

// life is the result of an agent with a hook after one turn.
type life struct {
	answer  *host.Answer
	asked   []host.Request // requests to the model
	tools   []string       // tools that ran, with their input
	person  []string       // questions to the user
	records []*grapnel.Record
	events  []grapnel.Kind // events that the hooks got
}

// live runs an agent with a system's preset and manners: its model first calls the tool
// "write", if it exists, and then says "done".
func live(t *testing.T, system string, consent bool, hook grapnel.Spec, tools ...string) *life {
	t.Helper()
	preset, ok := grapnel.FindPreset(system)
	manners, polite := host.FindManners(system)
	if !ok || !polite {
		t.Fatalf("nobody knows %s", system)
	}
	l := &life{}
	var mu sync.Mutex
	engine, err := grapnel.New([]grapnel.Spec{preset.Defaults(hook)}, &grapnel.Options{
		Preset: preset,
		Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
			mu.Lock()
			defer mu.Unlock()
			l.records = append(l.records, rec)
			l.events = append(l.events, rec.Event)
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	var own []host.AgentTool
	for _, name := range tools {
		own = append(own, host.AgentTool{ToolInfo: host.ToolInfo{Name: name}, Run: func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
			l.tools = append(l.tools, name+string(input))
			return text("ok"), nil
		}})
	}
	h := host.New(engine, &host.Options{
		Tools: host.Infos(own), Manners: manners, ShowMessage: func(context.Context, string) {},
		Approve: host.ApproverFunc(func(_ context.Context, q *host.Question) (host.Consent, error) {
			l.person = append(l.person, q.Reason)
			return host.Consent{Yes: consent}, nil
		}),
	})
	ctx, s, startContext, err := h.Start(t.Context(), grapnel.Session{ID: "s-1"}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	m := answers("done")
	if slices.Contains(tools, "write") {
		m.replies = append([]host.Response{wants("write")}, m.replies...)
	}
	loop := host.Loop{Provider: m, Name: "large", Context: startContext, Tools: own}
	s.Notify(ctx, grapnel.Notification{Type: "ToolPermission", Message: "may I?"})
	if l.answer, err = loop.Run(ctx, host.Text("user", "the key is k")); err != nil {
		t.Fatal(err)
	}
	s.End(ctx, "exit")
	if err := errors.Join(h.Close(ctx), engine.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	l.asked = m.asked
	return l
}

// messagesOf returns the messages in a model request with their roles, one per line.
func messagesOf(r *host.Request) string {
	var b strings.Builder
	for i := range r.Messages {
		b.WriteString(r.Messages[i].Role + ": " + r.Messages[i].Text() + "\n")
	}
	return b.String()
}

// Gemini's decisions about a tool call in a Go agent: deny and block are a block, with the reason
// for the model; ask asks the user; allow does not skip a prompt.
//
// Proves: GC-04
func TestGeminiBeforeTool(t *testing.T) {
	t.Parallel()
	const call = `write{"n":1}`
	for name, tt := range map[string]struct {
		answer  string
		exit    int
		consent bool
		ran     bool
		person  string // the question to the user
		result  string // part of the result that the model gets
	}{
		"allow":                {answer: `{"decision": "allow", "reason": "fine"}`, ran: true, result: "ok"},
		"nothing":              {ran: true, result: "ok"},
		"deny":                 {answer: `{"decision": "deny", "reason": "not there"}`, result: "not there"},
		"block":                {answer: `{"decision": "block", "reason": "not there"}`, result: "not there"},
		"exit 2":               {answer: `not there`, exit: 2, result: "not there"},
		"ask, and it may":      {answer: `{"decision": "ask", "reason": "sure?"}`, consent: true, ran: true, person: "sure?", result: "ok"},
		"ask, and it must not": {answer: `{"decision": "ask", "reason": "sure?"}`, person: "sure?", result: "did not agree"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := live(t, "grapnel", tt.consent, foreign(dialect.GeminiCLI(), grapnel.ToolBefore, tt.exit, tt.answer, ""), "write")
			if got := slices.Equal(l.tools, []string{call}); got != tt.ran || !tt.ran && len(l.tools) > 0 {
				t.Errorf("tools that ran: %q, want %q: %v", l.tools, call, tt.ran)
			}
			if got := strings.Join(l.person, "|"); got != tt.person {
				t.Errorf("the person was asked %q, want %q", got, tt.person)
			}
			if len(l.asked) != 2 || !strings.Contains(messagesOf(&l.asked[1]), tt.result) || l.answer.Text() != "done" {
				t.Errorf("the model was asked %v, want the result to hold %q, and that the turn goes on", l.asked, tt.result)
			}
		})
	}
}

// Changes of requests and responses by hooks for Gemini CLI, in a Go agent.
//
// Proves: GC-05, GC-06, GC-07, GC-08, GC-09
func TestGeminiChanges(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hook     grapnel.Spec
		model    string // name of the called model
		messages string // messages that it got
		tools    string // tools that it may choose from
		reply    string
	}{
		// GC-05: unnamed members stay.
		"another model": {
			hook:  foreign(dialect.GeminiCLI(), grapnel.ModelBefore, 0, `{"hookSpecificOutput": {"llm_request": {"model": "small"}}}`, ""),
			model: "small",
		},
		"other messages": {
			hook:     foreign(dialect.GeminiCLI(), grapnel.ModelBefore, 0, `{"hookSpecificOutput": {"llm_request": {"messages": [{"role": "user", "content": "the key is ***"}]}}}`, ""),
			messages: "user: the key is ***\n",
		},
		// GC-06.
		"another answer": {
			hook:  sets(grapnel.ModelAfter, grapnel.FieldResponse, `{"content": "redacted"}`),
			reply: "redacted",
		},
		// GC-07.
		"context": {
			hook:     foreign(dialect.GeminiCLI(), grapnel.PromptBefore, 0, `{"hookSpecificOutput": {"additionalContext": "we use tabs"}}`, ""),
			messages: "user: the key is k\n\nwe use tabs\n",
		},
		// GC-08.
		"fewer tools": {
			hook:  foreign(dialect.GeminiCLI(), grapnel.ToolsetBefore, 0, `{"hookSpecificOutput": {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["read"]}}}`, ""),
			tools: "read any",
		},
		"no tools": {
			hook:  foreign(dialect.GeminiCLI(), grapnel.ToolsetBefore, 0, `{"hookSpecificOutput": {"toolConfig": {"mode": "NONE"}}}`, ""),
			tools: " none",
		},
		// GC-09: it gets the event, and changes nothing.
		"a notification": {
			hook: foreign(dialect.GeminiCLI(), grapnel.NotificationSent, 2, `{"decision": "deny", "reason": "no", "hookSpecificOutput": {"additionalContext": "x"}}`, "no"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := live(t, "grapnel", false, tt.hook, "read", "search")
			if len(l.asked) != 1 {
				t.Fatalf("the model was asked %d times, want once: %+v", len(l.asked), l.answer)
			}
			r := &l.asked[0]
			var tools []string
			for _, tool := range r.Tools {
				tools = append(tools, tool.Name)
			}
			for _, c := range []struct{ what, got, want, usual string }{
				{"model", r.Model, tt.model, "large"},
				{"messages", messagesOf(r), tt.messages, "user: the key is k\n"},
				{"tools", strings.Join(tools, ",") + " " + r.ToolChoice, tt.tools, "read,search "},
				{"reply", l.answer.Text(), tt.reply, "done"},
			} {
				if c.want == "" {
					c.want = c.usual
				}
				if c.got != c.want {
					t.Errorf("%s: got %q, want %q", c.what, c.got, c.want)
				}
			}
			if !slices.Contains(l.events, tt.hook.On[0]) {
				t.Errorf("nobody was told of %s", tt.hook.On[0])
			}
		})
	}
}

// Exit code 2 of a Flyto hook stops a model call, any other code except 0 is a failed hook, and
// both are in a Record.
//
// Proves: FL-26
func TestFlytoBeforeModel(t *testing.T) {
	t.Parallel()
	for exit, want := range map[int]host.Status{0: host.StatusCompleted, 1: host.StatusCompleted, 2: host.StatusBlocked, 3: host.StatusCompleted} {
		l := live(t, "flyto", false, foreign(dialect.Flyto(), grapnel.ModelBefore, exit, "", "enough for today"))
		if l.answer.Status != want || (len(l.asked) == 0) != (want == host.StatusBlocked) {
			t.Errorf("exit %d: %+v after %d calls of the model, want %s", exit, l.answer, len(l.asked), want)
		}
		if want == host.StatusBlocked && l.answer.Text() != "enough for today" {
			t.Errorf("the person reads %q", l.answer.Text())
		}
		i := slices.Index(l.events, grapnel.ModelBefore)
		if i < 0 {
			t.Fatalf("exit %d: no Record of it: %v", exit, l.events)
		}
		if rec := l.records[i]; (rec.Decision == grapnel.Block) != (exit == 2) || (rec.Hooks[0].Error != "") != (exit == 1 || exit == 3) {
			t.Errorf("exit %d: the Record says %s, %+v", exit, rec.Decision, rec.Hooks)
		}
	}
}

// The agent does not wait for a hook after a model call, and the hook has no influence: it is still
// running when the turn has ended.
//
// Proves: FL-27
func TestFlytoAfterModel(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	hook := foreign(dialect.Flyto(), grapnel.ModelAfter, 2, "", "too late")
	blocks := hook.Hook
	hook.Hook = grapnel.Func(func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		select {
		case <-over: // the turn did not wait
			return blocks.Handle(ctx, ev)
		case <-ctx.Done():
			return grapnel.Outcome{}, context.Cause(ctx)
		}
	})
	preset, _ := grapnel.FindPreset("flyto")
	manners, _ := host.FindManners("flyto")
	engine, err := grapnel.New([]grapnel.Spec{preset.Defaults(hook)}, &grapnel.Options{Preset: preset})
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	h := host.New(engine, &host.Options{Manners: manners, ShowMessage: func(_ context.Context, message string) { messages = append(messages, message) }})
	ctx, _, _, err := h.Start(t.Context(), grapnel.Session{}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	loop := host.Loop{Provider: answers("done"), Show: func(_ context.Context, piece string) error {
		shown.WriteString(piece)
		return nil
	}}
	answer, err := loop.Run(ctx, host.Text("user", "go"))
	close(over)
	err = errors.Join(err, h.Close(ctx))
	if err != nil || answer.Status != host.StatusCompleted || answer.Text() != "done" || shown.String() != "done" {
		t.Errorf("got %+v, %v, shown %q", answer, err, shown.String())
	}
	if len(messages) != 1 || !strings.Contains(messages[0], "too late") {
		t.Errorf("told %q, want that the hook wanted something else", messages)
	}
}

// Any exit code of a Flyto hook except 0 at the stop ends the loop, where a block of other systems
// makes the agent continue. The agent's answer remains.
//
// Proves: FL-33
func TestFlytoStop(t *testing.T) {
	t.Parallel()
	for _, exit := range []int{0, 1, 2, 77} {
		l := live(t, "flyto", false, foreign(dialect.Flyto(), grapnel.AgentAfter, exit, "", "that is all"), "write")
		if l.answer.Status != host.StatusCompleted || l.answer.Text() != "done" || len(l.asked) != 2 {
			t.Errorf("exit %d: %+v after %d calls of the model, want done after 2", exit, l.answer, len(l.asked))
		}
	}
	l := live(t, "grapnel", false, foreign(dialect.ClaudeCode(), grapnel.AgentAfter, 2, "", "more"), "write")
	if len(l.asked) <= 2 {
		t.Errorf("where a block sends the agent on, the model was called %d times", len(l.asked))
	}
}
