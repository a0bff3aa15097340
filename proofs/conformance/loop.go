package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// loop runs an agent of the family with a scripted model and tools. The agent's hooks answer
// one event.
func loop(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Input     json.RawMessage `json:"input"`
		Sensitive []string        `json:"sensitive"`
		Given     struct {
			ToolCalls []string `json:"tool_calls"`
		} `json:"given"`
		Result engineResult `json:"engine_result"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	b, err := (&plan{}).bench(c.Dialect)
	if err != nil {
		return nil, err
	}
	defer b.close(ctx)
	s := stage{bench: b, result: d.Result, calls: d.Given.ToolCalls, asked: map[string]bool{}, ran: map[string]json.RawMessage{}}
	if err := s.prepare(c, d.Input); err != nil {
		return nil, err
	}
	if err := s.run(ctx, d.Sensitive); err != nil {
		return nil, err
	}
	b.settle(ctx)
	return c.compare(s.view()), nil
}

// engineResult is the hooks' answer to the case's event.
type engineResult struct {
	Decision string                     `json:"decision"`
	Cause    grapnel.Cause              `json:"cause"` // of a block, or of a failure that is ignored
	Reason   *string                    `json:"reason"`
	Modified map[string]json.RawMessage `json:"modified"`
}

// changes returns the fields that the answer changes.
func (r *engineResult) changes() (map[grapnel.Field]json.RawMessage, error) {
	changes := make(map[grapnel.Field]json.RawMessage, len(r.Modified))
	for word, value := range r.Modified {
		field := grapnel.Field(word)
		switch word {
		case "tool_input":
			field = grapnel.FieldInput
		case "tool_output":
			field = grapnel.FieldOutput
		}
		known := func(c grapnel.Contract) bool { return c.Permits(field) }
		if field != sessionField && !slices.ContainsFunc(grapnel.Contracts(), known) {
			return nil, fmt.Errorf("engine_result: no event has a %q to change", word)
		}
		changes[field] = value
	}
	return changes, nil
}

// A stage is the environment of an agent, and everything that its hooks, its model, its tools
// and its users see.
type stage struct {
	bench   *bench
	about   grapnel.Kind // event that the hooks answer; empty = no event
	tool    string       // only calls of this tool; empty = any tool
	result  engineResult
	changes map[grapnel.Field]json.RawMessage
	input   input
	native  json.RawMessage // fields that only the family's agent reports
	calls   []string        // names of the tools that the model calls

	patience time.Duration // how long the hook waits for an agent that does not wait for it; 0 = it answers at once
	over     chan struct{} // closed when the agent has ended
	waited   atomic.Bool   // the agent waited for the hook
	saw      atomic.Pointer[grapnel.Event]

	mu       sync.Mutex
	fired    []*grapnel.Event // guarded by mu while the agent runs
	at       *grapnel.Event   // in fired: the first event that the case tests
	requests []*host.Request
	asked    map[string]bool            // tools that needed a person's approval
	ran      map[string]json.RawMessage // input of each tool that ran
	sent     []host.Outgoing

	begun    bool
	answer   *host.Answer
	messages []host.ChatMessage
}

// patience is long compared with an agent's run, which takes milliseconds.
const patience = 2 * time.Second

// otherTool is called in addition to the tool that a case tests.
const otherTool = "another_tool"

// prepare reads the case and adds the hook.
func (s *stage) prepare(c *Case, raw json.RawMessage) error {
	def := eventDef{Event: grapnel.Kind(c.Event), Native: c.Native}
	if c.Event != "" || c.Native != "" {
		if err := def.resolve(s.bench.family); err != nil {
			return err
		}
	}
	s.about = def.Event
	if err := s.read(raw); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	s.tool = s.input.ToolName
	isCall := s.about == grapnel.ToolFailed || primaryOf(s.about).field == grapnel.FieldInput
	switch others := contains(c.expected(), "other_calls_run"); {
	case isCall && len(s.calls) == 0:
		s.tool = cmp.Or(s.tool, "shell")
		s.calls = []string{s.tool}
		if others {
			s.calls = append(s.calls, otherTool)
		}
	case isCall && others: // other tools besides the answered one
		s.tool = cmp.Or(s.tool, s.calls[0])
	}
	if s.tool != "" && !slices.Contains(s.calls, s.tool) {
		return fmt.Errorf("the model does not call the tool %q", s.tool)
	}
	if contains(c.expected(), "waits_for_hook") {
		s.patience = patience
	}
	s.over = make(chan struct{})
	return s.add()
}

// read reads the event in the host's format. The host fills the fields that Grapnel has. All
// other fields, except secrets, go into the event's native part.
func (s *stage) read(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var rest map[string]json.RawMessage
	if err := errors.Join(unobtainable(raw), strict(raw, &s.input), strict(raw, &rest)); err != nil {
		return err
	}
	for _, word := range []string{
		"tool_name", "tool_input", "tool_output", "is_error", "prompt", "content", "response",
		"user_id", "channel", "session_id", "thread_id", "thread_ids", "context",
	} {
		delete(rest, word)
	}
	if len(rest) > 0 {
		s.native = rawjson.Must(rest)
	}
	return nil
}

// add adds the hook that answers.
func (s *stage) add() (err error) {
	if s.changes, err = s.result.changes(); err != nil {
		return err
	}
	spec := grapnel.Spec{Name: "policy", Match: s, Hook: grapnel.Func(s.handle)}
	switch s.result.Decision {
	case "":
		return nil
	case "continue", "modify":
		spec.OnError = grapnel.OnErrorOpen
	case "block":
		spec.OnError = grapnel.OnErrorClosed
	default:
		return fmt.Errorf("engine_result: unknown decision %q", s.result.Decision)
	}
	switch s.result.Cause {
	case "", grapnel.CauseDecision, grapnel.CauseError:
	case grapnel.CauseTimeout:
		spec.Timeout = s.patience + 20*time.Millisecond
	default:
		return fmt.Errorf("engine_result: unknown cause %q", s.result.Cause)
	}
	if s.about == "" {
		return errors.New("engine_result: the event that it answers is missing")
	}
	return s.bench.engine.Add(s.bench.preset.Defaults(spec))
}

// handle is the hook. It gives the case's answer with the case's cause.
func (s *stage) handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	s.saw.CompareAndSwap(nil, ev)
	if s.patience > 0 {
		select {
		case <-s.over:
		case <-time.After(s.patience):
			s.waited.Store(true)
		}
	}
	reason := ""
	if s.result.Reason != nil {
		reason = *s.result.Reason
	}
	switch s.result.Cause {
	case grapnel.CauseError:
		if s.bench.family == &flyto { // its hooks have an exit code for errors
			return dialect.Flyto().ReadOutcome(ev, dialect.Output{Exit: 1, Stderr: []byte(reason)})
		}
		return grapnel.Outcome{}, errors.New(cmp.Or(reason, "it is broken"))
	case grapnel.CauseTimeout:
		<-ctx.Done()
		return grapnel.Outcome{}, context.Cause(ctx)
	default:
	}
	switch {
	case s.result.Decision != "block":
		return grapnel.Outcome{Set: maps.Clone(s.changes)}, nil
	case s.bench.family == &flyto:
		return dialect.Flyto().ReadOutcome(ev, dialect.Output{Exit: 2, Stderr: []byte(reason)})
	default:
		return grapnel.Outcome{Decision: grapnel.Block, Reason: reason}, nil
	}
}

// Match reports whether the hook answers this event.
func (s *stage) Match(ev *grapnel.Event, _ *grapnel.Verdict) (bool, error) { return s.isAbout(ev), nil }

// isAbout reports whether the case tests this event.
func (s *stage) isAbout(ev *grapnel.Event) bool {
	return s.kind(ev) == s.about && (s.tool == "" || ev.Tool == nil || ev.Tool.Name == s.tool)
}

// kind returns the event's kind in the family. Some families report a failed call as a normal
// call.
func (s *stage) kind(ev *grapnel.Event) grapnel.Kind {
	if ev.Kind == grapnel.ToolFailed && !slices.Contains(s.bench.family.kinds(), ev.Kind) {
		return grapnel.ToolAfter
	}
	return ev.Kind
}

// Listens reports whether the family's agent has such an event.
func (s *stage) Listens(k grapnel.Kind) (heard, decides bool) {
	has := slices.Contains(s.bench.family.kinds(), s.kind(&grapnel.Event{Kind: k}))
	return has, has
}

// Fire records an event and fires it. The reason of a block is replaced by the case's reason,
// because these cases do not test how engines word a hook's reason.
func (s *stage) Fire(ctx context.Context, ev *grapnel.Event) grapnel.Verdict {
	s.mu.Lock()
	s.fired = append(s.fired, ev)
	s.mu.Unlock()
	v := s.bench.engine.Fire(ctx, ev)
	if s.result.Reason != nil && v.Decision == grapnel.Block && s.isAbout(ev) {
		v.Reasons = slices.Clone(v.Reasons) // the Record shares the slice
		for i := range v.Reasons {
			v.Reasons[i].Text = *s.result.Reason
		}
	}
	return v
}

// run runs the agent: a session with one turn.
func (s *stage) run(ctx context.Context, secrets []string) error {
	manners, ok := host.FindManners(s.bench.family.name)
	if !ok {
		return fmt.Errorf("unknown manners of %s", s.bench.family.name)
	}
	tools := s.tools(secrets)
	h := host.New(s, &host.Options{
		Agent: grapnel.Agent{Name: s.bench.family.name}, Tools: host.Infos(tools), Manners: manners,
		Approve: host.ApproverFunc(s.approve), ShowMessage: func(context.Context, string) {},
		Native: func(*grapnel.Event) json.RawMessage { return s.native },
	})
	err := s.live(ctx, h, tools)
	close(s.over)
	err = errors.Join(err, h.Close(ctx)) // waits for events that fire in the background
	slices.SortStableFunc(s.fired, func(a, b *grapnel.Event) int { return a.Time.Compare(b.Time) })
	switch i := slices.IndexFunc(s.fired, s.isAbout); {
	case i >= 0:
		s.at = s.fired[i]
	case err == nil && s.result.Decision != "":
		err = fmt.Errorf("the agent did not fire %s", s.about)
	}
	return err
}

func (s *stage) live(ctx context.Context, h *host.Host, tools []host.AgentTool) error {
	in := &s.input
	info := grapnel.Session{CWD: s.bench.dir, Root: s.bench.dir}
	in.setSession(&info)
	ctx, session, startContext, err := h.Start(ctx, info, "startup")
	if s.begun = err == nil; !s.begun {
		return nil // a hook refused the session; the view shows it
	}
	l := host.Loop{
		Provider: host.ProviderFunc(s.generate), Name: in.Model, Context: startContext, Tools: tools,
		Deliver: func(_ context.Context, m host.Outgoing) error {
			s.sent = append(s.sent, m)
			return nil
		},
	}
	s.answer, err = l.Run(ctx, host.Text("user", cmp.Or(in.Prompt, "begin")))
	s.messages = l.Messages
	session.End(ctx, cmp.Or(in.Reason, "exit"))
	return err
}

// tools returns the tools that the model calls. They record that they run. For the case's tool,
// the agent asks a person first.
func (s *stage) tools(secrets []string) []host.AgentTool {
	var tools []host.AgentTool
	for _, name := range slices.Compact(slices.Sorted(slices.Values(s.calls))) {
		tools = append(tools, host.AgentTool{
			ToolInfo: host.ToolInfo{Name: name, Ask: name == s.call(), Secrets: secrets},
			Run: func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
				s.ran[name] = input
				switch {
				case name != s.call():
					return rawjson.Must("done"), nil
				case s.input.IsError || s.about == grapnel.ToolFailed:
					return nil, &host.ToolError{Output: s.output()}
				default:
					return s.output(), nil
				}
			},
		})
	}
	return tools
}

// call returns the tool that the case tests, or the first one.
func (s *stage) call() string {
	if s.tool != "" || len(s.calls) == 0 {
		return s.tool
	}
	return s.calls[0]
}

func (s *stage) output() json.RawMessage {
	if s.input.ToolOutput != nil {
		return s.input.ToolOutput
	}
	return rawjson.Must("done")
}

// approve is the person. It always agrees.
func (s *stage) approve(_ context.Context, q *host.Question) (host.Consent, error) {
	s.asked[q.Event.Tool.Name] = true
	return host.Consent{Yes: true}, nil
}

// attachment is part of every answer of the model.
const attachment = "report.pdf"

// generate is the model. It calls the tools and then answers.
func (s *stage) generate(_ context.Context, r *host.Request, _ func(string) error) (*host.Response, error) {
	s.requests = append(s.requests, r)
	if len(s.requests) > 1 || len(s.calls) == 0 {
		answer := rawjson.Must(cmp.Or(s.input.Content, "done"))
		if s.input.Response != nil {
			answer = s.input.Response
		}
		return &host.Response{Content: answer, FinishReason: "stop", Attachments: []string{attachment}}, nil
	}
	response := &host.Response{Content: rawjson.Must(nil), FinishReason: "tool_calls"}
	for i, name := range s.calls {
		args := json.RawMessage("{}")
		if name == s.call() && s.input.ToolInput != nil {
			args = s.input.ToolInput
		}
		response.ToolCalls = append(response.ToolCalls, host.ToolCall{ID: strconv.Itoa(i), Name: name, Args: args})
	}
	return response, nil
}

// view returns the result of the run.
func (s *stage) view() view {
	v := view{
		"model_called": len(s.requests) > 0, "model_sees": nil, "reply": nil, "response": nil, "sent": false, "done_sent": len(s.sent) > 0,
		"attachments_dropped": true, "tool_run": false, "tool_runs_with": nil, "tool_result": nil, "other_calls_run": nil,
		"approval_asked": s.asked[s.call()], "hook_sees": probe(s.hookSees), "session_created": s.begun, "waits_for_hook": nil,
		"logged": s.logged(), "events": s.names(s.fired, true), "events_after": s.names(s.after(), false),
	}
	if len(s.requests) > 0 {
		for _, m := range s.requests[0].Messages {
			if m.Role == "user" {
				v["model_sees"] = m.Text()
			}
		}
	}
	if s.answer != nil {
		v["reply"], v["response"] = s.answer.Text(), s.answer.Text()
	}
	for _, ev := range s.fired {
		if ev.Kind == grapnel.MessageBefore { // its replacement is not the agent's response
			v["response"] = ev.Message.Content
		}
	}
	for _, m := range s.sent {
		if m.Suppressed {
			v["reply"] = nil
		} else {
			v["sent"] = m.Text
		}
		v["attachments_dropped"] = !slices.Contains(m.Attachments, attachment)
	}
	if input, ran := s.ran[s.call()]; ran {
		v["tool_run"], v["tool_runs_with"] = true, input
	}
	for _, m := range s.messages {
		if i, err := strconv.Atoi(m.ToolCallID); err == nil && s.calls[i] == s.call() && v["tool_result"] == nil {
			v["tool_result"] = m.Text()
		}
	}
	if others := slices.DeleteFunc(slices.Clone(s.calls), func(name string) bool { return name == s.call() }); len(others) > 0 {
		v["other_calls_run"] = !slices.ContainsFunc(others, func(name string) bool { return s.ran[name] == nil })
	}
	if s.at != nil {
		v["waits_for_hook"] = s.waited.Load()
	}
	return v
}

// hookSees returns the data that the hook received: the event's primary field, or the requested
// fields.
func (s *stage) hookSees(want any) any {
	saw := s.saw.Load()
	if saw == nil {
		return nil
	}
	p := primaryOf(saw.Kind)
	fields := map[string]any{}
	if members, is := plain(saw.Native).(map[string]any); is {
		fields = members
	}
	fields[p.word] = plain(p.value(saw))
	fields["user_id"], fields["channel"], fields["session_id"] = saw.Session.User, saw.Session.Channel, saw.Session.ID
	fields["thread_id"], fields["thread_ids"] = saw.Session.Thread, plain(rawjson.Must(saw.Session.Threads))
	fields["context"] = cmp.Or(saw.Session.Job, "chat")
	switch {
	case saw.Tool != nil:
		fields["tool_name"] = saw.Tool.Name
		if k := s.kind(saw); k == grapnel.ToolAfter || k == grapnel.ToolFailed {
			fields["tool_output"], fields["is_error"] = plain(saw.Tool.Output), saw.Tool.Failed
		}
	case saw.Stop != nil:
		fields[p.word] = saw.Stop.LastMessage
	}
	wanted, _ := want.(map[string]any)
	for field := range wanted {
		if _, is := fields[field]; !is {
			return fields[p.word]
		}
	}
	if len(wanted) == 0 {
		return fields[p.word]
	}
	maps.DeleteFunc(fields, func(field string, _ any) bool { _, is := wanted[field]; return !is })
	return fields
}

// logged reports whether a Record has the hook's answer.
func (s *stage) logged() bool {
	return slices.ContainsFunc(s.bench.heardOf(), func(rec *grapnel.Record) bool {
		return s.kind(rec.Input) == s.about && slices.ContainsFunc(rec.Hooks, func(run grapnel.HookRun) bool {
			return run.Decision != grapnel.None || run.Error != "" || run.Outcome != nil
		})
	})
}

// after lists the events after the case's event, either of the same call or of the same turn.
func (s *stage) after() []*grapnel.Event {
	i := slices.Index(s.fired, s.at)
	if i < 0 {
		return nil
	}
	var after []*grapnel.Event
	for _, ev := range s.fired[i+1:] {
		switch {
		case ev.Kind == grapnel.SessionEnd:
		case s.at.Tool == nil, ev.Tool != nil && ev.Tool.ID == s.at.Tool.ID:
			after = append(after, ev)
		}
	}
	return after
}

// names returns the names of events, with tool names if tools is true.
func (s *stage) names(events []*grapnel.Event, tools bool) []string {
	list := []string{}
	for _, ev := range events {
		name := string(s.kind(ev))
		if tools && ev.Tool != nil {
			name += ":" + ev.Tool.Name
		}
		list = append(list, name)
	}
	return list
}
