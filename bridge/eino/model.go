package eino

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
	"github.com/eino-contrib/jsonschema"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// A Request is a model call as hooks see and change it: the messages and the options that Eino
// defines for all models. Unset options are absent. If a hook removes an option, it keeps its
// value; only messages and tools can be removed. The response is a [schema.Message].
type Request struct {
	Messages         []*schema.Message  `json:"messages"`
	Tools            []Tool             `json:"tools,omitempty"`
	Model            *string            `json:"model,omitempty"`
	Temperature      *float32           `json:"temperature,omitempty"`
	MaxTokens        *int               `json:"max_tokens,omitempty"`
	TopP             *float32           `json:"top_p,omitempty"`
	Stop             []string           `json:"stop,omitempty"`
	ToolChoice       *schema.ToolChoice `json:"tool_choice,omitempty"`
	AllowedToolNames []string           `json:"allowed_tool_names,omitempty"`
}

// A Tool describes a tool to a model, with the names of [schema.ToolInfo].
type Tool struct {
	Name       string          `json:"name"`
	Desc       string          `json:"desc,omitempty"`
	Parameters json.RawMessage `json:"parameters,omitempty"` // JSON Schema
}

// Model guards a chat model: it fires toolset.before, toolbatch.after, model.before and
// model.after. Give the returned model to the agent or graph instead of inner, before tools are
// bound to it.
//
// A refused request is an error, a [host.Refusal]. If hooks withhold a response, the model is
// called again with the reason below the messages, at most [grapnel.MaxStops] times.
//
// If a hook listens to model.after, Stream returns after the whole answer has arrived and has
// been judged. Otherwise the pieces are passed on unchanged. If the host is Incremental, each
// piece of text is judged and released as it arrives, and tool calls at the end.
func (b *Bridge) Model(inner model.ToolCallingChatModel) model.ToolCallingChatModel {
	return &chatModel{bridge: b, inner: inner, bound: inner}
}

type chatModel struct {
	bridge *Bridge
	inner  model.ToolCallingChatModel // without bound tools
	bound  model.ToolCallingChatModel // inner with tools
	tools  []*schema.ToolInfo
}

// WithTools returns the guarded model with tools bound to it.
func (m *chatModel) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	bound, err := m.inner.WithTools(tools)
	if err != nil {
		return nil, err
	}
	return &chatModel{bridge: m.bridge, inner: m.inner, bound: bound, tools: tools}, nil
}

// IsCallbacksEnabled reports whether the model fires callbacks itself. Eino calls it.
func (m *chatModel) IsCallbacksEnabled() bool { return components.IsCallbacksEnabled(m.inner) }

// GetType returns the name of the model's type for callbacks.
func (m *chatModel) GetType() string {
	if name, ok := components.GetType(m.inner); ok {
		return name
	}
	return reflect.Indirect(reflect.ValueOf(m.inner)).Type().Name()
}

// Generate calls the model.
func (m *chatModel) Generate(ctx context.Context, input []*schema.Message, opts ...model.Option) (*schema.Message, error) {
	ctx, s, err := m.bridge.session(ctx)
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil: // check this without hooks too, like [host.Model]
		return nil, ctx.Err()
	case !listens(ctx, s):
		return m.bound.Generate(ctx, input, opts...)
	}
	return observed(ctx, m, input, func(ctx context.Context) (*schema.Message, error) {
		message, _, err := m.whole(ctx, s, input, opts, func(a *ask) ([]*schema.Message, error) {
			message, err := a.model.Generate(ctx, a.request.Messages, a.opts...)
			return []*schema.Message{message}, err
		})
		return message, err
	}, func(ctx context.Context, message *schema.Message) *schema.Message {
		callbacks.OnEnd(ctx, message)
		return message
	})
}

