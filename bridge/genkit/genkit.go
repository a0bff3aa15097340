// Package genkit adds hooks to flows and agents that are built with Firebase Genkit. New
// returns a middleware for calls of Generate:
//
//	hooks := grapnelgenkit.New(host.New(engine, nil), nil)
//	defer hooks.Close(ctx)
//
//	response, err := genkit.Generate(ctx, g, ai.WithPrompt(prompt), ai.WithTools(shell), ai.WithUse(hooks))
//
// It wraps the call, each request to the model and each tool. Prompts of dotprompt accept it
// too: pass ai.WithUse to their Execute. A call without the middleware has no hooks. Add it
// after other middleware, so that the judged call is the one that runs.
//
// Hooks see requests and responses as JSON of Genkit's own types: [ai.ModelRequest] and
// [ai.ModelResponse]. A refusal is not an error: its text is the answer, with the FinishReason
// "blocked". A hook that halts ends the call the same way.
//
// If a tool of one Generate calls Generate with the middleware, the inner call is a sub-agent
// of the outer one.
package genkit

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/firebase/genkit/go/ai"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// Options configure a Bridge. The zero value and nil mean the defaults.
type Options struct {
	// Session has the session data that hooks see if a context has no session. It starts at its
	// first use and ends with [Bridge.Close]. An empty ID means a random one, an empty CWD the
	// working directory.
	Session grapnel.Session
}

// A Bridge fires the events of a host from inside Genkit. It is an [ai.Middleware], and safe
// for concurrent use.
//
// The Bridge uses the session in the context, as returned by [host.Host.Start]. Without one it
// uses its own, so no call can skip the hooks by mistake.
type Bridge struct {
	host  *host.Host
	opts  Options
	turns atomic.Int64

	once  sync.Once
	own   *host.Session          // set by once
	err   error                  // set by once: hooks refused the session
	added atomic.Pointer[string] // context of session.start, until a prompt takes it
}

// New returns the middleware that fires the events of a host from inside Genkit.
func New(h *host.Host, opts *Options) *Bridge {
	b := &Bridge{host: h}
	if opts != nil {
		b.opts = *opts
	}
	if b.opts.Session.ID == "" {
		b.opts.Session.ID = rand.Text()
	}
	if b.opts.Session.CWD == "" {
		b.opts.Session.CWD, _ = os.Getwd() // if that fails, hooks see an empty CWD
	}
	return b
}

// Close ends the Bridge's own session, if it was started. No call should be running.
func (b *Bridge) Close(ctx context.Context) {
	started := true
	b.once.Do(func() { started = false })
	if started && b.err == nil {
		b.own.End(ctx, "exit")
	}
}

// Name returns the name of the middleware.
func (b *Bridge) Name() string { return "grapnel" }

// New returns the hooks for one Generate. Genkit calls it.
func (b *Bridge) New(context.Context) (*ai.Hooks, error) {
	t := &turn{bridge: b}
	return &ai.Hooks{WrapGenerate: t.generate, WrapModel: t.model, WrapTool: t.tool}, nil
}

// session returns the session in ctx, or the Bridge's own.
func (b *Bridge) session(ctx context.Context) (s *host.Session, own bool, err error) {
	if s := host.SessionFromContext(ctx); s != nil {
		return s, false, nil
	}
	b.once.Do(func() {
		var added []string
		_, b.own, added, b.err = b.host.Start(context.WithoutCancel(ctx), b.opts.Session, "startup")
		if text := strings.Join(added, "\n"); text != "" {
			b.added.Store(&text)
		}
	})
	return b.own, true, b.err
}

// A turn is one call of Generate.
type turn struct {
	bridge   *Bridge
	session  *host.Session
	own      bool          // session is the Bridge's own
	sub      bool          // the turn of a sub-agent
	messages []*ai.Message // the conversation at the start of the last round
	index    int           // index of the messages that this round streams

	mu      sync.Mutex
	over    *host.Refusal // not nil: hooks ended the turn
	results []host.Result // of tools, since the last model call
	offered []string      // tools that the model may choose from; nil = all
}

