package hooktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/sample"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// TestDialect is the test suite for dialects. dir contains conversations: files *.txtar with an
// input of the agent and the reply, at least one for each event of the dialect's table. Their
// sections are
//
//	stdin.json     the agent's payload
//	argv           the event name on the command line; absent = the payload names it
//	outcome.json   the outcome of the only hook; absent = no opinion
//	event.json     the event after reading, without native, can, contract and facts
//	verdict.json   the engine's verdict
//	reply: exit N  stdout and exit code of the reply
//	stderr         stderr of the reply, if not empty
//
// A comment at the top explains the purpose of the conversation. You write or record the first two
// sections. The suite writes the others if the test's package defines a flag -update and it is set.
// Review the generated sections.
//
// With these payloads the suite checks that the tables are consistent with themselves and with the
// Contracts; that no opinion gives an empty reply; that a block reaches the agent, with its reason,
// and is never weakened; that only an Allow becomes an allow; that changes reach the agent; that an
// event survives writing and reading; and that no payload, however malformed or hostile, makes the
// dialect panic, allow, or lose a block. The suite interprets replies with ReadOutcome. Only the
// agent itself can show whether it interprets them in the same way.
//
// A dialect that only hook programs use has no conversations. Pass an empty dir, and the suite
// checks only the side toward hooks.
func TestDialect(t *testing.T, d *dialect.Dialect, dir string) { //nolint:tparallel // the caller decides whether the test itself is parallel
	t.Helper()
	s := &dialectSuite{Dialect: d}
	if dir != "" {
		s.talks = conversations(t, d, dir)
	}
	for _, law := range dialectLaws {
		t.Run(law.name, func(t *testing.T) {
			t.Parallel()
			if law.agent == (d.ReadEvent == nil) || law.name == "Hooks" && d.WriteEvent == nil {
				t.Skipf("%s does not support this direction", d.Name)
			}
			law.hold(s, t)
		})
	}
	for _, c := range s.talks {
		t.Run("Conversations/"+c.name, func(t *testing.T) {
			t.Parallel()
			s.play(t, c)
		})
	}
}

// dialectLaws lists the checks of TestDialect, each a subtest.
var dialectLaws = []struct {
	name  string
	agent bool // only for dialects of agents
	hold  func(s *dialectSuite, t testing.TB)
}{
	{"Tables", true, (*dialectSuite).tables},
	{"Every event", true, (*dialectSuite).everyEvent},
	{"No opinion", true, (*dialectSuite).noOpinion},
	{"Block", true, (*dialectSuite).block},
	{"Never weaker", true, (*dialectSuite).neverWeaker},
	{"Unmerged", true, (*dialectSuite).unmerged},
	{"Changes", true, (*dialectSuite).changes},
	{"Round trip", true, (*dialectSuite).roundTrip},
	{"Unreadable", true, (*dialectSuite).unreadable},
	{"Hostile", true, (*dialectSuite).hostile},
	{"Hooks", false, (*dialectSuite).hooks},
}

// dialectSuite tests one Dialect.
type dialectSuite struct {
	*dialect.Dialect
	talks []conversation
}

// conversation is one file.
type conversation struct {
	name    string
	file    string
	archive *txtar.Archive
	payload []byte
	argv    string
	outcome grapnel.Outcome
	spoken  bool // the file has an outcome
	ev      *grapnel.Event
	row     *dialect.EventRow // nil = not in the table
}

func conversations(t testing.TB, d *dialect.Dialect, dir string) []conversation {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations in %s (%v)", dir, err)
	}
	var list []conversation
	for _, file := range files {
		if filepath.Base(file) == "recordings.txtar" {
			continue
		}
		c := conversation{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), file: file}
		if c.archive, err = txtar.ParseFile(file); err != nil {
			t.Fatal(err)
		}
		for _, f := range c.archive.Files {
			switch f.Name {
			case "stdin.json":
				c.payload = f.Data
			case "argv":
				c.argv = strings.TrimSpace(string(f.Data))
			case "outcome.json":
				c.spoken = true
				if err := json.Unmarshal(f.Data, &c.outcome); err != nil {
					t.Fatalf("%s: outcome.json: %v", file, err)
				}
			}
		}
		got := dialect.Receive(d, c.input(c.payload))
		if got.Err != nil {
			t.Fatalf("%s: Read(%s): %v", file, c.payload, got.Err)
		}
		c.ev, c.row = got.Event, got.Row()
		list = append(list, c)
	}
	return list
}