// Stream calls the model and returns the answer in pieces.
func (m *chatModel) Stream(ctx context.Context, input []*schema.Message, opts ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	ctx, s, err := m.bridge.session(ctx)
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !listens(ctx, s):
		return m.bound.Stream(ctx, input, opts...)
	}
	return observed(ctx, m, input, func(ctx context.Context) (*schema.StreamReader[*schema.Message], error) {
		if s.Listens(grapnel.ModelAfter) && !s.Incremental() {
			return m.held(ctx, s, input, opts)
		}
		a, answer, err := m.ask(ctx, s, input, opts)
		switch {
		case err != nil:
			return nil, err
		case answer != nil:
			answer, err = a.judge(ctx, answer)
			return schema.StreamReaderFromArray([]*schema.Message{answer}), err
		}
		in, err := a.model.Stream(ctx, a.request.Messages, a.opts...)
		if err != nil || !s.Listens(grapnel.ModelAfter) {
			return in, err
		}
		return a.pieces(ctx, in), nil
	}, func(ctx context.Context, out *schema.StreamReader[*schema.Message]) *schema.StreamReader[*schema.Message] {
		_, out = callbacks.OnEndWithStreamOutput(ctx, out)
		return out
	})
}

// listens reports whether hooks need to see the call.
func listens(ctx context.Context, s *host.Session) bool {
	return chosen(ctx) != "" || slices.ContainsFunc(
		[]grapnel.Kind{grapnel.ModelBefore, grapnel.ModelAfter, grapnel.ToolsetBefore, grapnel.ToolBatchAfter}, s.Listens)
}

// observed runs callbacks around a call of a model that has its own callbacks. They get the
// values that hooks have approved, and adk makes its events from them. The model's own
// callbacks are disabled for the call.
func observed[O any](ctx context.Context, m *chatModel, input []*schema.Message, run func(context.Context) (O, error), end func(context.Context, O) O) (O, error) {
	if !m.IsCallbacksEnabled() {
		return run(ctx)
	}
	ctx = callbacks.EnsureRunInfo(ctx, m.GetType(), components.ComponentOfChatModel)
	ctx = callbacks.OnStart(ctx, input)
	out, err := run(callbacks.InitCallbacks(ctx, nil))
	if err != nil {
		callbacks.OnError(ctx, err)
		return out, err
	}
	return end(ctx, out), nil
}

// whole returns an answer that hooks approved and its pieces. If hooks changed the answer, it
// is a single piece.
func (m *chatModel) whole(ctx context.Context, s *host.Session, input []*schema.Message, opts []model.Option, next func(*ask) ([]*schema.Message, error)) (*schema.Message, []*schema.Message, error) {
	for try := 0; ; try++ {
		a, answer, err := m.ask(ctx, s, input, opts)
		if err != nil {
			return nil, nil, err
		}
		pieces := []*schema.Message{answer}
		if answer == nil {
			if pieces, err = next(a); err != nil {
				return nil, nil, err
			}
			if answer, err = merge(pieces); err != nil {
				return nil, nil, err
			}
		}
		judged, err := a.judge(ctx, answer)
		no := host.Refused(err)
		switch {
		case err == nil && judged == answer:
			return judged, pieces, nil
		case err == nil:
			return judged, []*schema.Message{judged}, nil
		case no == nil || no.Halt || try == grapnel.MaxStops:
			return nil, nil, err
		}
		input = append(slices.Clip(input), schema.UserMessage(no.Text))
	}
}

// held returns a stream that starts after the whole answer has been judged.
func (m *chatModel) held(ctx context.Context, s *host.Session, input []*schema.Message, opts []model.Option) (*schema.StreamReader[*schema.Message], error) {
	_, pieces, err := m.whole(ctx, s, input, opts, func(a *ask) ([]*schema.Message, error) {
		in, err := a.model.Stream(ctx, a.request.Messages, a.opts...)
		if err != nil {
			return nil, err
		}
		return drain(in)
	})
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray(pieces), nil
}

