package hooktest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/sample"
)

func guard(word string) grapnel.Spec {
	return grapnel.Spec{Name: "guard", On: []grapnel.Kind{grapnel.ToolBefore}, Hook: grapnel.Guard(func(ev *grapnel.Event) string {
		if ev.Tool != nil && slices.Contains(ev.Tool.Commands, word) {
			return "not today"
		}
		return ""
	})}
}

func TestExpectations(t *testing.T) {
	t.Parallel()
	asking := grapnel.Spec{Name: "asking", Hook: answers(grapnel.Outcome{Decision: grapnel.Ask})}
	allowing := grapnel.Spec{Name: "allowing", Hook: answers(grapnel.Outcome{Decision: grapnel.Allow})}
	halting := grapnel.Spec{Name: "halting", Hook: answers(grapnel.Outcome{Halt: "enough"})}
	setting := grapnel.Spec{Name: "setting", Hook: answers(grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldCommand: json.RawMessage(`"nice make"`)}})}
	broken := grapnel.Spec{Name: "broken", Hook: replies(grapnel.Outcome{}, errors.New("no such script"))}
	closed := broken
	closed.OnError = grapnel.OnErrorClosed
	late := grapnel.Spec{Name: "late", Phase: grapnel.PhaseObserve, Hook: broken.Hook}
	engine, err := grapnel.New([]grapnel.Spec{guard("make")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		test func(t testing.TB)
		want string // empty = the test passes
	}{
		"blocks":                 {func(t testing.TB) { Blocks(t, Shell("make"), guard("make")) }, ""},
		"does not block":         {func(t testing.TB) { Blocks(t, Shell("ls"), guard("make")) }, "got none, want block"},
		"an engine blocks":       {func(t testing.TB) { Blocks(t, Shell("make"), engine) }, ""},
		"an engine does not":     {func(t testing.TB) { Blocks(t, Shell("ls"), engine) }, `"commands":["ls"]`},
		"two engines":            {func(t testing.TB) { Blocks(t, Shell("ls"), engine, engine) }, "exactly one engine"},
		"blocks by a failure":    {func(t testing.TB) { Blocks(t, Shell("make"), closed) }, "a hook failed"},
		"no valid Spec":          {func(t testing.TB) { Blocks(t, Shell("make"), grapnel.Spec{}) }, "hook without a name"},
		"nobody listens":         {func(t testing.TB) { Blocks(t, Prompt("make"), guard("make")) }, "none of the 1 hooks listens"},
		"asks":                   {func(t testing.TB) { Asks(t, Shell("make"), asking, allowing) }, ""},
		"does not ask":           {func(t testing.TB) { Asks(t, Shell("make"), asking, guard("make")) }, "got block, want ask"},
		"passes":                 {func(t testing.TB) { Passes(t, Shell("ls"), guard("make")) }, ""},
		"passes, nobody listens": {func(t testing.TB) { Passes(t, Prompt("ls"), guard("make")) }, ""},
		"passes by a failure":    {func(t testing.TB) { Passes(t, Shell("ls"), broken) }, "could not answer: no such script"},
		"a late failure":         {func(t testing.TB) { Passes(t, Shell("ls"), late) }, "could not answer: no such script"},
		"an allow is no pass":    {func(t testing.TB) { Passes(t, Shell("ls"), allowing) }, "got allow, want no decision"},
		"a halt is no pass":      {func(t testing.TB) { Passes(t, Event(grapnel.SessionStart), halting) }, "want no decision"},
		"a change is no pass":    {func(t testing.TB) { Passes(t, Shell("make"), setting) }, "want no decision and no change"},
		"changes":                {func(t testing.TB) { Changes(t, Shell("make"), Shell("nice make"), setting) }, ""},
		"changes otherwise":      {func(t testing.TB) { Changes(t, Shell("make"), Shell("make -j"), setting) }, `got {"command":"nice make"}, want {"command":"make -j"}`},
		"changes nothing":        {func(t testing.TB) { Changes(t, Shell("make"), Shell("make -j"), guard("x")) }, `got {"command":"make"}`},
		"blocks a change":        {func(t testing.TB) { Changes(t, Shell("make"), Shell("nice make"), setting, guard("make")) }, "got block, want a change"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := failure(t, tt.test)
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("the test says %q, want %q", got, tt.want)
			}
		})
	}
}

