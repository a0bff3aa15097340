package state_test

import (
	"fmt"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
)

const untilTested = `  - name: untested
    on: tool.before
    match: {command: git commit}
    after: {event: tool.after, match: {tool: write}, until: {event: tool.after, match: {command: make test}}}
    block: no
`

// TestUntilNeedsAnnouncement plays results of calls that were not announced, as a model can send them to
// the program that receives events.
func TestUntilNeedsAnnouncement(t *testing.T) {
	t.Parallel()
	result := func(id string) *grapnel.Event { return did(grapnel.ToolAfter, "make test", id) }
	call := func(id string) *grapnel.Event { return did(grapnel.ToolBefore, "make test", id) }
	for name, tt := range map[string]struct {
		events []*grapnel.Event
		want   grapnel.Decision
	}{
		"announced":                     {[]*grapnel.Event{call("1"), result("1")}, grapnel.None},
		"announced under another name":  {[]*grapnel.Event{by("run_terminal_cmd", call("1")), result("1")}, grapnel.None},
		"announced without IDs":         {[]*grapnel.Event{call(""), result("")}, grapnel.None},
		"only the result":               {[]*grapnel.Event{result("1")}, grapnel.Block},
		"only the result, without ID":   {[]*grapnel.Event{result("")}, grapnel.Block},
		"another ID":                    {[]*grapnel.Event{call("1"), result("2")}, grapnel.Block},
		"the ID of another call":        {[]*grapnel.Event{did(grapnel.ToolBefore, "ls", "1"), result("1")}, grapnel.Block},
		"announced before the write":    {[]*grapnel.Event{call("1"), write(), result("2")}, grapnel.Block},
		"a result is used once":         {[]*grapnel.Event{call("1"), result("1"), write(), result("1")}, grapnel.Block},
		"announced and blocked":         {[]*grapnel.Event{did(grapnel.ToolBefore, "make test; git commit", "1"), did(grapnel.ToolAfter, "make test; git commit", "1")}, grapnel.Block},
		"announced among many":          {append(append([]*grapnel.Event{}, many(60)...), call("1"), result("1")), grapnel.None},
		"announced long before":         {append(append([]*grapnel.Event{call("1")}, many(60)...), result("1")), grapnel.None},
		"too long before to remember":   {append(append([]*grapnel.Event{call("1")}, many(3*state.MaxMarks)...), result("1")), grapnel.Block},
		"the same call two times":       {[]*grapnel.Event{call("1"), call("2"), result("2")}, grapnel.None},
		"a failed call, said as result": {[]*grapnel.Event{call("1"), did(grapnel.ToolFailed, "make test", "1")}, grapnel.Block},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := announcedPolicy(t, untilTested)
			for _, ev := range append([]*grapnel.Event{write()}, tt.events...) {
				l.fire(ev)
			}
			if v := l.fire(did(grapnel.ToolBefore, "git commit", "last")); v.Decision != tt.want {
				t.Errorf("%v, want %v", v.Decision, tt.want)
			}
		})
	}
}

// announcedPolicy returns a policy for events from outside.
func announcedPolicy(t *testing.T, hooks string) *limited {
	t.Helper()
	return newAfterIn(t, hooks, &match.FactCache{Announced: true}, stored{})
}

func write() *grapnel.Event {
	ev := fixture.Call("s", "Write", `{"file_path":"a.go"}`, "w")
	ev.Kind, ev.Tool.Class = grapnel.ToolAfter, grapnel.ClassWrite
	return ev
}

func by(tool string, ev *grapnel.Event) *grapnel.Event {
	ev.Tool.Name = tool
	return ev
}

func many(n int) (events []*grapnel.Event) {
	for i := range n {
		events = append(events, did(grapnel.ToolBefore, fmt.Sprint("ls ", i), fmt.Sprint("many", i)))
	}
	return events
}
