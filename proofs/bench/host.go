package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// setupHost sets up an agent that is written in Go: one call of a tool, and a whole turn. The
// model and the tool cost nothing. The turn is a prompt, an answer that wants one call, the
// call, and the last answer. With hooks, a call makes and fires two events, and a turn
// thirteen, four of which hold the conversation as JSON.
func setupHost(ctx context.Context, s *setup) error {
	heard := 0
	everywhere := grapnel.Spec{Name: "everywhere", Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		heard++
		return grapnel.Outcome{}, nil
	})}
	for i, with := range []struct {
		specs  []grapnel.Spec
		events int // of a call and a turn
	}{{nil, 0}, {[]grapnel.Spec{everywhere}, 2 + 13}} {
		call, turn, bare, err := agent(ctx, with.specs)
		if err != nil {
			return err
		}
		heard = 0
		if err := errors.Join(call(), turn()); err != nil || heard != with.events {
			return errors.Join(fmt.Errorf("%d events were fired, want %d", heard, with.events), err)
		}
		s.paths[2*i].subject, s.paths[2*i].floor = timedErr(call), timedErr(bare)
		s.paths[2*i+1].subject, s.paths[2*i+1].floor = timedErr(turn), timedErr(bare)
	}
	return nil
}

// agent returns an agent with these hooks as functions: one call of a tool, one turn, and the
// tool without the agent.
func agent(ctx context.Context, specs []grapnel.Spec) (call, turn, bare func() error, err error) {
	engine, err := grapnel.New(specs, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	tools := []host.AgentTool{{
		ToolInfo: host.ToolInfo{Name: "shell", Class: grapnel.ClassShell},
		Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`"ok"`), nil
		},
	}}
	ctx, _, _, err = host.New(engine, &host.Options{Tools: host.Infos(tools)}).Start(ctx, grapnel.Session{ID: sessionID, CWD: "/home/dev/project"}, "startup")
	if err != nil {
		return nil, nil, nil, err
	}
	input, _ := json.Marshal(map[string]string{"command": plainCommand}) // strings always encode
	loop := &host.Loop{Tools: tools, Provider: host.ProviderFunc(func(_ context.Context, r *host.Request, _ func(string) error) (*host.Response, error) {
		if len(r.Messages) == 1 {
			return &host.Response{ToolCalls: []host.ToolCall{{ID: "toolu_1", Name: "shell", Args: input}}}, nil
		}
		return &host.Response{Content: json.RawMessage(`"done"`)}, nil
	})}
	call = func() error {
		_, err := host.Tool(ctx, host.Call{ID: "toolu_1", Name: "shell", Input: input}, tools[0].Run)
		return err
	}
	bare = func() error {
		_, err := tools[0].Run(ctx, input)
		return err
	}
	turn = func() error {
		loop.Messages = nil
		answer, err := loop.Run(ctx, host.Text("user", "test it"))
		if err == nil && (answer.Status != host.StatusCompleted || len(loop.Messages) != 4) {
			err = errors.New("the turn did not finish")
		}
		return err
	}
	return call, turn, bare, nil
}
