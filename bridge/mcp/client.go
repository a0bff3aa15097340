package mcp

import (
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// NewClient is like [sdk.NewClient], but the client is guarded: hooks judge each call before it
// is sent, and each request of the server before the client's handlers run. name is the
// server's name in policies. If it is empty, the name that the server reports is used; an
// untrusted server may choose that name to its advantage.
//
// At tools/call and tools/list, the client fires the same events as [Bridge.Server]. A hook
// that halts ends CallTool with a [host.Refusal]. At sampling/createMessage it fires
// model.before and model.after, with the parameters and the result of that method as request
// and response. A refusal is an error for the server. At elicitation/create it fires
// elicitation.before. A refused elicitation is declined.
//
// The guard is in the handlers and not in a receiving middleware, because under the protocol of
// 2026-07-28 a server's requests are part of a result and skip every receiving middleware. If
// the options disable MultiRoundTrip, the caller answers such requests itself, and hooks do not
// see them.
func (b *Bridge) NewClient(name string, impl *sdk.Implementation, opts *sdk.ClientOptions) *sdk.Client {
	var guarded sdk.ClientOptions
	if opts != nil {
		guarded = *opts
	}
	server := func(s sdk.Session) string {
		if client, ok := s.(*sdk.ClientSession); ok && name == "" {
			if r := client.InitializeResult(); r != nil && r.ServerInfo != nil {
				return r.ServerInfo.Name
			}
		}
		return name
	}
	if ask := guarded.ElicitationHandler; ask != nil {
		guarded.ElicitationHandler = func(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return b.elicit(ctx, server(r.Session), r, ask)
		}
	}
	b.sampling(&guarded)
	client := sdk.NewClient(impl, &guarded)
	client.AddSendingMiddleware(b.guard(server, func(no *host.Refusal) (sdk.Result, error) { return nil, no }))
	return client
}

// elicit judges a server's question for the person.
func (b *Bridge) elicit(ctx context.Context, server string, r *sdk.ElicitRequest, ask func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error)) (*sdk.ElicitResult, error) {
	ctx, s, err := b.session(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // check this without hooks too, like [host.Session.Elicit]
		return nil, err
	}
	if !s.Listens(grapnel.ElicitationBefore) {
		return ask(ctx, r)
	}
	e := grapnel.Elicitation{Server: server, Message: r.Params.Message}
	if r.Params.URL != "" { // a guard needs the address that the person would open
		e.Message += "\n" + r.Params.URL
	}
	if r.Params.RequestedSchema != nil {
		if e.Schema, err = host.JSON(r.Params.RequestedSchema); err != nil {
			return nil, fmt.Errorf("cannot encode the schema of a question for hooks: %w", err)
		}
	}
	var given *sdk.ElicitResult
	asked := false
	answer, err := s.Elicit(ctx, e, func(ctx context.Context) (json.RawMessage, error) {
		asked = true
		given, err = ask(ctx, r)
		return nil, err
	})
	switch no := host.Refused(err); {
	case asked:
		return given, err
	case no != nil && !no.Halt:
		return &sdk.ElicitResult{Action: "decline"}, nil
	case err != nil:
		return nil, err
	}
	var result sdk.ElicitResult
	if err := json.Unmarshal(answer, &result); err != nil {
		return nil, fmt.Errorf("cannot decode the answer of a hook: %w", err)
	}
	return &result, nil
}
