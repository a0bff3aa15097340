package dialect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// FuzzWrite: for any answer of a hook, each agent gets an empty reply or one JSON object that
// is never weaker than the Verdict. A hook with the same answer in the agent's dialect results
// in the same Outcome.
func FuzzWrite(f *testing.F) {
	fields := []grapnel.Field{
		grapnel.FieldInput, grapnel.FieldCommand, grapnel.FieldPrompt, grapnel.FieldRequest, grapnel.FieldResponse, grapnel.FieldTools,
		grapnel.FieldMode, grapnel.FieldOutput, grapnel.FieldNext, grapnel.FieldSummary, grapnel.FieldClear, grapnel.FieldAnswer,
	}
	for i := range len(dialect.ClaudeCode().Events) {
		field := i % len(fields)
		f.Add(uint8(i), uint8(i), "because \"<&", "see\u2028", "more\ncontext", "", uint8(field), []byte(newValue[fields[field]]), "permissionDecision", []byte(`"allow"`))
		f.Add(uint8(i), uint8(i+3), "", "", "", "enough", uint8(field), []byte(`{"":[null,1e400]}`), "watchPaths", []byte(`["a"]`))
	}
	f.Fuzz(func(t *testing.T, event, decision uint8, reason, message, context, halt string, field uint8, value []byte, native string, nativeValue []byte) {
		for _, d := range agents {
			row := &d.Events[int(event)%len(d.Events)]
			out := grapnel.Outcome{Decision: grapnel.Decision(decision % 4), Reason: reason, Message: message, Context: []string{context}, Halt: halt}
			if len(value) > 0 {
				out.Set = map[grapnel.Field]json.RawMessage{fields[int(field)%len(fields)]: value}
			}
			if json.Valid(nativeValue) {
				out.Native = map[string]json.RawMessage{d.Name + "." + native: nativeValue}
			}
			ev, v, reply, e := answered(t, d, row.Native, out)
			about := func() string {
				return fmt.Sprintf("%s %s: %+v\nverdict %+v\nreply %s %s exit %d\neffect %+v", d.Name, row.Native, out, v, reply.Stdout, reply.Stderr, reply.Exit, e)
			}
			if !emptyOrObject(reply) {
				t.Fatalf("not one JSON object: %s", about())
			}
			if e.Allowed && (v.Decision != grapnel.Allow || !row.Can.Allow) {
				t.Fatalf("allowed: %s", about())
			}
			if row.Can.Block && v.Decision == grapnel.Block && !e.Blocked {
				t.Fatalf("not blocked: %s", about())
			}
			if row.Can.Halt && v.Halt != "" && !e.Ended {
				t.Fatalf("not ended: %s", about())
			}
			again, err := d.ReadOutcome(ev, dialect.Output{Exit: reply.Exit, Stdout: reply.Stdout, Stderr: reply.Stderr})
			if err != nil {
				t.Fatalf("read as an answer: %v\n%s", err, about())
			}
			wordless := []string{"MessageDisplay", "PostToolUseFailure"} // a block is another text there
			if row.Can.Block && v.Decision == grapnel.Block && again.Decision != grapnel.Block && !slices.Contains(wordless, row.Native) {
				t.Fatalf("read as %v: %s", again.Decision, about())
			}
			if again.Decision == grapnel.Allow && v.Decision != grapnel.Allow {
				t.Fatalf("read as an allow: %s", about())
			}
		}
	})
}

