package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A Loop is an agent: it calls the model and the requested tools until there is an answer. It
// fires all events of that work for the session in ctx, and obeys the verdicts. Set its fields
// before the first Run. It is not safe for concurrent use.
//
// Each Run is a turn, and increments the Turn of the session.
//
// Each sub-agent has a separate Loop; see [Subagent]. Its prompts and answers do not come from or
// go to a person: subagent.start and subagent.after report them, and prompt.before, agent.after and
// response.before are not fired.
type Loop struct {
	Provider Provider
	Name     string          // name of the model
	System   string          // system prompt; empty = no system prompt
	Context  []string        // text below the next prompt: context that hooks added at the start of the session
	Tools    []AgentTool     // Options.Tools of the Host must be Infos(Tools)
	Params   json.RawMessage // parameters for every Request
	Parallel int             // maximum number of parallel calls for one model response; below 2 = one after the other
	MaxCalls int             // maximum number of model calls in one Run; 0 = 100

	// Show gets the parts of the answer that may be shown, in order; nil = they are not shown.
	Show func(ctx context.Context, piece string) error

	// Withdraw is called if hooks refuse or change an answer after Show got parts of it; Show
	// then gets the new text from the beginning. nil = the user gets a message through
	// Options.ShowMessage.
	Withdraw func(ctx context.Context, shown string)

	// Deliver sends the answer to the channel of the prompt, through message.before; nil = the
	// agent has no channel. See [Session.Send].
	Deliver func(ctx context.Context, m Outgoing) error

	// Store stores a message of the conversation, through transcript.before; nil = messages are
	// not stored. See [Session.Keep].
	Store func(ctx context.Context, m ChatMessage) error

	// Summarize shortens messages to a text, through compact.before; nil = conversations are
	// never shortened. It is called before a model call if there are more than CompactAt
	// messages.
	Summarize func(ctx context.Context, messages []ChatMessage, instructions string) (string, error)
	CompactAt int

	// Messages is the conversation so far, without the system prompt.
	Messages []ChatMessage

	offered []string        // tools that the model may currently choose from
	held    bool            // the current response is shown only after all of it was judged
	shown   strings.Builder // the part of the current response that was shown
}

// Status is how a Run ended.
type Status string

// The values of Status.
const (
	StatusCompleted Status = "completed" // there is an answer
	StatusBlocked   Status = "blocked"   // hooks ended the turn
	StatusFailed    Status = "error"     // the model call failed, or the context was canceled
)

// An Answer is the result of a Run.
type Answer struct {
	Status      Status
	Content     json.RawMessage // usually a text; for StatusBlocked, the replacement text
	Attachments []string
	Refusal     *Refusal // the refusal if Status is StatusBlocked
}

// Text returns the content as text.
func (a *Answer) Text() string { return textOf(a.Content) }

// maxRefused is the number of consecutive model answers that hooks may withhold, and the maximum
// length of a chain of next calls.
const maxRefused = grapnel.MaxStops

// Run processes a prompt until there is an answer. The session is the one in ctx. The error comes from the model, ctx, Show,
// Deliver or Store, and hooks get it with agent.failed. A refusal by hooks is not an error; see
// [Answer].
func (l *Loop) Run(ctx context.Context, prompt ChatMessage) (*Answer, error) {
	s, err := requireSession(ctx)
	if err != nil {
		return nil, err
	}
	if s.forPerson() { // a sub-agent works in the turn of its agent
		s.Update(func(info *grapnel.Session) {
			turn, _ := strconv.Atoi(info.Turn) // a resumed session has the last turn
			info.Turn = strconv.Itoa(turn + 1)
		})
	}
	answer, err := l.run(ctx, s, prompt)
	if err == nil && l.Deliver != nil {
		answer, err = l.deliver(ctx, s, answer)
	}
	switch {
	case err != nil:
	case answer.Status == StatusCompleted:
		err = l.show(ctx, answer.Text())
	case isOfAnswer(answer.Refusal.Kind):
		l.withdraw(ctx, answer.Refusal.Reason)
	}
	if err != nil {
		s.Failed(ctx, err)
		return &Answer{Status: StatusFailed}, err
	}
	return answer, nil
}

