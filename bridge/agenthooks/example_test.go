package agenthooks_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/agenthooks"
	"github.com/grapnel-dev/grapnel/host"
)

// An agent that may only send mails to its own domain.
func Example() {
	hooks, err := agenthooks.New(&agenthooks.Options{
		Interceptors: []agenthooks.Interceptor{{Name: "recipients", Judge: agenthooks.Typed(
			func(_ context.Context, c *agenthooks.Context) (agenthooks.Verdict, error) {
				if c.Point != "pre_tool_call" || string(c.ToolCall.Args) == `{"to":"ada@example.org"}` {
					return agenthooks.Verdict{}, nil // no objection
				}
				return agenthooks.Verdict{Decision: agenthooks.Deny, Reason: "recipients:outside"}, nil
			})}},
		Records: func(_ context.Context, r *agenthooks.Record) {
			fmt.Println(r.Sequence, r.Point, r.Verdict.Decision)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := host.New(hooks, &host.Options{Agent: grapnel.Agent{Name: "mailer"}, Tools: []host.ToolInfo{{Name: "mail"}}})
	ctx, session, _, err := h.Start(context.Background(), grapnel.Session{ID: "s1"}, "startup")
	if err != nil {
		fmt.Println(err)
		return
	}
	result, _ := host.Tool(ctx, host.Call{ID: "c1", Name: "mail", Input: json.RawMessage(`{"to":"eve@example.com"}`)},
		func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`"sent"`), nil })
	fmt.Println(result.Text())
	session.End(ctx, "completed")
	// Output:
	// 0 agent_startup allow
	// 1 pre_tool_call deny
	// The call was blocked: recipients:outside
	// 2 agent_shutdown allow
}
