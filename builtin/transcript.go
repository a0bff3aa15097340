package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// MaxFile is the maximum useful length of a transcript in bytes, because a model gets only the
// beginning.
const MaxFile = 16 << 20

// maxInput is the maximum length of a tool input in a conversation, in bytes.
const maxInput = 200

// ErrTranscript means that a file is not a transcript of a supported agent.
var ErrTranscript = errors.New("not a transcript of a supported agent")

// ReadTranscript reads the conversation from a coding agent's transcript: the messages of the
// user and the model, and the names of called tools with the beginning of their inputs. It omits
// tool outputs. The end of the file may be missing, and damaged lines are skipped. If no line is
// from a supported agent, the error is ErrTranscript.
//
// Seen live: the lines of Claude Code 2.1.329 and of Gemini CLI 0.61.0, which also reads its own
// older files, one object with all messages.
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

// Transcript reads the agent's transcript of the event's session, for [Conversations]. A missing
// file means that the session has no messages.
func Transcript(_ context.Context, ev *grapnel.Event) ([]Message, error) {
	name := ev.Session.Transcript
	if name == "" {
		return nil, nil
	}
	data, err := files.Read(name, MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var messages []Message
	if err == nil {
		messages, err = ReadTranscript(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return messages, nil
}

// record is one line, or a complete older file of Gemini CLI.
type record struct {
	Session string          `json:"sessionId"`
	Type    string          `json:"type"`
	ID      string          `json:"id"` // Gemini CLI: a later line with the same ID replaces this one
	Message json.RawMessage `json:"message"`
	Content json.RawMessage `json:"content"`
	Calls   []part          `json:"toolCalls"`

	Sidechain bool `json:"isSidechain"` // message of a sub-agent
	Meta      bool `json:"isMeta"`      // written by the agent itself

	// Gemini CLI: the complete list of messages, and the message to rewind to.
	Messages []record `json:"messages"`
	Set      *struct {
		Messages []record `json:"messages"`
	} `json:"$set"`
	RewindTo string `json:"$rewindTo"`
}

// part is a part of a message: text, or a tool call.
type part struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"` // Claude Code
	Args  json.RawMessage `json:"args"`  // Gemini CLI
}

// turns collects the messages of a conversation while it is read.
type turns struct {
	known bool // a line of a supported agent was found
	list  []turn
	at    map[string]int // index in list by message ID
}

type turn struct {
	id string
	Message
}

func (t *turns) add(r *record) {
	t.known = t.known || r.Session != ""
	switch {
	case r.RewindTo != "":
		n := t.at[r.RewindTo] // 0 if the message is unknown, which removes all messages
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
		t.put(r.ID, role(r.Type), r.Content, r.Calls)
	case (r.Type == "user" || r.Type == "assistant") && !r.Sidechain && !r.Meta:
		var m struct {
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(r.Message, &m) == nil {
			t.put("", r.Type, m.Content, nil)
		}
	}
}

func (t *turns) addAll(list []record) {
	for i := range list {
		if r := &list[i]; r.Set == nil && r.Messages == nil { // no agent nests these records
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

// sessionContext is the beginning of Gemini CLI's own first message to the model.
const sessionContext = "<session_context>"

// put adds a message, or replaces the message with the same ID.
func (t *turns) put(id, role string, content json.RawMessage, calls []part) {
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
	m := turn{id, Message{role, rawjson.Cut(strings.TrimSpace(strings.Join(texts, "\n")), MaxTranscript)}}
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

// call returns the name of a tool and the beginning of its input.
func (p part) call() string {
	input := p.Input
	if input == nil {
		input = p.Args
	}
	shown := strings.ToValidUTF8(string(input[:min(len(input), maxInput)]), "") // cut raw JSON may end within a character
	return "[" + strings.TrimSpace(p.Name+" "+shown) + "]"
}

// messages returns the messages that contain text.
func (t *turns) messages() []Message {
	var messages []Message
	for _, m := range t.list {
		if m.Content != "" {
			messages = append(messages, m.Message)
		}
	}
	return messages
}