// input returns a payload as an input of the conversation's event.
func (c *conversation) input(payload []byte) dialect.Input {
	return dialect.Input{Payload: payload, Event: c.argv}
}

// can returns the parts of a verdict that the agent supports for an event.
func can(ev *grapnel.Event) grapnel.Can {
	if can := ev.Can(); can != nil {
		return *can
	}
	c := ev.Contract()
	all := grapnel.Can{
		Block: c.Blocks != grapnel.BlockingNothing, Ask: c.Permit, Allow: c.Permit, Halt: true, Context: c.Context, Message: true,
	}
	for _, change := range c.Changes {
		all.Change = append(all.Change, change.Field)
	}
	return all
}

// fixedEngine makes an engine with one hook, which returns this outcome for every event.
func fixedEngine(t testing.TB, out grapnel.Outcome, onError grapnel.OnError) *grapnel.Engine {
	t.Helper()
	return engineOf(t, []grapnel.Spec{{Name: "hook", OnError: onError, Hook: answers(out)}})
}

// fireAndWrite fires an event with one hook that returns this outcome, and writes the agent's reply.
func (s *dialectSuite) fireAndWrite(t testing.TB, ev *grapnel.Event, out grapnel.Outcome) (grapnel.Verdict, dialect.Reply) {
	t.Helper()
	v := fixedEngine(t, out, grapnel.OnErrorDefault).Fire(t.Context(), ev)
	return v, s.Write(ev, &v, "")
}

// heard reads a reply with ReadOutcome. It returns an empty outcome if the dialect has no
// ReadOutcome or no such event.
func (s *dialectSuite) heard(ev *grapnel.Event, r dialect.Reply) (grapnel.Outcome, error) {
	if s.ReadOutcome == nil {
		return grapnel.Outcome{}, nil
	}
	out, err := s.ReadOutcome(ev, dialect.Output{Exit: r.Exit, Stdout: r.Stdout, Stderr: r.Stderr})
	if errors.Is(err, dialect.ErrNoSuchEvent) {
		err = nil // no hook reads this event, so no reply can be misread
	}
	return out, err
}

func shownReply(r dialect.Reply) string {
	return fmt.Sprintf("stdout %q stderr %q exit %d", sample.Short(string(r.Stdout)), sample.Short(string(r.Stderr)), r.Exit)
}

func (s *dialectSuite) tables(t testing.TB) {
	seen := map[string]bool{}
	for i := range s.Events {
		row := &s.Events[i]
		if seen[row.Native] {
			t.Errorf("%s is listed twice", row.Native)
		}
		seen[row.Native] = true
		if row.Install == (row.Why != "") {
			t.Errorf("%s: Install is %v and Why is %q: exactly the events that are not installed have a Why", row.Native, row.Install, row.Why)
		}
		s.rowContract(t, row)
	}
	tools := map[string]bool{}
	for _, tool := range s.Tools {
		if tools[tool.Native] || !slices.Contains(seam.Classes(), string(tool.Class)) {
			t.Errorf("tool %s is listed twice or has no known class (%q)", tool.Native, tool.Class)
		}
		tools[tool.Native] = true
		for _, fact := range tool.Facts {
			if !strings.HasPrefix(fact.At, "/") || (fact.Use != "") != (fact.Field == grapnel.FieldPath) {
				t.Errorf("tool %s has the fact %+v: At must start with a slash, and exactly the paths have a Use", tool.Native, fact)
			}
		}
	}
}

