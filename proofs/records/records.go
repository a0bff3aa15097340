// Package records makes the Records of a busy machine: concurrent sessions of several
// agents, prompts, tool calls and their results, judged by a policy.
//
//	for line, err := range records.Lines(ctx, 100_000, specs, begin) { ... }
//
// It is for benchmarks and tests. It does not model the behavior of real agents.
package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// commands are the shell commands of the sessions. Guards match only a few of them.
var commands = []string{
	"go test ./...", "git status", "git diff --stat", "ls -la", "rg -n 'func main' --type go", "npm test -- --watch=false",
	"git add -A && git commit -m 'fix: handle empty rows'", "cat README.md | head -40", "make build", "docker compose ps",
	"cd web && npm ci --no-audit && (npm test 2>&1 | tee test.log | tail -n 40)", "python3 -m pytest -q tests/test_rows.py",
	"for f in dist/*.js; do gzip -9k \"$f\"; done", "curl -sS https://api.example.com/v1/health", "sed -i 's/foo/bar/' src/row.go",
	"git push origin HEAD", "terraform plan -out plan.bin", "kubectl get pods -n web", "rm -rf build/cache", "git push --force origin main",
}

// Lines yields n lines of a log in the order of time, a few seconds apart on average. An engine
// with the hooks in specs makes the Records.
func Lines(ctx context.Context, n int, specs []grapnel.Spec, begin time.Time) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		r := rand.New(rand.NewPCG(1, 2))                                           // the same each time
		sp, err := spool.Open(filepath.Join(os.TempDir(), "grapnel-records"), nil) // it only masks, and stores nothing
		if err != nil {
			yield(nil, err)
			return
		}
		var line []byte
		var at time.Time
		engine, err := grapnel.New(specs, &grapnel.Options{Background: idle, Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
			rec.Time, rec.ID = at, spool.NewID(at)
			line, err = sp.Line(rec)
		})}})
		if err != nil {
			yield(nil, err)
			return
		}
		const sessions = 16 // at once
		open := make([]session, sessions)
		at = begin
		for i := range n {
			at = at.Add(time.Duration(r.IntN(8000)) * time.Millisecond)
			s := &open[r.IntN(sessions)]
			if s.left == 0 {
				*s = session{id: fmt.Sprintf("%08x-%d", r.Uint32(), i), left: 20 + r.IntN(200), gemini: r.IntN(3) == 0}
			}
			s.left--
			d, payload := s.next(r, i)
			got := dialect.Receive(d, dialect.Input{Payload: payload})
			if got.Err != nil {
				yield(nil, got.Err)
				return
			}
			engine.Fire(ctx, got.Event)
			if err != nil || !yield(line, err) {
				return
			}
		}
	}
}

// idle is an executor that does not run observing hooks.
func idle(context.Context, *grapnel.Event, []grapnel.Spec) error { return nil }

// session is a session in progress.
type session struct {
	id     string
	left   int
	gemini bool
	tool   string // the tool of the last call, whose end is the next event
	call   string
	input  map[string]any
}

// next returns the next payload of a session and its dialect.
func (s *session) next(r *rand.Rand, i int) (*dialect.Dialect, []byte) {
	d, names := dialect.ClaudeCode(), [...]string{"PreToolUse", "PostToolUse", "UserPromptSubmit", "Bash", "Write", "Read", "command", "file_path"}
	if s.gemini {
		d, names = dialect.GeminiCLI(), [...]string{"BeforeTool", "AfterTool", "BeforeAgent", "run_shell_command", "write_file", "read_file", "command", "file_path"}
	}
	p := map[string]any{"session_id": s.id, "cwd": "/home/dev/work/shop", "transcript_path": "/home/dev/.agent/" + s.id + ".jsonl"}
	switch {
	case s.tool != "":
		p["hook_event_name"], p["tool_name"], p["tool_input"], p["tool_use_id"] = names[1], s.tool, s.input, s.call
		p["tool_response"] = map[string]any{"stdout": strings.Repeat("ok   github.com/example/shop/rows 0.4s\n", 1+r.IntN(30)), "interrupted": false}
		s.tool = ""
	case r.IntN(12) == 0:
		p["hook_event_name"], p["prompt"] = names[2], "Please make the tests of the row parser pass, and keep the style of the file."
	default:
		s.call = fmt.Sprintf("toolu_%d", i)
		switch r.IntN(4) {
		case 0:
			s.tool, s.input = names[5], map[string]any{names[7]: fmt.Sprintf("/home/dev/work/shop/src/row%d.go", r.IntN(40))}
		case 1:
			s.tool, s.input = names[4], map[string]any{names[7]: fmt.Sprintf("/home/dev/work/shop/src/row%d.go", r.IntN(40)), "content": strings.Repeat("	rows = append(rows, parse(line)) // \"quoted\"\n", 1+r.IntN(40))}
		default:
			s.tool, s.input = names[3], map[string]any{names[6]: commands[r.IntN(len(commands))], "description": "the model's summary of the change"}
		}
		p["hook_event_name"], p["tool_name"], p["tool_input"], p["tool_use_id"] = names[0], s.tool, s.input, s.call
	}
	payload, _ := json.Marshal(p) // texts, numbers and flags
	return d, payload
}

// File writes the lines to a file, in the format of "grapnel log --json".
func File(name string, lines iter.Seq2[[]byte, error]) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	for line, err := range lines {
		if err == nil {
			_, err = f.Write(append(line, '\n'))
		}
		if err != nil {
			_ = f.Close()
			return err
		}
	}
	return f.Close()
}

// Store appends the lines to the log of a place.
func Store(place local.Place, lines iter.Seq2[[]byte, error]) error {
	if err := files.PrivateDir(place.State); err != nil {
		return err
	}
	w := journal.Writer{Dir: place.Journal()}
	for line, err := range lines {
		if err == nil {
			_, err = w.Append(line)
		}
		if err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return w.Close()
}
