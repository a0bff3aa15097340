// Package eino adds hooks to an agent that is built with CloudWeGo's Eino.
//
//	bridge := eino.New(host.New(engine, nil), nil)
//
//	config := &adk.ChatModelAgentConfig{Model: bridge.Model(chatModel)}
//	config.ToolsConfig.ToolCallMiddlewares = []compose.ToolMiddleware{bridge.Tools()}
//
// [Bridge.Model] wraps a chat model and [Bridge.Tools] the calls of a ToolsNode, so both work
// in a graph, in the ReAct agent of package flow and in agents of adk. [Bridge.Turn] wraps a
// run of any of them and fires the other events of the lifecycle: the prompt, the start, the
// stop and the answer.
//
// Hooks see requests and responses as JSON of Eino's own types; see [Request]. A hook that
// halts ends the run with a [host.Refusal]. Find it with errors.As in the error of Generate,
// Invoke or AgentEvent.
//
// Eino's callbacks can only observe, so the bridge does not use them. They see the values that
// hooks have approved. Callbacks of a tool are the exception: they see its real input and
// output.
package eino

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// Options configure a Bridge. The zero value and nil mean the defaults.
type Options struct {
	// Session has the session data that hooks see if a context has no session. It starts at its
	// first use and ends with [Bridge.Close]. An empty CWD means the working directory.
	Session grapnel.Session
}

// A Bridge fires the events of a host from inside Eino. It is safe for concurrent use.
//
// The Bridge uses the session in the context, as returned by [host.Host.Start]. Eino passes
// contexts on, so it is enough to run the agent with that context. Without a session in the
// context, the Bridge uses its own, so no call can skip the hooks by mistake.
type Bridge struct {
	host *host.Host
	opts Options

	turns atomic.Int64

	once         sync.Once
	own          *host.Session            // set by once, like err and startContext
	err          error                    // hooks refused the session
	startContext atomic.Pointer[[]string] // context of session.start, until a Turn takes it
}

// New returns a bridge from a host to Eino.
func New(h *host.Host, opts *Options) *Bridge {
	b := &Bridge{host: h}
	if opts != nil {
		b.opts = *opts
	}
	if b.opts.Session.CWD == "" {
		b.opts.Session.CWD, _ = os.Getwd() // if that fails, hooks see an empty CWD
	}
	return b
}

// Close ends the Bridge's own session, if it was started. No agent should be running.
func (b *Bridge) Close(ctx context.Context) {
	started := true
	b.once.Do(func() { started = false })
	if started && b.err == nil {
		b.own.End(ctx, "exit")
	}
}

// session returns the session in ctx, or the Bridge's own.
func (b *Bridge) session(ctx context.Context) (context.Context, *host.Session, error) {
	if s := host.SessionFromContext(ctx); s != nil {
		return ctx, s, nil
	}
	b.once.Do(func() {
		var startContext []string
		_, b.own, startContext, b.err = b.host.Start(context.WithoutCancel(ctx), b.opts.Session, "startup")
		b.startContext.Store(&startContext)
	})
	return host.ContextWithSession(ctx, b.own), b.own, b.err
}

// quote returns a text as a JSON string.
func quote(text string) json.RawMessage {
	raw, _ := host.JSON(text) // cannot fail for a string
	return raw
}

// show returns a text as hooks see it. A JSON object or array stays JSON, so hooks can inspect
// it; any other text becomes a string.
func show(text string) json.RawMessage {
	if t := strings.TrimSpace(text); t != "" && (t[0] == '{' || t[0] == '[') && json.Valid([]byte(t)) {
		return json.RawMessage(t)
	}
	return quote(text)
}
