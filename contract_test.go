package grapnel_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/allruns"
)

// contractRows repeats the Contract of each event, so that a change of a Contract must be made in
// two places.
var contractRows = []struct {
	kind    grapnel.Kind
	blocks  string // "", action, stop or feedback
	changes string // fields, with their merge rule unless it is chain
	failure string // open or on_error
	stdout  string
}{
	{"gateway.start", "", "", "open", ""},
	{"gateway.stop", "", "", "open", ""},
	{"session.start", "", "context", "open", "context"},
	{"session.end", "", "", "open", ""},
	{"prompt.before", "action", "context prompt", "on_error", "context"},
	{"agent.before", "", "context system model", "on_error", "context"},
	{"agent.after", "stop", "context memory.clear/or", "open", ""},
	{"agent.failed", "", "", "open", ""},
	{"model.before", "action", "request response", "on_error", ""},
	{"model.after", "feedback", "response", "on_error", ""},
	{"toolset.before", "", "tools/intersect mode/strictest", "on_error", ""},
	{"tool.before", "action", "context tool.input tool.output", "on_error", ""},
	{"permission.before", "action", "tool.input", "on_error", ""},
	{"permission.denied", "", "", "open", ""},
	{"tool.after", "feedback", "context tool.output tool.next", "on_error", ""},
	{"tool.failed", "feedback", "context tool.output", "on_error", ""},
	{"toolbatch.after", "action", "context", "on_error", ""},
	{"transcript.before", "action", "message", "on_error", ""},
	{"response.before", "action", "response", "on_error", ""},
	{"message.received", "action", "", "on_error", ""},
	{"message.before", "action", "content", "on_error", ""},
	{"message.sent", "", "", "open", ""},
	{"compact.before", "action", "context", "open", ""},
	{"compact.after", "", "summary/join", "open", "summary"},
	{"subagent.start", "action", "context", "open", "context"},
	{"subagent.after", "stop", "context", "open", ""},
	{"task.before", "action", "", "on_error", ""},
	{"task.after", "action", "", "on_error", ""},
	{"notification.sent", "", "", "open", ""},
	{"config.before", "action", "", "on_error", ""},
	{"elicitation.before", "action", "answer", "on_error", ""},
}

func TestContractsMatchPermissions(t *testing.T) {
	t.Parallel()
	if got, want := len(grapnel.Contracts()), len(contractRows); got != want {
		t.Errorf("%d Contracts, want %d", got, want)
	}
	for _, row := range contractRows {
		c, ok := grapnel.ContractOf(row.kind)
		if !ok {
			t.Errorf("%s has no Contract", row.kind)
			continue
		}
		var changes []string
		if c.Context {
			changes = append(changes, "context")
		}
		for _, ch := range c.Changes {
			name := string(ch.Field)
			if ch.Merge != "" {
				name += "/" + ch.Merge
			}
			changes = append(changes, name)
		}
		failure := "on_error"
		if c.FailOpen {
			failure = "open"
		}
		got := [...]string{string(c.Blocks), strings.Join(changes, " "), failure, c.Stdout}
		if want := [...]string{row.blocks, row.changes, row.failure, row.stdout}; got != want {
			t.Errorf("%s: blocks, changes, failure, stdout = %q, want %q", row.kind, got, want)
		}
		if permit := row.kind == grapnel.ToolBefore || row.kind == grapnel.PermissionBefore; c.Permit != permit {
			t.Errorf("%s: Permit = %v, want %v", row.kind, c.Permit, permit)
		}
		if stops := c.Blocks == grapnel.BlockingStop; stops != (c.MaxStops == grapnel.MaxStops) {
			t.Errorf("%s: MaxStops = %d beside Blocks %q", row.kind, c.MaxStops, c.Blocks)
		}
	}
}

// event returns an event of the given kind that has every part.
func event(kind grapnel.Kind) *grapnel.Event {
	ev := toolEvent("ls")
	ev.Kind = kind
	ev.Prompt = &grapnel.Prompt{Text: "p", System: "s"}
	ev.Message = &grapnel.Message{Content: "c", Raw: json.RawMessage(`{}`)}
	ev.Model = &grapnel.Model{Request: json.RawMessage(`{}`), Response: json.RawMessage(`{}`)}
	return ev
}

