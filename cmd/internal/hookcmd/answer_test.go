package hookcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
)

func TestParseArgs(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]invocation{
		"":                         {},
		"claude-code":              {agent: "claude-code"},
		"gemini BeforeTool --id x": {agent: "gemini", event: "BeforeTool", id: "x"},
		"--id=x gemini":            {agent: "gemini", id: "x"},
		"--id a --id b":            {id: "b"},
		"--root /r":                {root: "/r"},
		"--root r":                 {root: filepath.Join(here, "r")},
		"--policy a --policy=b c":  {agent: "c", policies: []string{"a", "b"}},
		"--policy --help":          {policies: []string{"--help"}},
		"--policy a=b":             {policies: []string{"a=b"}},
		"-h":                       {help: true},
		"--help --version":         {help: true, version: true},
		"--drain --id x":           {drain: true, id: "x"},
		"a --id x b --policy p":    {agent: "a", event: "b", id: "x", policies: []string{"p"}},
	} {
		got, err := parseArgs(strings.Fields(line))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(invocation{})); diff != "" || err != nil {
			t.Errorf("parseArgs(%q): %v (-want +got)\n%s", line, err, diff)
		}
	}
	for line, want := range map[string]string{
		"--id":            "needs an argument: -id",
		"--root=":         "-root: it is empty",
		"--policy=":       "-policy: it is empty",
		"--id a --root b": "cannot be used together",
		"a b c d":         "too many arguments: c d",
		"--nonsense":      "not defined: -nonsense",
		"--help=yes":      `"yes" for -help`,
		"claude -x":       "not defined: -x",
		"--":              `unknown option "--"`,
		"claude -- -x":    `unknown option "--"`,
	} {
		if _, err := parseArgs(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseArgs(%q) says %v, want %q", line, err, want)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	const claude, gemini = `{"hook_event_name":"PreToolUse","tool_name":"Bash"}`, `{"hook_event_name":"BeforeTool","timestamp":"2026-11-20T19:43:25.789Z"}`
	for name, tt := range map[string]struct {
		named              *dialect.Dialect
		payload, installed string
		want               *dialect.Dialect
	}{
		"the command line":              {dialect.GeminiCLI(), claude, "claude-code", dialect.GeminiCLI()},
		"the payload":                   {nil, gemini, "claude-code", dialect.GeminiCLI()},
		"the installation":              {nil, `nonsense`, "gemini-cli", dialect.GeminiCLI()},
		"nobody":                        {nil, ``, "", dialect.ClaudeCode()},
		"an installation of the future": {nil, ``, "nosuchagent", dialect.ClaudeCode()},
	} {
		if got := newAgents().choose(tt.named, []byte(tt.payload), tt.installed); got.Name != tt.want.Name {
			t.Errorf("%s: %s, want %s", name, got.Name, tt.want.Name)
		}
	}
}

func TestReadInput(t *testing.T) {
	t.Parallel()
	over := io.LimitReader(zeros{}, dialect.MaxPayload+1000)
	if in := readInput(over); len(in.Payload) != dialect.MaxPayload+1 || in.Err != nil {
		t.Errorf("%d bytes, %v: one more than is judged is enough to know", len(in.Payload), in.Err)
	}
	if n, _ := io.Copy(io.Discard, over); n != 0 {
		t.Errorf("%d bytes are left unread: the agent would meet a closed pipe", n)
	}
	if in := readInput(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("{}")))); in.Err == nil {
		t.Error("a stream that breaks is no whole payload")
	}
	if in := readInput(iotest.OneByteReader(strings.NewReader("{}"))); string(in.Payload) != "{}" || in.Err != nil {
		t.Errorf("byte by byte: %q, %v", in.Payload, in.Err)
	}
}

