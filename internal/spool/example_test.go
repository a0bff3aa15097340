package spool_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// An engine stores a Record of each event, and any process with access to the directory can
// read them.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "spool-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := spool.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	never := grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Decision: grapnel.Block, Reason: "Not today."}, nil
	})
	engine, err := grapnel.New(
		[]grapnel.Spec{{Name: "never", On: []grapnel.Kind{grapnel.ToolBefore}, Hook: never}},
		&grapnel.Options{Observers: []grapnel.Observer{s}, Background: s.Run},
	)
	if err != nil {
		log.Fatal(err)
	}
	engine.Fire(context.Background(), &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "deploy"}})
	if err := s.Err(); err != nil {
		log.Fatal(err) // the reply was sent anyway
	}

	for entry, err := range spool.Read(dir, spool.Filter{Decisions: []grapnel.Decision{grapnel.Block}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(entry.Event, entry.Tool, entry.Decision, entry.Reasons[0].Text)
	}
	// Output: tool.before deploy block Not today.
}