// everyField has a value for each field that differs from the one in event.
var everyField = map[grapnel.Field]string{
	grapnel.FieldPrompt: `"P"`, grapnel.FieldSystem: `"S"`, grapnel.FieldModel: `"m"`, grapnel.FieldRequest: `{"r":1}`,
	grapnel.FieldResponse: `{"r":2}`, grapnel.FieldTools: `["bash"]`, grapnel.FieldMode: `"none"`,
	grapnel.FieldInput: `{"command":"pwd"}`, grapnel.FieldOutput: `"out"`, grapnel.FieldNext: `{"name":"bash"}`,
	grapnel.FieldMessage: `{"m":1}`, grapnel.FieldText: `"C"`, grapnel.FieldSummary: `"sum"`, grapnel.FieldClear: `true`,
	grapnel.FieldAnswer: `{"action":"decline"}`, grapnel.FieldCommand: `"pwd"`,
}

// TestContractsHold checks that all parts of an answer that the Contract does not permit are
// dropped, recorded and treated as an error of the hook.
func TestContractsHold(t *testing.T) {
	t.Parallel()
	illegal := func(t *testing.T, what string, rec *grapnel.Record, want bool) {
		t.Helper()
		if got := run(t, rec, "h").Error != ""; got != want {
			t.Errorf("%s: counts as an error: %v, want %v (%+v)", what, got, want, rec.Hooks)
		}
	}
	for _, row := range contractRows {
		t.Run(string(row.kind), func(t *testing.T) {
			t.Parallel()
			c, _ := grapnel.ContractOf(row.kind)

			v, rec := fire(t, event(row.kind), step("h", decides(grapnel.Block, "no")))
			if got, want := v.Decision == grapnel.Block, row.blocks != ""; got != want {
				t.Errorf("Block: blocked = %v, want %v", got, want)
			}
			illegal(t, "Block", rec, row.blocks == "")

			v, rec = fire(t, event(row.kind), step("h", decides(grapnel.Ask, "sure?")))
			if got, want := v.Decision == grapnel.Ask, row.blocks == "action"; got != want {
				t.Errorf("Ask: asked = %v, want %v", got, want)
			}
			illegal(t, "Ask", rec, row.blocks != "action")

			v, rec = fire(t, event(row.kind), step("h", decides(grapnel.Allow, "")))
			if got, want := v.Decision == grapnel.Allow, c.Permit; got != want {
				t.Errorf("Allow: allowed = %v, want %v", got, want)
			}
			illegal(t, "Allow", rec, false)

			v, rec = fire(t, event(row.kind), step("h", returns(grapnel.Outcome{Context: []string{"more"}})))
			if got := len(v.Context) > 0; got != c.Context {
				t.Errorf("Context: %v, want %v", got, c.Context)
			}
			illegal(t, "Context", rec, !c.Context)

			for field, value := range everyField {
				whole := field
				if field == grapnel.FieldCommand {
					whole = grapnel.FieldInput
				}
				v, rec = fire(t, event(row.kind), step("h", returns(set(field, value))))
				_, changed := v.Changes[whole]
				want := slices.ContainsFunc(c.Changes, func(ch grapnel.Change) bool { return ch.Field == whole })
				if changed != want || c.Permits(field) != want {
					t.Errorf("%s: changed = %v, Permits = %v, want %v", field, changed, c.Permits(field), want)
				}
				illegal(t, string(field), rec, !want)
			}

			for _, onError := range []grapnel.OnError{grapnel.OnErrorDefault, grapnel.OnErrorOpen, grapnel.OnErrorClosed, grapnel.OnErrorAsk} {
				spec := step("h", fails(errors.New("broken")))
				spec.OnError = onError
				v, rec = fire(t, event(row.kind), spec)
				want := grapnel.None
				if row.failure == "on_error" && row.blocks != "" {
					switch onError {
					case grapnel.OnErrorDefault:
						if row.blocks == "action" {
							want = grapnel.Block
						}
					case grapnel.OnErrorClosed:
						want = grapnel.Block
					case grapnel.OnErrorAsk: // no person can approve an action that has already happened
						want = grapnel.Block
						if row.blocks == "action" {
							want = grapnel.Ask
						}
					case grapnel.OnErrorOpen:
					}
				}
				if v.Decision != want {
					t.Errorf("a failure with on_error %v is %v, want %v", onError, v.Decision, want)
				}
				if r := run(t, rec, "h"); r.FailOpen != (want == grapnel.None) || r.Cause != grapnel.CauseError {
					t.Errorf("a failure with on_error %v: HookRun %+v", onError, r)
				}
			}
		})
	}
}