// An event is complete when its JSON value is: some agents and shells keep the pipe open.
func TestInputOfAnOpenPipe(t *testing.T) {
	t.Parallel()
	const marks = "\xef\xbb\xbf"
	text := strings.Repeat(`\\ \" { [ é`, 20_000)
	for name, parts := range map[string][]string{
		"at once":           {remove},
		"with a newline":    {remove + "\n"},
		"byte by byte":      strings.Split(remove, ""),
		"two marks":         {marks + marks + remove},
		"marks in parts":    {"\xef", "\xbb", "\xbf \n", marks + "\t", remove},
		"brackets in texts": {`{"a":"}]","b":"\"}`, `","c":[{"d":"\\"},"]"]`, `}`},
		"a large text":      {`{"a":"` + text, text + `"`, "}"},
		"a list":            {"[{}", "]"},
		"a text":            {`"a\"`, `{"`},
		"a number":          {"12", "3\n"},
		"not JSON":          {"hello", " "},
		"closed too often":  {"}"},
		"bytes behind it":   {remove + " {}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := io.Pipe() // never closed by the writer
			t.Cleanup(func() { _ = r.Close() })
			go func() {
				for _, part := range parts {
					_, _ = io.WriteString(w, part)
				}
			}()
			in := make(chan dialect.Input, 1)
			go func() { in <- readInput(r) }()
			if got := await.Receive(t, "the payload", in); string(got.Payload) != strings.Join(parts, "") || got.Err != nil {
				t.Errorf("read %.80q, %v", got.Payload, got.Err)
			}
		})
	}
	for _, part := range []string{`{"a":"`, `{"a":{}`, `[`, marks, " ", `{"a":"\"`} { // these may go on
		var scan valueScan
		if scan.ended([]byte(part)) {
			t.Errorf("%q counts as complete", part)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

const (
	guard  = "version: 1\nhooks:\n  - {name: no-rm, on: tool.before, match: {command: rm}, block: no}\n"
	remove = `{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"rm x"}}`
)

func guarded(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(guard), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

type broken struct{}

func (broken) Read([]byte) (int, error)  { panic("of the reader") }
func (broken) Write([]byte) (int, error) { return 0, errors.New("closed") }

// A crash of a Go program ends with exit code 2, which means block to several agents.
func TestMainNeverCrashes(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if exit := Main([]string{"claude-code", "--root", guarded(t)}, broken{}, &stdout, &stderr); exit != exitFailure {
		t.Errorf("exit %d, want %d", exit, exitFailure)
	}
	if stdout.Len() > 0 || !strings.Contains(stderr.String(), "internal error: of the reader") {
		t.Errorf("stdout %q, stderr %q", &stdout, &stderr)
	}
	stdout.Reset()
	if exit := Main([]string{"antigravity", "PreToolUse", "--root", guarded(t)}, broken{}, &stdout, io.Discard); exit != 0 || !strings.Contains(stdout.String(), `{"decision":"deny","reason":"`) {
		t.Errorf("an agent that needs an answer: exit %d, stdout %q", exit, &stdout)
	}
	if exit := Main([]string{"claude-code", "--root", guarded(t)}, strings.NewReader(remove), broken{}, io.Discard); exit != exitBlocks {
		t.Errorf("with stdout closed: exit %d, want %d", exit, exitBlocks)
	}
	if exit := Main([]string{"claude-code", "--root", guarded(t)}, strings.NewReader(remove), io.Discard, broken{}); exit != 0 {
		t.Errorf("with stderr closed: exit %d, want 0", exit)
	}
}

// A panic during an event gets the reply of a guard that fails closed.
func TestPanicInsideBlocks(t *testing.T) {
	t.Parallel()
	d := *dialect.ClaudeCode()
	read, calls := d.ReadEvent, 0
	d.ReadEvent = func(row *dialect.EventRow, top map[string]json.RawMessage, in dialect.Input) (*grapnel.Event, error) {
		if calls++; calls == 1 {
			panic("of the dialect")
		}
		return read(row, top, in)
	}
	place, err := local.Locate(guarded(t), "")
	if err != nil {
		t.Fatal(err)
	}
	reply, pending := answer(t.Context(), invocation{}, &d, dialect.Input{Payload: []byte(remove)}, place, nil)
	if !strings.Contains(string(reply.Stdout), `"permissionDecision":"deny"`) || reply.Exit != 0 || pending {
		t.Errorf("%s %d, want a block", reply.Stdout, reply.Exit)
	}
}

// An event of any size is read only once.
func TestReadsOnce(t *testing.T) {
	t.Parallel()
	d := *dialect.ClaudeCode()
	read, calls := d.ReadEvent, 0
	d.ReadEvent = func(row *dialect.EventRow, top map[string]json.RawMessage, in dialect.Input) (*grapnel.Event, error) {
		calls++
		return read(row, top, in)
	}
	place, err := local.Locate(guarded(t), "")
	if err != nil {
		t.Fatal(err)
	}
	if reply, _ := answer(t.Context(), invocation{}, &d, dialect.Input{Payload: []byte(remove)}, place, nil); calls != 1 || !strings.Contains(string(reply.Stdout), `"deny"`) {
		t.Errorf("read %d times, %s", calls, reply.Stdout)
	}
}

// Concurrent programs at the first use of an installation do not disturb each other.
func TestFirstUseAtOnce(t *testing.T) {
	t.Parallel()
	root := guarded(t)
	const n = 16
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			var stdout, stderr bytes.Buffer
			exit := Main([]string{"claude-code", "--root", root}, strings.NewReader(remove), &stdout, &stderr)
			if exit != 0 || !strings.Contains(stdout.String(), `"deny"`) || stderr.Len() > 0 {
				t.Errorf("exit %d, %s, %s", exit, &stdout, &stderr)
			}
		})
	}
	all.Wait()
	kept := 0
	for entry, err := range spool.Read(filepath.Join(root, "state"), spool.Filter{}) {
		if err != nil || entry.Decision != grapnel.Block {
			t.Errorf("%v, %v, want a block", entry.Decision, err)
		}
		kept++
	}
	if kept != n {
		t.Errorf("%d Records, want %d", kept, n)
	}
}

