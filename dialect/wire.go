package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// The types of messages. A reader skips a line with a type that it does not know: later releases
// may add types within one version of the plain dialect.
const (
	TypeHello  = "hello"  // the first line of either side
	TypeEvent  = "event"  // to a worker, or from an agent: answer this event
	TypeCancel = "cancel" // from the client: it no longer waits for this answer
	TypeAnswer = "answer" // to the client
)

// A Message is one line of the conversation with a program that keeps running: the plain dialect in
// an envelope with the ID of the event that an answer is for. The program is a worker that Grapnel
// calls, or grapnel-hook when an agent's plugin calls it. In the second case the event is in the
// agent's own dialect and the answer is the reply to the agent. The schema is in plain.schema.json,
// next to this file.
type Message struct {
	Version int    `json:"grapnel,omitempty"` // of the plain dialect, in a hello
	Type    string `json:"type"`
	ID      string `json:"id,omitempty"` // of the event; chosen by the client and returned unchanged

	Name        string         `json:"name,omitempty"`        // hello: name of the sender
	Concurrency int            `json:"concurrency,omitempty"` // hello: maximum number of events at once; 0 = 1
	Kinds       []grapnel.Kind `json:"kinds,omitempty"`       // hello: the events that it answers; empty = all

	Event   json.RawMessage `json:"event,omitempty"`   // as WriteEvent of the worker's dialect writes it; from an agent, its payload
	Outcome json.RawMessage `json:"outcome,omitempty"` // as ReadOutcome of the worker's dialect reads it
	Reply   *WireReply      `json:"reply,omitempty"`   // answer to an agent
	Error   string          `json:"error,omitempty"`   // answer: why it could not decide
}

// A WireReply is a [Reply] inside a Message.
type WireReply struct {
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	Exit   int    `json:"exit,omitempty"`
}

// Hello returns the first message that Grapnel sends.
func Hello() Message { return hello }

var hello = Message{Version: PlainVersion, Type: TypeHello, Name: "grapnel"}

// Write encodes a message as one line.
func (m Message) Write() ([]byte, error) {
	event := bytes.TrimSpace(m.Event) // already valid JSON on one line, and most of the output
	m.Event = nil
	line, err := rawjson.Line(&m)
	if err != nil || len(event) == 0 {
		return line, err
	}
	line = slices.Concat(line[:len(line)-2], []byte(`,"event":`), event, []byte("}\n"))
	// U+2028 and U+2029 are valid in JSON strings, but some line readers treat them as line ends.
	// Without this escape, a model could write a file that such a worker cannot judge.
	if bytes.Contains(line, []byte("\u2028")) || bytes.Contains(line, []byte("\u2029")) {
		line = bytes.ReplaceAll(bytes.ReplaceAll(line, []byte("\u2028"), []byte(`\u2028`)), []byte("\u2029"), []byte(`\u2029`))
	}
	return line, nil
}

// ReadMessage parses one line and ignores unknown members. If the line is not a message or has an
// unknown version, the error gives the reason, and the Message holds the readable parts, even of a
// truncated line.
func ReadMessage(line []byte) (*Message, error) {
	line = trim(line)
	top := split(line)
	m := &Message{
		Type: text(top["type"]), ID: text(top["id"]), Event: present(top["event"]), Outcome: present(top["outcome"]),
		Error: text(top["error"]),
	}
	if raw := top["reply"]; rawjson.IsObject(raw) && json.Valid(raw) {
		m.Reply = &WireReply{}
		if err := exactly(raw, reflect.ValueOf(m.Reply).Elem()); err != nil {
			return m, fmt.Errorf("cannot read its reply: %w", err)
		}
	}
	if raw := top["error"]; m.Error == "" && present(raw) != nil && len(raw) > len(`""`) {
		m.Error = string(raw)
	}
	switch {
	case top == nil || !json.Valid(line):
		if _, rest, ok := bytes.Cut(line, []byte(`"event":`)); ok && m.Event == nil {
			m.Event = rest // the readable part
		}
		return m, fmt.Errorf("%s is not a JSON object on one line", excerpt(line))
	case m.Type == "":
		return m, fmt.Errorf("%s has no type", excerpt(line))
	case m.Type == TypeAnswer && m.ID == "" && present(top["id"]) != nil:
		return m, fmt.Errorf("its id %s is not a string: return the id of the event unchanged", clip(top["id"], 80))
	case m.Type != TypeHello:
		return m, nil
	}
	err := exactly(line, reflect.ValueOf(m).Elem())
	if err == nil && (m.Version < 1 || m.Version > PlainVersion) {
		err = fmt.Errorf("version %d of the plain dialect, want %d", m.Version, PlainVersion)
	}
	for _, kind := range m.Kinds {
		// With a misspelled kind the worker would never be called, and users would not notice.
		if err == nil && !kind.Known() && !kind.Native() {
			err = fmt.Errorf("its kinds contain the unknown event %q", kind)
		}
	}
	if err != nil {
		err = fmt.Errorf("cannot read its hello: %w", err)
	}
	return m, err
}