// rowContract compares the Can of an event with its Contract.
func (s *dialectSuite) rowContract(t testing.TB, row *dialect.EventRow) {
	contract := row.Contract
	switch {
	case !row.Kind.Native():
		if contract != nil {
			t.Errorf("%s: only native events have their own Contract", row.Native)
		}
		if c, ok := grapnel.ContractOf(row.Kind); ok {
			contract = &c
		}
	case row.Kind != grapnel.Kind(grapnel.NativePrefix+s.Name+"."+row.Native):
		t.Errorf("%s: kind %s, want %s", row.Native, row.Kind, grapnel.NativePrefix+s.Name+"."+row.Native)
	case contract == nil:
		contract = &grapnel.Contract{}
	case contract.Kind != row.Kind:
		t.Errorf("%s: its Contract is for %s", row.Native, contract.Kind)
	}
	if contract == nil || row.Failed != "" && !row.Failed.Known() {
		t.Errorf("%s: %s %s has no Contract", row.Native, row.Kind, row.Failed)
		return
	}
	if row.Permits().Block && contract.Blocks == grapnel.BlockingNothing || (row.Permits().Ask || row.Permits().Allow) && !contract.Permit {
		t.Errorf("%s: Can contains decisions that the Contract forbids: %+v, %+v", row.Native, row.Can, contract)
	}
	for _, f := range row.Permits().Change {
		if !contract.Permits(f) {
			t.Errorf("%s: the Contract does not permit to change %s", row.Native, f)
		}
	}
}

func (s *dialectSuite) everyEvent(t testing.TB) {
	for i := range s.Events {
		row := &s.Events[i]
		covered := slices.ContainsFunc(s.talks, func(c conversation) bool { return c.row == row })
		answered := slices.ContainsFunc(s.talks, func(c conversation) bool { return c.row == row && c.spoken })
		switch {
		case !covered:
			t.Errorf("no conversation has %s", row.Native)
		case !answered && (row.Permits().Block || row.Permits().Halt || len(row.Permits().Change) > 0):
			t.Errorf("no conversation answers %s (outcome.json)", row.Native)
		}
	}
}

func (s *dialectSuite) noOpinion(t testing.TB) {
	noHooks := engineOf(t, []grapnel.Spec{})
	for _, c := range s.talks {
		_, reply := s.fireAndWrite(t, c.ev, grapnel.Outcome{})
		out, err := s.heard(c.ev, reply)
		if reply.Exit != 0 || err != nil || !reflect.ValueOf(out).IsZero() || s.ReadOutcome == nil && len(reply.Stdout)+len(reply.Stderr) > 0 {
			t.Errorf("%s: no opinion is written as %s, which reads as %s, %v", c.name, shownReply(reply), sample.Shown(out), err)
		}
		for range 2 { // both replies must be equal
			whole := dialect.Answer(t.Context(), noHooks, s.Dialect, c.input(c.payload))
			if whole.Silent = false; !reflect.DeepEqual(whole, reply) {
				t.Errorf("%s: without hooks the reply is %s, want %s", c.name, shownReply(whole), shownReply(reply))
			}
		}
	}
}

func (s *dialectSuite) block(t testing.TB) {
	const reason = `because <so> & "so"`
	quoted, _ := rawjson.Marshal(reason) // a string always encodes
	for _, c := range s.talks {
		may := can(c.ev)
		v, reply := s.fireAndWrite(t, c.ev, grapnel.Outcome{Decision: grapnel.Block, Reason: reason})
		if !may.Block {
			if c.ev.Contract().Blocks != grapnel.BlockingNothing && len(v.Unsupported) == 0 {
				t.Errorf("%s: the agent does not support a block, but Unsupported does not list it: %s", c.name, sample.Shown(v))
			}
			continue
		}
		output := slices.Concat(reply.Stdout, reply.Stderr)
		if !bytes.Contains(output, bytes.Trim(quoted, `"`)) && !bytes.Contains(output, []byte(reason)) {
			t.Errorf("%s: a block is written as %s, without its unchanged reason (without escapes for HTML)", c.name, shownReply(reply))
		}
		if s.ReadOutcome == nil {
			continue
		}
		out, err := s.heard(c.ev, reply)
		// If the agent does not support a block, another text may carry the reason, except at a
		// permission prompt.
		asText := !c.ev.Contract().Permit && strings.Contains(sample.Shown(out), string(bytes.Trim(quoted, `"`)))
		if out.Decision != grapnel.Block && !asText {
			t.Errorf("%s: a block is written as %s, which reads as %s, %v", c.name, shownReply(reply), sample.Shown(out), err)
		}
	}
}