// inside is the key under which a context stores its tool call.
type inside struct{}

// generate wraps a round: a model call, its tools, and all later rounds. The first round is the
// turn.
func (t *turn) generate(ctx context.Context, params *ai.GenerateParams, next ai.GenerateNext) (*ai.ModelResponse, error) {
	if t.session != nil {
		return t.round(ctx, params, next)
	}
	var err error
	if t.session, t.own, err = t.bridge.session(ctx); err == nil {
		ctx, params, err = t.begin(ctx, params)
	}
	if err != nil {
		return blocked(params.Request, err)
	}
	response, err := t.rounds(ctx, params, next)
	if err != nil && !t.sub {
		t.session.Failed(ctx, err)
	}
	return response, err
}

// begin fires the events of the prompt and of the start of the agent or sub-agent.
func (t *turn) begin(ctx context.Context, params *ai.GenerateParams) (context.Context, *ai.GenerateParams, error) {
	messages := slices.Clone(params.Request.Messages)
	last := len(messages) - 1
	isPrompt := last >= 0 && messages[last].Role == ai.RoleUser && params.Options.Resume == nil // answers to tools are not prompts
	was := ""
	if isPrompt {
		was = textOf(messages[last])
	}
	begin := host.Beginning{Prompt: was, Model: params.Options.Model}
	var err error
	if call, ok := ctx.Value(inside{}).(host.Call); ok {
		t.sub = true
		t.session, begin.Context, err = t.session.BeginSubagent(ctx, grapnel.Subagent{ID: call.ID, Type: call.Name}, was)
	} else {
		turn := strconv.FormatInt(t.bridge.turns.Add(1), 10)
		t.session.Update(func(info *grapnel.Session) { info.Turn, info.Model = turn, begin.Model })
		if isPrompt {
			begin.Prompt, err = t.session.Prompt(ctx, was)
		}
		if err == nil {
			begin, messages, err = t.agent(ctx, begin, messages)
		}
	}
	if err != nil {
		return ctx, params, err
	}
	last = len(messages) - 1
	switch now := host.Below(begin.Prompt, begin.Context); {
	case isPrompt && now != was:
		messages[last] = withText(messages[last], now)
	case !isPrompt && len(begin.Context) > 0:
		messages = append(messages, ai.NewUserTextMessage(host.Below("", begin.Context)))
	}
	return host.ContextWithSession(ctx, t.session), with(params, messages), nil
}

// agent fires agent.before, and sets the system prompt that hooks want.
func (t *turn) agent(ctx context.Context, begin host.Beginning, messages []*ai.Message) (host.Beginning, []*ai.Message, error) {
	system := slices.IndexFunc(messages, func(m *ai.Message) bool { return m.Role == ai.RoleSystem })
	if system >= 0 {
		begin.System = textOf(messages[system])
	}
	was := begin
	begin, err := t.session.Begin(ctx, begin)
	if err != nil {
		return begin, messages, err
	}
	t.session.Update(func(info *grapnel.Session) { info.Model = was.Model }) // Genkit has already chosen the model
	switch {
	case begin.System == was.System:
	case system >= 0:
		messages[system] = withText(messages[system], begin.System)
	default:
		messages = slices.Insert(messages, 0, ai.NewSystemTextMessage(begin.System))
	}
	if t.own {
		if text := t.bridge.added.Swap(nil); text != nil {
			begin.Context = slices.Insert(begin.Context, 0, *text)
		}
	}
	return begin, messages, nil
}

