package hookcmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// An agent reports each action in the same ways each time. Actions come one after another, or
// several at once, one way after the other. For any actions, even repeated ones, the number of
// actions is right.
func TestActionsAreCounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ways := []string{"own", "claude", "project"}[:rapid.IntRange(1, 3).Draw(t, "ways")]
		numbered := rapid.Bool().Draw(t, "numbered")
		now := time.Unix(1_000_000, 0).UnixNano()
		var kept []action
		did := 0
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			same := rapid.IntRange(1, 4).Draw(t, "at once")
			did += same
			// The ways come in any order, but each way reports the calls in their order.
			for _, way := range rapid.Permutation(ways).Draw(t, "order") {
				for call := range same {
					now += int64(rapid.IntRange(0, int(againWithin)/20).Draw(t, "later"))
					report := action{What: "ls", Whole: "ls", Ways: []string{way}, At: now}
					if numbered {
						report.Call = string(rune('a' + did - same + call))
					}
					if i := report.again(kept); i >= 0 {
						kept[i].Ways = append(kept[i].Ways, way)
						kept[i].At = now
					} else {
						kept = append(kept, report)
					}
				}
			}
		}
		if len(kept) != did {
			t.Fatalf("the model did it %d times, and %d are counted: %+v", did, len(kept), kept)
		}
	})
}

// Reports in a single way are always different actions, even in quick succession.
func TestOneWayIsNeverAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var kept []action
		for i := range rapid.IntRange(1, 20).Draw(t, "actions") {
			report := action{What: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "what"), Ways: []string{"own"}, At: int64(i)}
			if report.again(kept) >= 0 {
				t.Fatalf("%+v is one of %+v", report, kept)
			}
			kept = append(kept, report)
		}
	})
}

func TestAgain(t *testing.T) {
	t.Parallel()
	const at = int64(1e18)
	first := action{What: "w", Whole: "x", Ways: []string{"own"}, At: at}
	for name, tt := range map[string]struct {
		kept []action
		now  action
		want int
	}{
		"another way":             {[]action{first}, action{What: "w", Ways: []string{"other"}, At: at + 1}, 0},
		"the same way":            {[]action{first}, action{What: "w", Ways: []string{"own"}, At: at + 1}, -1},
		"another action":          {[]action{first}, action{What: "v", Ways: []string{"other"}, At: at + 1}, -1},
		"too late":                {[]action{first}, action{What: "w", Ways: []string{"other"}, At: at + int64(againWithin) + 1}, -1},
		"the clock went back":     {[]action{first}, action{What: "w", Ways: []string{"other"}, At: at - int64(time.Hour)}, -1},
		"one ID, the same way":    {[]action{{What: "w", Call: "1", Ways: []string{"own"}, At: at}}, action{What: "w", Call: "1", Ways: []string{"own"}, At: at + int64(time.Minute)}, 0},
		"one ID, long after":      {[]action{{What: "w", Call: "1", Ways: []string{"own"}, At: at}}, action{What: "w", Call: "1", Ways: []string{"other"}, At: at + int64(time.Hour)}, -1},
		"other IDs, another way":  {[]action{{What: "w", Call: "1", Ways: []string{"own"}, At: at}}, action{What: "w", Call: "2", Ways: []string{"other"}, At: at + 1}, -1},
		"an ID in one way only":   {[]action{{What: "w", Call: "1", Ways: []string{"own"}, At: at}}, action{What: "w", Ways: []string{"other"}, At: at + 1}, 0},
		"the oldest first":        {[]action{first, first}, action{What: "w", Whole: "y", Ways: []string{"other"}, At: at + 1}, 0},
		"one that says just that": {[]action{first, {What: "w", Whole: "y", Ways: []string{"own"}, At: at}}, action{What: "w", Whole: "y", Ways: []string{"other"}, At: at + 1}, 1},
	} {
		if got := tt.now.again(tt.kept); got != tt.want {
			t.Errorf("%s: it is %d, want %d", name, got, tt.want)
		}
	}
}