// FuzzWriteEvent: an event of one agent is written for hooks of every dialect or refused, the
// result can be read, and a hook with an empty answer changes nothing.
func FuzzWriteEvent(f *testing.F) {
	for _, d := range agents {
		for i := range d.Events {
			f.Add(sample(d, d.Events[i].Native))
		}
		for _, ev := range recorded(f, d) {
			f.Add([]byte(ev.Native))
		}
	}
	f.Add([]byte(`{"hook_event_name":"BeforeTool","tool_name":"glob","tool_input":"{\"dir_path\":\"a\",\"dir_path\":\"b\"}","tool_input":null}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, from := range agents {
			ev, err := from.Read(dialect.Input{Payload: payload})
			if err != nil {
				continue
			}
			for _, to := range slices.Concat(dialect.All(), dialect.HookOnly()) {
				if to.WriteEvent == nil {
					continue
				}
				line, err := to.WriteEvent(ev)
				if err != nil {
					continue
				}
				if to.ReadEvent != nil {
					again, err := to.Read(dialect.Input{Payload: line})
					if err != nil {
						t.Fatalf("%s of %s is written for %s as %q, which cannot be read: %v", payload, from.Name, to.Name, line, err)
					}
					if (ev.Tool == nil) != (again.Tool == nil) {
						t.Fatalf("%s of %s is written for %s as %q: the tool is lost", payload, from.Name, to.Name, line)
					}
				}
				if to.HookEnv != nil {
					for _, v := range to.HookEnv(ev) {
						if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
							t.Fatalf("%s: the variable %q of %s has no name", to.Name, v, payload)
						}
					}
				}
				out, err := to.ReadOutcome(ev, dialect.Output{})
				if err != nil || out.Decision != grapnel.None || len(out.Set)+len(out.Patch) > 0 {
					t.Fatalf("%s: nothing, answered to %s, is %+v, %v", to.Name, payload, out, err)
				}
			}
		}
	})
}

// FuzzPlain: an event and an answer in the plain dialect are refused or are the same when read
// back, and a block stays a block.
func FuzzPlain(f *testing.F) {
	for _, event := range []string{
		`{"grapnel":1,"kind":"tool.before","tool":{"name":"bash","input":{"command":"ls"},"facts":[{"field":"tool.command","at":"/command"}]}}`,
		`{"kind":"native.codex.Interrupt","contract":{"blocks":"action","changes":[{"field":"prompt"}]},"native":{"a":1.0},"can":{"block":true}}`,
		`{"kind":"toolbatch.after","calls":[{"name":"a","output":[1]}],"time":"2026-11-20T20:10:06.168Z"}`,
		`{"kind":"elicitation.before","elicitation":{"schema":{},"answer":{"action":"accept"}},"verdict":{"decision":"block"}}`,
		`{"grapnel":2,"kind":"session.end"}`, `{"kind":"compact.after","compact":{"summary":"s"}}`,
	} {
		f.Add([]byte(event), []byte(`{"decision":"block","reason":"r","set":{"tool.input":{"a":1}},"patch":{"tool.input":null},"halt":"h","native":{"plain.x":1}}`), []byte("err"), 0)
		f.Add([]byte(event), []byte("text"), []byte(""), 2)
	}
	f.Fuzz(func(t *testing.T, event, stdout, stderr []byte, exit int) {
		ev, err := dialect.Plain().Read(dialect.Input{Payload: event})
		if err != nil {
			return
		}
		line, err := dialect.Plain().WriteEvent(ev)
		if err != nil {
			t.Fatalf("%s cannot be written: %v", event, err)
		}
		again, err := dialect.Plain().Read(dialect.Input{Payload: line})
		if err != nil {
			t.Fatalf("%s is written as %s, which cannot be read: %v", event, line, err)
		}
		if second, err := dialect.Plain().WriteEvent(again); err != nil || !bytes.Equal(line, second) {
			t.Fatalf("%s is written as %s, read, and written as %s, %v", event, line, second, err)
		}
		out, err := dialect.Plain().ReadOutcome(ev, dialect.Output{Exit: exit, Stdout: stdout, Stderr: stderr})
		if exit == 2 && out.Decision != grapnel.Block || exit != 0 && exit != 2 && err == nil {
			t.Fatalf("exit code %d with %q is %+v, %v", exit, stdout, out, err)
		}
		v := engineOf(t, out).Fire(t.Context(), ev)
		reply := dialect.Plain().Write(ev, &v, "")
		if !emptyOrObject(reply) || reply.Exit != 0 {
			t.Fatalf("%+v is written as %q exit %d", v, reply.Stdout, reply.Exit)
		}
		back, err := dialect.Plain().ReadOutcome(ev, dialect.Output{Stdout: reply.Stdout})
		if err != nil || back.Decision != v.Decision || back.Halt != v.Halt {
			t.Fatalf("%s comes back as %+v, %v", reply.Stdout, back, err)
		}
	})
}

// A guard must not see another call than the agent runs. Keys are case-sensitive, and the last
// of equal keys is used, in the plain dialect too.
func TestPlainKeysAreExact(t *testing.T) {
	t.Parallel()
	const first = `{"name":"a","input":{"command": "ls"},"paths":[{"path":"p","Path":"q"}],"failed":true}`
	for payload, want := range map[string]string{
		`{"kind":"tool.before","Kind":"session.end","tool":` + first + `,"TOOL":{"name":"b"}}`:            `tool.before a {"command": "ls"} [{p }] true`,
		`{"kind":"session.end","kind":"tool.before","tool":` + first + `,"tool":{"name":"b","Name":"c"}}`: `tool.before b  [] false`,
		`{"kind":"tool.before","tool":{"name":"a","NAME":"b","Input":{},"paths":null}}`:                   `tool.before a  [] false`,
	} {
		ev, err := dialect.Plain().Read(dialect.Input{Payload: []byte(payload)})
		if err != nil {
			t.Errorf("Read(%s): %v", payload, err)
			continue
		}
		if got := fmt.Sprint(ev.Kind, " ", ev.Tool.Name, " ", string(ev.Tool.Input), " ", ev.Tool.Paths, " ", ev.Tool.Failed); got != want {
			t.Errorf("Read(%s) = %s, want %s", payload, got, want)
		}
	}
	out, err := dialect.Plain().ReadOutcome(&grapnel.Event{Kind: grapnel.ToolBefore}, dialect.Output{Stdout: []byte(`{"decision":"ask","Decision":"none","decision":"block"}`)})
	if err != nil || out.Decision != grapnel.Block {
		t.Errorf("ReadOutcome = %+v, %v, want a block", out, err)
	}
}