// rounds runs the turn until the agent may stop.
func (t *turn) rounds(ctx context.Context, params *ai.GenerateParams, next ai.GenerateNext) (*ai.ModelResponse, error) {
	for active := false; ; active = true {
		response, err := t.round(ctx, params, next)
		if err != nil {
			return nil, err
		}
		if no := t.ended(); no != nil {
			return blocked(params.Request, no)
		}
		if response.Message == nil || len(response.ToolRequests()) > 0 || response.Operation != nil {
			return response, nil // the caller continues with it
		}
		ask := t.session.Stop
		if t.sub {
			ask = t.session.StopSubagent
		}
		stop, err := ask(ctx, response.Text(), active)
		if err != nil {
			return blocked(params.Request, err)
		}
		if stop.ContinueWith == "" {
			return t.answer(ctx, params, response)
		}
		messages := append(slices.Clone(t.messages), response.Message)
		if stop.Clear {
			messages = slices.DeleteFunc(messages, func(m *ai.Message) bool { return m.Role != ai.RoleSystem })
		}
		params = with(params, append(messages, ai.NewUserTextMessage(host.Below(stop.ContinueWith, stop.Context))))
		if params.Options.Resume != nil {
			params.Iteration = 1 // Genkit has already resumed
		}
	}
}

// answer judges the answer before it reaches the caller.
func (t *turn) answer(ctx context.Context, params *ai.GenerateParams, response *ai.ModelResponse) (*ai.ModelResponse, error) {
	if t.sub || !t.session.Listens(grapnel.ResponseBefore) {
		return response, nil
	}
	was := response.Text()
	now, err := t.session.Respond(ctx, was)
	if err != nil {
		if response, err = blocked(params.Request, err); err != nil {
			return nil, err
		}
	} else if now != was {
		other := *response
		other.Message = withText(response.Message, now)
		response = &other
	}
	if params.Callback != nil && t.holds() {
		chunk := &ai.ModelResponseChunk{Content: response.Message.Content, Role: ai.RoleModel, Index: t.index}
		if err := params.Callback(ctx, chunk); err != nil {
			return nil, err
		}
	}
	return response, nil
}

// round reports the ended tool calls, and continues unless hooks ended the turn.
func (t *turn) round(ctx context.Context, params *ai.GenerateParams, next ai.GenerateNext) (*ai.ModelResponse, error) {
	t.mu.Lock()
	results, over := t.results, t.over
	t.results = nil
	t.mu.Unlock()
	if over != nil {
		return blocked(params.Request, over)
	}
	if len(results) > 0 {
		added, err := t.session.ToolBatch(ctx, results)
		if err != nil {
			t.end(err)
			return blocked(params.Request, err)
		}
		if len(added) > 0 {
			params = with(params, append(slices.Clone(params.Request.Messages), ai.NewUserTextMessage(host.Below("", added))))
		}
	}
	t.messages, t.index = params.Request.Messages, params.MessageIndex
	return next(ctx, params)
}

// ended returns the refusal that ended the turn, or nil.
func (t *turn) ended() *host.Refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// end ends the turn with a refusal, unless it has already ended.
func (t *turn) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over == nil {
		t.over = host.Refused(err)
	}
}

// blocked returns the response for a refusal. Any other error is returned unchanged.
func blocked(request *ai.ModelRequest, err error) (*ai.ModelResponse, error) {
	no := host.Refused(err)
	if no == nil {
		return nil, err
	}
	return &ai.ModelResponse{
		Message: ai.NewModelTextMessage(no.Text), FinishReason: ai.FinishReasonBlocked, FinishMessage: no.Reason, Request: request,
	}, nil
}

// with returns params with other messages.
func with(params *ai.GenerateParams, messages []*ai.Message) *ai.GenerateParams {
	other, request := *params, *params.Request
	request.Messages = messages
	other.Request = &request
	return &other
}

// textOf returns the text of a message. [ai.Message.Text] would include data of a prompt.
func textOf(m *ai.Message) string {
	var b strings.Builder
	for _, p := range m.Content {
		if p.IsText() {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// withText returns the message with another text. The text replaces the first text part.
func withText(m *ai.Message, text string) *ai.Message {
	other := m.Clone()
	other.Content = nil
	written := false
	for _, p := range m.Content {
		switch {
		case !p.IsText():
			other.Content = append(other.Content, p)
		case !written:
			other.Content = append(other.Content, ai.NewTextPart(text))
			written = true
		}
	}
	if !written {
		other.Content = append(other.Content, ai.NewTextPart(text))
	}
	return other
}
