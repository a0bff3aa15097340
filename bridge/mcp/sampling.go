//nolint:staticcheck // Sampling is deprecated since the protocol of 2026-07-28, but must still be guarded.
package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grapnel-dev/grapnel/host"
)

// sampling guards the handlers that call the client's model for a server.
func (b *Bridge) sampling(opts *sdk.ClientOptions) {
	if ask := opts.CreateMessageHandler; ask != nil {
		opts.CreateMessageHandler = func(ctx context.Context, r *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return model(ctx, b, r, r.Params, func(ctx context.Context, p *sdk.CreateMessageParams) (*sdk.CreateMessageResult, error) {
				other := *r
				other.Params = p
				return ask(ctx, &other)
			})
		}
	}
	if ask := opts.CreateMessageWithToolsHandler; ask != nil {
		opts.CreateMessageWithToolsHandler = func(ctx context.Context, r *sdk.CreateMessageWithToolsRequest) (*sdk.CreateMessageWithToolsResult, error) {
			return model(ctx, b, r, r.Params, func(ctx context.Context, p *sdk.CreateMessageWithToolsParams) (*sdk.CreateMessageWithToolsResult, error) {
				other := *r
				other.Params = p
				return ask(ctx, &other)
			})
		}
	}
}

// model wraps a model call that a server requests.
func model[P, R any](ctx context.Context, b *Bridge, r sdk.Request, params P, next func(context.Context, P) (R, error)) (R, error) {
	ctx, _, err := b.session(ctx, r)
	if err != nil {
		var none R
		return none, err
	}
	return host.Model(ctx, params, next)
}
