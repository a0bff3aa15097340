package spool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/journal"
)

// open returns a Spool in a directory that does not exist yet.
func open(t testing.TB, opts *Options) (*Spool, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state", "grapnel")
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

// observe stores Records and fails the test if one cannot be stored.
func observe(t testing.TB, s *Spool, recs ...*grapnel.Record) {
	t.Helper()
	for _, rec := range recs {
		s.Observe(t.Context(), rec)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
}

// read returns the whole log, and its errors.
func read(t testing.TB, dir string) (entries []Entry, problems []error) {
	t.Helper()
	for e, err := range Read(dir, Filter{}) {
		if err != nil {
			problems = append(problems, err)
		} else {
			entries = append(entries, e)
		}
	}
	return entries, problems
}

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "yet")
	if _, err := Open(dir, nil); err != nil {
		t.Errorf("Open(%q) = %v", dir, err)
	}
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open made directories: %v", err)
	}
	for _, dir := range []string{"", "relative", "./x"} {
		if _, err := Open(dir, nil); err == nil {
			t.Errorf("Open(%q) gave no error", dir)
		}
	}
	if _, err := Open(dir, &Options{Records: 7}); err == nil {
		t.Error("Open with an unknown mode gave no error")
	}
}

// Context and changes in a Verdict are stored like the event: masked, cut, or not at all.
func TestContextAndChanges(t *testing.T) {
	t.Parallel()
	const token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	rec := &grapnel.Record{
		ID: "1", Time: time.Unix(1, 0).UTC(), Event: grapnel.PromptBefore, Changed: []grapnel.Field{grapnel.FieldPrompt},
		Input: &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "old"}},
		Verdict: &grapnel.Verdict{
			Context: []string{"house rules, " + token},
			Changes: map[grapnel.Field]json.RawMessage{
				grapnel.FieldPrompt: json.RawMessage(`"new ` + token + ` ` + strings.Repeat("x ", 40<<10) + `"`),
				grapnel.FieldSystem: json.RawMessage(`"be nice"`),
			},
		},
	}
	for mode, want := range map[Mode]struct{ context, prompt string }{
		Masked: {"house rules, ", `"new `}, Full: {"house rules, " + token, `"new ` + token}, Metadata: {},
	} {
		s, dir := open(t, &Options{Records: mode})
		observe(t, s, rec)
		entries, problems := read(t, dir)
		if len(entries) != 1 || len(problems) > 0 {
			t.Fatalf("%v: read %+v, %v", mode, entries, problems)
		}
		e := entries[0]
		if mode == Metadata {
			if e.Context != nil || e.Changes != nil {
				t.Errorf("metadata: kept are %q and %s", e.Context, e.Changes)
			}
			continue
		}
		if len(e.Context) != 1 || !strings.HasPrefix(e.Context[0], want.context) || string(e.Changes[grapnel.FieldSystem]) != `"be nice"` {
			t.Errorf("%v: kept are %q and %.200s", mode, e.Context, e.Changes)
		}
		prompt := string(e.Changes[grapnel.FieldPrompt])
		if !strings.HasPrefix(prompt, want.prompt) || len(prompt) > 16<<10 || !strings.Contains(prompt, "more bytes cut") {
			t.Errorf("%v: of the prompt %d bytes are kept: %.80s", mode, len(prompt), prompt)
		}
		if secret := strings.Contains(prompt+e.Context[0], token); secret != (mode == Full) {
			t.Errorf("%v: the token is kept: %v", mode, secret)
		}
	}
}

func TestMode(t *testing.T) {
	t.Parallel()
	for m, name := range map[Mode]string{Masked: "masked", Metadata: "metadata", Full: "full"} {
		text, err := m.MarshalText()
		var back Mode
		if err != nil || string(text) != name || back.UnmarshalText(text) != nil || back != m {
			t.Errorf("mode %d is written %q, %v and read %d", m, text, err, back)
		}
	}
	if err := new(Mode).UnmarshalText([]byte("all")); err == nil {
		t.Error(`UnmarshalText("all") gave no error`)
	}
	if got := Mode(9).String(); got != "mode(9)" {
		t.Errorf("Mode(9) = %q", got)
	}
}

