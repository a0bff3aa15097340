package hooktest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// If a package has this flag and it is set, the suite rewrites conversations.
var _ = flag.Bool("update", false, "rewrite the conversations of testdata")

// acme is the dialect of an invented agent. It sends tool calls before they run and the end of a
// session, and reads on stdout which call must not run.
var acme = &dialect.Dialect{
	Name: "acme",
	Events: []dialect.EventRow{
		{Native: "call", Kind: grapnel.ToolBefore, Install: true, Can: grapnel.Can{Block: true, Ask: true, Change: []grapnel.Field{grapnel.FieldInput}}},
		{Native: "end", Kind: grapnel.SessionEnd, Why: "nobody needs it"},
	},
	Tools: []dialect.ToolRow{{Native: "sh", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/line"}}}},

	ReadEvent: func(row *dialect.EventRow, top map[string]json.RawMessage, _ dialect.Input) (*grapnel.Event, error) {
		ev := &grapnel.Event{}
		// A value of another type is ignored, because no guard depends on it.
		_ = json.Unmarshal(top["session_id"], &ev.Session.ID)
		_ = json.Unmarshal(top["cwd"], &ev.Session.CWD)
		if row == nil || row.Kind != grapnel.ToolBefore {
			return ev, nil
		}
		tool := &grapnel.Tool{Class: grapnel.ClassOther, Input: top["input"]}
		if json.Unmarshal(top["tool"], &tool.Name) != nil || tool.Name == "" {
			return nil, errors.New("it does not name its tool (tool)")
		}
		if !strings.HasPrefix(string(tool.Input), "{") {
			return nil, errors.New("input is no object")
		}
		if tool.Name == "sh" {
			tool.Class, tool.Facts = grapnel.ClassShell, []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/line"}}
		}
		tool.Derive()
		ev.Tool = tool
		return ev, nil
	},

	WriteVerdict: func(row *dialect.EventRow, _ *grapnel.Event, v *grapnel.Verdict) dialect.Reply {
		answer := map[string]any{}
		switch {
		case row != nil && row.Kind != grapnel.ToolBefore:
		case v.Decision == grapnel.Block || v.Halt != "":
			answer["no"] = v.Reason() + v.Halt
		case v.Decision == grapnel.Ask:
			answer["ask"] = v.Reason()
		}
		if input := v.Changes[grapnel.FieldInput]; input != nil && answer["no"] == nil {
			answer["input"] = input
		}
		if len(answer) == 0 {
			return dialect.Reply{}
		}
		var line bytes.Buffer
		enc := json.NewEncoder(&line)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(answer); err != nil {
			return dialect.Reply{Exit: 2, Stderr: []byte(err.Error())}
		}
		return dialect.Reply{Stdout: line.Bytes()}
	},
}
