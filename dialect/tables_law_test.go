package dialect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// A call that is not blocked runs with the judged input. This also holds for agents that merge
// a new input into the old one or apply only some members. Agents that apply no change block
// the call. No answer is an allow or weaker than a block.
func TestTablesWriteNothingWeaker(t *testing.T) {
	t.Parallel()
	for _, d := range []*dialect.Dialect{
		dialect.Codex(), dialect.QwenCode(), dialect.FactoryDroid(), dialect.Copilot(), dialect.Cursor(), dialect.Crush(), dialect.Cline(), dialect.OpenClaw(), dialect.OpenCode(),
	} {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			var events, calls []recording
			for _, r := range recordings(t, d) {
				if events = append(events, r); r.row.Kind == grapnel.ToolBefore || r.row.Kind == grapnel.PermissionBefore {
					calls = append(calls, r)
				}
			}
			rapid.Check(t, func(t *rapid.T) {
				r := rapid.SampledFrom(calls).Draw(t, "call")
				if rapid.Bool().Draw(t, "or") {
					r = rapid.SampledFrom(events).Draw(t, "event")
				}
				ev, err := d.Read(r.in)
				if err != nil {
					t.Fatal(err)
				}
				out := drawOutcome(t, d, ev)
				hook := grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return out, nil })
				engine, err := grapnel.New([]grapnel.Spec{{Name: "hook", Hook: hook}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				v := engine.Fire(t.Context(), ev)
				reply := d.Write(ev, &v, r.in.Event)
				heard, err := d.ReadOutcome(ev, dialect.Output{Exit: reply.Exit, Stdout: reply.Stdout, Stderr: reply.Stderr})
				about := fmt.Sprintf("%s: %+v\nverdict %+v\nreply %s %s exit %d\nheard %+v, %v", r.name, out, v, reply.Stdout, reply.Stderr, reply.Exit, heard, err)
				if err != nil {
					t.Fatalf("void: %s", about)
				}
				if d.Name == dialect.Codex().Name {
					codexTakes(t, ev, reply, about)
				}
				if heard.Decision == grapnel.Allow && (v.Decision != grapnel.Allow || !ev.Can().Allow) {
					t.Fatalf("allowed: %s", about)
				}
				if !ev.Contract().Permit {
					return
				}
				if v.Decision == grapnel.Block && ev.Can().Block && heard.Decision != grapnel.Block {
					t.Fatalf("not blocked: %s", about)
				}
				if heard.Decision == grapnel.Block || !ev.Can().Block {
					return
				}
				if runs := inputThatRuns(ev.Tool.Input, heard.Set[grapnel.FieldInput], takes(d, ev)); !reflect.DeepEqual(runs, decoded(v.Event.Tool.Input)) {
					t.Fatalf("runs with %v: %s", runs, about)
				}
			})
		})
	}
}

// drawOutcome draws any outcome of a hook.
func drawOutcome(t *rapid.T, d *dialect.Dialect, ev *grapnel.Event) grapnel.Outcome {
	texts := rapid.SampledFrom([]string{"", " ", "because \"<&", "a\nb", "\u2028é"})
	out := grapnel.Outcome{
		Decision: rapid.SampledFrom([]grapnel.Decision{grapnel.None, grapnel.None, grapnel.Allow, grapnel.Ask, grapnel.Block}).Draw(t, "decision"),
		Reason:   texts.Draw(t, "reason"), Message: texts.Draw(t, "message"), Halt: rapid.SampledFrom([]string{"", "", "enough"}).Draw(t, "halt"),
	}
	if contract, ok := grapnel.ContractOf(ev.Kind); ok && contract.Context && rapid.Bool().Draw(t, "adds") {
		out.Context = []string{texts.Draw(t, "context")}
	}
	if rapid.Bool().Draw(t, "native") {
		out.Native = map[string]json.RawMessage{}
		for _, name := range []string{"permissionDecision", "decision", "permission", "hookSpecificOutput.permissionDecision", "metaToUse", "env"} {
			out.Native[d.Name+"."+name] = json.RawMessage(`"allow"`)
		}
	}
	if ev.Tool == nil || !rapid.Bool().Draw(t, "changes") {
		return out
	}
	input, _ := decoded(ev.Tool.Input).(object)
	input = maps.Clone(input)
	if input == nil {
		input = object{}
	}
	for range rapid.IntRange(1, 2).Draw(t, "times") {
		name := rapid.SampledFrom(append(slices.Sorted(maps.Keys(input)), "new", "a.b", "command")).Draw(t, "member")
		switch rapid.SampledFrom([]string{"set", "remove", "null"}).Draw(t, "change") {
		case "set":
			input[name] = rapid.SampledFrom([]any{"true", 7.0, object{"x": "y"}}).Draw(t, "to")
		case "remove":
			delete(input, name)
		case "null":
			input[name] = nil
		}
	}
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	out.Set = map[grapnel.Field]json.RawMessage{grapnel.FieldInput: raw}
	return out
}