// A stored Record is read back unchanged.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Masked, Full} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s, dir := open(t, &Options{Records: mode, Sync: true})
			recs := []*grapnel.Record{record("a"), record("b"), {ID: "c", Time: time.Now().UTC().Round(0), Hooks: []grapnel.HookRun{}, Error: "the payload is empty"}}
			observe(t, s, recs...)
			got, problems := read(t, dir)
			want := make([]Entry, len(recs))
			for i, rec := range recs {
				want[i].Record = *rec
			}
			if diff := cmp.Diff(want, got); diff != "" || problems != nil {
				t.Errorf("Read: %v (-want +got)\n%s", problems, diff)
			}
			raw, err := os.ReadFile(logFile(dir))
			if err != nil || strings.Count(string(raw), "\n{") != len(recs) || !strings.Contains(string(raw), "No <ls> here.") {
				t.Errorf("the file is not one line for each Record without HTML escapes: %v\n%s", err, raw)
			}
			if _, first, _ := strings.Cut(string(raw), "\n"); !strings.HasPrefix(first, `{"id":"a","time":"`) {
				t.Errorf("a line begins %.40s, want id and time first", raw)
			}
		})
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	const password = "hunter2"
	rec := record("a")
	rec.Input.Tool.Input = []byte(`{"command":"login --password hunter2","api_key":"plain"}`)
	rec.Input.Tool.Commands = []string{"login --password hunter2"}
	rec.Input.Tool.Paths = []grapnel.Path{{Path: "/x?token=abc123def"}}
	rec.Input.Tool.Content = "password=hunter2"
	rec.Reasons[0].Text = "Do not use password=hunter2."
	rec.Hooks[0].Error = "exit code 1: password=hunter2"
	rec.Error = "password=hunter2"
	rec.Halt = "password=hunter2"
	rec.Conflicts = []string{"password=hunter2"}
	line := func(mode Mode) string {
		s, dir := open(t, &Options{Records: mode})
		observe(t, s, rec)
		raw, err := os.ReadFile(logFile(dir))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if got := line(Full); strings.Count(got, password) != 8 {
		t.Errorf("full: %s, want all as it came", got)
	}
	if got := line(Masked); strings.Contains(got, password) || strings.Contains(got, "plain") || strings.Contains(got, "abc123def") || !strings.Contains(got, `"login --password ***"`) {
		t.Errorf("masked: %s, want no secret, and what is around them", got)
	}
	if got := line(Metadata); strings.Contains(got, password) || strings.Contains(got, `"input"`) || !strings.Contains(got, "Do not use password=***") {
		t.Errorf("metadata: %s, want nothing of the event, and no secret in the reason", got)
	}
	if rec.Input.Tool.Commands[0] != "login --password hunter2" {
		t.Error("Observe changed the Record")
	}
}

// For an agent's event, the original payload is stored without possible secrets. Its dialect
// reads the other fields from it again.
func TestPayloadIsKeptAsSent(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	rec := record("a")
	rec.Input.Native = []byte(`{"hook_event_name":"PreToolUse","x":{"y":["password=hunter2","https://a:hunter2@h/",1.50]},"api_key":"plain"}`)
	observe(t, s, rec)
	got, problems := read(t, dir)
	const want = `{"hook_event_name":"PreToolUse","x":{"y":["password=***","https://a:***@h/",1.50]},"api_key":"***"}`
	if len(got) != 1 || problems != nil || string(got[0].Input.Native) != want || got[0].Input.Kind != grapnel.ToolBefore || got[0].Input.Agent.Name != "claude-code" {
		t.Errorf("Read = %+v, %v, want kind, agent and %s", got, problems, want)
	}
}

// An event of many megabytes results in a short line, and the other limits apply too.
func TestLimits(t *testing.T) {
	t.Parallel()
	big := rep("0123456789abcdef", 1<<14)
	rec := record("a")
	rec.Input.Tool.Content = big
	rec.Input.Native = mustJSON(t, map[string]string{"all": big})
	rec.Reasons[0].Text = big
	for range 8 {
		rec.Hooks = append(rec.Hooks, grapnel.HookRun{Name: "h", Error: big})
	}
	for _, opts := range []Options{{}, {MaxInput: 1 << 30}, {MaxInput: 1}} {
		s, dir := open(t, &opts)
		observe(t, s, rec)
		raw, err := os.ReadFile(logFile(dir))
		if err != nil || len(raw) > maxLine {
			t.Errorf("with %+v a line has %d bytes, %v, want %d at most", opts, len(raw), err, maxLine)
		}
		if entries, problems := read(t, dir); len(entries) != 1 || problems != nil || entries[0].Tool != "Bash" {
			t.Errorf("with %+v: %d entries, %v", opts, len(entries), problems)
		}
	}
}

