package dialect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// A recording is the input that an agent wrote to a hook: one file of recordings.txtar, named
// EVENT.json or EVENT-which.json.
type recording struct {
	name string
	row  *dialect.EventRow
	in   dialect.Input
}

// recordings returns the recordings of an agent. If the payload does not name the event, the
// command line does.
func recordings(t testing.TB, d *dialect.Dialect) []recording {
	t.Helper()
	ar, err := txtar.ParseFile(filepath.Join("testdata", d.Name, "recordings.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	var all []recording
	for _, f := range ar.Files {
		r := recording{name: f.Name, in: dialect.Input{Payload: bytes.TrimSpace(f.Data)}}
		for i := range d.Events {
			if native := d.Events[i].Native; f.Name == native+".json" || strings.HasPrefix(f.Name, native+"-") {
				if r.row == nil || len(native) > len(r.row.Native) {
					r.row = &d.Events[i]
				}
			}
		}
		switch named := namedBy(t, d, f.Data); {
		case r.row == nil:
			t.Errorf("%s: %s begins with the name of no event", d.Name, f.Name)
			continue
		case named == "":
			r.in.Event = r.row.Native
		case d.Row(named) != r.row:
			t.Errorf("%s: %s holds a %s", d.Name, f.Name, named)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		t.Errorf("%s: no recordings", d.Name)
	}
	return all
}

// namedBy returns the name of the event in a payload.
func namedBy(t testing.TB, d *dialect.Dialect, payload []byte) (name string) {
	t.Helper()
	var top map[string]json.RawMessage
	if err := json.Unmarshal(payload, &top); err != nil {
		t.Fatalf("%s: %s: %v", d.Name, payload, err)
	}
	at := d.NamedAt
	if at == "" {
		at = "hook_event_name"
	}
	_ = json.Unmarshal(top[at], &name) // absent, or not a string
	return name
}

// forEachRecorded runs a test for every agent that has this file.
func forEachRecorded(t *testing.T, file string, f func(t *testing.T, d *dialect.Dialect)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*", file))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s: %v", file, err)
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, ok := dialect.FindAgent(name)
			if !ok || d.Name != name {
				t.Fatalf("%s: no agent has this name", file)
			}
			f(t, d)
		})
	}
}

// Recorded payloads of agents are read, answered, and written again for a hook of the same
// agent.
func TestRecordings(t *testing.T) {
	t.Parallel()
	forEachRecorded(t, "recordings.txtar", func(t *testing.T, d *dialect.Dialect) {
		for _, r := range recordings(t, d) {
			ev, err := d.Read(r.in)
			if err != nil {
				t.Errorf("%s: %v", r.name, err)
				continue
			}
			own := grapnel.NativePrefix + d.Name + "." // a row's Adapt may distinguish payloads
			if ev.Kind != r.row.Kind && (r.row.Failed == "" || ev.Kind != r.row.Failed) && !strings.HasPrefix(string(ev.Kind), own) {
				t.Errorf("%s is %s, want %s", r.name, ev.Kind, r.row.Kind)
			}
			var top map[string]json.RawMessage
			if err := json.Unmarshal(r.in.Payload, &top); err != nil {
				t.Fatal(err)
			}
			for _, other := range dialect.All() {
				if other.Name != d.Name && other.Speaks != nil && other.Speaks(top) {
					t.Errorf("%s: %s takes it for its own", r.name, other.Name)
				}
			}

			none := dialect.Answer(t.Context(), engineWithout(t), d, r.in)
			nothing := dialect.Reply{Silent: none.Silent}
			if d.Void != "" {
				nothing.Stdout = []byte(d.Void + "\n")
			}
			if !reflect.DeepEqual(none, nothing) {
				t.Errorf("%s: no opinion is written as %q %q exit %d, want %q", r.name, none.Stdout, none.Stderr, none.Exit, nothing.Stdout)
			}
			if d.WriteEvent != nil {
				line, err := d.WriteEvent(ev)
				if want := compact(t, r.in.Payload); err != nil || string(line) != want {
					t.Errorf("%s comes back as %s, %v\nwant %s", r.name, line, err, want)
				}
			}
			answersKept(t, d, r, ev)
		}
	})
}