// A failure message contains everything, so it is not necessary to run the test again.
func TestFiringShowsAll(t *testing.T) {
	t.Parallel()
	specs := []grapnel.Spec{
		guard("make"),
		{Name: "dry", Observe: true, Hook: answers(grapnel.Outcome{Decision: grapnel.Block, Reason: "would"})},
		{Name: "broken", Hook: replies(grapnel.Outcome{}, errors.New("no such script")), OnError: grapnel.OnErrorOpen},
		{Name: "silent", Hook: answers(grapnel.Outcome{})},
		{Name: "late", Phase: grapnel.PhaseObserve, Hook: answers(grapnel.Outcome{Message: "noted"})},
	}
	got := Fire(t, Shell("make <all>"), specs...).String()
	for _, want := range []string{
		`"command":"make <all>"`, `"decision":"none"`, "guard: no opinion", `dry: it is in observe mode; {"decision":"block","reason":"would"}`,
		"broken: could not answer: no such script", "silent: no opinion", `late: {"message":"noted"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %s:\n%s", want, got)
		}
	}
	if huge := Fire(t, Write("a", strings.Repeat("x", 1<<20)), specs...).String(); len(huge) > 8000 || !strings.Contains(huge, "more bytes)") {
		t.Errorf("%d bytes say what happened to 1 MiB", len(huge))
	}
}

// Concurrent tests can share one engine, and each gets the Firing of its own event.
func TestFireAtOnce(t *testing.T) {
	t.Parallel()
	engine, err := grapnel.New([]grapnel.Spec{guard("make"), {Name: "late", Phase: grapnel.PhaseObserve, Hook: grapnel.Watch(func(context.Context, *grapnel.Event) {})}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, command := range []string{"make", "ls", "make", "pwd"} {
		all.Go(func() {
			f := Fire(t, Shell(command), engine)
			if f.Record.Input.Tool.Commands[0] != command || (f.Decision == grapnel.Block) != (command == "make") || len(f.Late) != 1 {
				t.Errorf("%s:\n%v", command, f)
			}
		})
	}
	all.Wait()
}

// Every kind has an event as agents send it.
func TestEvents(t *testing.T) {
	t.Parallel()
	for _, c := range grapnel.Contracts() {
		if ev := Event(c.Kind); ev.Kind != c.Kind || ev.Session.ID == "" || ev.Session.CWD == "" || ev.Can() != nil {
			t.Errorf("Event(%s) = %s", c.Kind, sample.Shown(ev))
		}
	}
	for name, tt := range map[string]struct {
		ev   *grapnel.Event
		want string // a part of the event
	}{
		"Shell":  {Shell("a < b"), `"tool":{"id":"toolu_1","name":"Bash","class":"shell","input":{"command":"a < b"},"commands":["a < b"]}`},
		"Read":   {Read("a.go"), `"class":"read","input":{"file_path":"a.go"},"paths":[{"path":"a.go","use":"read"}]`},
		"Write":  {Write("a.go", "package a"), `"class":"write","input":{"content":"package a","file_path":"a.go"},"paths":[{"path":"a.go","use":"write"}],"content":"package a"`},
		"Fetch":  {Fetch("https://example.com/"), `"urls":["https://example.com/"]`},
		"MCP":    {Tool("mcp__lab__echo", object{"text": "hi"}), `"name":"mcp__lab__echo","class":"mcp","mcp":{"server":"lab","tool":"echo"}`},
		"Prompt": {Prompt("do it"), `"prompt":{"text":"do it"}`},
		"After":  {After(Shell("make"), "ok"), `"kind":"tool.after"`},
		"output": {After(Shell("make"), "ok"), `"output":"ok"`},
		"failed": {After(Shell("make"), errors.New("exit code 2")), `"output":"exit code 2","failed":true`},
		"native": {Event("native.claude-code.Setup"), `"kind":"native.claude-code.Setup"`},
	} {
		if got := sample.ShownEvent(tt.ev); !strings.Contains(got, tt.want) {
			t.Errorf("%s = %s, want %s in it", name, got, tt.want)
		}
	}
	for name, f := range map[string]func(){
		"no such kind":  func() { Event("tool.sideways") },
		"after no call": func() { After(Prompt("x"), "y") },
		"no JSON":       func() { Tool("Bash", func() {}) },
		"no input":      func() { Tool("Bash", "rm") },
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(r.(string), "hooktest") {
					t.Errorf("%s: panic(%v), want one that says where", name, r)
				}
			}()
			f()
		}()
	}
}
