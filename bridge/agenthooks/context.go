package agenthooks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// emission builds the emission of the event. On an error it may return the part that could be
// built.
func (f *firing) emission(ctx context.Context) (*emission, error) {
	b := builder{tree: map[string]any{}}
	if annotate := f.hooks.opts.Annotate; annotate != nil {
		extra, err := within(ctx, 0, func(ctx context.Context) (map[string]json.RawMessage, error) { return annotate(ctx, f.ev), nil })
		b.err = err
		for name, raw := range extra {
			b.raw(name, raw)
		}
	}
	b.set("spec", spec)
	b.set("interception_point", f.point.name)
	b.set("timestamp", timestamp(f.now))
	b.set("sequence", json.Number(strconv.FormatInt(f.sequence, 10)))
	b.set("agent.id", cmp.Or(f.hooks.opts.AgentID, f.ev.Agent.Name))
	b.set("agent.framework", f.hooks.opts.Framework)
	if f.ev.Agent.Version != "" {
		b.set("agent.version", f.ev.Agent.Version)
	}
	b.set("session.id", f.ev.Session.ID)
	b.labels(f)
	b.parts(f.ev)
	target, _ := at(b.tree, f.point.twin)
	b.set("target", target)
	if b.err != nil {
		return &emission{point: f.point, tree: b.tree, ev: f.ev}, b.err
	}
	return newEmission(f.point, b.tree, f.ev)
}

// A builder builds a context. It keeps its first error.
type builder struct {
	tree map[string]any
	err  error
}

func (b *builder) set(path string, value any) { b.tree = put(b.tree, path, value) }

// raw sets a member to a JSON value.
func (b *builder) raw(path string, raw json.RawMessage) {
	v := b.read(path, raw)
	b.set(path, v)
}

func (b *builder) read(path string, raw json.RawMessage) any {
	v, err := parse(raw, path)
	if err != nil && b.err == nil {
		b.err = err
	}
	return v
}

// object parses a JSON object.
func (b *builder) object(path string, raw json.RawMessage) map[string]any {
	v, is := b.read(path, raw).(map[string]any)
	if !is && b.err == nil {
		b.err = &unfit{path, "not an object"}
	}
	return v
}

// labels adds the interceptors' labels for the data of the session.
func (b *builder) labels(f *firing) {
	f.hooks.mu.Lock()
	defer f.hooks.mu.Unlock()
	for name, labels := range f.session.labels {
		shown := make([]any, len(labels))
		for i, label := range labels {
			shown[i] = label
		}
		b.set("extensions."+name+".source_labels", shown)
	}
}

// parts sets the members that are specific to each point.
func (b *builder) parts(ev *grapnel.Event) {
	switch ev.Kind {
	case grapnel.SessionStart:
		names := []string{}
		if ev.Toolset != nil {
			names = append(names, ev.Toolset.Allowed...)
		}
		slices.Sort(names)
		list := make([]any, len(names))
		for i, name := range names {
			list[i] = name
		}
		b.set("agent_init.tools_registered", list)
	case grapnel.PromptBefore:
		b.prompt(ev)
	case grapnel.ModelBefore:
		b.request(ev)
	case grapnel.ModelAfter:
		b.response(ev)
	case grapnel.ToolBefore, grapnel.ToolAfter, grapnel.ToolFailed:
		b.tool(ev)
	case grapnel.ResponseBefore:
		if ev.Model != nil {
			b.raw("output.content", ev.Model.Response)
		}
	case grapnel.SessionEnd:
		b.set("summary.reason", ending(ev.Cause))
	default: // other events have no emissions
	}
}

// ending returns the specification's value for the reason of a session's end.
func ending(cause string) string {
	if cause == "error" || cause == "cancelled" {
		return cause
	}
	return "completed"
}

func (b *builder) prompt(ev *grapnel.Event) {
	b.set("input.role", "user")
	if ev.Prompt != nil {
		b.set("input.content", ev.Prompt.Text)
	}
	if len(ev.Native) == 0 {
		return
	}
	native := b.object("input", ev.Native)
	content, has := native["content"]
	role, hasRole := native["role"]
	if has && hasRole && len(native) == 2 { // content that is not plain text, or not from the user
		b.set("input.content", content)
		b.set("input.role", role)
	}
}