// Two reports of one action are recognized as one, and additional facts in the second report are
// recognized.
func TestDuplicateReports(t *testing.T) {
	t.Parallel()
	read := func(d *dialect.Dialect, event, payload string) dialect.Received {
		got := dialect.Receive(d, dialect.Input{Payload: []byte(payload), Event: event})
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		return got
	}
	for name, tt := range map[string]struct {
		d            *dialect.Dialect
		first, again [2]string
		what, whole  bool // both reports are the same action
		more         bool // the second report has more facts
	}{
		"Copilot CLI": {
			dialect.Copilot(),
			[2]string{"preToolUse", `{"sessionId":"s","timestamp":1795205149900,"cwd":"/p","toolName":"create","toolArgs":{"path":"a","file_text":"b"}}`},
			[2]string{"", `{"hook_event_name":"PreToolUse","session_id":"s","timestamp":"2026-11-20T20:05:50Z","cwd":"/p","tool_name":"Write","tool_input":{"path":"a","file_text":"b"}}`},
			true, true, false,
		},
		"Copilot CLI, another call": {
			dialect.Copilot(),
			[2]string{"preToolUse", `{"sessionId":"s","timestamp":1,"cwd":"/p","toolName":"bash","toolArgs":{"command":"a"}}`},
			[2]string{"preToolUse", `{"sessionId":"s","timestamp":1,"cwd":"/p","toolName":"bash","toolArgs":{"command":"b"}}`},
			false, false, true,
		},
		"Cursor, a command": {
			dialect.Cursor(),
			[2]string{"", `{"hook_event_name":"preToolUse","cursor_version":"3","conversation_id":"c","tool_use_id":"t","tool_name":"Shell","tool_input":{"command":"ls","cwd":"/p"},"cwd":"/p"}`},
			[2]string{"", `{"hook_event_name":"beforeShellExecution","cursor_version":"3","conversation_id":"c","command":"ls","cwd":"/p","sandbox":false}`},
			true, true, false,
		},
		"Cursor, a tool of a server": { // the second report has the tool's name
			dialect.Cursor(),
			[2]string{"", `{"hook_event_name":"preToolUse","cursor_version":"3","conversation_id":"c","tool_name":"MCP:greet","tool_input":{"who":"bob","n":1}}`},
			[2]string{"", `{"hook_event_name":"beforeMCPExecution","cursor_version":"3","conversation_id":"c","tool_name":"greet","tool_input":"{\"n\":1,\"who\":\"bob\"}","mcp_server_name":"demo"}`},
			true, false, true,
		},
		"Cursor, a file": { // the second report has the content
			dialect.Cursor(),
			[2]string{"", `{"hook_event_name":"preToolUse","cursor_version":"3","conversation_id":"c","tool_name":"Read","tool_input":{"file_path":"/p/a"}}`},
			[2]string{"", `{"hook_event_name":"beforeReadFile","cursor_version":"3","conversation_id":"c","file_path":"/p/a","content":"secret"}`},
			true, false, true,
		},
		"Cursor, another turn": {
			dialect.Cursor(),
			[2]string{"", `{"hook_event_name":"preToolUse","cursor_version":"3","conversation_id":"c","generation_id":"1","tool_name":"Read","tool_input":{"file_path":"/p/a"}}`},
			[2]string{"", `{"hook_event_name":"preToolUse","cursor_version":"3","conversation_id":"c","generation_id":"2","tool_name":"Read","tool_input":{"file_path":"/p/a"}}`},
			false, false, true,
		},
	} {
		a, b := read(tt.d, tt.first[0], tt.first[1]), read(tt.d, tt.again[0], tt.again[1])
		wayA, duplicates := a.Way()
		wayB, _ := b.Way()
		if !duplicates || wayA == wayB && tt.what && tt.first[0] == tt.again[0] {
			t.Errorf("%s: told in the ways %q and %q, %v", name, wayA, wayB, duplicates)
		}
		if (whatIs(a.Event) == whatIs(b.Event)) != tt.what || (wholeOf(a.Event) == wholeOf(b.Event)) != tt.whole {
			t.Errorf("%s: it is the same %v, says the same %v, want %v, %v", name, whatIs(a.Event) == whatIs(b.Event), wholeOf(a.Event) == wholeOf(b.Event), tt.what, tt.whole)
		}
		known := factsOf(a.Event.Native)
		if more := slices.ContainsFunc(factsOf(b.Event.Native), func(f string) bool { return !slices.Contains(known, f) }); more != tt.more {
			t.Errorf("%s: the second says more: %v, want %v", name, more, tt.more)
		}
	}
	if _, duplicates := read(dialect.ClaudeCode(), "", `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{}}`).Way(); duplicates {
		t.Error("Claude Code is thought to tell of an action twice")
	}
}

