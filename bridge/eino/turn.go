package eino

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/cloudwego/eino/schema"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// Turn wraps one run of an agent. It fires prompt.before and agent.before, calls run, and then
// fires agent.after and response.before, or agent.failed. run may be Generate of a ReAct agent,
// Invoke of a graph, or a Runner of adk with its events read to the end.
//
// The last message is the prompt if it is a user message. The first message is the system
// prompt if it is a system message. If a hook does not let the agent stop, run is called again
// with the answer and the reason below the messages. In the Bridge's own session, context from
// hooks of session.start is added below the first prompt. The error is the error of run, or a
// [host.Refusal] with a Text for the person.
func (b *Bridge) Turn(ctx context.Context, messages []*schema.Message, run func(ctx context.Context, messages []*schema.Message) (*schema.Message, error)) (*schema.Message, error) {
	given := host.SessionFromContext(ctx) != nil
	ctx, s, err := b.session(ctx)
	if err != nil {
		return nil, err
	}
	turn := strconv.FormatInt(b.turns.Add(1), 10)
	s.Update(func(info *grapnel.Session) { info.Turn = turn })
	begin := host.Beginning{Model: s.Info().Model}
	if !given {
		if startContext := b.startContext.Swap(nil); startContext != nil {
			begin.Context = *startContext
		}
	}
	answer, err := around(ctx, s, begin, slices.Clone(messages), run)
	if err != nil && host.Refused(err) == nil {
		s.Failed(ctx, err)
	}
	return answer, err
}

// around wraps one run of an agent in the session s; see [Bridge.Turn].
func around(ctx context.Context, s *host.Session, begin host.Beginning, messages []*schema.Message, run func(context.Context, []*schema.Message) (*schema.Message, error)) (*schema.Message, error) {
	var err error
	known := begin.Model
	if i := len(messages) - 1; i >= 0 && messages[i].Role == schema.User {
		if begin.Prompt, err = s.Prompt(ctx, textOf(messages[i])); err != nil {
			return nil, err
		}
		messages[i] = withText(messages[i], begin.Prompt)
	}
	system := len(messages) > 0 && messages[0].Role == schema.System
	if system {
		begin.System = messages[0].Content
	}
	if begin, err = s.Begin(ctx, begin); err != nil {
		return nil, err
	}
	switch {
	case system:
		messages[0] = withText(messages[0], begin.System)
	case begin.System != "":
		messages = slices.Insert(messages, 0, schema.SystemMessage(begin.System))
		system = true
	}
	if len(begin.Context) > 0 {
		messages = append(messages, schema.UserMessage(strings.Join(begin.Context, "\n")))
	}
	if begin.Model != known {
		ctx = context.WithValue(ctx, chosenModel{}, begin.Model)
	}
	for active := false; ; active = true {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		answer, err := run(ctx, slices.Clone(messages))
		switch {
		case err != nil:
			return nil, err
		case answer == nil:
			return nil, errors.New("the agent returned neither an answer nor an error")
		}
		stop, err := s.Stop(ctx, answer.Content, active)
		if err != nil {
			return nil, err
		}
		if stop.ContinueWith == "" {
			text, err := s.Respond(ctx, answer.Content)
			if err != nil {
				return nil, err
			}
			return withText(answer, text), nil
		}
		messages = append(messages, answer)
		if stop.Clear {
			messages = messages[:0]
			if system {
				messages = append(messages, schema.SystemMessage(begin.System))
			}
		}
		messages = append(messages, schema.UserMessage(strings.Join(append([]string{stop.ContinueWith}, stop.Context...), "\n")))
	}
}

// textOf returns the text of a message. It also works for a message with pictures or files.
func textOf(m *schema.Message) string {
	texts := []string{m.Content}
	for _, part := range m.UserInputMultiContent {
		texts = append(texts, part.Text)
	}
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "\n")
}

// withText returns the message with another text, or the same message if the text is unchanged.
func withText(m *schema.Message, text string) *schema.Message {
	if textOf(m) == text {
		return m
	}
	other := *m
	other.Content = text
	if len(m.UserInputMultiContent) > 0 { // Content is ignored next to it
		other.Content = ""
		other.UserInputMultiContent = []schema.MessageInputPart{{Type: schema.ChatMessagePartTypeText, Text: text}}
		for _, part := range m.UserInputMultiContent {
			if part.Type != schema.ChatMessagePartTypeText {
				other.UserInputMultiContent = append(other.UserInputMultiContent, part)
			}
		}
	}
	return &other
}

// chosenModel is the context key of the model that a hook of agent.before chose.
type chosenModel struct{}

func chosen(ctx context.Context) string {
	name, _ := ctx.Value(chosenModel{}).(string)
	return name
}
