package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	ironclawfile "github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

// builtinCase runs a hook that IronClaw ships, with a scripted store and model.
func builtinCase(ctx context.Context, c *Case) ([]Diff, error) {
	var d struct {
		Given given           `json:"given"`
		Input json.RawMessage `json:"input"`
	}
	if err := c.decode(&d); err != nil {
		return nil, err
	}
	s := shipped{given: &d.Given}
	spec, err := s.spec()
	if err != nil {
		return nil, err
	}
	on := slices.Clone(spec.On)
	if c.Event != "" {
		on = []grapnel.Kind{grapnel.Kind(c.Event)}
	}
	v := view{"priority": policyfile.DefaultPriority + spec.Priority, "points": spec.On}
	spec.On = nil // listen to every event
	b, err := (&plan{}).bench(c.Dialect)
	if err != nil {
		return nil, err
	}
	defer b.close(ctx)
	if err := b.engine.Add(b.preset.Defaults(spec)); err != nil {
		return nil, err
	}
	var events []*grapnel.Event
	for _, kind := range on {
		def := eventDef{Event: kind, Native: c.Native, Input: d.Input}
		if d.Input == nil {
			def.Input = payload
		}
		ev, err := def.event(b)
		if err != nil {
			return nil, err
		}
		ev.Time = d.Given.UTC
		events = append(events, slices.Repeat([]*grapnel.Event{ev}, max(1, d.Given.Sessions))...)
	}
	fired := make([]*firing, len(events))
	var all sync.WaitGroup
	for i, ev := range events {
		all.Go(func() { fired[i] = b.fire(ev, func() grapnel.Verdict { return b.engine.Fire(ctx, ev) }) })
	}
	all.Wait()
	v["decision"] = "continue"
	warnings := []warning{}
	for _, f := range fired {
		warnings = append(warnings, f.warnings()...)
		own := view{"decision": "continue"}
		if f.decide(own); own["decision"] != "continue" {
			v["decision"] = own["decision"]
		}
	}
	v["warnings"] = warnings
	if err := s.addEffects(v); err != nil {
		return nil, err
	}
	return c.compare(v), nil
}

// mark is the text in every field of an event that the case does not set. payload has it in
// every field that an event may have.
const mark = "the-payload"

var payload = json.RawMessage(fmt.Sprintf(
	`{"user_id": "u1", "session_id": "s1", "channel": "c1", "tool_name": "shell", "tool_input": {"command": %[1]q}, "prompt": %[1]q, "content": %[1]q, "response": %[1]q}`, mark))

// given is the environment of a shipped hook.
type given struct {
	Hook       string          `json:"hook"`
	Threads    json.RawMessage `json:"threads"` // number of messages, by id; the order is significant
	Newest     json.RawMessage `json:"newest_conversation"`
	Transcript json.RawMessage `json:"transcript"`
	Answer     json.RawMessage `json:"answer"`
	Sessions   int             `json:"sessions"` // number of sessions that end at the same time
	UTC        time.Time       `json:"utc"`
}

// shipped is a shipped hook and its recorded effects.
type shipped struct {
	given *given

	mu     sync.Mutex
	lines  []string // of the audit log
	asked  []builtin.Question
	asking int // calls of the model in progress
	most   int // highest number of concurrent calls
	file   string
	wrote  []string
}

func (s *shipped) spec() (grapnel.Spec, error) {
	switch s.given.Hook {
	case ironclawfile.AuditLogName:
		return ironclawfile.AuditLog(func(line []byte) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.lines = append(s.lines, string(line))
			return nil
		}), nil
	case builtin.SummaryName:
		from := builtin.Conversations{Threads: s.threads, Messages: s.messages, Newest: s.newest}
		return builtin.SessionSummary(from, s.model, s.write), nil
	default:
		return grapnel.Spec{}, fmt.Errorf("no hook %q is shipped", s.given.Hook)
	}
}