// Stored actions are read back unchanged, for any content. Incomplete data gives no action.
func TestActionsAreKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var actions []action
		for range rapid.IntRange(0, 5).Draw(t, "actions") {
			word := func(what string) string { return rapid.String().Draw(t, what) }
			actions = append(actions, action{
				ID: word("id"), Call: word("call"), What: word("what"), Whole: word("whole"), Policy: word("policy"), Reason: word("reason"), Halt: word("halt"),
				Facts: rapid.SliceOfN(rapid.StringMatching("[0-9a-f]{16}"), 0, 3).Draw(t, "facts"),
				Ways:  rapid.SliceOfN(rapid.StringMatching("[ -~]{1,20}"), 1, 3).Draw(t, "ways"),
				At:    rapid.Int64Range(0, int64(sameWithin)).Draw(t, "at"), Decision: grapnel.Decision(rapid.IntRange(0, 3).Draw(t, "decision")),
				Final: rapid.Bool().Draw(t, "final"),
			})
		}
		kept := writeActions(actions)
		if diff := cmp.Diff(actions, readActions(kept, int64(sameWithin)), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if late := readActions(kept, 2*int64(sameWithin)+1); len(late) > 0 {
			t.Fatalf("%+v is kept for ever", late)
		}
		if len(kept) > 0 {
			for _, a := range readActions(kept[:rapid.IntRange(0, len(kept)-1).Draw(t, "cut")], 0) {
				if !slices.ContainsFunc(actions, func(b action) bool { return cmp.Equal(a, b, cmpopts.EquateEmpty()) }) {
					t.Fatalf("%+v is made of what was cut off", a)
				}
			}
		}
	})
}

// An action is reported in two ways at the same time, many times and in parallel with others.
// Each report gets a reply, and each action counts once: in the log, and for a limit, which
// allows exactly its number of actions and blocks all others in both ways.
func TestConcurrentDuplicates(t *testing.T) {
	t.Parallel()
	const calls, limit, sessions = 8, 5, 3
	root := t.TempDir()
	yaml := fmt.Sprintf("version: 1\nhooks:\n  - name: often\n    on: tool.before\n    limit: {count: %d, per: 1h, by: session}\n", limit)
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var blocked [2]atomic.Int32
	var all sync.WaitGroup
	for session := range sessions {
		all.Go(func() {
			for range calls {
				var both sync.WaitGroup
				for i, ask := range []struct{ args, payload string }{
					{"copilot preToolUse", `{"sessionId":"s%d","timestamp":1,"cwd":"/","toolName":"bash","toolArgs":{"command":"ls"}}`},
					{"", `{"hook_event_name":"PreToolUse","session_id":"s%d","timestamp":"2026-11-20T20:05:50Z","cwd":"/","tool_name":"Bash","tool_input":{"command":"ls"}}`},
				} {
					both.Go(func() {
						var stdout, stderr bytes.Buffer
						exit := Main(append(strings.Fields(ask.args), "--root", root), strings.NewReader(fmt.Sprintf(ask.payload, session)), &stdout, &stderr)
						switch {
						case exit != 0 || stderr.Len() > 0:
							t.Errorf("exit %d, %s", exit, &stderr)
						case strings.HasPrefix(stdout.String(), `{"permissionDecision":"deny"`):
							blocked[i].Add(1)
						case stdout.Len() > 0:
							t.Errorf("%s is answered with %s", ask.payload, &stdout)
						}
					})
				}
				both.Wait()
			}
		})
	}
	all.Wait()
	for i := range blocked {
		if n := blocked[i].Load(); n != sessions*(calls-limit) {
			t.Errorf("way %d: %d of %d calls are blocked, want %d", i, n, sessions*calls, sessions*(calls-limit))
		}
	}
	records, err := os.ReadFile(filepath.Join(root, "state", "journal", "00000001.jsonl"))
	if n := bytes.Count(records, []byte("\n{\"id\":")); err != nil || n != sessions*calls {
		t.Errorf("%d Records of %d calls, %v", n, sessions*calls, err)
	}
}
