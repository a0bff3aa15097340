// Package mcp lets servers and clients of the official Go SDK of the Model Context
// Protocol have hooks, with one line each:
//
//	bridge := mcp.New(host.New(engine, nil), nil)
//
//	server.AddReceivingMiddleware(bridge.Server("files"))  // guards the tools that it has
//	client := bridge.NewClient("files", &sdk.Implementation{Name: "my-agent"}, nil) // guards the tools that it calls
//
// Hooks see a call as that of the tool mcp__files__NAME, whose output is the result as
// the protocol has it: content, structuredContent, isError. A refused call is a result
// with isError and the reason, so that the model reads it. See [Bridge.Server] and
// [Bridge.NewClient] for the rest.
//
// Prompts, resources, roots and log messages fire nothing and are left alone.
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

// Options are a Bridge's settings. The zero value is the default, and nil is fine.
type Options struct {
	// Session is what hooks are told of a connection's session where the context carries
	// none. An empty ID is the connection's own or a random one, an empty User that of the
	// request's token, and an empty CWD the working directory.
	Session grapnel.Session
}

// A Bridge fires the events of a host from inside the SDK. It is safe for concurrent
// use, for many servers and clients.
//
// It works for the session that a context carries, as [host.Host.Start] returns it: of
// Client.CallTool, or of Connect and Run, whose values the SDK hands on to all that a
// connection brings. Where there is none, each connection is a session of its own, which
// starts with the first request that concerns hooks and ends with the connection.
type Bridge struct {
	host *host.Host
	opts Options

	mu    sync.Mutex
	own   map[sdk.Session]*own // guarded by mu
	ended sync.WaitGroup
}

// An own session is that of a connection.
type own struct {
	once    sync.Once
	session *host.Session
	err     error // hooks did not let it begin
}

// New returns the bridge from a host to the SDK.
func New(h *host.Host, opts *Options) *Bridge {
	b := &Bridge{host: h, own: map[sdk.Session]*own{}}
	if opts != nil {
		b.opts = *opts
	}
	if b.opts.Session.CWD == "" {
		b.opts.Session.CWD, _ = os.Getwd() // where there is none, hooks are told of none
	}
	return b
}

// Close waits until hooks were told of the end of each session that was the Bridge's
// own. The connections should be closed before.
func (b *Bridge) Close() { b.ended.Wait() }

// session is the session that ctx carries, or that of the connection.
func (b *Bridge) session(ctx context.Context, r sdk.Request) (context.Context, *host.Session, error) {
	if s := host.FromContext(ctx); s != nil {
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
			_ = connection.(interface{ Wait() error }).Wait() // why it ended is not for hooks
			b.mu.Lock()
			delete(b.own, connection)
			b.mu.Unlock()
			if o.err == nil {
				o.session.End(ctx, "exit")
			}
		})
	})
	return host.NewContext(ctx, o.session), o.session, o.err
}

// describe is what hooks are told of the session that begins with r.
func (b *Bridge) describe(r sdk.Request) grapnel.Session {
	info := b.opts.Session
	info.ID = cmp.Or(info.ID, r.GetSession().ID(), rand.Text())
	if extra := r.GetExtra(); extra != nil && extra.TokenInfo != nil {
		info.User = cmp.Or(info.User, extra.TokenInfo.UserID)
	}
	return info
}
