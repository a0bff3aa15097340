package dialect_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/documents"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

// goldenEvents returns the events of all conversations.
func goldenEvents(t *testing.T) map[string]*grapnel.Event {
	t.Helper()
	events := map[string]*grapnel.Event{}
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
		files, err := filepath.Glob(filepath.Join("testdata", d.Name, "*.txtar"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no conversations: %v", err)
		}
		for _, file := range files {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			ev, err := d.Read(dialect.Input{Payload: ar.Files[0].Data})
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			events[file] = ev
		}
	}
	return events
}

func TestPlainVerdict(t *testing.T) {
	t.Parallel()
	schema := loadSchema(t)
	for name, v := range map[string]grapnel.Verdict{
		"none": {},
		"everything": {
			Decision: grapnel.Block, Halt: "enough", Messages: []string{"m"}, Context: []string{"a < b"}, Unsupported: []string{"ask: downgraded to block"},
			Reasons: []grapnel.Reason{{Hook: "user::h", Text: "because", Cause: grapnel.CauseTimeout}},
			Changes: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"n":1e400}`)},
			Native:  map[string]json.RawMessage{"claude-code.retry": json.RawMessage("true")},
		},
	} {
		reply := dialect.Plain().Write(&grapnel.Event{Kind: grapnel.ToolBefore}, &v, "")
		if !emptyOrObject(reply) || len(reply.Stdout) == 0 || reply.Exit != 0 {
			t.Errorf("%s: reply %+v, want one JSON object", name, reply)
		}
		schema.check(t, "verdict", reply.Stdout)
		var got grapnel.Verdict
		if err := json.Unmarshal(reply.Stdout, &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(v, got); diff != "" {
			t.Errorf("%s (-sent +got):\n%s", name, diff)
		}
	}

	// A Go hook can put any bytes into Native. If the Verdict cannot be written, the exit code
	// blocks; it is not an allow.
	bad := grapnel.Verdict{Native: map[string]json.RawMessage{"x.y": json.RawMessage("{")}}
	if reply := dialect.Plain().Write(&grapnel.Event{}, &bad, ""); reply.Exit != 2 || len(reply.Stderr) == 0 || len(reply.Stdout) != 0 {
		t.Errorf("an unwritable verdict is written as %+v, want exit code 2 and a reason", reply)
	}
}

func TestPlainEventErrors(t *testing.T) {
	t.Parallel()
	for payload, wantErr := range map[string]string{
		`{}`:                                     "the event has no kind",
		`{"kind":"tool.befor"}`:                  `unknown event "tool.befor"`,
		`{"kind":7}`:                             "kind",
		`{"grapnel":2,"kind":"tool.before"}`:     "version 2 of the plain dialect is newer than 1",
		`{"kind":"tool.before","tool":{"name":`:  "not valid JSON",
		`{"kind":"tool.before","tool":["bash"]}`: "tool",
	} {
		if _, err := dialect.Plain().Read(dialect.Input{Payload: []byte(payload)}); err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("Read(%s): error %v, want one that says %q", payload, err, wantErr)
		}
	}
	ev, err := dialect.Plain().Read(dialect.Input{
		Payload: []byte("\xef\xbb\xbf" + `{"tool":{"name":"x","input":{"c":"ls"},"facts":[{"field":"tool.command","at":"/c"}],"unheard":1},"of":2}`), Event: "tool.before",
	})
	if err != nil || ev.Kind != grapnel.ToolBefore || !slices.Equal(ev.Tool.Commands, []string{"ls"}) {
		t.Errorf("Read = %+v, %v; want a tool.before whose command is ls", ev, err)
	}
}

// For an event that cannot be read, its kind decides which guards have failed.
func TestPlainUnreadable(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]grapnel.Decision{
		`{"kind":"tool.before","agent":{"name":"crush"},"session":{"id":"s","cwd":"/p"},"tool":{"na`: grapnel.Block,
		`{"kind":"session.start","tool":7}`: grapnel.None, // this event cannot be blocked
		`{"kind":"tool.befor"}`:             grapnel.Block,
		``:                                  grapnel.Block,
	} {
		in := dialect.Input{Payload: []byte(payload)}
		ev, err := dialect.Plain().Read(in)
		if err == nil {
			t.Fatalf("Read(%s) succeeds", payload)
		}
		if strings.Contains(payload, "crush") && (ev.Kind != grapnel.ToolBefore || ev.Agent.Name != "crush" || ev.Session.ID != "s" || ev.Session.CWD != "/p") {
			t.Errorf("Read(%s) = %+v, want what can be made out", payload, ev)
		}
		reply := dialect.Answer(t.Context(), guard(t, grapnel.OnErrorClosed), dialect.Plain(), in)
		var v grapnel.Verdict
		if err := json.Unmarshal(reply.Stdout, &v); err != nil || v.Decision != want || !strings.Contains(string(reply.Stderr), "grapnel: error: cannot read the event of plain") {
			t.Errorf("Answer(%s) = %s %s, want %v and the error", payload, reply.Stdout, reply.Stderr, want)
		}
	}
}

// The exit code and the answer are combined: the stricter one wins.
func TestPlainOutcome(t *testing.T) {
	t.Parallel()
	start := &grapnel.Event{Kind: grapnel.SessionStart}
	before := &grapnel.Event{Kind: grapnel.ToolBefore}
	setup := dialect.ClaudeCode().Row("Setup")
	tests := map[string]struct {
		ev   *grapnel.Event
		out  dialect.Output
		want grapnel.Outcome
		err  string
	}{
		"silence":              {ev: before, out: dialect.Output{}},
		"a decision":           {ev: before, out: dialect.Output{Stdout: []byte(` {"decision":"ask","reason":"sure?","new":1}` + "\n")}, want: grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"}},
		"a change":             {ev: before, out: dialect.Output{Stdout: []byte(`{"set":{"tool.command":"true"}}`)}, want: grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldCommand: json.RawMessage(`"true"`)}}},
		"an unknown decision":  {ev: before, out: dialect.Output{Stdout: []byte(`{"decision":"deny"}`)}, err: `unknown decision "deny"`},
		"half a JSON":          {ev: before, out: dialect.Output{Stdout: []byte(`{"decision":"block"`)}, err: "cannot read its answer"},
		"JSON and a log line":  {ev: before, out: dialect.Output{Stdout: []byte("{\"decision\":\"block\"}\ndone")}, err: "cannot read its answer"},
		"text means nothing":   {ev: before, out: dialect.Output{Stdout: []byte("all fine")}},
		"text is context":      {ev: start, out: dialect.Output{Stdout: []byte("be kind\n")}, want: grapnel.Outcome{Context: []string{"be kind"}}},
		"text is a summary":    {ev: &grapnel.Event{Kind: grapnel.CompactAfter}, out: dialect.Output{Stdout: []byte("a < b")}, want: grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldSummary: json.RawMessage(`"a < b"`)}}},
		"text of a native one": {ev: &grapnel.Event{Kind: setup.Kind, Terms: &grapnel.Terms{Contract: setup.Contract}}, out: dialect.Output{Stdout: []byte("be kind")}, want: grapnel.Outcome{Context: []string{"be kind"}}},
		"text of another one":  {ev: &grapnel.Event{Kind: "native.x.Y"}, out: dialect.Output{Stdout: []byte("be kind")}},
		"exit 2, silent":       {ev: before, out: dialect.Output{Exit: 2}, want: grapnel.Outcome{Decision: grapnel.Block}},
		"exit 2, stderr":       {ev: before, out: dialect.Output{Exit: 2, Stdout: []byte("log"), Stderr: []byte("no\n")}, want: grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}},
		"exit 2, stdout":       {ev: before, out: dialect.Output{Exit: 2, Stdout: []byte("no\n")}, want: grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}},
		"exit 2, JSON":         {ev: before, out: dialect.Output{Exit: 2, Stdout: []byte(`{"decision":"allow","reason":"j"}`), Stderr: []byte("e")}, want: grapnel.Outcome{Decision: grapnel.Block, Reason: "j"}},
		"exit 2, half a JSON":  {ev: before, out: dialect.Output{Exit: 2, Stdout: []byte(`{"reason":`), Stderr: []byte("e")}, want: grapnel.Outcome{Decision: grapnel.Block, Reason: "e"}},
		"exit 1":               {ev: before, out: dialect.Output{Exit: 1, Stderr: []byte("no such file")}, err: "exit code 1: no such file"},
		"exit 1 with a block":  {ev: before, out: dialect.Output{Exit: 1, Stdout: []byte(`{"decision":"block"}`)}, want: grapnel.Outcome{Decision: grapnel.Block}, err: "exit code 1"},
		"not found":            {ev: before, out: dialect.Output{Exit: 127}, err: "was not found"},
		"not executable":       {ev: before, out: dialect.Output{Exit: 126}, err: "cannot be executed"},
		"killed":               {ev: before, out: dialect.Output{Exit: -1, Stdout: []byte("x")}, err: "killed by a signal"},
		"much on stderr":       {ev: before, out: dialect.Output{Exit: 3, Stderr: []byte(strings.Repeat("é", 5000) + "end")}, err: "end"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := dialect.Plain().ReadOutcome(tt.ev, tt.out)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ReadOutcome(%+v) (-want +got):\n%s", tt.out, diff)
			}
			if (err == nil) != (tt.err == "") || err != nil && (!strings.Contains(err.Error(), tt.err) || len(err.Error()) > 1000) {
				t.Errorf("ReadOutcome(%+v): error %v, want one that says %q", tt.out, err, tt.err)
			}
		})
	}
}