func TestSideFile(t *testing.T) {
	t.Parallel()
	s, dir := open(t, &Options{Records: Full, Sync: true})
	rec := record("a")
	rec.Input.Tool.Content = rep("x", 100<<10)
	observe(t, s, rec, rec)
	lines, err := os.ReadFile(logFile(dir))
	if err != nil || len(lines) > 2000 {
		t.Fatalf("%d bytes of lines, %v, want the event elsewhere", len(lines), err)
	}
	got, problems := read(t, dir)
	if len(got) != 2 || problems != nil {
		t.Fatalf("Read = %d entries, %v", len(got), problems)
	}
	for i := range got {
		if diff := cmp.Diff(*rec, got[i].Record); diff != "" {
			t.Errorf("the Record came back changed (-want +got):\n%s", diff)
		}
	}
	side, err := os.ReadDir(filepath.Join(dir, sideDir))
	if err != nil || len(side) != 1 || side[0].Name() != got[0].InputAt+".json" {
		t.Fatalf("side files: %v, %v, want one for equal events", side, err)
	}

	file := sideFile(dir, got[0].InputAt)
	for name, damage := range map[string]func() error{
		"content does not match the digest": func() error { return os.WriteFile(file, []byte(`{"kind":"tool.before"}`), 0o600) },
		"no such file":                      func() error { return os.Remove(file) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		got, problems := read(t, dir)
		if len(got) != 2 || got[0].Input != nil || len(problems) != 2 || !strings.Contains(problems[1].Error(), "00000001.jsonl: cannot read the event") {
			t.Errorf("%s: %d entries, %v, want the Records without their events, and why", name, len(got), problems)
		}
	}
	if err := readAside(dir, "../../journal/00000001.jsonl", new(grapnel.Event)); err == nil {
		t.Error("a digest that is a path was read")
	}
}

// If a value cannot be written as JSON, the event is not stored, but the Record is.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	rec := record("a")
	rec.Input.Native = []byte(`{"broken":`)
	s.Observe(t.Context(), rec)
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "stored without its event") {
		t.Errorf("Err = %v, want that the event is not kept", err)
	}
	if got, problems := read(t, dir); len(got) != 1 || problems != nil || got[0].Input != nil {
		t.Errorf("Read = %v, %v, want the Record without its event", got, problems)
	}
	for range 2 {
		s.Observe(t.Context(), rec)
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "(and 2 more)") {
		t.Errorf("Err = %v, want it to count", err)
	}
	if err := s.Run(t.Context(), rec.Input, hooks("h")); err == nil {
		t.Error("Run of an event that cannot be written gave no error")
	}
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no permission bits")
	}
	s, dir := open(t, &Options{Records: Full})
	rec := record("a")
	rec.Input.Tool.Content = rep("x", 100<<10)
	observe(t, s, rec)
	if err := s.Run(t.Context(), rec.Input, hooks("h")); err != nil {
		t.Fatal(err)
	}
	err := filepath.Walk(filepath.Dir(dir), func(name string, info os.FileInfo, err error) error {
		if err == nil && info.Mode()&os.ModeSymlink != 0 { // to the newest segment
			return nil
		}
		if want := map[bool]os.FileMode{true: 0o700, false: 0o600}[info.IsDir()]; info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// If other users could write to the place, nothing is stored there, and the reply is not
// affected.
func TestRefusedPlaces(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no owners and permission bits")
	}
	mkdir := func(t *testing.T, dir string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
	}
	parts := func(prepare func(t *testing.T, part string)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			mkdir(t, dir, 0o755)
			for _, part := range []string{JournalDir, outboxDir} {
				prepare(t, filepath.Join(dir, part))
			}
		}
	}
	tests := map[string]struct {
		prepare func(t *testing.T, dir string)
		wantErr string
	}{
		"symbolic link": {parts(func(t *testing.T, part string) {
			if err := os.Symlink(t.TempDir(), part); err != nil {
				t.Fatal(err)
			}
		}), "symbolic link"},
		"others write": {parts(func(t *testing.T, part string) { mkdir(t, part, 0o777) }), "chmod 700"},
		"group writes": {parts(func(t *testing.T, part string) { mkdir(t, part, 0o770) }), "chmod 700"},
		"a file": {func(t *testing.T, dir string) {
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a directory"},
		"below a file": {func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Dir(dir), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a directory"},
		"file is a link": {func(t *testing.T, dir string) {
			mkdir(t, dir, 0o700)
			mkdir(t, filepath.Join(dir, JournalDir), 0o700)
			for _, name := range []string{logFile(""), outboxDir} {
				if err := os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}, "symbolic link"},
		"file is a directory": {func(t *testing.T, dir string) {
			mkdir(t, dir, 0o700)
			mkdir(t, filepath.Join(dir, JournalDir), 0o700)
			mkdir(t, logFile(dir), 0o700)
			put(t, dir, outboxDir, []byte("a file"))
		}, "directory"},
		"of somebody else": {parts(func(t *testing.T, part string) {
			mkdir(t, part, 0o700)
			if err := os.Chown(part, 65534, 65534); err != nil && os.Geteuid() == 0 {
				t.Fatal(err)
			}
		}), "is owned by user"},
		"read-only": {func(t *testing.T, dir string) { mkdir(t, dir, 0o500) }, "permission denied"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			dir := filepath.Join(base, "spool")
			if name == "below a file" {
				dir = filepath.Join(base, "state", "grapnel")
			}
			tt.prepare(t, dir)
			switch {
			case name == "of somebody else" && os.Geteuid() != 0:
				t.Skip("only root can make a directory of another user; TestPrivateDirOfAnotherUser of package files needs no root")
			case name == "read-only" && os.Geteuid() == 0:
				dir, tt.wantErr = "/proc/self/fd/spool", "no such file" // the only place that refuses root
			}
			s, err := Open(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			rec := record("a")
			s.Observe(t.Context(), rec)
			if err := s.Err(); err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("Err = %v, want one that says %q", err, tt.wantErr)
			}
			if err := s.Run(t.Context(), rec.Input, hooks("h")); err == nil || s.Queued() {
				t.Errorf("Run = %v, Queued = %v, want an error", err, s.Queued())
			}
		})
	}
	t.Run("others may look", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "spool")
		parts(func(t *testing.T, part string) { mkdir(t, part, 0o755) })(t, dir)
		s, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		rec := record("a")
		observe(t, s, rec)
		if err := s.Run(t.Context(), rec.Input, hooks("h")); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{JournalDir, outboxDir} {
			if info, err := os.Stat(filepath.Join(dir, part)); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s has mode %v, %v, want it closed to others", part, info.Mode(), err)
			}
		}
	})
}