// neverWeaker checks every decision with and without a halt.
func (s *dialectSuite) neverWeaker(t testing.TB) {
	for i := range s.talks {
		for decision := grapnel.None; decision <= grapnel.Block; decision++ {
			for _, halt := range []string{"", "enough"} {
				s.notWeaker(t, &s.talks[i], decision, halt)
			}
		}
	}
}

func (s *dialectSuite) notWeaker(t testing.TB, c *conversation, decision grapnel.Decision, halt string) {
	may := can(c.ev)
	v, reply := s.fireAndWrite(t, c.ev, grapnel.Outcome{Decision: decision, Reason: "because", Halt: halt, Message: "m", Context: []string{"c"}})
	out, err := s.heard(c.ev, reply)
	about := fmt.Sprintf("%s: %v with halt %q (%s) is written as %s, which reads as %s, %v", c.name, decision, halt, sample.Shown(v), shownReply(reply), sample.Shown(out), err)
	if s.ReadOutcome == nil {
		return
	}
	if err != nil {
		t.Errorf("%s", about)
	}
	if out.Decision == grapnel.Allow && (v.Decision != grapnel.Allow || !may.Allow) {
		t.Errorf("an allow without a hook that allows: %s", about)
	}
	asked := c.ev.Contract().Kind == grapnel.PermissionBefore // the agent shows the prompt anyway
	if v.Decision == grapnel.Ask && may.Ask && out.Decision < grapnel.Ask && !asked {
		t.Errorf("the ask is missing: %s", about)
	}
	if c.ev.Contract().Permit && v.Decision == grapnel.Block && may.Block && out.Decision != grapnel.Block {
		t.Errorf("the block is missing: %s", about)
	}
	if may.Halt && (out.Halt != "") != (v.Halt != "") {
		t.Errorf("the halt is missing, or no hook halted: %s", about)
	}
}