// Wants reports whether the sender of this hello answers events of a kind.
func (m *Message) Wants(kind grapnel.Kind) bool {
	return len(m.Kinds) == 0 || slices.Contains(m.Kinds, kind)
}

// ReadOutcome reads the answer to an event. If the answer has an outcome and an error, the outcome
// is used too, except for an Allow.
func (m *Message) ReadOutcome(ev *grapnel.Event) (grapnel.Outcome, error) {
	return m.ReadOutcomeAs(plain, ev)
}

// ReadOutcomeAs is like [Message.ReadOutcome], for an outcome in the dialect d.
func (m *Message) ReadOutcomeAs(d *Dialect, ev *grapnel.Event) (out grapnel.Outcome, err error) {
	switch {
	case rawjson.IsObject(m.Outcome):
		out, err = d.ReadOutcome(ev, Output{Stdout: m.Outcome})
	case m.Outcome != nil:
		err = fmt.Errorf("its outcome %s is not an object", excerpt(m.Outcome))
	case m.Error == "":
		err = errors.New("its answer has neither an outcome nor an error")
	}
	if m.Error != "" {
		err = fmt.Errorf("could not decide: %s", clip([]byte(m.Error), 500))
	}
	if err != nil && out.Decision == grapnel.Allow {
		out.Decision = grapnel.None
	}
	return out, err
}

// Unasked returns the error for an answer to an event that was never sent or was already answered.
func (m *Message) Unasked() error {
	return fmt.Errorf("it answered %s, which is not the id of an open event", excerpt([]byte(m.ID)))
}

// excerpt quotes the start of unexpected program output for an error message.
func excerpt(output []byte) string { return fmt.Sprintf("%q", clip(output, 80)) }

// clip returns the start of a text that may be long or invalid UTF-8.
func clip(text []byte, limit int) []byte {
	if len(text) > limit {
		text = slices.Concat(text[:limit], []byte("…"))
	}
	return bytes.ToValidUTF8(text, nil)
}

const onceID = "1"

// Once returns the dialect of a worker that is started for one event, because no process stays
// alive. The worker reads the hello, the event and the end of its input at once. Its output when it
// ends is its answer.
func Once() *Dialect { return OnceOf(plain) }

// OnceOf is like [Once], for a worker whose events and answers are in the dialect d instead of the
// plain one.
func OnceOf(d *Dialect) *Dialect {
	return &Dialect{
		Name: d.Name, worker: d,
		WriteEvent:  func(ev *grapnel.Event) ([]byte, error) { return writeOnce(d, ev) },
		ReadOutcome: func(ev *grapnel.Event, out Output) (grapnel.Outcome, error) { return readOnce(d, ev, out) },
	}
}

// IsOnce reports whether d is a dialect of [Once] or [OnceOf], which has the name of the worker's
// dialect.
func (d *Dialect) IsOnce() bool { return d.worker != nil }

