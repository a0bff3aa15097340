package host

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Prompt fires prompt.before for the request of a user, or of a program acting for the user. Do
// not call it for commands to the agent itself. Call it for an answer to a question if the agent
// treats the answer as a prompt. Prompt returns the text for the model, with the context from
// hooks below it. The error is a Refusal, whose Text is the answer to the user, or ctx.Err(). The
// model must then not be called, and the prompt must not be stored.
func (s *Session) Prompt(ctx context.Context, text string) (string, error) {
	if !s.Listens(grapnel.PromptBefore) {
		return text, nil
	}
	m, context, err := s.prompt(ctx, Text("user", text))
	if err != nil {
		return "", err
	}
	return Below(m.Text(), context), nil
}

// prompt does the work of Prompt for content of any type and any role. Data that does not fit into
// a text is in Native, where hooks may also change the role.
func (s *Session) prompt(ctx context.Context, m ChatMessage) (ChatMessage, []string, error) {
	if !s.Listens(grapnel.PromptBefore) {
		return m, nil, nil
	}
	ev := &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: m.Text()}}
	if m.Role != "user" || string(m.Content) != string(rawjson.Quote(m.Text())) {
		ev.Native = rawjson.OrNull(ChatMessage{Role: m.Role, Content: m.Content})
	}
	v, err := s.act(ctx, ev)
	if err != nil {
		return ChatMessage{}, nil, err
	}
	m.Content = like(m.Content, changed(&v, grapnel.FieldPrompt, m.Content))
	var now ChatMessage
	if v.Event != nil && v.Event != ev && json.Unmarshal(v.Event.Native, &now) == nil && now.Role != "" {
		m.Role = now.Role
	}
	return m, v.Context, nil
}

// A Beginning holds the inputs of an agent's work on a prompt.
type Beginning struct {
	Prompt string // the prompt, read-only for hooks
	System string // the system prompt
	Model  string // the model's name

	Context []string // text from hooks that the model gets in addition to the prompt
}

// Begin fires agent.before when the agent starts to work on a prompt. Hooks may change the system
// prompt and the model, and add context. The error is a Refusal or ctx.Err(): the agent must not
// start.
func (s *Session) Begin(ctx context.Context, b Beginning) (Beginning, error) {
	s.Update(func(info *grapnel.Session) { info.Model = cmp.Or(b.Model, info.Model) })
	if !s.Listens(grapnel.AgentBefore) {
		return b, nil
	}
	ev := &grapnel.Event{Kind: grapnel.AgentBefore, Prompt: &grapnel.Prompt{Text: b.Prompt, System: b.System}}
	v := s.Fire(ctx, ev)
	if err := mayRun(ctx, s.halted(ev, &v)); err != nil {
		return b, err
	}
	b.System = textOf(changed(&v, grapnel.FieldSystem, rawjson.Quote(b.System)))
	b.Model = textOf(changed(&v, grapnel.FieldModel, rawjson.Quote(b.Model)))
	b.Context = slices.Concat(b.Context, v.Context)
	s.Update(func(info *grapnel.Session) { info.Model = cmp.Or(b.Model, info.Model) })
	return b, nil
}

// A StopResult is the answer of hooks to the question whether an agent may stop.
type StopResult struct {
	ContinueWith string   // not empty: the agent must continue with this message
	Context      []string // additional text for the model
	Clear        bool     // clear the conversation before the agent continues
}

// Stop fires agent.after to ask whether the agent may stop. last is the agent's last message.
// active reports whether a hook has already kept the agent from stopping in this turn. After
// [grapnel.MaxStops] consecutive Blocks the engine lets it stop. The error is a Refusal if a hook
// ended the turn.
func (s *Session) Stop(ctx context.Context, last string, active bool) (StopResult, error) {
	return s.stop(ctx, grapnel.AgentAfter, last, active)
}

func (s *Session) stop(ctx context.Context, kind grapnel.Kind, last string, active bool) (StopResult, error) {
	if !s.Listens(kind) {
		return StopResult{}, nil
	}
	ev := &grapnel.Event{Kind: kind, Stop: &grapnel.Stop{Active: active, LastMessage: last}}
	v := s.Fire(ctx, ev)
	if v.Halt != "" {
		return StopResult{}, s.refusal(ev, &v)
	}
	stop := StopResult{Context: v.Context, Clear: string(v.Changes[grapnel.FieldClear]) == "true"}
	if v.Decision == grapnel.Block {
		stop.ContinueWith = v.Reason()
	}
	return stop, nil
}