func (l *Loop) run(ctx context.Context, s *Session, prompt ChatMessage) (*Answer, error) {
	for i := range l.Tools {
		if t := &l.Tools[i]; (t.Ask || len(t.Secrets) > 0) && s != nil && s.host.tools[t.Name] == nil {
			return nil, fmt.Errorf("the host does not know the tool %q, so it cannot ask about the tool or mask its secrets: host.Options.Tools needs host.Infos(Loop.Tools)", t.Name)
		}
	}
	begin, err := l.begin(ctx, s, prompt)
	if err != nil {
		return blocked(err)
	}
	response, err := l.work(ctx, s, begin)
	if err != nil {
		return blocked(err)
	}
	content := response.Content
	if s.forPerson() && len(content) > 0 && string(content) != "null" { // otherwise there is no answer to judge
		if content, err = s.respond(ctx, content); err != nil {
			return blocked(err)
		}
	}
	return &Answer{Status: StatusCompleted, Content: content, Attachments: response.Attachments}, nil
}

// forPerson reports whether the agent is not a sub-agent.
func (s *Session) forPerson() bool { return s.Info().Subagent == nil }

// blocked converts a Refusal to an Answer with the outcome Blocked. It returns any other error
// unchanged.
func blocked(err error) (*Answer, error) {
	no := Refused(err)
	if no == nil {
		return nil, err
	}
	return &Answer{Status: StatusBlocked, Content: rawjson.Quote(no.Text), Refusal: no}, nil
}

// goesOn reports whether err is a Refusal that does not end the turn.
func goesOn(err error) bool {
	no := Refused(err)
	return no != nil && !no.Halt
}

// begin fires the events for the prompt and the start of the agent, and returns the inputs for
// the model.
func (l *Loop) begin(ctx context.Context, s *Session, prompt ChatMessage) (Beginning, error) {
	var added []string
	prompt.Content = asJSON(prompt.Content)
	if s.forPerson() {
		var err error
		if prompt, added, err = s.prompt(ctx, prompt); err != nil {
			return Beginning{}, err
		}
	}
	begin, err := s.Begin(ctx, Beginning{
		Prompt: prompt.Text(), System: l.System, Model: l.Name, Context: slices.Concat(l.Context, added),
	})
	if err != nil {
		return begin, err
	}
	l.Context = nil // only once
	return begin, l.appendMessage(ctx, s, prompt, begin.Context)
}

// appendMessage appends a message to the conversation, with context below it.
func (l *Loop) appendMessage(ctx context.Context, s *Session, m ChatMessage, added []string) error {
	messages := []ChatMessage{m}
	switch isText := len(m.Content) > 0 && m.Content[0] == '"'; {
	case len(added) == 0:
	case isText:
		messages[0].Content = rawjson.Quote(Below(m.Text(), added))
	default:
		messages = append(messages, Text("user", Below("", added)))
	}
	for _, m := range messages {
		l.Messages = append(l.Messages, m)
		if err := l.store(ctx, s, m); err != nil {
			return err
		}
	}
	return nil
}

func (l *Loop) store(ctx context.Context, s *Session, m ChatMessage) error {
	if l.Store == nil {
		return nil
	}
	if s.Listens(grapnel.TranscriptBefore) {
		// The message already exists: guards judge it even if the turn is canceled.
		raw, err := s.Keep(context.WithoutCancel(ctx), rawjson.OrNull(m))
		switch {
		case goesOn(err):
			return nil // the message is not stored; the turn continues
		case err != nil:
			return err
		}
		m = ChatMessage{}
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("cannot decode a message that hooks changed: %w", err)
		}
	}
	return l.Store(ctx, m)
}

