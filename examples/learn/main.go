// Learn shows four kinds of hooks in one small program: a hook that logs, a hook that blocks, a
// hook that runs a command, and a hook that rewrites the arguments of a tool. See README.md in
// this directory.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/process"
)

// A logger is the logging hook. It records one tag for each event and has no opinion.
type logger struct {
	mu   sync.Mutex // an engine can run a hook for several events at the same time
	tags []string
}

func (l *logger) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	prefix := map[grapnel.Kind]string{grapnel.ToolBefore: "pre:", grapnel.ToolAfter: "post:"}[ev.Kind]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tags = append(l.tags, prefix+ev.ToolName())
	return grapnel.Outcome{}, nil // no opinion
}

// noKeys is the blocking hook. The reason goes to the model.
var noKeys = grapnel.Guard(func(ev *grapnel.Event) (reason string) {
	for _, p := range ev.Tool.Paths {
		if path.Base(p.Path) == ".env" {
			return "Keys are not for you. Read .env.example."
		}
	}
	return "" // no opinion
})

// lockFiles is the shell hook. The command gets the event as JSON on standard input, and a few
// values as variables. Exit code 2 blocks, and standard error is the reason.
var lockFiles = &process.Command{
	Name:     "lock-files",
	Line:     `case "$GRAPNEL_PATH" in *.lock) echo "Run the package manager instead." >&2; exit 2;; esac`,
	Executor: process.System, // runs it on this machine, with your rights
}

// slowDown is the modifying hook. It returns new arguments for the tool.
var slowDown = grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	var args map[string]any
	if err := json.Unmarshal(ev.Tool.Input, &args); err != nil {
		return grapnel.Outcome{}, err // could not answer; OnError of the Spec decides
	}
	command, _ := args["command"].(string)
	if !strings.HasPrefix(command, "make") {
		return grapnel.Outcome{}, nil
	}
	args["command"] = "nice " + command
	return grapnel.Replace(grapnel.FieldInput, args)
})

// newEngine returns an engine with the four hooks, which is mini-claw-code's HookRegistry. Its
// preset runs the hooks in this order, and no hook after one that blocks.
func newEngine(log *logger, out io.Writer) (*grapnel.Engine, error) {
	preset, _ := grapnel.FindPreset("miniclaw")
	before := []grapnel.Kind{grapnel.ToolBefore}
	return grapnel.New([]grapnel.Spec{
		{Name: "log", Hook: log}, // without On: all events
		{Name: "no-keys", On: before, Tools: []string{"read"}, Hook: noKeys},
		{Name: "lock-files", On: before, Tools: []string{"write", "edit_*"}, Hook: lockFiles, Timeout: 10 * time.Second, OnError: grapnel.OnErrorClosed},
		{Name: "slow-down", On: before, Tools: []string{"bash"}, Hook: slowDown},
	}, &grapnel.Options{Preset: preset, Observers: []grapnel.Observer{report(out)}})
}

// report returns an observer that prints which hooks ran for an event, and the answer of each.
func report(out io.Writer) grapnel.Observer {
	return grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
		fmt.Fprintf(out, "%s %s %s\n", rec.Event, rec.Tool, rec.Input.Tool.Input)
		for _, run := range rec.Hooks {
			answer := "no opinion"
			switch {
			case run.Error != "":
				answer = "failed: " + run.Error
			case run.Outcome != nil && run.Outcome.Decision == grapnel.Block:
				answer = "block: " + run.Outcome.Reason
			case len(run.Changed) > 0:
				answer = fmt.Sprintf("change %s to %s", run.Changed[0], run.Outcome.Set[run.Changed[0]])
			}
			fmt.Fprintf(out, "  %-12s%s\n", run.Name, answer)
		}
	})
}

// call acts as an agent does for each tool call of its model.
func call(ctx context.Context, engine *grapnel.Engine, tool *grapnel.Tool, out io.Writer) {
	tool.Derive() // finds Paths and Commands in the input, at the places that Facts names
	verdict := engine.Fire(ctx, &grapnel.Event{Kind: grapnel.ToolBefore, Tool: tool})
	if verdict.Stops() {
		fmt.Fprintf(out, "  => %s does not run. The model reads: %s\n\n", tool.Name, verdict.Reason())
		return
	}
	tool = verdict.Event.Tool // with all changes; a real agent runs the tool now
	fmt.Fprintf(out, "  => %s runs with %s\n\n", tool.Name, tool.Input)
	done := *tool
	done.Output = json.RawMessage(`"ok"`)
	engine.Fire(ctx, &grapnel.Event{Kind: grapnel.ToolAfter, Tool: &done})
	fmt.Fprintln(out)
}

// run plays an agent whose model calls three tools.
func run(ctx context.Context, out io.Writer) error {
	var log logger
	engine, err := newEngine(&log, out)
	if err != nil {
		return err
	}
	for _, tool := range []*grapnel.Tool{
		{
			Name: "read", Class: grapnel.ClassRead, Input: json.RawMessage(`{"path":".env"}`),
			Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}},
		},
		{
			Name: "write", Class: grapnel.ClassWrite, Input: json.RawMessage(`{"path":"deps.lock","content":""}`),
			Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseWrite}},
		},
		{Name: "bash", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"make test"}`)},
	} {
		call(ctx, engine, tool, out)
	}
	fmt.Fprintln(out, "log:", strings.Join(log.tags, ", "))
	return engine.Close(ctx) // waits for hooks that run in the background
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "learn: error:", err)
		os.Exit(1)
	}
}