// TestNativeContract checks that a native event has the Contract from its dialect, and is
// observed without one.
func TestNativeContract(t *testing.T) {
	t.Parallel()
	if c, ok := grapnel.ContractOf("native.agent.Thing"); ok {
		t.Errorf("ContractOf a native kind = %+v, want none", c)
	}
	ev := event("native.agent.Thing")
	v, rec := fire(t, ev, step("h", decides(grapnel.Block, "no")))
	if v.Decision != grapnel.None || run(t, rec, "h").Error == "" {
		t.Errorf("without a Contract: decision %v, run %+v, want none and an error", v.Decision, run(t, rec, "h"))
	}
	ev.Terms = &grapnel.Terms{Contract: &grapnel.Contract{Kind: ev.Kind, Blocks: grapnel.BlockingAction, Changes: []grapnel.Change{{Field: grapnel.FieldMode}}}}
	if v, _ := fire(t, ev, step("h", decides(grapnel.Block, "no"))); v.Decision != grapnel.Block {
		t.Errorf("with a Contract: decision %v, want block", v.Decision)
	}
	if v, _ := fire(t, ev, step("h", returns(set(grapnel.FieldMode, `"none"`)))); string(v.Changes[grapnel.FieldMode]) != `"none"` {
		t.Errorf("with a Contract: changes %v, want mode", v.Changes)
	}
	var read grapnel.Event // an event that is read from JSON does not bring its own rules
	if err := json.Unmarshal([]byte(`{"kind":"native.agent.Thing","contract":{"blocks":"action"},"can":{"block":true},"verdict":{"decision":"allow"}}`), &read); err != nil {
		t.Fatal(err)
	}
	if read.Terms != nil || read.Verdict() != nil || read.Contract().Blocks != grapnel.BlockingNothing || read.Can() != nil {
		t.Errorf("an event from JSON has %+v and %+v", read.Terms, read.Verdict())
	}
	// An event's own Contract does not weaken a Contract in the table.
	ours := event(grapnel.ToolBefore)
	ours.Terms = &grapnel.Terms{Contract: &grapnel.Contract{Kind: grapnel.ToolBefore}}
	if v, _ := fire(t, ours, step("h", decides(grapnel.Block, "no"))); v.Decision != grapnel.Block {
		t.Errorf("tool.before with a Contract of its own: decision %v, want block", v.Decision)
	}
}

// TestUnknownEventIsRefused checks that an event of unknown kind is blocked and recorded, and that
// hooks do not get it.
func TestUnknownEventIsRefused(t *testing.T) {
	t.Parallel()
	for kind, want := range map[grapnel.Kind]string{
		"tool.befor":      `unknown event "tool.befor": use a Kind of grapnel.Contracts, or native.<agent>.<Name>`,
		"weather.changed": `unknown event "weather.changed": use a Kind of grapnel.Contracts, or native.<agent>.<Name>`,
		"":                "the event has no Kind: use a Kind of grapnel.Contracts, or native.<agent>.<Name>",
	} {
		v, rec := fire(t, event(kind), step("h", returns(grapnel.Outcome{Decision: grapnel.Allow})))
		if v.Decision != grapnel.Block || v.Reason() != want || v.Reasons[0].Cause != grapnel.CauseError {
			t.Errorf("%q: %+v, want a block with %s", kind, v, want)
		}
		if rec.Event != kind || rec.Decision != grapnel.Block || rec.Error != want || rec.ID == "" || len(rec.Hooks) != 0 {
			t.Errorf("%q: Record %+v", kind, rec)
		}
		e := newEngine(t, nil)
		all, runs := allruns.Fire(t.Context(), e, event(kind))
		for run := range runs {
			t.Errorf("%q: run %+v", kind, run)
		}
		if without := e.Fire(t.Context(), event(kind)); all.Decision != grapnel.Block || without.Decision != grapnel.Block {
			t.Errorf("%q without hooks: %v and %v", kind, all.Decision, without.Decision)
		}
	}
}