// work calls the model and tools until the agent may stop with a response.
func (l *Loop) work(ctx context.Context, s *Session, begin Beginning) (*Response, error) {
	withheld, wentOn := 0, false
	for range l.calls() {
		if err := contextError(ctx); err != nil {
			return nil, err
		}
		if l.Summarize != nil && l.CompactAt > 0 && len(l.Messages) > l.CompactAt {
			if err := l.Compact(ctx, "auto", ""); err != nil && !goesOn(err) {
				return nil, err
			}
		}
		response, err := l.ask(ctx, s, &begin)
		if no := Refused(err); goesOn(err) && no.Kind == grapnel.ModelAfter && withheld < maxRefused {
			withheld++
			l.withdraw(ctx, no.Reason)
			if err := l.appendMessage(ctx, s, Text("user", no.Text), nil); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		withheld = 0
		err = l.appendMessage(ctx, s, ChatMessage{Role: "assistant", Content: response.Content, ToolCalls: response.ToolCalls}, nil)
		if len(response.ToolCalls) > 0 {
			err = l.call(ctx, s, response.ToolCalls, err)
		}
		switch {
		case err != nil:
			return nil, err
		case len(response.ToolCalls) > 0:
			continue
		}
		if wentOn, err = l.goOn(ctx, s, response, wentOn); err != nil {
			return nil, err
		}
		if !wentOn {
			return response, nil
		}
	}
	return nil, fmt.Errorf("the model did not finish after %d calls (Loop.MaxCalls)", l.calls())
}

// goOn asks hooks whether the agent may stop with a response. If not, it adds their message to
// the conversation. before reports whether hooks have already kept it from stopping.
func (l *Loop) goOn(ctx context.Context, s *Session, response *Response, before bool) (bool, error) {
	if !s.forPerson() {
		return false, nil
	}
	stop, err := s.Stop(ctx, textOf(response.Content), before)
	if no := Refused(err); no != nil { // the agent was about to stop, so its response remains valid
		s.host.opts.ShowMessage(ctx, no.Reason)
	}
	if stop.ContinueWith == "" {
		l.Context = slices.Concat(l.Context, stop.Context) // for the next time that it continues
		return false, nil
	}
	if stop.Clear {
		l.Messages = nil
	}
	return true, l.appendMessage(ctx, s, Text("user", stop.ContinueWith), stop.Context)
}

func (l *Loop) calls() int { return cmp.Or(max(l.MaxCalls, 0), 100) }

// ask calls the model once.
func (l *Loop) ask(ctx context.Context, s *Session, begin *Beginning) (*Response, error) {
	request := Request{Model: begin.Model, Params: l.Params, Messages: slices.Clone(l.Messages)}
	if begin.System != "" {
		request.Messages = slices.Insert(request.Messages, 0, Text("system", begin.System))
	}
	names := make([]string, len(l.Tools))
	for i := range l.Tools {
		names[i] = l.Tools[i].Name
	}
	names, mode, err := s.Choose(ctx, names, "auto")
	if err != nil {
		return nil, err
	}
	l.offered = nil
	for i := range l.Tools {
		if t := &l.Tools[i]; mode != "none" && slices.Contains(names, t.Name) {
			l.offered = append(l.offered, t.Name)
			request.Tools = append(request.Tools, ToolSchema{t.Name, t.Description, t.Schema})
		}
	}
	if mode != "auto" {
		request.ToolChoice = mode
	}
	l.shown.Reset()
	l.held = l.holds(s)
	response, err := Stream(ctx, request, l.generate, func(soFar Response) error {
		switch {
		case soFar.FinishReason == FinishIncomplete: // hooks got the incomplete response; nothing else to do
			return errors.New("the model's answer was cut off")
		case l.held:
			return nil
		default:
			return l.show(ctx, textOf(soFar.Content))
		}
	})
	if err != nil {
		return nil, err
	}
	return &response, nil
}

// generate calls the provider and checks its response.
func (l *Loop) generate(ctx context.Context, request Request, yield func(Response) error) (Response, error) {
	response, err := l.Provider.Generate(ctx, &request, l.pieces(ctx, yield))
	switch {
	case err != nil:
		return Response{}, err
	case response == nil:
		return Response{}, errors.New("the provider returned neither a response nor an error")
	}
	r := *response // a copy, because the provider may reuse it
	r.Content, r.ToolCalls = asJSON(r.Content), slices.Clone(r.ToolCalls)
	for i := range r.ToolCalls {
		r.ToolCalls[i].Args = asJSON(r.ToolCalls[i].Args)
	}
	return r, nil
}

// pieces returns the function that receives the pieces of a streamed answer. If hooks judge each
// piece, a piece is passed on when the next one arrives, so that the last piece is judged with
// the complete answer.
func (l *Loop) pieces(ctx context.Context, yield func(Response) error) func(string) error {
	s := SessionFromContext(ctx)
	judged := s.Decides(grapnel.ModelAfter)
	var text strings.Builder
	last := ""
	return func(piece string) error {
		switch {
		case judged && s.Incremental():
			text.WriteString(last)
			if last = piece; text.Len() == 0 {
				return nil
			}
			return yield(Response{Content: rawjson.Quote(text.String()), FinishReason: FinishIncremental})
		case piece == "" || l.Show == nil || judged || l.held:
			return nil
		default:
			l.shown.WriteString(piece)
			return l.Show(ctx, piece)
		}
	}
}

// holds reports whether an answer is shown only after the complete answer was judged.
func (l *Loop) holds(s *Session) bool {
	return !s.Incremental() && (s.forPerson() && s.Decides(grapnel.ResponseBefore) || l.Deliver != nil && s.Decides(grapnel.MessageBefore))
}

// show shows the part of a text that has not been shown yet.
func (l *Loop) show(ctx context.Context, soFar string) error {
	rest, ok := strings.CutPrefix(soFar, l.shown.String())
	if !ok {
		l.withdraw(ctx, "a hook changed it")
	}
	if rest == "" || l.Show == nil {
		return nil
	}
	l.shown.WriteString(rest)
	return l.Show(ctx, rest)
}

// withdraw reports that the shown text has become invalid.
func (l *Loop) withdraw(ctx context.Context, why string) {
	shown := l.shown.String()
	l.shown.Reset()
	switch s := SessionFromContext(ctx); {
	case shown == "":
	case l.Withdraw != nil:
		l.Withdraw(ctx, shown)
	case s != nil:
		s.host.opts.ShowMessage(ctx, "grapnel: part of an answer was shown, but is no longer valid: "+why)
	}
}

// isOfAnswer reports whether an event is about the model's answer.
func isOfAnswer(k grapnel.Kind) bool {
	return k == grapnel.ModelAfter || k == grapnel.ResponseBefore || k == grapnel.MessageBefore
}

// call runs the requested tools and adds their results to the conversation. If ended is not nil
// or a call ends the turn, no further call starts.
func (l *Loop) call(ctx context.Context, s *Session, wanted []ToolCall, ended error) error {
	results := make([]Result, len(wanted))
	errs := make([]error, len(wanted))
	limit := make(chan struct{}, max(l.Parallel, 1))
	var over atomic.Bool
	over.Store(ended != nil)
	var running sync.WaitGroup
	for i, w := range wanted {
		limit <- struct{}{}
		call := Call{ID: w.ID, Name: w.Name, Input: w.Args}
		if over.Load() || ctx.Err() != nil {
			results[i] = Result{Call: call, Output: rawjson.Quote("the turn ended before this call"), Failed: true}
			<-limit
			continue
		}
		results[i] = incomplete(call) // stays if the tool ends its goroutine
		running.Go(func() {
			defer func() { <-limit }()
			if results[i], errs[i] = l.one(ctx, s, call); errs[i] != nil {
				over.Store(true)
			}
		})
	}
	running.Wait()
	for i := range results {
		m := ChatMessage{Role: "tool", Content: results[i].content(), ToolCallID: wanted[i].ID, IsError: results[i].Failed}
		errs = append(errs, l.appendMessage(ctx, s, m, nil)) // every call needs a result, otherwise models reject the conversation
	}
	if err := errors.Join(append([]error{ended}, errs...)...); err != nil {
		return err
	}
	added, err := s.ToolBatch(ctx, results)
	if err != nil || len(added) == 0 {
		return err
	}
	return l.appendMessage(ctx, s, Text("user", Below("", added)), nil)
}

// content returns the tool result for the model: the output, plus the text that hooks added.
func (r *Result) content() json.RawMessage {
	if r.Feedback == "" && len(r.Context) == 0 {
		return r.Output
	}
	return rawjson.Quote(r.Text())
}

// incomplete returns the result of a call that did not complete.
func incomplete(call Call) Result {
	return Result{Call: call, Output: rawjson.Quote("the call did not finish"), Failed: true}
}

// one runs a tool, and the calls that hooks want to run next instead. It recovers panics of code
// around the tool, such as Options.Native, and ends the turn: in this goroutine the caller could
// not recover them.
func (l *Loop) one(ctx context.Context, s *Session, call Call) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = incomplete(call), fmt.Errorf("the call of %s panicked: %v", call.Name, p)
		}
	}()
	offered := slices.Contains(l.offered, call.Name)
	for range maxRefused {
		r, err = s.Tool(ctx, call, l.tool(call.Name, offered))
		if err != nil || r.Next == nil {
			return r, err
		}
		call, offered = *r.Next, true // hooks may call tools that the model may not call
	}
	s.host.opts.ShowMessage(ctx, fmt.Sprintf("grapnel: hooks requested %d tool calls in a row, which is the limit; not called: %s", maxRefused, r.Next.Name))
	return r, err
}