// merge joins the pieces to one message.
func merge(pieces []*schema.Message) (*schema.Message, error) {
	switch len(pieces) {
	case 0:
		return nil, errors.New("the model gave no answer")
	case 1:
		return pieces[0], nil
	default:
		return schema.ConcatMessages(pieces)
	}
}

// An ask is a model call with the changes of hooks.
type ask struct {
	session *host.Session
	model   model.BaseChatModel
	request Request
	raw     json.RawMessage // the request as JSON
	opts    []model.Option
}

// ask lets hooks judge a call. It returns the changed call, or the hooks' answer that replaces
// the model's.
func (m *chatModel) ask(ctx context.Context, s *host.Session, input []*schema.Message, opts []model.Option) (*ask, *schema.Message, error) {
	if name := chosen(ctx); name != "" {
		opts = append(slices.Clip(opts), model.WithModel(name))
	}
	known := model.GetCommonOptions(nil, opts...)
	a := &ask{session: s, opts: opts, request: Request{
		Messages: input, Model: known.Model, Temperature: known.Temperature, MaxTokens: known.MaxTokens, TopP: known.TopP,
		Stop: known.Stop, ToolChoice: known.ToolChoice, AllowedToolNames: known.AllowedToolNames,
	}}
	if err := a.batch(ctx); err != nil {
		return nil, nil, err
	}
	tools := m.tools
	if known.Tools != nil {
		tools = known.Tools
	}
	allowed, err := a.choose(ctx, tools)
	if err != nil {
		return nil, nil, err
	}
	if a.request.Tools, err = describe(allowed); err != nil {
		return nil, nil, err
	}
	raw, err := host.JSON(a.request)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot encode the request for hooks: %w", err)
	}
	asked, answer, err := s.BeforeModel(ctx, raw)
	if err != nil {
		return nil, nil, err
	}
	a.raw = asked
	if string(asked) != string(raw) {
		if allowed, err = a.change(asked, allowed); err != nil {
			return nil, nil, fmt.Errorf("cannot decode the request that hooks changed: %w", err)
		}
	}
	if answer != nil {
		message, err := decode(answer)
		return a, message, err
	}
	return a, nil, a.bind(m, tools, allowed, known.Tools != nil)
}

// batch fires toolbatch.after for the tool results that are new in the request.
func (a *ask) batch(ctx context.Context) error {
	messages := a.request.Messages
	first := len(messages)
	for first > 0 && messages[first-1].Role == schema.Tool {
		first--
	}
	if first == len(messages) || !a.session.Listens(grapnel.ToolBatchAfter) {
		return nil
	}
	var calls []schema.ToolCall
	if first > 0 {
		calls = messages[first-1].ToolCalls
	}
	var results []host.Result
	for _, m := range messages[first:] {
		r := host.Result{Call: host.Call{ID: m.ToolCallID, Name: m.ToolName}, Output: show(m.Content)}
		if len(m.UserInputMultiContent) > 0 { // result of an enhanced tool
			var err error
			if r.Output, err = host.JSON(m.UserInputMultiContent); err != nil {
				return fmt.Errorf("cannot encode the output of the tool %s for hooks: %w", m.ToolName, err)
			}
		}
		if i := slices.IndexFunc(calls, func(c schema.ToolCall) bool { return c.ID == m.ToolCallID }); i >= 0 {
			r.Call.Name, r.Call.Input = calls[i].Function.Name, input(calls[i].Function.Arguments)
		}
		results = append(results, r)
	}
	added, err := a.session.ToolBatch(ctx, results)
	if len(added) > 0 {
		a.request.Messages = append(slices.Clip(messages), schema.UserMessage(strings.Join(added, "\n")))
	}
	return err
}

// modes maps Eino's tool choices to the names that hooks see.
var modes = map[schema.ToolChoice]string{schema.ToolChoiceAllowed: "auto", schema.ToolChoiceForced: "any", schema.ToolChoiceForbidden: "none"}