// A pending hook runs with its original content, or not at all.
func TestFindPending(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) string {
		t.Helper()
		if err := os.WriteFile(place.Policy, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		set := load.Policies(place.Request(place.Files(nil, nil), policy.Runners{Command: local.Runner(place)}))
		return set.Files[0].Digest
	}
	const async = "version: 1\nhooks:\n  - {name: p, on: tool.after, run: 'true', async: true}\n"
	old := write(async)
	now := write(strings.Replace(async, "true", "false", 1))
	waits := spool.Pending{Hook: "p", Source: place.Policy, File: place.Policy, Digest: old}
	if spec, _, err := late.Find(place, kindsOf(place), nil, late.RefOf(&waits)); err != nil || spec.Source.Digest != old {
		t.Errorf("%+v, %v, want the hook of then", spec.Source, err)
	}
	if err := os.Remove(filepath.Join(place.Snapshots(), old+".snap")); err != nil {
		t.Fatal(err)
	}
	if spec, _, err := late.Find(place, kindsOf(place), nil, late.RefOf(&waits)); err == nil {
		t.Errorf("the hook of %s runs in place of that of %s (now is %s)", spec.Source.Digest, old, now)
	}
}

// A pending hook of a project runs with the rights of a project, and only while its content is
// trusted.
func TestFindPendingOfAProject(t *testing.T) {
	t.Parallel()
	dir := tree(t, "p", "root")
	place, err := local.Locate(filepath.Join(dir, "root"), "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "p", local.ProjectPolicy)
	trust := func(text string) string {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		x, errs := load.Examine(file, filepath.Dir(file), load.Packs{})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if err := place.Trusts().Keep(x); err != nil {
			t.Fatal(err)
		}
		load.Policies(place.Request(place.Files(nil, []local.Dir{{Path: filepath.Dir(file)}}), policy.Runners{Command: local.Runner(place)}))
		return x.SHA256
	}
	const async = "version: 1\nhooks:\n  - {name: p, on: tool.after, run: 'true', async: true}\n"
	old := trust(async)
	waits := spool.Pending{Hook: "p", Source: file, File: file, Digest: old, Scope: "project"}
	spec, _, err := late.Find(place, kindsOf(place), nil, late.RefOf(&waits))
	if err != nil || spec.Source.Scope != grapnel.ScopeProject {
		t.Errorf("%+v, %v, want the hook of a project", spec.Source, err)
	}

	trust(async + "# more\n")
	if spec, _, err := late.Find(place, kindsOf(place), nil, late.RefOf(&waits)); err == nil {
		t.Errorf("%+v: it runs in place of what was trusted then", spec.Source)
	}
	trust(async)
	if _, _, err := late.Find(place, kindsOf(place), nil, late.RefOf(&waits)); err != nil {
		t.Errorf("trusted again: %v", err)
	}
	if forgot, err := place.Trusts().Forget(file, place.Snapshots()); !forgot || err != nil {
		t.Fatal(forgot, err)
	}
	if spec, _, err := late.Find(place, kindsOf(place), nil, late.RefOf(&waits)); err == nil {
		t.Errorf("%+v runs, and nobody trusts it any more", spec.Source)
	}
}
