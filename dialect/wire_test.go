package dialect_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// Every message is the same when it is read back, is on one line, and is valid under the
// schema.
func TestMessages(t *testing.T) {
	t.Parallel()
	schema := loadSchema(t)
	for name, m := range map[string]dialect.Message{
		"hello":       dialect.Hello(),
		"its hello":   {Version: 1, Type: dialect.TypeHello, Name: "x", Concurrency: 3, Kinds: []grapnel.Kind{grapnel.ToolBefore, "native.x.Y"}},
		"cancel":      {Type: dialect.TypeCancel, ID: "é\"\\\u2028"},
		"answer":      {Type: dialect.TypeAnswer, ID: "1", Outcome: json.RawMessage(`{"decision":"block","reason":"<a & b>"}`)},
		"error":       {Type: dialect.TypeAnswer, ID: "1", Error: "no idea"},
		"reply":       {Type: dialect.TypeAnswer, ID: "1", Reply: &dialect.WireReply{Stdout: "{\"a\":\"<b>\"}\n", Stderr: "no\n", Exit: 2}},
		"no reply":    {Type: dialect.TypeAnswer, ID: "1", Reply: &dialect.WireReply{}},
		"event":       {Type: dialect.TypeEvent, ID: "1", Event: json.RawMessage(`{"kind":"tool.before","tool":{"name":"x","input":{"n":1e400,"b":1,"a":2}}}`)},
		"later types": {Type: "weather"},
	} {
		line, err := m.Write()
		if err != nil || bytes.Count(line, []byte("\n")) != 1 || !bytes.HasSuffix(line, []byte("\n")) {
			t.Errorf("%s: %q, %v, want one line", name, line, err)
		}
		schema.check(t, "message", line)
		got, err := dialect.ReadMessage(line)
		if diff := cmp.Diff(&m, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-written +read)\n%s", name, err, diff)
		}
	}
	line, err := dialect.Message{Type: dialect.TypeEvent, ID: "1", Event: json.RawMessage("{\"a\":\"\u2028\u2029\"}\n")}.Write()
	if want := `{"type":"event","id":"1","event":{"a":"\u2028\u2029"}}` + "\n"; err != nil || string(line) != want {
		t.Errorf("%q, %v, want %q: no reader may take a text for the end of a line", line, err, want)
	}
}

// Unknown members are ignored, keys are case-sensitive, and the last of equal keys is used.
func TestReadMessage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]dialect.Message{
		"\xef\xbb\xbf {\"type\":\"answer\",\"id\":\"1\",\"outcome\":{},\"new\":{\"id\":\"2\"}}\r\n": {Type: "answer", ID: "1", Outcome: json.RawMessage(`{}`)},
		`{"type":"cancel","type":"answer","id":"1","ID":"2","Outcome":{},"outcome":null}`:           {Type: "answer", ID: "1"},
		`{"type":"answer","id":"7","error":["a"]}`:                                                  {Type: "answer", ID: "7", Error: `["a"]`},
		`{"type":"hello","grapnel":1,"Name":"x","concurrency":0,"kinds":null,"new":1e400}`:          {Version: 1, Type: "hello"},
		`{"type":"answer","id":"7","reply":{"Exit":2,"exit":1,"new":[]}}`:                           {Type: "answer", ID: "7", Reply: &dialect.WireReply{Exit: 1}},
	} {
		got, err := dialect.ReadMessage([]byte(line))
		if diff := cmp.Diff(&want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", line, err, diff)
		}
	}
	// If a worker names an event that does not exist, it would never get the event that it
	// means, and its guard would be missing without a message.
	for line, wantErr := range map[string]string{
		`{"type":"hello","grapnel":1,"kinds":["tool.after","tool.befor"]}`: `cannot read its hello: its kinds contain the unknown event "tool.befor"`,
		`{"type":"hello","grapnel":1,"kinds":["PreToolUse"]}`:              `unknown event "PreToolUse"`,
		`{"type":"hello","grapnel":1,"kinds":[""]}`:                        `unknown event ""`,
		`{"type":"answer","id":7,"outcome":{}}`:                            "its id 7 is not a string",
	} {
		if m, err := dialect.ReadMessage([]byte(line)); err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%s: %+v, %v, want %q", line, m, err, wantErr)
		}
	}
	// For a truncated line, the ID of its event is still known.
	if m, err := dialect.ReadMessage([]byte(`{"type":"answer","id":"7","outcome":{"reason":"xxx`)); err == nil || m.Type != dialect.TypeAnswer || m.ID != "7" || m.Outcome != nil {
		t.Errorf("cut off: %+v, %v", m, err)
	}
}

// FuzzMessage: any output of a program is a message or an error that can be shown, and an error
// never allows.
func FuzzMessage(f *testing.F) {
	for _, line := range []string{
		"", "1 2", `[1]`, `{`, `{"type":"answer","id":"1","outcome":{"decision":"allow"},"error":"e"}`, `{"type":"hello","grapnel":1,"kinds":["a"]}`,
		`{"type":"answer","id":"1","outcome":"\u2028"}`, `{"type":"hello"}` + "\n" + `{"type":"answer","id":"1","outcome":{}}`, `{"type":"` + strings.Repeat("é", 50),
	} {
		f.Add([]byte(line), 0)
	}
	ev := &grapnel.Event{Kind: grapnel.ToolBefore}
	f.Fuzz(func(t *testing.T, line []byte, exit int) {
		m, err := dialect.ReadMessage(line)
		if m == nil {
			t.Fatal("there is no Message")
		}
		if err == nil {
			if !json.Valid(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("\xef\xbb\xbf"))) {
				t.Errorf("%q is taken for a message", line)
			}
			out, err := m.ReadOutcome(ev)
			if err != nil && (out.Decision == grapnel.Allow || m.Error == "" && out.Decision != grapnel.None) {
				t.Errorf("%q is %v, and says %v", line, err, out.Decision)
			}
		}
		out, err := dialect.Once().ReadOutcome(ev, dialect.Output{Exit: exit, Stdout: line})
		if err == nil && out.Decision != grapnel.None && (exit != 0 || !bytes.Contains(line, []byte("hello"))) {
			t.Errorf("exit code %d with %q says %v", exit, line, out.Decision)
		}
	})
}
