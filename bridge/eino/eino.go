// Package eino lets an agent that is built with CloudWeGo's Eino have hooks.
//
//	bridge := eino.New(host.New(engine, nil), nil)
//
//	config := &adk.ChatModelAgentConfig{Model: bridge.Model(chatModel)}
//	config.ToolsConfig.ToolCallMiddlewares = []compose.ToolMiddleware{bridge.Tools()}
//
// [Bridge.Model] wraps a chat model and [Bridge.Tools] the calls of a ToolsNode, so the
// same two work in a graph, in the ReAct agent of flow and in agents of adk.
// [Bridge.Turn] goes around a run of any of them and fires the rest of the lifecycle:
// the prompt, the beginning, the stop, the answer.
//
// Hooks see requests and responses as JSON of Eino's own types; see [Request]. A hook
// that halts ends the run with a [host.Refusal], which errors.As finds in the error of
// Generate, Invoke and AgentEvent.
//
// Eino's callbacks only look on, so nothing here is one. They see what hooks have let
// through, except those of a tool, which see what it really got and gave.
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

// Options are a Bridge's settings. The zero value is the default, and nil is fine.
type Options struct {
	// Session is what hooks are told of the session where a context carries none. It
	// starts when it is first needed and ends with [Bridge.Close]. An empty CWD is the
	// working directory.
	Session grapnel.Session
}

// A Bridge fires the events of a host from inside Eino. It is safe for concurrent use.
//
// It works for the session that a context carries, as [host.Host.Start] returns it.
// Eino hands contexts on, so it is enough to run the agent with that one. Where there
// is none the Bridge has a session of its own: nothing goes past the hooks because
// somebody forgot to start one.
type Bridge struct {
	host *host.Host
	opts Options

	turns atomic.Int64

	once sync.Once
	own  *host.Session            // set by once, like the next two
	err  error                    // hooks did not let the session begin
	said atomic.Pointer[[]string] // context of session.start, until a Turn takes it
}

// New returns the bridge from a host to Eino.
func New(h *host.Host, opts *Options) *Bridge {
	b := &Bridge{host: h}
	if opts != nil {
		b.opts = *opts
	}
	if b.opts.Session.CWD == "" {
		b.opts.Session.CWD, _ = os.Getwd() // where there is none, hooks are told of none
	}
	return b
}

// Close ends the session that the Bridge has started, if any. Nothing should run then.
func (b *Bridge) Close(ctx context.Context) {
	started := true
	b.once.Do(func() { started = false })
	if started && b.err == nil {
		b.own.End(ctx, "exit")
	}
}

// session is the session that ctx carries, or the Bridge's own.
func (b *Bridge) session(ctx context.Context) (context.Context, *host.Session, error) {
	if s := host.FromContext(ctx); s != nil {
		return ctx, s, nil
	}
	b.once.Do(func() {
		var said []string
		_, b.own, said, b.err = b.host.Start(context.WithoutCancel(ctx), b.opts.Session, "startup")
		b.said.Store(&said)
	})
	return host.NewContext(ctx, b.own), b.own, b.err
}

// quote is a text as JSON.
func quote(text string) json.RawMessage {
	raw, _ := host.JSON(text) // of a string it cannot fail
	return raw
}

// show is a text as hooks see it: a JSON object or array as such, so that they can look
// into it, anything else as a string.
func show(text string) json.RawMessage {
	if t := strings.TrimSpace(text); t != "" && (t[0] == '{' || t[0] == '[') && json.Valid([]byte(t)) {
		return json.RawMessage(t)
	}
	return quote(text)
}