// wantAll checks that a log has exactly these IDs, each once.
func wantAll(t *testing.T, dir string, names, count int) {
	t.Helper()
	entries, problems := read(t, dir)
	for _, err := range problems {
		t.Error(err)
	}
	seen := map[string]int{}
	for _, e := range entries {
		seen[e.ID]++
		if e.Input == nil || e.Input.ID != e.ID {
			t.Errorf("entry %s has input %+v", e.ID, e.Input)
		}
	}
	for p := range names {
		for i := range count {
			if id := fmt.Sprintf("p%d-%d", p, i); seen[id] != 1 {
				t.Errorf("%s is there %d times, want once", id, seen[id])
			}
		}
	}
	if len(seen) != names*count {
		t.Errorf("%d different entries, want %d", len(seen), names*count)
	}
}

// putLines appends lines to a log: a Record with its checksum, and what begins with a newline as it is.
func putLines(t testing.TB, dir string, lines ...string) {
	t.Helper()
	w := journal.Writer{Dir: filepath.Join(dir, JournalDir), MaxSize: 1 << 30}
	defer w.Close()
	for _, line := range lines {
		if strings.HasPrefix(line, "\n") {
			if !exists(logFile(dir)) {
				if _, err := w.Next(); err != nil {
					t.Fatal(err)
				}
			}
			appendText(t, logFile(dir), line)
		} else if _, err := w.Append([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
}

// endLog closes the newest segment of a log.
func endLog(t testing.TB, dir string) {
	t.Helper()
	w := journal.Writer{Dir: filepath.Join(dir, JournalDir)}
	if _, err := w.Next(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// logFile returns the name of the first segment of a log.
func logFile(dir string) string { return filepath.Join(dir, JournalDir, "00000001.jsonl") }

// exists reports whether a file exists.
func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// Side files that a pending hook needs stay, for any limit of the log.
func TestSweepSparesPending(t *testing.T) {
	t.Parallel()
	s, _ := open(t, &Options{MaxSize: 1})
	ev := event("e")
	ev.Tool.Content = rep("x", 100<<10)
	if err := s.Run(t.Context(), ev, hooks("h")); err != nil {
		t.Fatal(err)
	}
	observe(t, s, record("a"), record("b"), record("c"))
	if removed, err := s.Retire(journal.Limits{MaxRecords: 1}, time.Now()); len(removed) == 0 || err != nil {
		t.Fatal(removed, err)
	}
	ran := false
	err := s.Drain(t.Context(), func(_ context.Context, p Pending) error {
		ran = len(p.Event.Tool.Content) == 100<<10
		return nil
	})
	if err != nil || !ran {
		t.Errorf("Drain = %v, ran = %v, want the hook to get its event", err, ran)
	}
}

// With an engine: its Records and pending hooks are stored.
func TestEngine(t *testing.T) {
	t.Parallel()
	s, dir := open(t, nil)
	specs := hooks("later")
	specs[0].Hook = grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil })
	specs = append(specs, grapnel.Spec{Name: "guard", Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}, nil
	})})
	engine, err := grapnel.New(specs, &grapnel.Options{Observers: []grapnel.Observer{s}, Background: s.Run})
	if err != nil {
		t.Fatal(err)
	}
	engine.Fire(t.Context(), event("e1"))
	if err := s.Err(); err != nil || !s.Queued() {
		t.Fatalf("Err = %v, Queued = %v", err, s.Queued())
	}
	var got Pending
	if err := s.Drain(t.Context(), func(_ context.Context, p Pending) error { got = p; return errors.New("unreachable") }); err != nil {
		t.Fatal(err)
	}
	if got.Hook != "later" || got.Digest != "abc" || got.File != "/p.yaml" || got.Event.Verdict() == nil || got.Event.Verdict().Reason() != "no" {
		t.Errorf("the hook got %+v, want the event with its verdict", got)
	}
	entries, problems := read(t, dir)
	if len(entries) != 2 || problems != nil || entries[0].Late || !entries[1].Late || entries[0].ID != "e1" || entries[1].ID != "e1" {
		t.Fatalf("Read = %+v, %v, want the firing, and how its observer ended", entries, problems)
	}
	if h := entries[1].Hooks; len(h) != 1 || h[0].Name != "later" || h[0].Source != "user" || h[0].Error != "unreachable" || !h[0].Async {
		t.Errorf("late entry = %+v, want the failed observer", entries[1])
	}
}

