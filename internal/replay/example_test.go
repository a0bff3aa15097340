package replay_test

import (
	"context"
	"fmt"
	"iter"
	"os"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// A command ran without a policy. What would a policy have said?
func ExamplePlay() {
	dir, err := os.MkdirTemp("", "replay-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	kept, err := spool.Open(dir, nil)
	if err != nil {
		panic(err)
	}
	then, err := grapnel.New(nil, &grapnel.Options{Observers: []grapnel.Observer{kept}})
	if err != nil {
		panic(err)
	}
	dialect.Answer(context.Background(), then, dialect.ClaudeCode(), dialect.Input{
		Payload: []byte(`{"session_id": "s1", "cwd": "/work", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "git push -f"}}`),
	})

	const file = "/policies/draft.yaml"
	draft := []byte("version: 1\nhooks:\n  - {name: no-force-push, on: tool.before, match: {command: git push --force}, block: Push a new branch.}\n")
	report, err := replay.Play(context.Background(), records(dir), replay.Options{
		Policy: func(s *replay.Stage) func(*grapnel.Event) (*grapnel.Engine, error) {
			set := load.Policies(load.Request{
				Files: []load.File{{Path: file}}, Content: map[string][]byte{file: draft}, Counter: s.Counter(), Now: s.Now,
			})
			engine, err := grapnel.New(set.Specs, &grapnel.Options{Observers: []grapnel.Observer{s}, Background: s.Run})
			return func(*grapnel.Event) (*grapnel.Engine, error) { return engine, err }
		},
	})
	if err != nil {
		panic(err)
	}
	for _, d := range report.Differences {
		fmt.Printf("%d of %d %s by %s: %s\n", d.Count, report.Played, d.Class, d.By[0].Name, d.Examples[0].About)
	}
	// Output: 1 of 1 newly-blocked by no-force-push: git push -f
}

// records yields the Records below a directory.
func records(dir string) iter.Seq2[replay.Record, error] {
	return func(yield func(replay.Record, error) bool) {
		for entry, err := range spool.Read(dir, spool.Filter{}) {
			if !yield(replay.Record{Entry: entry}, err) {
				return
			}
		}
	}
}
