// Package mcp adds hooks to servers and clients of the official Go SDK of the Model Context
// Protocol, with one line each:
//
//	bridge := mcp.New(host.New(engine, nil), nil)
//
//	server.AddReceivingMiddleware(bridge.Server("files"))  // guards the tools that it has
//	client := bridge.NewClient("files", &sdk.Implementation{Name: "my-agent"}, nil) // guards the tools that it calls
//
// Hooks see a call as a call of the tool mcp__files__NAME. Its output is the result in the
// protocol's format: content, structuredContent, isError. A refused call returns a result with
// isError and the reason, for the model to read. See [Bridge.Server] and [Bridge.NewClient] for
// details.
//
// Prompts, resources, roots and log messages fire no events and are not changed.
package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// Options configure a Bridge. The zero value and nil mean the defaults.
type Options struct {
	// Session has the session data that hooks see for a connection if the context has no
	// session. An empty ID means the connection's ID or a random one, an empty User the user of
	// the request's token, and an empty CWD the working directory.
	Session grapnel.Session
}

// A Bridge fires the events of a host from inside the SDK. It is safe for concurrent use, for
// many servers and clients.
//
// The Bridge uses the session in the context, as returned by [host.Host.Start]. This is the
// context of Client.CallTool, or of Connect and Run; the SDK passes its values on to every
// request of the connection. Without one, each connection has its own session. It starts with
// the first request that hooks can judge and ends with the connection.
type Bridge struct {
	host *host.Host
	opts Options

	mu    sync.Mutex
	own   map[sdk.Session]*own // guarded by mu
	ended sync.WaitGroup
}

// An own is the session of a connection that the bridge has started itself.
type own struct {
	once    sync.Once
	session *host.Session
	err     error // hooks refused the session
}

// New returns a bridge from a host to the SDK.
func New(h *host.Host, opts *Options) *Bridge {
	b := &Bridge{host: h, own: map[sdk.Session]*own{}}
	if opts != nil {
		b.opts = *opts
	}
	if b.opts.Session.CWD == "" {
		b.opts.Session.CWD, _ = os.Getwd() // if that fails, hooks see an empty CWD
	}
	return b
}

// Close waits until hooks have received the end of each session that the Bridge started. Close
// the connections first.
func (b *Bridge) Close() { b.ended.Wait() }

// session returns the session in ctx, or the session of the connection.
func (b *Bridge) session(ctx context.Context, r sdk.Request) (context.Context, *host.Session, error) {
	if s := host.SessionFromContext(ctx); s != nil {
		return ctx, s, nil
	}
	connection := r.GetSession()
	b.mu.Lock()
	o := b.own[connection]
	if o == nil {
		o = &own{}
		b.own[connection] = o
	}
	b.mu.Unlock()
	o.once.Do(func() {
		ctx := context.WithoutCancel(ctx)
		_, o.session, _, o.err = b.host.Start(ctx, b.describe(r), "startup")
		b.ended.Go(func() {
			_ = connection.(interface{ Wait() error }).Wait() // hooks do not need the reason
			b.mu.Lock()
			delete(b.own, connection)
			b.mu.Unlock()
			if o.err == nil {
				o.session.End(ctx, "exit")
			}
		})
	})
	return host.ContextWithSession(ctx, o.session), o.session, o.err
}

// describe returns the data of the session that starts with r.
func (b *Bridge) describe(r sdk.Request) grapnel.Session {
	info := b.opts.Session
	info.ID = cmp.Or(info.ID, r.GetSession().ID(), rand.Text())
	if extra := r.GetExtra(); extra != nil && extra.TokenInfo != nil {
		info.User = cmp.Or(info.User, extra.TokenInfo.UserID)
	}
	return info
}