// choose returns the tools that the model may choose from.
func (a *ask) choose(ctx context.Context, tools []*schema.ToolInfo) ([]*schema.ToolInfo, error) {
	if len(tools) == 0 || !a.session.Listens(grapnel.ToolsetBefore) {
		return tools, nil
	}
	mode := "auto"
	if a.request.ToolChoice != nil {
		mode = modes[*a.request.ToolChoice]
	}
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	names, other, err := a.session.Choose(ctx, names, mode)
	if err != nil {
		return nil, err
	}
	if other != mode {
		for choice, name := range modes {
			if name == other {
				a.request.ToolChoice = &choice
				a.opts = append(slices.Clip(a.opts), model.WithToolChoice(choice, a.request.AllowedToolNames...))
			}
		}
	}
	if other == "none" {
		return []*schema.ToolInfo{}, nil
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t *schema.ToolInfo) bool { return !slices.Contains(names, t.Name) }), nil
}

func describe(tools []*schema.ToolInfo) ([]Tool, error) {
	var list []Tool
	for _, t := range tools {
		parameters, err := t.ToJSONSchema()
		if err != nil {
			return nil, fmt.Errorf("cannot encode the tool %s for hooks: %w", t.Name, err)
		}
		shown := Tool{Name: t.Name, Desc: t.Desc}
		if parameters != nil {
			if shown.Parameters, err = host.JSON(parameters); err != nil {
				return nil, fmt.Errorf("cannot encode the tool %s for hooks: %w", t.Name, err)
			}
		}
		list = append(list, shown)
	}
	return list, nil
}

// change applies the hooks' changes to the request. Unchanged parts keep their original values,
// including data that JSON does not represent.
func (a *ask) change(asked json.RawMessage, tools []*schema.ToolInfo) ([]*schema.ToolInfo, error) {
	var now Request
	if err := json.Unmarshal(asked, &now); err != nil {
		return nil, err
	}
	keep(now.Messages, a.request.Messages)
	list := make([]*schema.ToolInfo, len(now.Tools))
	for i, t := range now.Tools {
		if j := slices.IndexFunc(a.request.Tools, t.equal); j >= 0 {
			list[i] = tools[j]
			continue
		}
		list[i] = &schema.ToolInfo{Name: t.Name, Desc: t.Desc}
		if len(t.Parameters) > 0 {
			parameters := &jsonschema.Schema{}
			if err := json.Unmarshal(t.Parameters, parameters); err != nil {
				return nil, fmt.Errorf("the parameters of the tool %s: %w", t.Name, err)
			}
			list[i].ParamsOneOf = schema.NewParamsOneOfByJSONSchema(parameters)
		}
	}
	a.opts = append(slices.Clip(a.opts), now.options()...)
	a.request = now
	return list, nil
}

func (t *Tool) equal(other Tool) bool {
	return t.Name == other.Name && t.Desc == other.Desc && string(t.Parameters) == string(other.Parameters)
}

// keep puts the original messages back where they are unchanged.
func keep(now, was []*schema.Message) {
	same := map[string]*schema.Message{}
	for _, m := range was {
		if raw, err := host.JSON(m); err == nil {
			same[string(raw)] = m
		}
	}
	for i, m := range now {
		if raw, err := host.JSON(m); err == nil && same[string(raw)] != nil {
			now[i] = same[string(raw)]
		}
	}
}

// options returns the request's options for the model.
func (r *Request) options() []model.Option {
	var opts []model.Option
	if r.Model != nil {
		opts = append(opts, model.WithModel(*r.Model))
	}
	if r.Temperature != nil {
		opts = append(opts, model.WithTemperature(*r.Temperature))
	}
	if r.MaxTokens != nil {
		opts = append(opts, model.WithMaxTokens(*r.MaxTokens))
	}
	if r.TopP != nil {
		opts = append(opts, model.WithTopP(*r.TopP))
	}
	if r.Stop != nil {
		opts = append(opts, model.WithStop(r.Stop))
	}
	if r.ToolChoice != nil {
		opts = append(opts, model.WithToolChoice(*r.ToolChoice, r.AllowedToolNames...))
	}
	return opts
}