// Scripts read the lines of the log, so their format is tested.
func TestLine(t *testing.T) {
	t.Parallel()
	s, dir := open(t, &Options{Records: Metadata})
	observe(t, s, record("a"))
	raw, err := os.ReadFile(logFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	_, raw, _ = bytes.Cut(raw, []byte{'\n'}) // behind the header of the segment
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "time")
	delete(got, "crc")
	want := map[string]any{
		"id": "a", "agent": "claude-code", "session": "s1", "event": "tool.before", "tool": "Bash", "decision": "block", "would": "ask",
		"hooks":   []any{map[string]any{"name": "no-ls", "source": "user", "decision": "block", "cause": "decision", "ms": 0.25}},
		"reasons": []any{map[string]any{"hook": "user::no-ls", "text": "No <ls> here.", "cause": "decision"}},
		"changed": []any{"tool.input"}, "unsupported": []any{"context: not sent"}, "ms": 1.5,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

func BenchmarkObserve(b *testing.B) {
	big := record("a")
	big.Input.Tool.Content = rep("a line of a file\n", 60000)
	big.Input.Tool.Input = mustJSON(b, map[string]string{"content": big.Input.Tool.Content, "file_path": "/x"})
	big.Input.Native = mustJSON(b, map[string]json.RawMessage{"tool_input": big.Input.Tool.Input})
	typical := record("a")
	typical.Input.Native = []byte(`{"session_id":"0b1c8f9e-4a51-4c44-a3a0-6a3c0f0f8a11","transcript_path":"/home/me/.claude/projects/x/0b1c8f9e.jsonl","cwd":"/work","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"` +
		rep("go test ./... && ", 30) + `true","description":"Run all tests"},"tool_use_id":"toolu_01ABC"}`)
	secret := record("a")
	secret.Input.Tool.Commands = []string{"login --password hunter2 && export API_KEY=abc123def456"}
	for name, rec := range map[string]*grapnel.Record{"typical": typical, "secret": secret, "1MB": big} {
		b.Run(name, func(b *testing.B) {
			s, _ := open(b, &Options{MaxSize: 1 << 40})
			for b.Loop() {
				s.Observe(b.Context(), rec)
			}
			if err := s.Err(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