// answersKept writes every decision as an answer to the event, and reads the answer back as a
// hook's answer.
func answersKept(t *testing.T, d *dialect.Dialect, r recording, ev *grapnel.Event) {
	t.Helper()
	if d.ReadOutcome == nil {
		return
	}
	for decision := grapnel.None; decision <= grapnel.Block; decision++ {
		for _, halt := range []string{"", "enough"} {
			v := engineOf(t, grapnel.Outcome{Decision: decision, Reason: "because", Halt: halt}).Fire(t.Context(), ev)
			reply := d.Write(ev, &v, r.in.Event)
			out, err := d.ReadOutcome(ev, dialect.Output{Exit: reply.Exit, Stdout: reply.Stdout, Stderr: reply.Stderr})
			about := fmt.Sprintf("%s: %v with halt %q is written as %q %q exit %d, and read as %+v, %v", r.name, decision, halt, reply.Stdout, reply.Stderr, reply.Exit, out, err)
			want := v.Decision
			switch want {
			case grapnel.Block:
				if !ev.Can().Block || ev.Can().Halt && v.Halt != "" && ev.Contract().Blocks != grapnel.BlockingAction {
					want = out.Decision // the event supports no block, or ends the turn
				} else if !ev.Contract().Permit && strings.Contains(strings.Join(out.Context, "\n"), v.Reason()) {
					want = out.Decision // the agent does not support it, and gets the reason as context
				}
			case grapnel.Ask:
				if !ev.Can().Ask || ev.Kind == grapnel.PermissionBefore {
					want = grapnel.None // the agent asks by default
				}
			case grapnel.Allow:
				if !ev.Can().Allow {
					want = grapnel.None
				}
			case grapnel.None:
			}
			if err != nil || out.Decision != want && (halt == "" || out.Decision < want) {
				t.Errorf("%s, want %v", about, want)
			}
			if (out.Halt != "") != (v.Halt != "" && ev.Can().Halt) {
				t.Errorf("%s, want halt %q", about, v.Halt)
			}
		}
	}
}