func (s *shipped) threads(context.Context, *grapnel.Event) ([]string, error) {
	if err := errorOf(s.given.Threads); err != nil {
		return nil, err
	}
	if len(s.given.Threads) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(s.given.Threads))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var ids []string
	for d.More() {
		id, err := d.Token()
		if err != nil {
			return nil, err
		}
		ids = append(ids, fmt.Sprint(id))
		var messages json.RawMessage
		if err := d.Decode(&messages); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// errorOf returns the error of a value of the form {"$error": "why"}, or nil.
func errorOf(raw json.RawMessage) error {
	var value struct {
		Error *string `json:"$error"`
	}
	if json.Unmarshal(raw, &value) == nil && value.Error != nil {
		return errors.New(*value.Error)
	}
	return nil
}

func (s *shipped) messages(_ context.Context, _ *grapnel.Event, thread string) ([]builtin.Message, error) {
	var threads map[string]json.RawMessage
	if err := strict(s.given.Threads, &threads); err != nil {
		return nil, err
	}
	return s.conversation(thread, threads[thread])
}

func (s *shipped) newest(context.Context, *grapnel.Event) ([]builtin.Message, error) {
	if len(s.given.Newest) == 0 {
		return nil, nil
	}
	return s.conversation("", s.given.Newest)
}

// conversation returns count messages. Their role is the conversation's id, so the text that
// the model receives shows which conversation it is.
func (s *shipped) conversation(id string, count json.RawMessage) ([]builtin.Message, error) {
	if err := unobtainable(count); err != nil {
		return nil, err
	}
	var n int
	if err := strict(count, &n); err != nil {
		return nil, err
	}
	messages := make([]builtin.Message, n)
	for i := range messages {
		messages[i] = builtin.Message{Role: id, Content: fmt.Sprintf("message %d", i)}
	}
	if n > 0 && len(s.given.Transcript) > 0 {
		if err := errors.Join(unobtainable(s.given.Transcript), strict(s.given.Transcript, &messages[0].Content)); err != nil {
			return nil, err
		}
	}
	return messages, nil
}

// modelTime is the duration of a model call. It is long enough that sessions that end at the
// same time call the model concurrently.
const modelTime = 20 * time.Millisecond

func (s *shipped) model(_ context.Context, _ *grapnel.Event, q builtin.Question) (string, error) {
	s.mu.Lock()
	s.asked = append(s.asked, q)
	s.asking++
	s.most = max(s.most, s.asking)
	s.mu.Unlock()
	time.Sleep(modelTime)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking--
	if err := unobtainable(s.given.Answer); err != nil {
		return "", err
	}
	if len(s.given.Answer) == 0 {
		return "- one\n- two\n- three", nil
	}
	var answer string
	err := strict(s.given.Answer, &answer)
	return answer, err
}

func (s *shipped) write(_ context.Context, _ *grapnel.Event, file, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file, s.wrote = file, append(s.wrote, text)
	return nil
}

// addEffects adds the effects of the hook to a view.
func (s *shipped) addEffects(v view) error {
	v["model_called"], v["model_calls_at_once"], v["written"] = len(s.asked) > 0, s.most, len(s.wrote) > 0
	v["thread"], v["sent_bytes"], v["valid_utf8"], v["max_tokens"] = nil, 0, nil, nil
	if len(s.asked) > 0 {
		q := s.asked[0]
		if id, _, _ := strings.Cut(q.Transcript, ":"); id != "" {
			v["thread"] = id
		}
		v["sent_bytes"], v["valid_utf8"], v["max_tokens"] = len(q.Transcript), utf8.ValidString(q.Transcript), q.MaxTokens
	}
	v["file"], v["appended"], v["sanitised"] = nil, nil, nil
	if len(s.wrote) > 0 {
		v["file"], v["appended"] = s.file, s.wrote[0]
		var answer string
		if len(s.given.Answer) > 0 && strict(s.given.Answer, &answer) == nil {
			v["sanitised"] = !strings.Contains(s.wrote[0], strings.TrimSpace(answer))
		}
	}
	fields := []string{}
	logged := false
	for _, line := range s.lines {
		logged = logged || strings.Contains(line, mark)
		d := json.NewDecoder(strings.NewReader(line))
		if _, err := d.Token(); err != nil {
			return err
		}
		fields = fields[:0]
		for d.More() {
			name, err := d.Token()
			var value json.RawMessage
			if err = errors.Join(err, d.Decode(&value)); err != nil {
				return err
			}
			fields = append(fields, fmt.Sprint(name))
		}
	}
	v["fields"], v["payload_logged"] = fields, logged
	return nil
}
