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

// Prompt asks about what a person, or a machine in their place, wants: prompt.before.
// Commands to the agent itself are no prompts; an answer to a question that is taken
// for text is one. It returns the prompt as the model shall read it, with the context
// that hooks add below it. The error is a Refusal, whose Text is the answer to the
// person, or ctx.Err(); the model is not called then, and nothing is kept of the prompt.
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

// prompt is Prompt for content of any kind, from anybody. What a text cannot say of it
// stands in Native, where hooks may change whose it is.
func (s *Session) prompt(ctx context.Context, m Message) (Message, []string, error) {
	if !s.Listens(grapnel.PromptBefore) {
		return m, nil, nil
	}
	ev := &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: m.Text()}}
	if m.Role != "user" || string(m.Content) != string(rawjson.Quote(m.Text())) {
		ev.Native = encode(Message{Role: m.Role, Content: m.Content})
	}
	v, err := s.act(ctx, ev)
	if err != nil {
		return Message{}, nil, err
	}
	m.Content = like(m.Content, changed(&v, grapnel.FieldPrompt, m.Content))
	var now Message
	if v.Event != nil && v.Event != ev && json.Unmarshal(v.Event.Native, &now) == nil && now.Role != "" {
		m.Role = now.Role
	}
	return m, v.Context, nil
}

// A Beginning is what an agent begins to work with.
type Beginning struct {
	Prompt string // for hooks to read
	System string // the system prompt
	Model  string // the model's name

	Context []string // of hooks: what the model shall know beside the prompt
}

// Begin tells that the agent begins to work on a prompt: agent.before. Hooks may
// change the system prompt and the model, and add context. The error is a Refusal or
// ctx.Err(): the agent does not begin.
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

// A Stop is what hooks make of an agent's wish to stop.
type Stop struct {
	GoOn    string   // not empty: it does not stop, and this is what it is told
	Context []string // what the model shall know beside that
	Clear   bool     // the conversation so far is forgotten first
}

// Stop asks whether the agent may stop: agent.after. last is what it said last, active
// whether it went on already in this turn because of a hook. After
// [grapnel.MaxStops] in a row the engine lets it stop. The error is a Refusal where a
// hook ended the turn for good.
func (s *Session) Stop(ctx context.Context, last string, active bool) (Stop, error) {
	return s.stop(ctx, grapnel.AgentAfter, last, active)
}

func (s *Session) stop(ctx context.Context, kind grapnel.Kind, last string, active bool) (Stop, error) {
	if !s.Listens(kind) {
		return Stop{}, nil
	}
	ev := &grapnel.Event{Kind: kind, Stop: &grapnel.Stop{Active: active, LastMessage: last}}
	v := s.Fire(ctx, ev)
	if v.Halt != "" {
		return Stop{}, s.refusal(ev, &v)
	}
	stop := Stop{Context: v.Context, Clear: string(v.Changes[grapnel.FieldClear]) == "true"}
	if v.Decision == grapnel.Block {
		stop.GoOn = v.Reason()
	}
	return stop, nil
}

// Failed tells that the agent could not finish: agent.failed. Without an error it could.
func (s *Session) Failed(ctx context.Context, err error) {
	if err != nil {
		s.notice(ctx, &grapnel.Event{Kind: grapnel.AgentFailed, Cause: err.Error()})
	}
}

// Respond asks about the agent's answer before anybody gets it: response.before. It
// returns the answer as it shall be. The error is a Refusal, whose Text takes the place
// of the answer while attachments are dropped, or ctx.Err(): there is no answer.
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

// An Outgoing is a message on its way out.
type Outgoing struct {
	Channel     string
	Text        string
	Attachments []string // names or addresses, as the channel understands them
	Suppressed  bool     // hooks did not let it out: there is no text, but the turn ends all the same
}

// Received tells of a message that came in on a channel: message.received.
func (s *Session) Received(ctx context.Context, m grapnel.Message) {
	s.notice(ctx, &grapnel.Event{Kind: grapnel.MessageReceived, Message: &m})
}

// Send lets a message out: message.before, then deliver, then message.sent. deliver is
// also called with a message that is Suppressed, so that a channel can tell the other
// side that the turn is over. The error is that of deliver, or a Refusal. If ctx is done
// before that, deliver is not called and the error is ctx.Err().
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

// Keep asks about a message before it goes into the transcript: transcript.before. It
// returns the message as it shall be stored. The error is a Refusal or ctx.Err(): it is
// not stored.
func (s *Session) Keep(ctx context.Context, message json.RawMessage) (json.RawMessage, error) {
	if !s.Listens(grapnel.TranscriptBefore) {
		return message, nil
	}
	head := struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}{}
	_ = json.Unmarshal(message, &head) // of another shape it has neither
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

// Compact shortens the conversation: compact.before, then next, then compact.after.
// cause is manual or auto. next gets the instructions, with the context that hooks add
// below them, and returns the summary, to which hooks may add. The error is that of
// next, a Refusal, or ctx.Err() if ctx is done: the conversation stays as it is. next is
// not called if ctx is done by then.
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

// Task asks whether a task may be made: task.before. The error is a Refusal or ctx.Err().
func (s *Session) Task(ctx context.Context, t grapnel.Task) error {
	return s.allowed(ctx, &grapnel.Event{Kind: grapnel.TaskBefore, Task: &t})
}

// TaskDone asks whether a task may be closed: task.after. The error is a Refusal or
// ctx.Err(): it stays open.
func (s *Session) TaskDone(ctx context.Context, t grapnel.Task) error {
	return s.allowed(ctx, &grapnel.Event{Kind: grapnel.TaskAfter, Task: &t})
}

// Configure asks whether a change of the agent's own configuration counts:
// config.before. The error is a Refusal or ctx.Err().
func (s *Session) Configure(ctx context.Context, c grapnel.Config) error {
	return s.allowed(ctx, &grapnel.Event{Kind: grapnel.ConfigBefore, Config: &c})
}

// Notify tells of what the person is told: notification.sent.
func (s *Session) Notify(ctx context.Context, n grapnel.Notification) {
	s.notice(ctx, &grapnel.Event{Kind: grapnel.NotificationSent, Notification: &n})
}

// Elicit puts a tool server's question to the person: elicitation.before, then ask,
// unless a hook answers in the person's place. Answers are {action, content}. The error
// is that of ask, a Refusal, or ctx.Err() if ctx is done before ask is called.
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

// changed is what hooks have made of a field, or the field as it was.
func changed(v *grapnel.Verdict, f grapnel.Field, was json.RawMessage) json.RawMessage {
	if now, ok := v.Changes[f]; ok {
		return now
	}
	return was
}

// Below puts context that hooks add below a text, as the model shall read it.
func Below(text string, context []string) string {
	if len(context) == 0 {
		return text
	}
	return strings.TrimSpace(text + "\n\n" + strings.Join(context, "\n"))
}