// bind gives the model the tools that it may choose from.
func (a *ask) bind(m *chatModel, all, allowed []*schema.ToolInfo, option bool) (err error) {
	a.model = m.bound
	switch {
	case slices.Equal(all, allowed):
	case option:
		a.opts = append(slices.Clip(a.opts), model.WithTools(allowed))
	case len(allowed) == 0: // many models return an error if they are bound to no tools
		a.model = m.inner
	default:
		a.model, err = m.inner.WithTools(allowed)
	}
	return err
}

// judge fires model.after for an answer, and returns the changed answer.
func (a *ask) judge(ctx context.Context, message *schema.Message) (*schema.Message, error) {
	if !a.session.Listens(grapnel.ModelAfter) {
		return message, nil
	}
	raw, err := host.JSON(message)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the response for hooks: %w", err)
	}
	judged, err := a.session.AfterModel(ctx, a.raw, raw)
	if err != nil || string(judged) == string(raw) {
		return message, err
	}
	return decode(judged)
}

// decode reads a response from a hook: a message in Eino's JSON, or a string.
func decode(raw json.RawMessage) (*schema.Message, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return schema.AssistantMessage(text, nil), nil
	}
	message := schema.AssistantMessage("", nil)
	if err := json.Unmarshal(raw, message); err != nil {
		return nil, fmt.Errorf("cannot decode the response that hooks changed: %w", err)
	}
	return message, nil
}

// pieces judges text as it arrives. Its goroutine ends with the model's answer, or when the
// reader closes the returned stream.
func (a *ask) pieces(ctx context.Context, in *schema.StreamReader[*schema.Message]) *schema.StreamReader[*schema.Message] {
	out, w := schema.Pipe[*schema.Message](1)
	go func() {
		defer in.Close()
		defer w.Close()
		if err := a.letGo(ctx, in, w); err != nil {
			w.Send(nil, err)
		}
	}()
	return out
}

func (a *ask) letGo(ctx context.Context, in *schema.StreamReader[*schema.Message], w *schema.StreamWriter[*schema.Message]) error {
	var all []*schema.Message
	shown := schema.AssistantMessage("", nil)
	for {
		piece, err := in.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		all = append(all, piece)
		soFar, err := merge(all)
		if err != nil {
			return err
		}
		if len(soFar.ToolCalls) > 0 {
			continue // skip incomplete calls
		}
		part := *soFar
		part.ResponseMeta = &schema.ResponseMeta{FinishReason: host.FinishIncremental}
		judged, err := a.judge(ctx, &part)
		if err != nil {
			return err
		}
		rest, err := beyond(judged, shown)
		if err != nil {
			return err
		}
		shown = judged
		if rest.ResponseMeta = nil; w.Send(rest, nil) {
			return nil
		}
	}
	whole, err := merge(all)
	if err != nil {
		return err
	}
	if whole, err = a.judge(ctx, whole); err != nil {
		return err
	}
	rest, err := beyond(whole, shown)
	if err == nil {
		w.Send(rest, nil)
	}
	return err
}

// beyond returns the part of a message that was not shown yet.
func beyond(m, shown *schema.Message) (*schema.Message, error) {
	rest := *m
	var text, thoughts bool
	rest.Content, text = strings.CutPrefix(m.Content, shown.Content)
	rest.ReasoningContent, thoughts = strings.CutPrefix(m.ReasoningContent, shown.ReasoningContent)
	if !text || !thoughts {
		return nil, errors.New("hooks changed text that was already shown")
	}
	return &rest, nil
}
