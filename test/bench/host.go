package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// hostContests returns the rows about an agent that is written in Go: what one call of a
// tool costs beside the tool, and a whole turn beside the model. The turn is a prompt, an
// answer that wants one call, the call, and the last answer.
//
// A call without hooks is to cost no more than 1 µs, so that nobody thinks twice before
// wrapping one. The other budgets are twice what was measured: with hooks a call makes and
// fires two events, and a turn thirteen, four of which hold the conversation as JSON.
func hostContests(ctx context.Context) (g group, err error) {
	heard := 0
	everywhere := grapnel.Spec{Name: "everywhere", Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		heard++
		return grapnel.Outcome{}, nil
	})}
	for _, with := range []struct {
		name       string
		specs      []grapnel.Spec
		call, turn float64 // budgets
		events     int     // of both together
	}{
		{"no hooks", nil, 1000, 8000, 0},
		{"a Go func at every event", []grapnel.Spec{everywhere}, 3000, 30_000, 2 + 13},
	} {
		call, turn, err := agent(ctx, with.specs)
		if err != nil {
			return g, err
		}
		heard = 0
		if call(); turn() != nil || heard != with.events {
			return g, fmt.Errorf("host, %s: %d events were heard, want %d", with.name, heard, with.events)
		}
		g.contests = append(g.contests,
			timed("host: call of a tool, "+with.name, with.call, call),
			timed("host: turn with one call, "+with.name, with.turn, func() { _ = turn() }),
		)
	}
	return g, nil
}

// agent is an agent with these hooks: a call of a tool, and a turn.
func agent(ctx context.Context, specs []grapnel.Spec) (call func(), turn func() error, err error) {
	engine, err := grapnel.New(specs, nil)
	if err != nil {
		return nil, nil, err
	}
	tools := []host.AgentTool{{
		ToolInfo: host.ToolInfo{Name: "shell", Class: grapnel.ClassShell},
		Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`"ok"`), nil
		},
	}}
	ctx, _, _, err = host.New(engine, &host.Options{Tools: host.Infos(tools)}).Start(ctx, grapnel.Session{ID: sessionID, CWD: "/home/dev/project"}, "startup")
	if err != nil {
		return nil, nil, err
	}
	input, _ := json.Marshal(map[string]string{"command": plainCommand}) // strings always encode
	loop := &host.Loop{Tools: tools, Provider: host.ProviderFunc(func(_ context.Context, r *host.Request, _ func(string) error) (*host.Response, error) {
		if len(r.Messages) == 1 {
			return &host.Response{ToolCalls: []host.ToolCall{{ID: "toolu_1", Name: "shell", Args: input}}}, nil
		}
		return &host.Response{Content: json.RawMessage(`"done"`)}, nil
	})}
	call = func() { _, _ = host.Tool(ctx, host.Call{ID: "toolu_1", Name: "shell", Input: input}, tools[0].Run) }
	turn = func() error {
		loop.Messages = nil
		answer, err := loop.Run(ctx, host.Text("user", "test it"))
		if err == nil && (answer.Outcome != host.Completed || len(loop.Messages) != 4) {
			err = errors.New("the turn did not come to its end")
		}
		return err
	}
	return call, turn, nil
}
