package recordview

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// The subject of an event is shown for all kinds of events and agents.
func TestAbout(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"event":"tool.before","input":{"kind":"tool.before","agent":{"name":"gemini-cli"},"native":{"session_id":"s","cwd":"/w","hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"ls"}}}}`: "/w ls",
		// The payloads of this agent do not contain the name of the event.
		`{"event":"tool.before","input":{"kind":"tool.before","agent":{"name":"copilot-cli"},"native":{"sessionId":"s","cwd":"/w","toolName":"bash","toolArgs":"{\"command\":\"ls -l\"}"}}}`: "/w ls -l",
		`{"event":"tool.before","input":{"kind":"tool.before","session":{"id":"s","cwd":"/w"},"tool":{"name":"x","input":{"b":1,"a":"two"}}}}`:                                               "/w b: 1, a: two",
		`{"event":"tool.before","input":{"kind":"tool.before","session":{"cwd":"/w"},"tool":{"name":"x","paths":[{"path":"/w/a.go","use":"read"},{"path":"/etc/passwd","use":"read"}]}}}`:    "/w a.go, /etc/passwd",
		`{"event":"tool.before","input":{"kind":"tool.before","tool":{"name":"x","urls":["https://a.example"]}}}`:                                                                            " https://a.example",
		`{"event":"message.before","input":{"kind":"message.before","message":{"content":"hello"}}}`:                                                                                         " hello",
		`{"event":"notification.sent","input":{"kind":"notification.sent","notification":{"title":"Done"}}}`:                                                                                 " Done",
		`{"event":"agent.after","input":{"kind":"agent.after","stop":{"last_message":"bye"}}}`:                                                                                               " bye",
		`{"event":"session.end","input":{"kind":"session.end","cause":"logout"}}`:                                                                                                            " logout",
		`{"event":"toolbatch.after","input":{"kind":"toolbatch.after","calls":[{"name":"a","commands":["ls"]},{"name":"b"}]}}`:                                                               " a ls, b",
		`{"event":"tool.before"}`: " ",
	} {
		var e spool.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		it := NewItem(&e)
		if got := it.Dir + " " + it.About; got != want {
			t.Errorf("%s\nis about %q, want %q", line, got, want)
		}
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after, want string }{
		{"a\nb\nc", "a\nx\nc", " a|-b|+x| c"},
		{"", "new", "-|+new"},
		{"-- a", "++ b", "--- a|+++ b"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12", "0\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n13", "-1|+0| 2| 3| 4|  ⋮| 9| 10| 11|-12|+13"},
	} {
		if got := strings.Join(difference(c.before, c.after), "|"); got != c.want {
			t.Errorf("difference(%q, %q) = %s, want %s", c.before, c.after, got, c.want)
		}
	}
}

func TestParseFilter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"agnet:codex": `unknown key agnet (want agent, session,`, "is:fast": "unknown value is:fast (want slow, failed", "decision:deny": "unknown value decision:deny (want none, allow",
	} {
		if _, err := ParseFilter(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("ParseFilter(%q) = %v, want %s", text, err, want)
		}
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, words, ends string }{
		{"one two three", "one two|three", "one two |three"},
		{"", "", ""},
		{"a\n\nb\n", "a||b", "a||b"},
		{"longerthanthis word", "longerth|anthis|word", "longerth|anthis w|ord"},
		{"12345678 9", "12345678|9", "12345678| 9"},
		{"  in by two", "  in by|two", "  in by |two"},
		{"日本語日本語", "日本語日|本語", "日本語日|本語"},
	} {
		if diff := cmp.Diff(strings.Split(c.words, "|"), broken(c.text, 8, true)); diff != "" {
			t.Errorf("broken(%q, true) (-want +got):\n%s", c.text, diff)
		}
		if diff := cmp.Diff(strings.Split(c.ends, "|"), broken(c.text, 8, false)); diff != "" {
			t.Errorf("broken(%q, false) (-want +got):\n%s", c.text, diff)
		}
	}
}

func TestTook(t *testing.T) {
	t.Parallel()
	for ms, want := range map[float64]string{0: "0.0ms", 9.94: "9.9ms", 9.96: "10ms", 999.4: "999ms", 999.6: "1.0s", 9949: "9.9s", 9960: "10s", 9_999_000: "9999s", 1e9: "hours"} {
		if got := Took(ms); got != want || len(got) > 5 {
			t.Errorf("Took(%v) = %s, want %s", ms, got, want)
		}
	}
}

// The strongest thing that a hook did is named.
func TestDidOf(t *testing.T) {
	t.Parallel()
	for want, runs := range map[Did][]grapnel.HookRun{
		Nothing:    {{}, {Observed: true}},
		Changed:    {{Changed: []grapnel.Field{grapnel.FieldInput}}},
		Decided:    {{Decision: grapnel.Block}, {Halt: true}, {Decision: grapnel.Allow, Changed: []grapnel.Field{grapnel.FieldInput}}},
		Would:      {{Decision: grapnel.Block, Observed: true}},
		Approved:   {{Approved: grapnel.Block}},
		Failed:     {{Error: "exit status 7", Decision: grapnel.Block}},
		FailedOpen: {{Error: "timeout", FailOpen: true}},
	} {
		for i := range runs {
			if got := DidOf(&runs[i]); got != want {
				t.Errorf("%+v: %d, want %d", runs[i], got, want)
			}
		}
	}
}