// unmerged writes Verdicts that no engine has reduced to the permitted parts.
func (s *dialectSuite) unmerged(t testing.TB) {
	if s.Events == nil {
		return // a dialect without a table supports everything
	}
	for _, c := range s.talks {
		may, contract := can(c.ev), c.ev.Contract()
		for decision := grapnel.None; decision <= grapnel.Block; decision++ {
			v := grapnel.Verdict{
				Decision: decision, Halt: "enough", Context: []string{"c"}, Messages: []string{"m"},
				Changes: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"command":"true"}`)},
				Native:  map[string]json.RawMessage{s.Name + ".decision": json.RawMessage(`"allow"`), s.Name + ".permissionDecision": json.RawMessage(`"allow"`)},
			}
			reply := s.Write(c.ev, &v, "")
			out, err := s.heard(c.ev, reply)
			if out.Decision == grapnel.Allow && !(decision == grapnel.Allow && may.Allow) ||
				contract.Permit && may.Block && out.Decision != grapnel.Block && decision == grapnel.Block && s.ReadOutcome != nil {
				t.Errorf("%s: %v with a halt is written as %s, which reads as %s, %v", c.name, decision, shownReply(reply), sample.Shown(out), err)
			}
		}
	}
}

// otherValue has a legal new value for each field.
var otherValue = map[grapnel.Field]string{
	grapnel.FieldPrompt: `"something else"`, grapnel.FieldSystem: `"Be kind."`, grapnel.FieldModel: `"other"`,
	grapnel.FieldRequest: `{"model":"n","messages":[{"role":"user","content":"ho"}]}`, grapnel.FieldTools: `["glob","read_file"]`,
	grapnel.FieldMode: `"any"`, grapnel.FieldInput: `{"command":"true"}`, grapnel.FieldOutput: `{"stdout":"***"}`,
	grapnel.FieldNext: `{"name":"glob","input":{"pattern":"*"}}`, grapnel.FieldMessage: `{"content":"***"}`, grapnel.FieldText: `"***"`,
	grapnel.FieldSummary: `"shorter"`, grapnel.FieldClear: `true`, grapnel.FieldAnswer: `{"action":"accept","content":{"name":"Bob"}}`,
}

// changes checks one change at a time.
func (s *dialectSuite) changes(t testing.TB) {
	for i := range s.talks {
		c := &s.talks[i]
		for _, f := range can(c.ev).Change {
			if value := changed(c.ev, f); value != nil {
				s.change(t, c, f, value)
			}
		}
	}
}

// changed returns another value for a field of an event, or nil if none is known.
func changed(ev *grapnel.Event, f grapnel.Field) json.RawMessage {
	may := can(ev)
	value := json.RawMessage(otherValue[f])
	if f == grapnel.FieldInput && may.Merges { // members cannot be removed
		value, _ = ev.MapText(f, func(string) string { return "true" })
	}
	if f == grapnel.FieldInput && may.Members != nil { // only these members can change
		value = replaceTexts(ev.Tool.Input, may.Members)
	}
	if _, ok := ev.Get(f); ok && f == grapnel.FieldResponse { // the value must have the agent's own shape
		value, _ = ev.MapText(f, func(string) string { return "other" })
	}
	return value
}

func (s *dialectSuite) change(t testing.TB, c *conversation, f grapnel.Field, value json.RawMessage) {
	none := s.Write(c.ev, &grapnel.Verdict{Event: c.ev}, "")
	v, reply := s.fireAndWrite(t, c.ev, grapnel.Outcome{Decision: can(c.ev).Beside, Reason: "again", Set: map[grapnel.Field]json.RawMessage{f: value}})
	if _, changed := v.Changes[f]; changed && reflect.DeepEqual(reply, none) {
		t.Errorf("%s: %s is set to %s, but the reply does not contain it: %s", c.name, f, value, shownReply(reply))
	}
	if s.ReadOutcome == nil || s.Events == nil || f != grapnel.FieldInput && f != grapnel.FieldPrompt {
		return // other values are in the agent's own format
	}
	out, err := s.heard(c.ev, reply)
	again, _ := s.fireAndWrite(t, c.ev, out)
	now, _ := again.Event.Get(f)
	if err != nil || !rawjson.Equal(now, value) {
		t.Errorf("%s: %s is set to %s, written as %s, and read as %s, %v", c.name, f, value, shownReply(reply), orNothing(now), err)
	}
}

// replaceTexts returns an object with another text in some of its members, or nil if it has none of them.
func replaceTexts(object json.RawMessage, names []string) json.RawMessage {
	var members map[string]any
	if json.Unmarshal(object, &members) != nil {
		return nil
	}
	changed := false
	for _, name := range names {
		if _, ok := members[name].(string); ok {
			members[name], changed = "true", true
		}
	}
	if !changed {
		return nil
	}
	value, _ := rawjson.Marshal(members) // members was decoded from JSON
	return value
}

// roundTrip writes each event for a hook, and reads it again.
func (s *dialectSuite) roundTrip(t testing.TB) {
	if s.WriteEvent == nil {
		return
	}
	for _, c := range s.talks {
		before := state(c.ev)
		line, err := s.WriteEvent(c.ev)
		if c.row == nil && errors.Is(err, dialect.ErrNoSuchEvent) {
			continue // an event of a newer agent
		}
		if err != nil {
			t.Errorf("%s: WriteEvent: %v", c.name, err)
			continue
		}
		if now := state(c.ev); now != before {
			t.Errorf("%s: WriteEvent changed the event\n\twas %s\n\tis  %s", c.name, sample.Short(before), sample.Short(now))
		}
		again, err := s.Read(c.input(line))
		if err != nil {
			t.Errorf("%s: Read cannot read the output %s of WriteEvent: %v", c.name, sample.Short(string(line)), err)
			continue
		}
		if got, want := state(bare(again)), state(bare(c.ev)); got != want {
			t.Errorf("%s: an event changes when it is written and read again\n\twas %s\n\tis  %s", c.name, sample.Short(want), sample.Short(got))
		}
	}
}

// answer passes a payload to a guard that blocks and fails closed, and to an engine without hooks.
// It fails the test if a reply allows more than it may.
func (s *dialectSuite) answer(t testing.TB, about string, in dialect.Input) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s: it panicked: %v: %s\n%s", about, r, sample.Short(string(in.Payload)), debug.Stack())
		}
	}()
	ev, readErr := s.Read(in)
	if ev == nil {
		t.Errorf("%s: Read returns no event (%v): %s", about, readErr, sample.Short(string(in.Payload)))
		return
	}
	if _, err := json.Marshal(ev); err != nil {
		t.Errorf("%s: Read returns an event that cannot be encoded: %v: %s", about, err, sample.Short(string(in.Payload)))
	}
	guarded := dialect.Answer(t.Context(), fixedEngine(t, grapnel.Outcome{Decision: grapnel.Block, Reason: "guarded"}, grapnel.OnErrorClosed), s.Dialect, in)
	contract, may := ev.Contract(), can(ev)
	counts := contract.Blocks != grapnel.BlockingNothing && (readErr == nil || !contract.FailOpen)
	if ev.Kind == "" { // an unknown event must still block
		counts, may.Block = true, true
	}
	if counts && may.Block && len(guarded.Stdout) == 0 && guarded.Exit == 0 {
		t.Errorf("%s: a block is missing (%v): %s for %s", about, readErr, shownReply(guarded), sample.Short(string(in.Payload)))
	}
	unguarded := dialect.Answer(t.Context(), engineOf(t, []grapnel.Spec{}), s.Dialect, in)
	if unguarded.Exit == 2 {
		t.Errorf("%s: without hooks the exit code is 2, which blocks: %s for %s", about, shownReply(unguarded), sample.Short(string(in.Payload)))
	}
	guarded.Stderr, unguarded.Stderr = nil, nil // stderr may contain the error
	if out, _ := s.heard(ev, guarded); out.Decision == grapnel.Allow {
		t.Errorf("%s: a guard blocks, but %s allows (%v) %s", about, shownReply(guarded), readErr, sample.Short(string(in.Payload)))
	}
	if out, _ := s.heard(ev, unguarded); out.Decision != grapnel.None {
		t.Errorf("%s: without hooks %s decides %v (%v) for %s", about, shownReply(unguarded), out.Decision, readErr, sample.Short(string(in.Payload)))
	}
}

// unreadable tests truncated payloads and payloads that are not events.
func (s *dialectSuite) unreadable(t testing.TB) {
	deep := strings.Repeat("[", 100_000)
	for _, text := range []string{"", " \r\n\t ", "\xef\xbb\xbf", "hello", "[]", `"x"`, "null", "{}", "7", deep, `{"a":` + deep, `{"a":1}}`, "{}{}", "{\x00}"} {
		s.answer(t, "no event", dialect.Input{Payload: []byte(text)})
	}
	for _, c := range s.talks {
		for _, at := range []int{1, len(c.payload) / 4, len(c.payload) / 2, len(c.payload) * 3 / 4, len(bytes.TrimSpace(c.payload)) - 1} {
			s.answer(t, c.name+", cut off", c.input(c.payload[:at:at]))
		}
		in := c.input(c.payload)
		in.Err = io.ErrUnexpectedEOF
		s.answer(t, c.name+", stdin failed", in)
		if _, err := s.Read(in); !errors.Is(err, in.Err) {
			t.Errorf("%s: stdin failed, but Read returns %v", c.name, err)
		}
		s.answer(t, c.name+", byte order mark", c.input(append([]byte("\xef\xbb\xbf"), c.payload...)))
		s.answer(t, c.name+", more after it", c.input(append(bytes.Clone(c.payload), '}')))
	}
}

// hostile replaces each member by values of all types, and adds members with names that differ only
// in case.
func (s *dialectSuite) hostile(t testing.TB) {
	values := []string{`null`, `true`, `-1e400`, `"x"`, `"\ud800"`, `[]`, `[{}]`, `{}`, `{"":{"":[]}}`, `"{\"command\":\"ls\"}"`}
	seen := map[string]bool{}
	for _, c := range s.talks {
		var top map[string]json.RawMessage
		if c.row == nil || seen[c.row.Native] || json.Unmarshal(c.payload, &top) != nil {
			continue
		}
		seen[c.row.Native] = true
		for _, name := range slices.Sorted(maps.Keys(top)) {
			for _, value := range values {
				odd := maps.Clone(top)
				odd[name] = json.RawMessage(value)
				payload, err := rawjson.Marshal(odd)
				if err != nil {
					t.Fatal(err)
				}
				s.answer(t, c.name+", "+name, c.input(payload))
			}
		}
		// Agents match JSON keys exactly and use the last of duplicate keys. A dialect that reads
		// them differently would show guards another call than the one that runs.
		body := bytes.TrimSpace(c.payload)
		for _, name := range slices.Sorted(maps.Keys(top)) {
			for _, also := range []string{strings.ToUpper(name[:1]) + name[1:], name} {
				payload := slices.Concat([]byte("{"+string(rawjson.Quote(also))+":\"odd\","), body[1:])
				again, err := s.Read(c.input(payload))
				if err != nil || state(bare(again)) != state(bare(c.ev)) {
					t.Errorf("%s: with %q first, the event differs (%v)\n\twas %s\n\tis  %s", c.name, also, err, sample.Short(state(bare(c.ev))), sample.Short(state(bare(again))))
				}
			}
		}
	}
}

// hooks writes events of all kinds and of the conversations for hook programs of this dialect, and
// reads possible answers.
func (s *dialectSuite) hooks(t testing.TB) {
	var events []*grapnel.Event
	for _, c := range grapnel.Contracts() {
		events = append(events, Event(c.Kind))
	}
	for _, c := range s.talks {
		events = append(events, c.ev)
	}
	events = append(events, &grapnel.Event{Kind: "native.hooktest.Unheard"})
	outputs := []string{"", "text", "text\n{}", "{", "[]", "7", `"x"`, "null", "\xff\x00", `{"":null}`, "{}{}", strings.Repeat("[", 20_000), strings.Repeat("x", 1<<16)}
	written := 0
	for _, ev := range events {
		before := state(ev)
		_, err := s.WriteEvent(ev)
		if now := state(ev); now != before {
			t.Errorf("WriteEvent changed the event\n\twas %s\n\tis  %s", sample.Short(before), sample.Short(now))
		}
		if err != nil {
			continue // without the event, no program can answer it
		}
		written++
		if s.HookEnv != nil {
			for _, v := range s.HookEnv(ev) {
				if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
					t.Errorf("%s: the variable %q has no name", ev.Kind, v)
				}
			}
		}
		for _, text := range outputs {
			for _, exit := range []int{0, 1, 2, 127, -1} {
				s.readsOutcome(t, ev, dialect.Output{Exit: exit, Stdout: []byte(text)})
			}
		}
	}
	if written == 0 {
		t.Errorf("%s writes no event for its hooks", s.Name)
	}
}

// readsOutcome reads one answer of a program and checks the outcome.
func (s *dialectSuite) readsOutcome(t testing.TB, ev *grapnel.Event, output dialect.Output) {
	out, err := s.ReadOutcome(ev, output)
	about := func() string {
		return fmt.Sprintf("%s: %q on stdout, exit code %d", ev.Kind, sample.Short(string(output.Stdout)), output.Exit)
	}
	switch {
	case len(output.Stdout) == 0 && output.Exit == 0 && (err != nil || !reflect.ValueOf(out).IsZero()):
		t.Errorf("%s is %s, %v, want no opinion", about(), sample.Shown(out), err)
	case out.Decision == grapnel.Allow:
		t.Errorf("%s is an allow", about())
	case output.Exit == 2 && ev.Contract().Blocks == grapnel.BlockingAction && out.Decision != grapnel.Block && err == nil:
		t.Errorf("%s is %s, want a block", about(), sample.Shown(out))
	}
	for _, changes := range []map[grapnel.Field]json.RawMessage{out.Set, out.Patch} {
		for f, value := range changes {
			if !json.Valid(value) {
				t.Errorf("%s sets %s to %q", about(), f, value)
			}
		}
	}
}

// bare returns the event without the parts that repeat the payload or the tables.
func bare(ev *grapnel.Event) *grapnel.Event {
	out := *ev
	out.Native, out.Terms = nil, nil
	if ev.Tool != nil {
		tool := *ev.Tool
		tool.Facts = nil
		out.Tool = &tool
	}
	out.Calls = slices.Clone(ev.Calls)
	for i := range out.Calls {
		out.Calls[i].Facts = nil
	}
	return &out
}
