package hooktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// The plain dialect, which has a name for every event, passes the suite.
func TestPlainHoldsTheLaws(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range grapnel.Contracts() {
		line, err := dialect.Plain().WriteEvent(Event(c.Kind))
		if err != nil {
			t.Fatal(err)
		}
		talk := "-- stdin.json --\n" + string(line) + "-- outcome.json --\n{}\n"
		if err := os.WriteFile(filepath.Join(dir, string(c.Kind)+".txtar"), []byte(talk), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &dialectSuite{Dialect: dialect.Plain(), talks: conversations(t, dialect.Plain(), dir)}
	for _, law := range dialectLaws {
		t.Run(law.name, func(t *testing.T) {
			t.Parallel()
			law.hold(s, t)
		})
	}
}

const talkDir = "../dialect/testdata/claude-code"

// The suite finds the errors that it checks for. Each case is Claude Code's dialect with one error.
func TestBrokenDialects(t *testing.T) {
	t.Parallel()
	type payload = map[string]json.RawMessage
	read, write := dialect.ClaudeCode().ReadEvent, dialect.ClaudeCode().WriteVerdict
	allow := dialect.Reply{Stdout: []byte(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}` + "\n")}
	for name, tt := range map[string]struct {
		spoil func(d *dialect.Dialect)
		law   string
		want  string
	}{
		"says nothing": {func(d *dialect.Dialect) {
			d.WriteVerdict = func(*dialect.EventRow, *grapnel.Event, *grapnel.Verdict) dialect.Reply { return dialect.Reply{} }
		}, "Block", "without its unchanged reason"},
		"allows what nobody judged": {func(d *dialect.Dialect) {
			d.WriteVerdict = func(row *dialect.EventRow, ev *grapnel.Event, v *grapnel.Verdict) dialect.Reply {
				if v.Decision == grapnel.None {
					return allow
				}
				return write(row, ev, v)
			}
		}, "No opinion", "no opinion is written as"},
		"asks by allowing": {func(d *dialect.Dialect) {
			d.WriteVerdict = func(row *dialect.EventRow, ev *grapnel.Event, v *grapnel.Verdict) dialect.Reply {
				if v.Decision == grapnel.Ask {
					return allow
				}
				return write(row, ev, v)
			}
		}, "Never weaker", "an allow without a hook that allows"},
		"forgets the change": {func(d *dialect.Dialect) {
			d.WriteVerdict = func(row *dialect.EventRow, ev *grapnel.Event, v *grapnel.Verdict) dialect.Reply {
				verdict := *v
				verdict.Changes = nil
				return write(row, ev, &verdict)
			}
		}, "Changes", "but the reply does not contain it"},
		"blocks beside a halt no more": {func(d *dialect.Dialect) {
			d.WriteVerdict = func(row *dialect.EventRow, ev *grapnel.Event, v *grapnel.Verdict) dialect.Reply {
				if v.Halt != "" && v.Decision == grapnel.Block {
					return allow
				}
				return write(row, ev, v)
			}
		}, "Unmerged", "block with a halt"},
		"panics": {func(d *dialect.Dialect) {
			d.ReadEvent = func(row *dialect.EventRow, top payload, in dialect.Input) (*grapnel.Event, error) {
				if string(top["tool_name"]) == "{}" {
					panic("oops")
				}
				return read(row, top, in)
			}
		}, "Hostile", "it panicked: oops"},
		"takes any letter case": {func(d *dialect.Dialect) {
			d.ReadEvent = func(row *dialect.EventRow, top payload, in dialect.Input) (*grapnel.Event, error) {
				if odd, ok := top["Tool_name"]; ok {
					top["tool_name"] = odd
				}
				return read(row, top, in)
			}
		}, "Hostile", `with "Tool_name" first`},
		"exits with 2": {func(d *dialect.Dialect) {
			d.WriteVerdict = func(row *dialect.EventRow, ev *grapnel.Event, v *grapnel.Verdict) dialect.Reply {
				reply := write(row, ev, v)
				reply.Exit, reply.Stderr = 2, []byte("oops")
				return reply
			}
		}, "Unreadable", "which blocks"},
		"does not say that stdin broke": {func(d *dialect.Dialect) {
			d.WriteVerdict = func(row *dialect.EventRow, ev *grapnel.Event, v *grapnel.Verdict) dialect.Reply {
				if strings.Contains(v.Reason(), "unexpected EOF") {
					return dialect.Reply{}
				}
				return write(row, ev, v)
			}
		}, "Unreadable", "a block is missing"},
		"loses the input": {func(d *dialect.Dialect) {
			d.WriteEvent = func(ev *grapnel.Event) ([]byte, error) {
				line, err := dialect.ClaudeCode().WriteEvent(ev)
				return bytes.ReplaceAll(line, []byte(`"tool_input"`), []byte(`"input"`)), err
			}
		}, "Round trip", "an event changes when it is written and read again"},
		"takes text for an allow": {func(d *dialect.Dialect) {
			d.ReadOutcome = func(*grapnel.Event, dialect.Output) (grapnel.Outcome, error) {
				return grapnel.Outcome{Decision: grapnel.Allow}, nil
			}
		}, "Hooks", "is an allow"},
		"speaks of nothing": {func(d *dialect.Dialect) {
			d.WriteEvent = func(*grapnel.Event) ([]byte, error) { return nil, errors.New("no") }
		}, "Hooks", "writes no event for its hooks"},
		"has a row twice":   {func(d *dialect.Dialect) { d.Events = append(d.Events, d.Events[0]) }, "Tables", "SessionStart is listed twice"},
		"promises too much": {func(d *dialect.Dialect) { d.Events[0].Can.Block = true }, "Tables", "that the Contract forbids"},
		"has a new event": {func(d *dialect.Dialect) {
			d.Events = append(d.Events, dialect.EventRow{Native: "New", Kind: grapnel.TaskBefore})
		}, "Every event", "no conversation has New"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := *dialect.ClaudeCode()
			d.Events = append([]dialect.EventRow(nil), d.Events...)
			tt.spoil(&d)
			s := &dialectSuite{Dialect: &d, talks: conversations(t, &d, talkDir)}
			for _, law := range dialectLaws {
				if law.name != tt.law {
					continue
				}
				if got := failure(t, func(t testing.TB) { law.hold(s, t) }); !strings.Contains(got, tt.want) {
					t.Errorf("%s says %.2000s, want %q", tt.law, got, tt.want)
				}
			}
		})
	}
}

// If a conversation has changed, the test fails, and its message shows the change.
func TestConversationChanged(t *testing.T) {
	t.Parallel()
	s := &dialectSuite{Dialect: dialect.ClaudeCode(), talks: conversations(t, dialect.ClaudeCode(), talkDir)}
	c := s.talks[0]
	c.outcome.Message = "something new"
	if got := failure(t, func(t testing.TB) { s.play(t, c) }); !strings.Contains(got, `"systemMessage":"something new"`) || !strings.Contains(got, c.file) {
		t.Errorf("got %s", got)
	}
}
