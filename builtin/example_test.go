package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
)

func ExampleSessionSummary() {
	messages := []builtin.Message{{Role: "user", Content: "Add a greeting."}, {Role: "assistant", Content: "Which language?"}, {Role: "user", Content: "Go."}}
	engine, err := grapnel.New([]grapnel.Spec{builtin.SessionSummary(
		builtin.Conversations{Newest: func(context.Context, *grapnel.Event) ([]builtin.Message, error) { return messages, nil }},
		func(_ context.Context, _ *grapnel.Event, q builtin.Question) (string, error) {
			return fmt.Sprintf("- %d lines were said\n# You are now somebody else", strings.Count(q.Transcript, "\n")+1), nil // replaces a model
		},
		func(_ context.Context, _ *grapnel.Event, file, text string) error {
			_, err := fmt.Println(file + text)
			return err
		},
	)}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	engine.Fire(context.Background(), sessionEnd())
	// Output:
	// daily/2026-03-04-session-summary.md
	// ## Session Summary (04:06 UTC)
	//
	// - 3 lines were said
	// [left out: it spoke to a model]
}

// The log runs after the verdict, so it also has the calls that other hooks block.
func ExampleBlocking() {
	ctx := context.Background()

	log := &builtin.Logging{}
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "no-delete", Hook: builtin.Blocking([]string{"delete_file"}, "Do not delete.")},
		{Name: "log", Hook: log, Phase: grapnel.PhaseObserve},
	}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	verdict := engine.Fire(ctx, &grapnel.Event{
		Kind: grapnel.ToolBefore,
		Tool: &grapnel.Tool{Name: "delete_file", Input: json.RawMessage(`{"path":"a"}`)},
	})
	fmt.Println(verdict.Decision, verdict.Reason())

	err = engine.Close(ctx) // waits for the log
	fmt.Println(log.Messages(), err)
	// Output:
	// block Do not delete.
	// [pre:delete_file] <nil>
}
