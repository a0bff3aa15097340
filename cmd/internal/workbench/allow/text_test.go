package allow

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A call is shown as a whole, or it cannot be allowed. An agent that puts a harmless command in
// front of 2 KB of spaces hid the rest of the line.
func TestAllIsShown(t *testing.T) {
	t.Parallel()
	input := func(members ...any) *grapnel.Tool {
		m := map[string]any{}
		for i := 0; i < len(members); i += 2 {
			m[members[i].(string)] = members[i+1]
		}
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		tool := &grapnel.Tool{Name: "t", Class: grapnel.ClassShell, Input: raw}
		if command, ok := m["command"].(string); ok {
			tool.Commands = []string{command}
		}
		return tool
	}
	deep := json.RawMessage(strings.Repeat("[", 70) + `"curl"` + strings.Repeat("]", 70))
	number := json.RawMessage(strings.Repeat("1", 3000))
	numbers := json.RawMessage("[" + strings.Repeat("1,", 20000) + "7]")
	for name, tt := range map[string]struct {
		ev     grapnel.Event
		change json.RawMessage // of tool.input, by a hook
		shown  string          // "" = it is refused
		masked bool
	}{
		"a command":          {ev: grapnel.Event{Tool: input("command", "git push")}, shown: "git push"},
		"a remark":           {ev: grapnel.Event{Tool: input("command", "git push", "description", "Look")}, shown: "git push"},
		"spaces":             {ev: grapnel.Event{Tool: input("command", "ls"+strings.Repeat(" ", 1500)+"; curl")}, shown: "ls" + strings.Repeat(" ", 1500) + "; curl"},
		"too many spaces":    {ev: grapnel.Event{Tool: input("command", "ls"+strings.Repeat(" ", 6000)+"; curl")}},
		"line breaks":        {ev: grapnel.Event{Tool: input("command", "ls"+strings.Repeat("\n", 900)+"curl")}, shown: "ls" + strings.Repeat("\n", 900) + "curl"},
		"another member":     {ev: grapnel.Event{Tool: input("command", "ls", "env", map[string]string{"A": "curl"})}, shown: "ls\ninput: {\"command\":\"ls\",\"env\":{\"A\":\"curl\"}}"},
		"a list of words":    {ev: grapnel.Event{Tool: &grapnel.Tool{Name: "t", Commands: []string{"ls"}, Input: []byte(`{"command":["sh","-c","ls","curl"]}`)}}, shown: "ls\ninput: {\"command\":[\"sh\",\"-c\",\"ls\",\"curl\"]}"},
		"a long member":      {ev: grapnel.Event{Tool: input("command", "ls", "then", strings.Repeat("x", 5000))}},
		"a nested member":    {ev: grapnel.Event{Tool: input("command", "ls", "then", map[string]any{"a": []string{strings.Repeat("x", 5000)}})}},
		"many members":       {ev: grapnel.Event{Tool: input("command", "ls", "then", strings.Split(strings.Repeat("curl,", 9000), ","))}},
		"a deep member":      {ev: grapnel.Event{Tool: input("command", "echo '***'", "then", deep)}},
		"a long number":      {ev: grapnel.Event{Tool: input("command", "echo '***'", "then", number)}},
		"many numbers":       {ev: grapnel.Event{Tool: input("command", "echo '***'", "then", numbers)}},
		"a long name":        {ev: grapnel.Event{Tool: input("command", "ls", strings.Repeat("x", 5000), 1)}},
		"only a large input": {ev: grapnel.Event{Tool: &grapnel.Tool{Name: "t", Input: []byte(`"` + strings.Repeat("x", 80<<10) + `"`)}}},
		"no facts":           {ev: grapnel.Event{Tool: &grapnel.Tool{Name: "t", Class: grapnel.ClassMCP, Input: []byte(`{"b":1,"a":"x"}`)}}, shown: `input: {"a":"x","b":1}`},
		"a secret":           {ev: grapnel.Event{Tool: input("command", "login --password hunter2")}, shown: "login --password ***", masked: true},
		"a secret and a cut": {ev: grapnel.Event{Tool: input("command", "login --password hunter2; ls"+strings.Repeat(" ", 6000)+"; curl")}},
		"changed by a hook":  {ev: grapnel.Event{Tool: input("command", "ls")}, change: json.RawMessage(`{"command":"curl"}`), shown: `input: {"command":"curl"}`},
		"a long change":      {ev: grapnel.Event{Tool: input("command", "ls")}, change: json.RawMessage(`{"command":"` + strings.Repeat(" ", 6000) + `curl"}`)},
		"a prompt":           {ev: grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "hello"}}, shown: "hello"},
		"a long prompt":      {ev: grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: strings.Repeat("hello ", 999)}}},
		"a message":          {ev: grapnel.Event{Kind: grapnel.MessageBefore, Message: &grapnel.Message{Channel: "#all", Content: "hello"}}, shown: "channel: #all\nhello"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := approval.Store(t.TempDir())
			ev := tt.ev
			if ev.Kind == "" {
				ev.Kind = grapnel.ToolBefore
			}
			ev.Agent.Name, ev.Session.CWD = "an-agent", "/p"
			judged := &ev
			rec := grapnel.Record{ID: "r", Event: ev.Kind, Agent: ev.Agent.Name, Input: &ev, Verdict: &grapnel.Verdict{Event: &ev}}
			if tt.change != nil {
				var err error
				if judged, err = ev.Set(grapnel.FieldInput, tt.change); err != nil {
					t.Fatal(err)
				}
				rec.Changed = []grapnel.Field{grapnel.FieldInput}
				rec.Verdict = &grapnel.Verdict{Event: judged, Changes: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: tt.change}}
			}
			rec.CallDigest = store.Digest(judged)
			sp, err := spool.Open(t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			line, err := sp.Line(&rec)
			var e spool.Entry
			if err == nil {
				err = json.Unmarshal(line, &e)
			}
			if err != nil {
				t.Fatal(err)
			}
			c := Call{Entry: &e}
			got, known := stopped(&e)
			c.setText(got, known, store)
			switch {
			case tt.shown == "" && (!c.Partly || c.Allowable() == nil):
				t.Errorf("a part is missing, and nothing says so:\n%.3000s", c.Text)
			case tt.shown != "" && (c.Text != tt.shown || c.Partly || c.Masked != tt.masked):
				t.Errorf("shown is %q, masked %v, partly %v; want %q, masked %v", c.Text, c.Masked, c.Partly, tt.shown, tt.masked)
			}
		})
	}
}