// takes returns how an agent applies a new input, from observations and not from its tables.
func takes(d *dialect.Dialect, ev *grapnel.Event) grapnel.Can {
	switch name := ev.Tool.Name; {
	case d.Name == dialect.FactoryDroid().Name, d.Name == dialect.Crush().Name, d.Name == dialect.Cursor().Name && strings.HasPrefix(name, "MCP:"):
		return grapnel.Can{Merges: true}
	case d.Name == dialect.Codex().Name && (name == "Bash" || name == "apply_patch"):
		return grapnel.Can{Members: []string{"command"}}
	case d.Name == dialect.Cursor().Name && name == "Shell":
		return grapnel.Can{Members: []string{"command", "cwd", "timeout"}}
	case d.Name == dialect.Cursor().Name && (name == "Write" || name == "Read" || name == "Delete"):
		return grapnel.Can{Members: []string{"file_path"}}
	case d.Name == dialect.Cursor().Name:
		return grapnel.Can{Members: []string{}}
	}
	return *ev.Can()
}

// inputThatRuns returns the input that the agent uses after a new input.
func inputThatRuns(was, input json.RawMessage, can grapnel.Can) any {
	if input == nil {
		return decoded(was)
	}
	if !can.Merges && can.Members == nil {
		return decoded(input)
	}
	runs, _ := decoded(was).(object)
	if runs = maps.Clone(runs); runs == nil {
		runs = object{}
	}
	now, _ := decoded(input).(object)
	for name, value := range now {
		if can.Members != nil && !slices.Contains(can.Members, name) {
			continue
		}
		if strings.Contains(name, ".") {
			name = "taken for a path: " + name
		}
		runs[name] = value
	}
	return runs
}

func decoded(raw json.RawMessage) any {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}

// codexTakes checks a reply against the schemas of Codex 0.169.0, for which one unknown member
// makes the whole reply void.
func codexTakes(t *rapid.T, ev *grapnel.Event, reply dialect.Reply, about string) {
	if len(reply.Stdout) == 0 {
		return
	}
	common := []string{"continue", "stopReason", "systemMessage"}
	top, specific := common, []string(nil)
	switch ev.Kind {
	case grapnel.ToolBefore:
		top, specific = []string{"systemMessage", "hookSpecificOutput"}, []string{"hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"}
	case grapnel.PermissionBefore:
		top, specific = []string{"systemMessage", "hookSpecificOutput"}, []string{"hookEventName", "decision"}
	case grapnel.SessionStart, grapnel.SubagentStart:
		top, specific = append(common, "hookSpecificOutput"), []string{"hookEventName", "additionalContext"}
	case grapnel.PromptBefore, grapnel.ToolAfter:
		top, specific = append(common, "decision", "reason", "hookSpecificOutput"), []string{"hookEventName", "additionalContext"}
	case grapnel.AgentAfter, grapnel.SubagentAfter:
		top = append(common, "decision", "reason")
	case grapnel.SessionEnd, grapnel.ModelBefore, grapnel.ModelAfter:
		top = nil
	default: // only the common members
	}
	answer, ok := decoded(reply.Stdout).(object)
	s, nested := answer["hookSpecificOutput"].(object)
	for name := range answer {
		ok = ok && slices.Contains(top, name)
	}
	for name := range s {
		ok = ok && slices.Contains(specific, name)
	}
	if nested {
		ok = ok && s["hookEventName"] != nil
	}
	blank := func(v any) bool { text, _ := v.(string); return strings.TrimSpace(text) == "" }
	switch {
	case !ok,
		s["permissionDecision"] == "deny" && blank(s["permissionDecisionReason"]), s["permissionDecision"] == "ask",
		(s["permissionDecision"] == "allow") != (s["updatedInput"] != nil), answer["decision"] == "block" && blank(answer["reason"]):
		t.Fatalf("Codex takes it for nothing: %s", about)
	}
}