func compact(t testing.TB, raw []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

// answers is answers.json: the observed effects of hooks' answers in an agent.
type answers struct {
	Effects map[string]string
	Cases   []struct {
		Event          string
		Exit           int
		Stdout, Stderr string
		Effect         string
	}
}

// intents is intents.json: the meaning of the effects in answers.json.
type intents struct {
	// Input is the tool input in the cases that change it.
	Input json.RawMessage

	// Effects maps none, block, ask, allow, halt, context, message and change to the effects
	// that they mean. Keys of the form EVENT INTENT are for events with another meaning.
	Effects map[string][]string

	// Unseen lists answers without a case, as EVENT INTENT or * INTENT, each with a reason.
	Unseen map[string]string
}

func (in *intents) of(native, intent string) []string {
	if effects, ok := in.Effects[native+" "+intent]; ok {
		return effects
	}
	return in.Effects[intent]
}

// mark is in all texts of the answers that are compared with observed ones.
const mark = "SAID"

// TestAnswersWereSeen compares each answer to each event with answers that have an observed
// effect: the same members with the same words, and other texts. The effect must be the one
// that Grapnel intends. Answers that were not observed are listed in intents.json.
func TestAnswersWereSeen(t *testing.T) {
	t.Parallel()
	forEachRecorded(t, "answers.json", func(t *testing.T, d *dialect.Dialect) {
		var seen answers
		var means intents
		for name, to := range map[string]any{"answers.json": &seen, "intents.json": &means} {
			data, err := os.ReadFile(filepath.Join("testdata", d.Name, name))
			if err == nil {
				err = json.Unmarshal(data, to)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for intent, effects := range means.Effects {
			for _, effect := range effects {
				if seen.Effects[effect] == "" {
					t.Errorf("%s means the effect %s, which answers.json does not explain", intent, effect)
				}
				if intent == "block" && (slices.Contains(means.Effects["none"], effect) || slices.Contains(means.Effects["allow"], effect)) {
					t.Errorf("%s is the effect of a block, and of none", effect)
				}
			}
		}

		compared, stale, missing := 0, maps.Clone(means.Unseen), map[string]bool{}
		payloads := samples(t, d)
		for i := range d.Events {
			row := &d.Events[i]
			for _, outcome := range sampleOutcomes(row, means.Input) {
				ev, err := d.Read(payloads[row.Native])
				if err != nil {
					t.Fatalf("%s: %v", row.Native, err)
				}
				if ev.Tool != nil {
					ev.Tool.Input = means.Input
				}
				v := engineOf(t, outcome).Fire(t.Context(), ev)
				intent := intentOf(ev, &v)
				reply := d.Write(ev, &v, row.Native)
				key := row.Native + " " + intent
				nothing := string(reply.Stdout) == d.Void+"\n" || len(reply.Stdout) == 0
				found := intent == "none" && nothing && len(reply.Stderr)+reply.Exit == 0 // see TestRecordings
				for _, c := range seen.Cases {
					if c.Event != row.Native && (row.Wire == "" || c.Event != row.Wire) ||
						c.Exit != reply.Exit || !sameForm(reply.Stdout, c.Stdout) || !sameForm(reply.Stderr, c.Stderr) {
						continue
					}
					found = true
					compared++
					if !slices.Contains(means.of(row.Native, intent), c.Effect) {
						t.Errorf("%s is written as %q %q exit %d; such an answer was seen to do: %s", key, reply.Stdout, reply.Stderr, reply.Exit, seen.Effects[c.Effect])
					}
				}
				if found {
					continue
				}
				if means.Unseen[key] == "" && means.Unseen["* "+intent] == "" && !missing[key] {
					missing[key] = true
					t.Errorf("%s is written as %q %q exit %d, and no such answer was seen", key, reply.Stdout, reply.Stderr, reply.Exit)
				}
				delete(stale, key)
				if means.Unseen[key] == "" {
					delete(stale, "* "+intent)
				}
			}
		}
		for key := range stale {
			t.Errorf("intents.json says that nobody has seen %s; it was seen, or is never said", key)
		}
		if compared == 0 {
			t.Error("no answer was compared with anything")
		}
	})
}

// samples returns payloads of all events of an agent. An event without a recording gets a
// payload with the members of all recordings.
func samples(t testing.TB, d *dialect.Dialect) map[string]dialect.Input {
	t.Helper()
	inputs, all := map[string]dialect.Input{}, map[string]json.RawMessage{}
	for _, r := range recordings(t, d) {
		if _, more := inputs[r.row.Native]; !more {
			inputs[r.row.Native] = r.in
		}
		if err := json.Unmarshal(r.in.Payload, &all); err != nil {
			t.Fatal(err)
		}
	}
	for i := range d.Events {
		native := d.Events[i].Native
		if _, ok := inputs[native]; ok {
			continue
		}
		if d.NamedAt == "" && all["hook_event_name"] != nil {
			all["hook_event_name"], _ = json.Marshal(native) // a JSON string
		}
		payload, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		inputs[native] = dialect.Input{Payload: payload, Event: native}
	}
	return inputs
}

// sampleOutcomes lists one Outcome for each kind of answer to an event.
func sampleOutcomes(row *dialect.EventRow, input json.RawMessage) []grapnel.Outcome {
	all := []grapnel.Outcome{
		{},
		{Decision: grapnel.Block, Reason: mark},
		{Decision: grapnel.Ask, Reason: mark},
		{Decision: grapnel.Allow},
		{Halt: mark},
		{Context: []string{mark}},
		{Message: mark},
	}
	for _, f := range row.Permits().Change {
		value := newValue[f]
		if f == grapnel.FieldInput {
			value = string(replaceTexts(input))
		} else if value == "" || f == grapnel.FieldPrompt || f == grapnel.FieldOutput {
			value = `"` + mark + `"`
		}
		all = append(all, grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{f: json.RawMessage(value)}})
	}
	return all
}

// replaceTexts returns the object with other texts.
func replaceTexts(input json.RawMessage) json.RawMessage {
	var members map[string]any
	if json.Unmarshal(input, &members) != nil {
		return nil
	}
	for name, value := range members {
		if _, ok := value.(string); ok {
			members[name] = mark
		}
	}
	out, _ := json.Marshal(members) // it was JSON
	return out
}

// intentOf returns the strictest intent of a Verdict.
func intentOf(ev *grapnel.Event, v *grapnel.Verdict) string {
	switch can := ev.Can(); {
	case v.Halt != "" && can.Halt:
		return "halt"
	case v.Decision == grapnel.Block && can.Block:
		return "block"
	case v.Decision == grapnel.Ask && can.Ask:
		return "ask"
	case v.Decision == grapnel.Allow && can.Allow:
		return "allow"
	case len(v.Changes) > 0:
		return "change"
	case len(v.Context) > 0 && can.Context:
		return "context"
	case len(v.Messages) > 0 && can.Message:
		return "message"
	}
	return "none"
}

// sameForm reports whether two answers are the same except for their texts.
func sameForm(written []byte, seen string) bool {
	var a, b any
	text := strings.TrimSpace(string(written))
	if json.Unmarshal([]byte(text), &a) != nil {
		a = text
	}
	if json.Unmarshal([]byte(seen), &b) != nil {
		b = seen
	}
	return sameShape(a, b)
}

func sameShape(written, seen any) bool {
	switch w := written.(type) {
	case map[string]any:
		s, ok := seen.(map[string]any)
		if !ok || len(w) != len(s) {
			return false
		}
		for name := range w {
			if _, ok := s[name]; !ok || !sameShape(w[name], s[name]) {
				return false
			}
		}
		return true
	case string:
		s, ok := seen.(string)
		return ok && (w == s || strings.Contains(w, mark) && s != "")
	}
	return reflect.DeepEqual(written, seen)
}