// OfWorker returns the dialect of a worker that keeps running, if d is the dialect of the same
// worker for one event; otherwise d.
func (d *Dialect) OfWorker() *Dialect {
	if d.IsOnce() {
		return d.worker
	}
	return d
}

func writeOnce(d *Dialect, ev *grapnel.Event) ([]byte, error) {
	event, err := d.WriteEvent(ev)
	if err != nil {
		return nil, err
	}
	lines, err := hello.Write()
	if err != nil {
		return nil, err
	}
	line, err := Message{Type: TypeEvent, ID: onceID, Event: event}.Write()
	return append(lines, line...), err
}

func readOnce(d *Dialect, ev *grapnel.Event, out Output) (o grapnel.Outcome, err error) {
	var hello, answer *Message
	for line := range bytes.Lines(out.Stdout) {
		if len(trim(line)) == 0 {
			continue
		}
		m, bad := ReadMessage(line)
		if bad == nil {
			bad = m.Check(hello != nil)
		}
		switch {
		case bad != nil:
		case m.Type == TypeHello && hello == nil:
			hello = m
		case m.Type == TypeAnswer && m.ID == onceID && answer == nil:
			answer = m
			o, bad = m.ReadOutcomeAs(d, ev)
		case m.Type == TypeAnswer:
			bad = m.Unasked()
		}
		if err == nil {
			err = bad
		}
	}
	stderr := quoteStderr(string(bytes.TrimSpace(out.Stderr)))
	switch {
	case err != nil:
	case out.Exit != 0:
		err = errors.New(exitText(out.Exit) + stderr)
	case hello == nil:
		err = errors.New("it ended before it sent hello" + stderr)
	case answer == nil && hello.Wants(ev.Kind):
		err = errors.New("it ended before it answered" + stderr)
	}
	return o, err
}

// Check returns an error if a worker must not send this message. greeted reports whether it already
// sent its hello.
func (m *Message) Check(greeted bool) error {
	switch {
	case m.Type == TypeEvent || m.Type == TypeCancel:
		return fmt.Errorf("it sent a message of type %s, which only grapnel may send", m.Type)
	case m.Type == TypeAnswer && !greeted:
		return errors.New("it answered before it sent hello")
	}
	return nil
}

var (
	errCutAnswer    = errors.New("cannot use its answer: stdout starts with { but is not a valid JSON object (stdout must contain only the JSON object)")
	errHiddenAnswer = errors.New("cannot use its answer: stdout has other text or colors next to the JSON object (does the shell profile print a greeting?)")
)

// answerKeys are members that decide, in some dialect.
var answerKeys = [...]string{"decision", "permissionDecision", "permission", "hookSpecificOutput", "continue", "cancel"}

// hiddenAnswer returns an error if a hook's output, which is not a JSON object, contains the start of
// one that decides: to take it for text would lose a block. The object may have colors, the quotes
// of another language, or be quoted itself.
func hiddenAnswer(stdout []byte) error {
	text := bytes.ReplaceAll(stdout, []byte{0}, nil) // a text in UTF-16 has zeros
	begin := bytes.IndexByte(text, '{')
	if begin < 0 {
		return nil
	}
	for _, quote := range []string{`"`, `'`} {
		for _, key := range answerKeys {
			for rest, found := text[begin:], true; found; {
				if _, rest, found = bytes.Cut(rest, []byte(quote+key)); isKeyEnd(rest) {
					return errHiddenAnswer
				}
			}
		}
	}
	return nil
}

// isKeyEnd reports whether text begins with the quote and the colon after a key.
func isKeyEnd(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte{'\\'})
	if len(text) == 0 || text[0] != '"' && text[0] != '\'' {
		return false
	}
	text = bytes.TrimSpace(text[1:])
	for bytes.HasPrefix(text, []byte("\x1b[")) {
		end := bytes.IndexByte(text, 'm')
		if end < 0 {
			return false
		}
		text = bytes.TrimSpace(text[end+1:])
	}
	return len(text) > 0 && text[0] == ':'
}