func (b *builder) request(ev *grapnel.Event) {
	b.set("model.id", ev.Session.Model)
	if ev.Model == nil {
		return
	}
	request := b.object("request", ev.Model.Request)
	if id, is := request["model"].(string); is && id != "" {
		b.set("model.id", id)
	}
	if messages, has := request["messages"]; has {
		b.set("messages", messages)
	}
	if params, has := request["params"]; has {
		b.set("model.params", params)
	}
	if tools, has := request["tools"]; has {
		b.set("tools", tools)
	}
}

func (b *builder) response(ev *grapnel.Event) {
	b.set("model.id", ev.Session.Model)
	if ev.Model == nil {
		return
	}
	var request struct {
		Model string `json:"model"`
	}
	if json.Unmarshal(ev.Model.Request, &request) == nil && request.Model != "" {
		b.set("model.id", request.Model)
	}
	response := b.object("response", ev.Model.Response)
	for _, name := range responseMembers {
		if v, has := response[name]; has {
			b.set("response."+name, v)
		}
	}
	if usage, has := response["usage"]; has {
		b.set("usage", usage)
	}
	if attachments, has := response["attachments"]; has {
		b.set("extensions."+namespace+".attachments", attachments)
	}
}

// responseMembers are the members of a response at the point after the model. Grapnel's other
// members are in another part of the context, and transforms do not change them.
var responseMembers = []string{"content", "tool_calls", "finish_reason"}

func (b *builder) tool(ev *grapnel.Event) {
	t := ev.Tool
	if t == nil {
		return
	}
	b.set("tool_call.id", t.ID)
	b.set("tool_call.name", t.CanonicalName())
	b.set("tool_call.args", map[string]any{})
	if len(bytes.TrimSpace(t.Input)) > 0 {
		b.raw("tool_call.args", t.Input)
	}
	if ev.Kind == grapnel.ToolBefore {
		return
	}
	b.set("tool_result.value", nil)
	if len(t.Output) > 0 {
		b.raw("tool_result.value", t.Output)
	}
	b.set("tool_result.is_error", t.Failed || ev.Kind == grapnel.ToolFailed)
}

// fields converts the target of an emission to Grapnel's fields: the new value of the field that
// interceptors may change at this point.
func (em *emission) fields() (map[grapnel.Field]json.RawMessage, error) {
	target := em.target()
	object, _ := target.(map[string]any)
	switch em.ev.Kind {
	case grapnel.PromptBefore:
		return one(grapnel.FieldPrompt, object["content"]), nil
	case grapnel.ModelBefore:
		request, err := parse(em.ev.Model.Request, "request")
		tree, _ := request.(map[string]any)
		return one(grapnel.FieldRequest, put(tree, "messages", target)), err
	case grapnel.ModelAfter:
		response, err := parse(em.ev.Model.Response, "response")
		tree, _ := response.(map[string]any)
		for name, v := range object {
			tree = put(tree, name, v)
		}
		return one(grapnel.FieldResponse, tree), err
	case grapnel.ToolBefore:
		return one(grapnel.FieldInput, target), nil
	case grapnel.ToolAfter, grapnel.ToolFailed:
		return one(grapnel.FieldOutput, target), nil
	case grapnel.ResponseBefore:
		return one(grapnel.FieldResponse, object["content"]), nil
	default: // the targets of other points cannot be changed
		return nil, nil
	}
}

func one(f grapnel.Field, value any) map[grapnel.Field]json.RawMessage {
	return map[grapnel.Field]json.RawMessage{f: rawjson.AppendSorted(nil, value)}
}

// event returns the emission's event with all transforms applied.
func (em *emission) event() (*grapnel.Event, error) {
	if !em.moved {
		return em.ev, nil
	}
	fields, err := em.fields()
	if err != nil {
		return nil, err
	}
	ev := em.ev
	for f, raw := range fields {
		if f == grapnel.FieldPrompt {
			ev = prompted(ev, em.target())
			continue
		}
		if ev, err = ev.Set(f, raw); err != nil {
			return nil, err
		}
	}
	return ev, nil
}

// prompted returns a prompt event with another input. Content that is not text is only in Native.
func prompted(ev *grapnel.Event, input any) *grapnel.Event {
	now, prompt := *ev, grapnel.Prompt{}
	if ev.Prompt != nil {
		prompt = *ev.Prompt
	}
	object, _ := input.(map[string]any)
	text, isText := object["content"].(string)
	prompt.Text = text
	if !isText {
		prompt.Text = string(rawjson.AppendSorted(nil, object["content"]))
	}
	now.Prompt = &prompt
	now.Native = rawjson.AppendSorted(nil, map[string]any{"role": object["role"], "content": object["content"]})
	return &now
}
