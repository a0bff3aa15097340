package dialect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

var update = flag.Bool("update", false, "rewrite event.json, verdict.json and the reply of the golden conversations")

// TestConversations plays the conversations of testdata/<agent>/*.txtar. One has
//
//	stdin.json     what the agent wrote
//	outcome.json   what the one hook answered; absent = nothing
//	event.json     the event as it was read, without native, can, contract and facts
//	verdict.json   what the engine made of the outcome
//	reply: exit N  what the agent gets on stdout
//	stderr         and on stderr, if anything
//
// and a comment that says what it shows. The first two are written by hand, or
// recorded; -update writes the others.
func TestConversations(t *testing.T) {
	t.Parallel()
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode, dialect.GeminiCLI} {
		files, err := filepath.Glob(filepath.Join("testdata", d.Name, "*.txtar"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no conversations of %s: %v", d.Name, err)
		}
		for _, file := range files {
			t.Run(d.Name+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				t.Parallel()
				playConversation(t, d, file)
			})
		}
	}
}

func playConversation(t *testing.T, d *dialect.Dialect, file string) {
	t.Helper()
	want, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(bytes.TrimSpace(want.Comment)) == 0 {
		t.Errorf("%s does not say what it shows", file)
	}
	var outcome grapnel.Outcome
	got := &txtar.Archive{Comment: want.Comment}
	var in dialect.Input
	for _, f := range want.Files {
		switch f.Name {
		case "stdin.json":
			in.Payload = f.Data
		case "outcome.json":
			if err := json.Unmarshal(f.Data, &outcome); err != nil {
				t.Fatalf("outcome.json: %v", err)
			}
		default:
			continue
		}
		got.Files = append(got.Files, f)
	}

	engine := engineOf(t, outcome)
	ev, err := d.Read(in)
	if err != nil {
		t.Fatalf("Read(%s): %v", in.Payload, err)
	}
	v := engine.Fire(t.Context(), ev)
	reply := d.Write(ev, &v, "")
	whole := dialect.Answer(t.Context(), engine, d, in)
	reply.Silent = whole.Silent // only Answer knows
	if !cmp.Equal(whole, reply) {
		t.Errorf("Answer says something else than Read, Fire and Write (-parts +whole):\n%s", cmp.Diff(reply, whole))
	}

	add := func(name string, data []byte) {
		got.Files = append(got.Files, txtar.File{Name: name, Data: data})
	}
	add("event.json", readable(t, bare(ev)))
	add("verdict.json", readable(t, shownVerdict(&v)))
	add(fmt.Sprintf("reply: exit %d", reply.Exit), reply.Stdout)
	if len(reply.Stderr) > 0 {
		add("stderr", reply.Stderr)
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(want)), string(txtar.Format(got))); diff != "" {
		t.Errorf("%s (-want +got, -update rewrites):\n%s", file, diff)
	}
}

// engineOf returns an engine whose only hook gives this outcome to every event.
func engineOf(t testing.TB, outcome grapnel.Outcome) *grapnel.Engine {
	t.Helper()
	engine, err := grapnel.New([]grapnel.Spec{{
		Name: "hook",
		Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return outcome, nil }),
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// bare leaves out what repeats the payload or the tables.
func bare(ev *grapnel.Event) *grapnel.Event {
	out := *ev
	out.Native, out.Can, out.Contract = nil, nil, nil
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

// shownVerdict is a Verdict whose reasons are only their texts.
func shownVerdict(v *grapnel.Verdict) any {
	type shown struct {
		Decision grapnel.Decision                  `json:"decision"`
		Reasons  []string                          `json:"reasons,omitempty"`
		Messages []string                          `json:"messages,omitempty"`
		Context  []string                          `json:"context,omitempty"`
		Changes  map[grapnel.Field]json.RawMessage `json:"changes,omitempty"`
		Halt     string                            `json:"halt,omitempty"`
		Native   map[string]json.RawMessage        `json:"native,omitempty"`
		Lost     []string                          `json:"lost,omitempty"`
	}
	s := shown{Decision: v.Decision, Messages: v.Messages, Context: v.Context, Changes: v.Changes, Halt: v.Halt, Native: v.Native, Lost: v.Lost}
	for _, r := range v.Reasons {
		s.Reasons = append(s.Reasons, r.Text)
	}
	return s
}

// readable writes JSON on one line if that is short, and indented otherwise.
func readable(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	if b.Len() <= 120 {
		return b.Bytes()
	}
	var long bytes.Buffer
	if err := json.Indent(&long, b.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	return long.Bytes()
}

// TestEveryEventHasConversations keeps the tables and the conversations together.
// It shows GC-01 and GC-03.
func TestEveryEventHasConversations(t *testing.T) {
	t.Parallel()
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode, dialect.GeminiCLI} {
		for _, row := range d.Events {
			recorded, err := filepath.Glob(filepath.Join("testdata", d.Name, "recorded-"+row.Native+"*.txtar"))
			if err != nil {
				t.Fatal(err)
			}
			made, err := filepath.Glob(filepath.Join("testdata", d.Name, row.Native+"-*.txtar"))
			if err != nil {
				t.Fatal(err)
			}
			if len(recorded)+len(made) == 0 {
				t.Errorf("%s: no conversation with %s", d.Name, row.Native)
			}
			if len(made) == 0 && (row.Can.Block || row.Can.Halt || len(row.Can.Change) > 0) {
				t.Errorf("%s: no conversation in which %s is answered", d.Name, row.Native)
			}
		}
	}
}

// TestSessions plays two recorded sessions: without hooks every event is read, and
// answered with nothing.
func TestSessions(t *testing.T) {
	t.Parallel()
	engine, err := grapnel.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode, dialect.GeminiCLI} {
		session, err := os.ReadFile(filepath.Join("testdata", d.Name, "session.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(session) {
			if got := dialect.Detect(line); got != d {
				t.Errorf("Detect(%s) = %v, want %s", line, got, d.Name)
			}
			ev, err := d.Read(dialect.Input{Payload: line})
			if err != nil {
				t.Errorf("Read(%s): %v", line, err)
				continue
			}
			if ev.Kind == "" || ev.Kind.Native() || ev.Session.ID == "" || ev.Session.CWD == "" {
				t.Errorf("Read(%s) = %+v, want a known event with its session", line, bare(ev))
			}
			if reply := dialect.Answer(t.Context(), engine, d, dialect.Input{Payload: line}); !cmp.Equal(reply, dialect.Reply{Silent: reply.Silent}) {
				t.Errorf("Answer(%s) = %+v, want nothing at all", line, reply)
			}
		}
	}
}