// tool returns the function that runs a tool. A panic of the tool is a failure of the call,
// because other tools may run in parallel and the agent continues.
func (l *Loop) tool(name string, offered bool) ToolFunc {
	return func(ctx context.Context, input json.RawMessage) (output json.RawMessage, err error) {
		i := slices.IndexFunc(l.Tools, func(t AgentTool) bool { return t.Name == name })
		if i < 0 || !offered {
			return nil, fmt.Errorf("tool %q is not available", name)
		}
		defer func() {
			if r := recover(); r != nil {
				output, err = nil, fmt.Errorf("the tool panicked: %v", r)
			}
		}()
		return l.Tools[i].Run(ctx, input)
	}
}

// Compact shortens the conversation: all messages before the last answer of the model, or before
// the last prompt, become a summary. cause is manual or auto. On an error, from Summarize or a
// Refusal, the conversation stays unchanged.
func (l *Loop) Compact(ctx context.Context, cause, instructions string) error {
	if l.Summarize == nil {
		return errors.New("cannot shorten the conversation: Loop.Summarize is not set")
	}
	i := len(l.Messages) - 1
	// Keep results, and the hook messages below them, together with the answer that requested the
	// calls.
	for i > 0 && (l.Messages[i].Role == "tool" || l.Messages[i].Role == "user" && l.Messages[i-1].Role == "tool") {
		i--
	}
	if i <= 0 {
		return nil // no earlier messages
	}
	summary, err := SessionFromContext(ctx).Compact(ctx, cause, instructions, func(ctx context.Context, instructions string) (string, error) {
		return l.Summarize(ctx, slices.Clone(l.Messages[:i]), instructions)
	})
	if err != nil {
		return err
	}
	l.Messages = slices.Insert(slices.Clone(l.Messages[i:]), 0, Text("user", "What happened so far:\n"+summary))
	return nil
}

// deliver sends an answer through [Session.Send].
func (l *Loop) deliver(ctx context.Context, s *Session, a *Answer) (*Answer, error) {
	m := Outgoing{Channel: s.Info().Channel, Text: a.Text(), Attachments: a.Attachments}
	err := s.Send(ctx, m, func(ctx context.Context, out Outgoing) error {
		if out.Text != m.Text {
			a.Content = rawjson.Quote(out.Text)
		}
		return l.Deliver(ctx, out)
	})
	if err != nil {
		return blocked(err)
	}
	return a, nil
}
