package builtin

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// MaxFile is how much of an agent's transcript is worth reading, in bytes: a model gets
// the beginning alone.
const MaxFile = 16 << 20

// maxInput is how much of what a tool was given a conversation shows, in bytes.
const maxInput = 200

// ErrTranscript says that a file is no transcript of a known agent.
var ErrTranscript = errors.New("no transcript of an agent that is known here")

// ReadTranscript reads the conversation out of a file in which a coding agent keeps it:
// what the person and the model said, and which tools were called. What tools answered
// is left out. The end of the file may be missing, and lines that are damaged count
// for nothing.
//
// Seen live: the lines of Claude Code 2.1.329 and of Gemini CLI 0.61.0, which also
// reads its own older files, one object with all messages.
func ReadTranscript(data []byte) ([]Message, error) {
	var t turns
	var whole record
	if json.Unmarshal(data, &whole) == nil {
		t.add(&whole)
	} else {
		for line := range bytes.Lines(data) {
			var r record
			if json.Unmarshal(line, &r) == nil {
				t.add(&r)
			}
		}
	}
	if !t.known && len(bytes.TrimSpace(data)) > 0 {
		return nil, ErrTranscript
	}
	return t.messages(), nil
}

// record is a line, or an older file of Gemini CLI.
type record struct {
	Session string          `json:"sessionId"`
	Type    string          `json:"type"`
	ID      string          `json:"id"` // Gemini CLI: a second line with it replaces the first
	Message json.RawMessage `json:"message"`
	Content json.RawMessage `json:"content"`
	Calls   []part          `json:"toolCalls"`

	Sidechain bool `json:"isSidechain"` // of a sub-agent
	Meta      bool `json:"isMeta"`      // written by the agent itself

	// Gemini CLI: all messages so far, and what was undone.
	Messages []record `json:"messages"`
	Set      *struct {
		Messages []record `json:"messages"`
	} `json:"$set"`
	RewindTo string `json:"$rewindTo"`
}

// part is a piece of a message: text, or the call of a tool.
type part struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"` // Claude Code
	Args  json.RawMessage `json:"args"`  // Gemini CLI
}

// turns are the messages of a conversation as far as it is read.
type turns struct {
	known bool // a line is an agent's
	list  []turn
	at    map[string]int // by id
}

type turn struct {
	id string
	Message
}

func (t *turns) add(r *record) {
	t.known = t.known || r.Session != ""
	switch {
	case r.RewindTo != "":
		n := t.at[r.RewindTo] // it is not there: all goes
		for _, m := range t.list[n:] {
			delete(t.at, m.id)
		}
		t.list = t.list[:n]
	case r.Set != nil && r.Set.Messages != nil:
		t.list, t.at = nil, nil
		t.addAll(r.Set.Messages)
	case r.Messages != nil:
		t.addAll(r.Messages)
	case r.Type == "user" && r.Message == nil, r.Type == "gemini":
		t.say(r.ID, role(r.Type), r.Content, r.Calls)
	case (r.Type == "user" || r.Type == "assistant") && !r.Sidechain && !r.Meta:
		var m struct {
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(r.Message, &m) == nil {
			t.say("", r.Type, m.Content, nil)
		}
	}
}

func (t *turns) addAll(list []record) {
	for i := range list {
		if r := &list[i]; r.Set == nil && r.Messages == nil { // one within the other is nobody's
			t.add(r)
		}
	}
}

func role(kind string) string {
	if kind == "gemini" {
		return "assistant"
	}
	return kind
}

// sessionContext begins what Gemini CLI tells the model before the person says a word.
const sessionContext = "<session_context>"

// say adds a message, or replaces the one that has its id.
func (t *turns) say(id, role string, content json.RawMessage, calls []part) {
	var texts []string
	var text string
	var parts []part
	switch {
	case json.Unmarshal(content, &text) == nil:
		texts = append(texts, text)
	case json.Unmarshal(content, &parts) == nil:
		for _, p := range parts {
			if p.Type == "tool_use" {
				texts = append(texts, p.call())
			} else {
				texts = append(texts, p.Text)
			}
		}
	}
	for _, c := range calls {
		texts = append(texts, c.call())
	}
	texts = slices.DeleteFunc(texts, func(text string) bool {
		return strings.TrimSpace(text) == "" || strings.HasPrefix(text, sessionContext)
	})
	m := turn{id, Message{role, cut(strings.TrimSpace(strings.Join(texts, "\n")), MaxTranscript)}}
	if i, ok := t.at[id]; ok {
		t.list[i] = m
		return
	}
	if id != "" {
		if t.at == nil {
			t.at = map[string]int{}
		}
		t.at[id] = len(t.list)
	}
	t.list = append(t.list, m)
}

// call names a tool and the beginning of what it was given.
func (p part) call() string {
	input := p.Input
	if input == nil {
		input = p.Args
	}
	shown := strings.ToValidUTF8(string(input[:min(len(input), maxInput)]), "") // of raw JSON, which may hold anything
	return "[" + strings.TrimSpace(p.Name+" "+shown) + "]"
}

// messages are those in which anything was said.
func (t *turns) messages() []Message {
	var said []Message
	for _, m := range t.list {
		if m.Content != "" {
			said = append(said, m.Message)
		}
	}
	return said
}
