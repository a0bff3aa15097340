package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/grapnel-dev/grapnel"
)

// The types of messages. Who reads a type that it does not know goes on with the next
// line: there may be more of them within a version of the plain dialect.
const (
	TypeHello  = "hello"  // the first line of either side
	TypeEvent  = "event"  // to a worker, or from an agent: answer this
	TypeCancel = "cancel" // from who asked: nobody waits for that answer any more
	TypeAnswer = "answer" // to who asked
)

// A Message is one line of the conversation with a program that is kept running: the
// plain dialect in an envelope that says which event an answer is for. The program is a
// worker that Grapnel asks, or grapnel-hook that an agent's plugin asks: then the event is
// in the agent's own language, and the answer is what it gets. Its schema is in
// plain.schema.json, beside this file.
type Message struct {
	Version int    `json:"grapnel,omitempty"` // of the plain dialect, in a hello
	Type    string `json:"type"`
	ID      string `json:"id,omitempty"` // of the event; chosen by who asks, and given back as it was

	Name        string         `json:"name,omitempty"`        // hello: who is there
	Concurrency int            `json:"concurrency,omitempty"` // hello: how many events it takes at once; 0 = 1
	Kinds       []grapnel.Kind `json:"kinds,omitempty"`       // hello: the events it has an opinion on; empty = all

	Event   json.RawMessage `json:"event,omitempty"`   // as Plain.WriteEvent writes it; of an agent its payload
	Outcome json.RawMessage `json:"outcome,omitempty"` // as Plain.ReadOutcome reads it
	Reply   *WireReply      `json:"reply,omitempty"`   // answer to an agent
	Error   string          `json:"error,omitempty"`   // answer: why it could not decide
}

// A WireReply is a [Reply] in a Message.
type WireReply struct {
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	Exit   int    `json:"exit,omitempty"`
}

// Hello returns the message that Grapnel sends first.
func Hello() Message { return hello }

var hello = Message{Version: PlainVersion, Type: TypeHello, Name: "grapnel"}

// Write writes a message as one line.
func (m Message) Write() ([]byte, error) {
	event := bytes.TrimSpace(m.Event) // valid JSON on one line, and most of what is written
	m.Event = nil
	line, err := encode(&m)
	if err != nil || len(event) == 0 {
		return line, err
	}
	line = slices.Concat(line[:len(line)-2], []byte(`,"event":`), event, []byte("}\n"))
	// JSON may hold them as they are, in texts, and some readers of lines take them for
	// ends of lines: a model could write a file that no such worker can judge.
	if bytes.Contains(line, []byte("\u2028")) || bytes.Contains(line, []byte("\u2029")) {
		line = bytes.ReplaceAll(bytes.ReplaceAll(line, []byte("\u2028"), []byte(`\u2028`)), []byte("\u2029"), []byte(`\u2029`))
	}
	return line, nil
}

// ReadMessage reads one line. Members that nobody knows are left out. The error says
// why the line is no message, or one of a version that is not known; the Message then
// holds what could still be made out, of a line that was cut off too.
func ReadMessage(line []byte) (*Message, error) {
	line = trim(line)
	top := split(line)
	m := &Message{
		Type: text(top["type"]), ID: text(top["id"]), Event: present(top["event"]), Outcome: present(top["outcome"]),
		Error: text(top["error"]),
	}
	if raw := top["reply"]; isObject(raw) && json.Valid(raw) {
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
			m.Event = rest // as far as it goes
		}
		return m, fmt.Errorf("%s is no JSON object on a line", excerpt(line))
	case m.Type == "":
		return m, fmt.Errorf("%s has no type", excerpt(line))
	case m.Type == TypeAnswer && m.ID == "" && present(top["id"]) != nil:
		return m, fmt.Errorf("its id %s is no text: it is given back as it was", clip(top["id"], 80))
	case m.Type != TypeHello:
		return m, nil
	}
	err := exactly(line, reflect.ValueOf(m).Elem())
	if err == nil && (m.Version < 1 || m.Version > PlainVersion) {
		err = fmt.Errorf("version %d of the plain dialect, want %d", m.Version, PlainVersion)
	}
	for _, kind := range m.Kinds {
		// Of a name that is misspelt it would never be asked, and nobody would see it.
		if err == nil && !kind.Known() && !kind.Native() {
			err = fmt.Errorf("its kinds name the event %q, which there is not", kind)
		}
	}
	if err != nil {
		err = fmt.Errorf("cannot read its hello: %w", err)
	}
	return m, err
}

// Wants reports whether who said this hello has an opinion on events of a kind.
func (m *Message) Wants(kind grapnel.Kind) bool {
	return len(m.Kinds) == 0 || slices.Contains(m.Kinds, kind)
}

// ReadOutcome reads the answer to an event. What stands beside an error counts too,
// except for an Allow.
func (m *Message) ReadOutcome(ev *grapnel.Event) (out grapnel.Outcome, err error) {
	switch {
	case isObject(m.Outcome):
		out, err = readPlainOutcome(ev, Output{Stdout: m.Outcome})
	case m.Outcome != nil:
		err = fmt.Errorf("its outcome %s is no object", excerpt(m.Outcome))
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

// Unasked is what is wrong with an answer to an event that nobody asked about, or that
// was answered before.
func (m *Message) Unasked() error {
	return fmt.Errorf("it answered %s, which nobody waits for", excerpt([]byte(m.ID)))
}

// excerpt shows what a program said where something else was expected.
func excerpt(said []byte) string { return fmt.Sprintf("%q", clip(said, 80)) }

// clip is the beginning of a text that may be long, and no UTF-8.
func clip(text []byte, limit int) []byte {
	if len(text) > limit {
		text = slices.Concat(text[:limit], []byte("…"))
	}
	return bytes.ToValidUTF8(text, nil)
}

// once is what a worker speaks that is started for one event, for want of a process
// that lives on. It hears the hello, the event and the end of its input at once, and
// what it has said when it ends is its answer.
var once = &Dialect{Name: plain.Name, WriteEvent: writeOnce, ReadOutcome: readOnce, once: true}

const onceID = "1"

func writeOnce(ev *grapnel.Event) ([]byte, error) {
	event, err := writePlainEvent(ev)
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

func readOnce(ev *grapnel.Event, out Output) (o grapnel.Outcome, err error) {
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
			o, bad = m.ReadOutcome(ev)
		case m.Type == TypeAnswer:
			bad = m.Unasked()
		}
		if err == nil {
			err = bad
		}
	}
	said := quoteSaid(string(bytes.TrimSpace(out.Stderr)))
	switch {
	case err != nil:
	case out.Exit != 0:
		err = errors.New(exitText(out.Exit) + said)
	case hello == nil:
		err = errors.New("it ended before it said hello" + said)
	case answer == nil && hello.Wants(ev.Kind):
		err = errors.New("it ended before it answered" + said)
	}
	return o, err
}

// Check reports whether a worker may say this: greeted is whether it has said hello
// before.
func (m *Message) Check(greeted bool) error {
	switch {
	case m.Type == TypeEvent || m.Type == TypeCancel:
		return fmt.Errorf("it sent a message of type %s, which only grapnel does", m.Type)
	case m.Type == TypeAnswer && !greeted:
		return errors.New("it answered before it said hello")
	}
	return nil
}
