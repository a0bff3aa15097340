package dialect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/hooktest"
)

var update = flag.Bool("update", false, "rewrite event.json, verdict.json and the reply of the golden conversations")

// TestDialects checks the laws of all dialects, and plays the conversations of
// testdata/<agent>. Package hooktest describes their format.
func TestDialects(t *testing.T) {
	t.Parallel()
	for _, d := range dialect.All() {
		if d.Name == dialect.Plain().Name {
			continue // see plain_test.go
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			hooktest.TestDialect(t, d, filepath.Join("testdata", d.Name))
		})
	}
	for _, d := range dialect.HookOnly() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			hooktest.TestDialect(t, d, "")
		})
	}
}

// engineOf returns an engine with a single hook that gives this outcome to every event.
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

// bare removes the parts that repeat the payload or the tables.
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

// readable writes JSON on one line if it is short, and indented otherwise.
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

// TestEveryEventHasConversations checks that every event in the tables has conversations.
//
// Proves: GC-01
func TestEveryEventHasConversations(t *testing.T) {
	t.Parallel()
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
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

// TestSessions plays two recorded sessions: without hooks, every event is read and gets an
// empty reply.
func TestSessions(t *testing.T) {
	t.Parallel()
	engine, err := grapnel.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
		session, err := os.ReadFile(filepath.Join("testdata", d.Name, "session.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(session) {
			if got := dialect.Detect(line); named(got) != d.Name {
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
