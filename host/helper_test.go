package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

func TestMain(m *testing.M) { await.Main(m) }

// world is a host together with the data that users and hooks get from it.
type world struct {
	t      *testing.T
	engine *grapnel.Engine
	host   *host.Host
	ctx    context.Context // has the session
	s      *host.Session

	acts func() // called by each action; may be nil

	mu       sync.Mutex
	reported []string
	asked    []host.Question
	events   []*grapnel.Event
}

// newWorld starts a session of an agent with these hooks. opts may omit Tell and Approve: then
// messages are stored, and no person can be asked.
func newWorld(t *testing.T, opts *host.Options, specs ...grapnel.Spec) *world {
	t.Helper()
	w := &world{t: t}
	engine, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.engine = engine
	if opts == nil {
		opts = &host.Options{}
	}
	o := *opts
	o.Agent = grapnel.Agent{Name: "test", Version: "1"}
	o.ShowMessage = func(_ context.Context, message string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reported = append(w.reported, message)
	}
	if approve := o.Approve; approve != nil {
		o.Approve = host.ApproverFunc(func(ctx context.Context, q *host.Question) (host.Consent, error) {
			w.mu.Lock()
			w.asked = append(w.asked, *q)
			w.mu.Unlock()
			return approve.Approve(ctx, q)
		})
	}
	w.host = host.New(engine, &o)
	w.ctx, w.s, _, err = w.host.Start(t.Context(), grapnel.Session{ID: "s1", CWD: "/work"}, "startup")
	if err != nil && host.Refused(err) == nil {
		t.Fatal(err)
	}
	return w
}

// act is called by each action.
func (w *world) act() {
	if w.acts != nil {
		w.acts()
	}
}

// add adds hooks, starting now.
func (w *world) add(specs ...grapnel.Spec) {
	w.t.Helper()
	if err := w.engine.Add(specs...); err != nil {
		w.t.Fatal(err)
	}
}

// watch stores the events of some kinds, or all events if no kinds are given.
func (w *world) watch(kinds ...grapnel.Kind) {
	w.t.Helper()
	w.add(grapnel.Spec{Name: "watch", On: kinds, Phase: grapnel.PhaseRule, Hook: grapnel.Watch(func(_ context.Context, ev *grapnel.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, ev)
	})})
}

func (w *world) messages() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.reported)
}

// kinds returns the kinds of the stored events.
func (w *world) kinds() []grapnel.Kind {
	w.mu.Lock()
	defer w.mu.Unlock()
	var kinds []grapnel.Kind
	for _, ev := range w.events {
		kinds = append(kinds, ev.Kind)
	}
	return kinds
}

func hook(name string, on grapnel.Kind, h grapnel.Hook) grapnel.Spec {
	return grapnel.Spec{Name: name, On: []grapnel.Kind{on}, Hook: h}
}

// returning returns a hook that always gives the same answer.
func returning(name string, on grapnel.Kind, out grapnel.Outcome) grapnel.Spec {
	return hook(name, on, grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return out, nil }))
}

func blocks(on grapnel.Kind, reason string) grapnel.Spec {
	return returning("blocks", on, grapnel.Outcome{Decision: grapnel.Block, Reason: reason})
}

// sets returns a hook that replaces a field.
func sets(on grapnel.Kind, field grapnel.Field, value string) grapnel.Spec {
	return returning("sets "+string(field), on, grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{field: json.RawMessage(value)}})
}

var errBroken = errors.New("broken")

// fails returns a hook that cannot answer.
func fails(on grapnel.Kind, counts grapnel.OnError) grapnel.Spec {
	s := hook("fails", on, grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, errBroken }))
	s.OnError = counts
	return s
}

// person returns an Approver that always gives the same answer.
func person(yes bool, reason string, err error) host.Approver {
	return host.ApproverFunc(func(context.Context, *host.Question) (host.Consent, error) {
		return host.Consent{Yes: yes, Reason: reason}, err
	})
}

// echo is a tool that returns its input.
func echo(_ context.Context, input json.RawMessage) (json.RawMessage, error) { return input, nil }

func text(s string) json.RawMessage { return json.RawMessage(fmt.Sprintf("%q", s)) }

// model gives prepared responses, one per call, and stores its requests.
type model struct {
	mu      sync.Mutex
	replies []host.Response
	pieces  []string // of the last response
	asked   []host.Request
	err     error // after all responses
}

func (m *model) Generate(_ context.Context, r *host.Request, yield func(string) error) (*host.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, *r)
	n := min(len(m.asked), len(m.replies)) - 1
	if len(m.asked) > len(m.replies) && m.err != nil || n < 0 {
		return nil, m.err
	}
	if n == len(m.replies)-1 {
		for _, piece := range m.pieces {
			if err := yield(piece); err != nil {
				return nil, err
			}
		}
	}
	response := m.replies[n]
	response.ToolCalls = slices.Clone(response.ToolCalls)
	return &response, nil
}

// answers returns a model that answers with these texts.
func answers(texts ...string) *model {
	m := &model{}
	for _, s := range texts {
		m.replies = append(m.replies, host.Response{Content: text(s), FinishReason: "stop"})
	}
	return m
}

// wants returns a response that calls these tools, each with {"n": 1} and so on.
func wants(names ...string) host.Response {
	r := host.Response{FinishReason: "tool_calls"}
	for i, name := range names {
		r.ToolCalls = append(r.ToolCalls, host.ToolCall{ID: fmt.Sprint("call", i+1), Name: name, Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i+1))})
	}
	return r
}

// written formats a conversation with one message per line.
func written(messages []host.ChatMessage) string {
	var b strings.Builder
	for i := range messages {
		m := &messages[i]
		fmt.Fprintf(&b, "%s", m.Role)
		if m.ToolCallID != "" {
			fmt.Fprintf(&b, " %s", m.ToolCallID)
		}
		if m.IsError {
			b.WriteString(" failed")
		}
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, " %s(%s)", c.Name, c.Args)
		}
		fmt.Fprintf(&b, ": %s\n", m.Text())
	}
	return b.String()
}