// A schema is plain.schema.json.
type schema struct {
	defs  map[string]object
	rules *documents.Schema
}

func loadSchema(t testing.TB) schema {
	t.Helper()
	data, err := os.ReadFile("plain.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var text struct {
		Defs map[string]object `json:"$defs"`
	}
	rules, err := documents.ParseSchema(string(data))
	if err := errors.Join(err, json.Unmarshal(data, &text)); err != nil {
		t.Fatal(err)
	}
	return schema{text.Defs, rules}
}

func (s schema) def(name string) object { return s.defs[name] }

// check validates one line against one definition.
func (s schema) check(t testing.TB, def string, line []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(line, &v); err != nil {
		// 1e400 is valid JSON but not a float64. The schema does not restrict numbers.
		if err := json.Unmarshal([]byte(strings.ReplaceAll(string(line), "1e400", "1")), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if err := s.rules.Of(def).Validate(v); err != nil {
		t.Errorf("not a valid %s: %v\n%s", def, err, line)
	}
}

// The schema refuses values that are not an event, an outcome or a verdict.
func TestSchemaIsChecked(t *testing.T) {
	t.Parallel()
	s := loadSchema(t)
	for def, lines := range map[string][]string{
		"event":   {`{}`, `{"kind":"x"}`, `{"kind":"tool.before","grapnel":2}`, `{"kind":"tool.before","tool":{"name":"x","class":"hammer"}}`, `{"kind":"tool.before","tool":{"name":"x","paths":[{"path":"a"}]}}`, `{"kind":"tool.before","session":{"id":7}}`},
		"outcome": {`{"decision":"deny"}`, `{"context":"x"}`, `{"set":{"tool_input":{}}}`, `[]`},
		"verdict": {`{}`, `{"decision":"none","reasons":[{"hook":"h"}]}`},
		"message": {
			`{}`, `{"type":""}`, `{"type":"hello","name":"x"}`, `{"type":"hello","grapnel":2}`, `{"type":"hello","grapnel":1,"concurrency":"many"}`,
			`{"type":"event","id":"1"}`, `{"type":"event","event":{"kind":"tool.before"}}`, `{"type":"cancel"}`, `{"type":"answer","id":"1"}`,
			`{"type":"answer","id":1,"outcome":{}}`, `{"type":"answer","outcome":{}}`, `{"type":"answer","id":"1","outcome":{"decision":"deny"}}`,
		},
	} {
		for _, line := range lines {
			var v any
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatal(err)
			}
			if s.rules.Of(def).Validate(v) == nil {
				t.Errorf("%s passes as %s", line, def)
			}
		}
	}
	s.check(t, "event", []byte(`{"kind":"native.x.Y","unheard":1}`))
	s.check(t, "outcome", []byte(`{}`))
}

// The schema has exactly the members of the Go types, and every value of their constants.
func TestSchemaMatchesTypes(t *testing.T) {
	t.Parallel()
	s := loadSchema(t)
	var compare func(at string, typ reflect.Type, rule object, extra ...string)
	compare = func(at string, typ reflect.Type, rule object, extra ...string) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice && typ.Elem().Kind() != reflect.Uint8 {
			if typ.Kind() == reflect.Slice {
				rule, _ = rule["items"].(object)
			}
			typ = typ.Elem()
		}
		if name, ok := rule["$ref"].(string); ok {
			rule = s.def(strings.TrimPrefix(name, "#/$defs/"))
		}
		if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[time.Time]() {
			return
		}
		properties, _ := rule["properties"].(object)
		want := extra
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			want = append(want, name)
			p, ok := properties[name].(object)
			if !ok {
				t.Errorf("%s.%s is not in the schema", at, name)
				continue
			}
			compare(at+"."+name, f.Type, p)
		}
		for name := range properties {
			if !slices.Contains(want, name) {
				t.Errorf("the schema has %s.%s, and %v does not", at, name, typ)
			}
		}
	}
	compare("event", reflect.TypeFor[grapnel.Event](), s.def("event"), "grapnel", "verdict", "contract", "can", "origin")
	compare("origin", reflect.TypeFor[wire.Origin](), s.def("origin"))
	compare("contract", reflect.TypeFor[grapnel.Contract](), s.def("contract"))
	compare("can", reflect.TypeFor[grapnel.Can](), s.def("can"))
	compare("outcome", reflect.TypeFor[grapnel.Outcome](), s.def("outcome"))
	compare("verdict", reflect.TypeFor[grapnel.Verdict](), s.def("verdict"), "grapnel")
	compare("message", reflect.TypeFor[dialect.Message](), s.def("message"))

	for _, c := range grapnel.Contracts() {
		s.check(t, "kind", encodeText(t, c.Kind))
		s.check(t, "contract", encodeText(t, c))
	}
	for _, c := range seam.Classes() {
		s.check(t, "tool", fmt.Appendf(nil, `{"name":"x","class":%q}`, c))
	}
	for d := grapnel.None; d <= grapnel.Block; d++ {
		s.check(t, "decision", encodeText(t, d))
	}
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
		for _, row := range d.Events {
			s.check(t, "can", encodeText(t, row.Can))
			if row.Contract != nil {
				s.check(t, "contract", encodeText(t, row.Contract))
			}
		}
	}
}

func encodeText(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