// Failed fires agent.failed when the agent could not finish. It does nothing if err is nil.
func (s *Session) Failed(ctx context.Context, err error) {
	if err != nil {
		s.notice(ctx, &grapnel.Event{Kind: grapnel.AgentFailed, Cause: err.Error()})
	}
}

// Respond fires response.before for the agent's answer before the user gets it. It returns the
// answer to show. The error is ctx.Err(), or a Refusal whose Text replaces the answer;
// attachments are then dropped.
func (s *Session) Respond(ctx context.Context, text string) (string, error) {
	if !s.Listens(grapnel.ResponseBefore) {
		return text, nil
	}
	content, err := s.respond(ctx, rawjson.Quote(text))
	return textOf(content), err
}

func (s *Session) respond(ctx context.Context, content json.RawMessage) (json.RawMessage, error) {
	if !s.Listens(grapnel.ResponseBefore) {
		return content, nil
	}
	v, err := s.act(ctx, &grapnel.Event{Kind: grapnel.ResponseBefore, Model: &grapnel.Model{Response: content}})
	if no := Refused(err); no != nil {
		return rawjson.Quote(no.Text), no
	}
	if err != nil {
		return nil, err
	}
	return changed(&v, grapnel.FieldResponse, content), nil
}

// An Outgoing is a message that the agent sends.
type Outgoing struct {
	Channel     string
	Text        string
	Attachments []string // names or addresses in the format of the channel
	Suppressed  bool     // hooks refused the message: it has no text, but the turn still ends
}

// Received fires message.received for a message that arrived on a channel. If it returns an error,
// a Refusal or ctx.Err(), the agent must ignore the message. The Text of the Refusal is an answer
// for the sender, for channels that send one.
func (s *Session) Received(ctx context.Context, m grapnel.Message) error {
	return s.allowed(ctx, &grapnel.Event{Kind: grapnel.MessageReceived, Message: &m})
}

// Send sends a message: it fires message.before, calls deliver and fires message.sent. deliver is
// also called with a Suppressed message, so that a channel can signal the end of the turn. The
// error comes from deliver or is a Refusal. If ctx is done before deliver is called, deliver is
// not called and the error is ctx.Err().
func (s *Session) Send(ctx context.Context, m Outgoing, deliver func(ctx context.Context, m Outgoing) error) error {
	if err := contextError(ctx); err != nil {
		return err
	}
	if s.Listens(grapnel.MessageBefore) {
		v, err := s.act(ctx, &grapnel.Event{Kind: grapnel.MessageBefore, Message: m.message()})
		no := Refused(err)
		switch {
		case no != nil:
			if err := deliver(ctx, Outgoing{Channel: m.Channel, Suppressed: true}); err != nil {
				return err
			}
			return no
		case err != nil:
			return err
		}
		m.Text = textOf(changed(&v, grapnel.FieldText, rawjson.Quote(m.Text)))
	}
	if err := deliver(ctx, m); err != nil {
		return err
	}
	s.notice(ctx, &grapnel.Event{Kind: grapnel.MessageSent, Message: m.message()})
	return nil
}

func (m *Outgoing) message() *grapnel.Message {
	return &grapnel.Message{Role: "assistant", Channel: m.Channel, Content: m.Text}
}

// Keep fires transcript.before for a message before it is stored. It returns the message to
// store. If it returns an error, a Refusal or ctx.Err(), the message must not be stored.
func (s *Session) Keep(ctx context.Context, message json.RawMessage) (json.RawMessage, error) {
	if !s.Listens(grapnel.TranscriptBefore) {
		return message, nil
	}
	head := struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}{}
	_ = json.Unmarshal(message, &head) // in another format both are empty
	ev := &grapnel.Event{
		Kind:    grapnel.TranscriptBefore,
		Message: &grapnel.Message{Role: head.Role, Content: textOf(head.Content), Raw: message},
	}
	v, err := s.act(ctx, ev)
	if err != nil {
		return nil, err
	}
	return changed(&v, grapnel.FieldMessage, message), nil
}

// Compact shortens the conversation: it fires compact.before, calls next and fires compact.after.
// cause is manual or auto. next gets the instructions, with context from hooks below them, and
// returns the summary, which hooks may extend. The error comes from next or is a Refusal or
// ctx.Err(): the conversation must then stay unchanged. If ctx is done, next is not called.
func (s *Session) Compact(ctx context.Context, cause, instructions string, next func(ctx context.Context, instructions string) (string, error)) (string, error) {
	if err := contextError(ctx); err != nil {
		return "", err
	}
	if s.Listens(grapnel.CompactBefore) {
		v, err := s.act(ctx, &grapnel.Event{Kind: grapnel.CompactBefore, Cause: cause, Compact: &grapnel.Compact{Instructions: instructions}})
		if err != nil {
			return "", err
		}
		instructions = Below(instructions, v.Context)
	}
	summary, err := next(ctx, instructions)
	if err != nil || !s.Listens(grapnel.CompactAfter) {
		return summary, err
	}
	ev := &grapnel.Event{Kind: grapnel.CompactAfter, Cause: cause, Compact: &grapnel.Compact{Instructions: instructions, Summary: summary}}
	v := s.Fire(ctx, ev)
	if err := mayRun(ctx, s.halted(ev, &v)); err != nil {
		return "", err
	}
	return textOf(changed(&v, grapnel.FieldSummary, rawjson.Quote(summary))), nil
}

// Task fires task.before to ask whether a task may be created. The error is a Refusal or
// ctx.Err().
func (s *Session) Task(ctx context.Context, t grapnel.Task) error {
	return s.allowed(ctx, &grapnel.Event{Kind: grapnel.TaskBefore, Task: &t})
}

// TaskDone fires task.after to ask whether a task may be closed. If it returns an error, a
// Refusal or ctx.Err(), the task must stay open.
func (s *Session) TaskDone(ctx context.Context, t grapnel.Task) error {
	return s.allowed(ctx, &grapnel.Event{Kind: grapnel.TaskAfter, Task: &t})
}

// Configure fires config.before to ask whether the agent's own configuration may change. The
// error is a Refusal or ctx.Err().
func (s *Session) Configure(ctx context.Context, c grapnel.Config) error {
	return s.allowed(ctx, &grapnel.Event{Kind: grapnel.ConfigBefore, Config: &c})
}

// Notify fires notification.sent for a notification to the user.
func (s *Session) Notify(ctx context.Context, n grapnel.Notification) {
	s.notice(ctx, &grapnel.Event{Kind: grapnel.NotificationSent, Notification: &n})
}

// Elicit asks the user a tool server's question: it fires elicitation.before and calls ask,
// unless a hook answers instead. Answers have the form {action, content}. The error comes from
// ask, or is a Refusal, or ctx.Err() if ctx is done before ask is called.
func (s *Session) Elicit(ctx context.Context, e grapnel.Elicitation, ask func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if err := contextError(ctx); err != nil {
		return nil, err
	}
	if s.Listens(grapnel.ElicitationBefore) {
		v, err := s.act(ctx, &grapnel.Event{Kind: grapnel.ElicitationBefore, Elicitation: &e})
		if err != nil {
			return nil, err
		}
		if answer := changed(&v, grapnel.FieldAnswer, nil); answer != nil {
			return answer, nil
		}
	}
	return ask(ctx)
}

func (s *Session) allowed(ctx context.Context, ev *grapnel.Event) error {
	if !s.Listens(ev.Kind) {
		return contextError(ctx)
	}
	_, err := s.act(ctx, ev)
	return err
}

// changed returns a hook's value of a field, or the old value if no hook changed it.
func changed(v *grapnel.Verdict, f grapnel.Field, was json.RawMessage) json.RawMessage {
	if now, ok := v.Changes[f]; ok {
		return now
	}
	return was
}

// Below appends context from hooks to a text for the model.
func Below(text string, context []string) string {
	if len(context) == 0 {
		return text
	}
	return strings.TrimSpace(text + "\n\n" + strings.Join(context, "\n"))
}
