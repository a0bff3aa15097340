// Package adk adds hooks to an agent that is built with Google's Agent Development Kit for Go.
// New returns a plugin for its runner:
//
//	hooks := adk.New(host.New(engine, nil), nil)
//	defer hooks.Close()
//
//	r, err := runner.New(runner.Config{
//		AppName: "my-agent", Agent: root, SessionService: sessions,
//		PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{hooks}},
//	})
//
// The plugin guards every model and every tool of every agent below the root. Add it after
// other plugins: once a plugin has answered, ADK does not call the next ones, and the values
// that the hooks judge should be the values that ADK uses.
//
// Hooks see requests, responses, and tools' inputs and outputs as JSON of ADK's own types:
// [model.LLMRequest], [model.LLMResponse], and objects. A hook that halts ends the run: ADK
// calls no further model or tool, and the hook's text is the answer.
//
// An agent behind agenttool has its own runner, without plugins. Add the callbacks of the
// plugin to its llmagent.Config too; see [New].
package adk

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// Options configure the plugin. The zero value and nil mean the defaults.
type Options struct {
	// Session has the session data that hooks see for every session that the plugin starts. ADK
	// provides the ID and the user. An empty CWD means the working directory.
	Session grapnel.Session
}

// maxSessions is the maximum number of sessions that the plugin keeps. Above it, the plugin
// ends the least recently used session, and resumes it if it is used again.
const maxSessions = 10_000

// New returns the plugin that fires the events of a host from inside ADK. It is safe for
// concurrent use, also by several runners.
//
// The plugin uses the session in the context of a run, as returned by [host.Host.Start].
// Without one, it starts a session for each ADK session at the first run, and ends it when the
// plugin is closed.
//
// The callbacks of the plugin, such as plugin.BeforeToolCallback, can also be set in an
// llmagent.Config, for agents with a runner that you do not control. Always set all of them.
func New(h *host.Host, opts *Options) *plugin.Plugin {
	b := newBridge(h, opts)
	p, err := plugin.New(plugin.Config{
		Name:                  "grapnel",
		OnUserMessageCallback: b.userMessage,
		OnEventCallback:       b.event,
		BeforeRunCallback:     b.beforeRun,
		AfterRunCallback:      b.afterRun,
		BeforeAgentCallback:   b.beforeAgent,
		AfterAgentCallback:    b.afterAgent,
		BeforeModelCallback:   b.beforeModel,
		AfterModelCallback:    b.afterModel,
		OnModelErrorCallback:  b.modelError,
		BeforeToolCallback:    b.beforeTool,
		AfterToolCallback:     b.afterTool,
		OnToolErrorCallback:   b.toolError,
		CloseFunc:             b.close,
	})
	if err != nil {
		panic("adk: plugin.New refuses a valid plugin: " + err.Error())
	}
	return p
}

func newBridge(h *host.Host, opts *Options) *bridge {
	b := &bridge{host: h, sessions: map[key]*held{}, runs: map[string]*run{}}
	if opts != nil {
		b.opts = *opts
	}
	if b.opts.Session.CWD == "" {
		b.opts.Session.CWD, _ = os.Getwd() // if that fails, hooks see an empty CWD
	}
	return b
}

type bridge struct {
	host *host.Host
	opts Options

	mu       sync.Mutex
	sessions map[key]*held   // guarded by mu
	runs     map[string]*run // guarded by mu; the active ones, by invocation
	uses     int             // guarded by mu
}

// held is a session that the plugin started.
type held struct {
	start   sync.Once
	session *host.Session // set by start, like context and refused
	context []string      // from session.start, until a prompt takes it; guarded by bridge.mu
	refused *host.Refusal

	runs int // active runs; guarded by bridge.mu
	used int // last use, counted in uses; guarded by bridge.mu
}

// A run is one turn: a message of the user, and everything that agents do in response.
type run struct {
	session *host.Session
	forget  func()      // removes the run from bridge.runs
	stop    func() bool // cancels the call of forget at the end of the context

	mu       sync.Mutex
	context  []string            // from session.start, for the prompt
	over     *host.Refusal       // not nil: hooks ended the turn
	main     string              // the agent that started first; all others are its sub-agents
	agents   map[string]*working // by name
	added    map[string][]string // context that hooks of tool.before added, by id of the call
	reported map[string]bool     // ids of tool calls with a reported result
	last     string              // last answer of any agent
	bare     bool                // its runner has no plugins: only the agents' callbacks report it
	failure  error               // error of the model
}

// begin returns the run of ctx. It starts the run at the first call.
func (b *bridge) begin(ctx agent.InvocationContext) *run {
	s := ctx.Session()
	return b.at(ctx, ctx.InvocationID(), key{s.AppName(), s.UserID(), s.ID()}, s.Events().Len() > 0)
}

// of returns the run of a callback of an agent. It works like begin, but such a callback knows less
// about the session.
func (b *bridge) of(ctx agent.Context) *run {
	return b.at(ctx, ctx.InvocationID(), key{ctx.AppName(), ctx.UserID(), ctx.SessionID()}, false)
}

// key identifies a session of ADK.
type key struct{ app, user, session string }

func (b *bridge) at(ctx context.Context, id string, k key, resumed bool) *run {
	b.mu.Lock()
	r := b.runs[id]
	b.mu.Unlock()
	if r != nil {
		return r
	}
	r = &run{session: host.SessionFromContext(ctx), agents: map[string]*working{}, bare: true}
	var h *held
	if r.session == nil {
		h = b.hold(ctx, k, resumed)
		r.session = h.session
	}
	r.session.Update(func(info *grapnel.Session) { info.Turn = id })

	b.mu.Lock()
	defer b.mu.Unlock()
	if other := b.runs[id]; other != nil { // concurrent agents may get here at the same time
		if h != nil {
			h.runs--
		}
		return other
	}
	b.runs[id] = r
	var once sync.Once
	r.forget = func() {
		once.Do(func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.runs, id)
			if h != nil {
				h.runs--
			}
		})
	}
	if h != nil {
		r.over, r.context, h.context = h.refused, h.context, nil
	}
	r.stop = context.AfterFunc(ctx, r.forget) // ADK does not report the end of runs that could not start
	return r
}

// hold returns the plugin's session for a session of ADK, and starts it if necessary.
func (b *bridge) hold(ctx context.Context, k key, resumed bool) *held {
	b.mu.Lock()
	h := b.sessions[k]
	var old *held
	if h == nil {
		if len(b.sessions) >= maxSessions {
			old = b.evict()
		}
		h = &held{}
		b.sessions[k] = h
	}
	b.uses++
	h.used = b.uses
	h.runs++
	b.mu.Unlock()

	if old != nil {
		old.session.End(ctx, "idle")
	}
	h.start.Do(func() {
		info := b.opts.Session
		info.ID, info.User = k.session, k.user
		cause := "startup"
		if resumed {
			cause = "resume"
		}
		var err error
		_, h.session, h.context, err = b.host.Start(ctx, info, cause)
		if h.refused = host.Refused(err); h.refused != nil { // it has ended, and the next run tries again
			b.mu.Lock()
			delete(b.sessions, k)
			b.mu.Unlock()
		}
	})
	return h
}

// evict removes the least recently used session and returns it, or nil. The caller holds b.mu.
func (b *bridge) evict() *held {
	var oldest key
	var found *held
	for k, h := range b.sessions {
		if h.runs == 0 && (found == nil || h.used < found.used) {
			oldest, found = k, h
		}
	}
	if found != nil { // if all are in use, the limit is exceeded for a while
		delete(b.sessions, oldest)
	}
	return found
}

func (b *bridge) close() error {
	b.mu.Lock()
	sessions := b.sessions
	b.sessions = map[key]*held{}
	b.mu.Unlock()
	for _, h := range sessions {
		h.session.End(context.Background(), "exit")
	}
	return nil
}

// Withheld replaces a refused prompt in ADK's session.
const Withheld = "[This message was refused and is not stored.]"

// userMessage fires the events of a prompt. ADK always stores the message, so a refused prompt
// is replaced by [Withheld]. The refusal is the answer when the agent starts.
func (b *bridge) userMessage(ctx agent.InvocationContext, content *genai.Content) (*genai.Content, error) {
	r := b.begin(ctx)
	if r.isOver() {
		return genai.NewContentFromText(Withheld, genai.RoleUser), nil
	}
	text, ok := textOf(content)
	if !ok && slices.ContainsFunc(content.Parts, func(p *genai.Part) bool { return p != nil && p.FunctionResponse != nil }) {
		return nil, nil // a person's answer to a tool is not a prompt; a picture is one
	}
	prompt, err := r.session.Prompt(ctx, text)
	if err != nil && host.Refused(err) == nil {
		return nil, err
	}
	if err != nil {
		r.end(err)
		return genai.NewContentFromText(Withheld, genai.RoleUser), nil
	}
	r.mu.Lock()
	prompt = host.Below(prompt, r.context)
	r.context = nil
	r.mu.Unlock()
	return withText(content, text, prompt), nil
}

func (b *bridge) beforeRun(ctx agent.InvocationContext) (*genai.Content, error) {
	r := b.begin(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bare = false
	return nil, nil // with a content, ADK would answer with the prompt itself
}

func (b *bridge) afterRun(ctx agent.InvocationContext) {
	r := b.begin(ctx)
	r.stop()
	defer r.forget()
	r.mu.Lock()
	failure := r.failure
	r.mu.Unlock()
	if failure != nil {
		r.session.Failed(ctx, failure)
	}
}

// event judges an answer before it reaches any client.
func (b *bridge) event(ctx agent.InvocationContext, ev *session.Event) (*session.Event, error) {
	r := b.begin(ctx)
	if ev == nil || !ev.IsFinalResponse() || ev.Author == genai.RoleUser || !r.session.Listens(grapnel.ResponseBefore) || r.isOver() {
		return nil, nil
	}
	text, ok := textOf(ev.Content)
	if !ok {
		return nil, nil
	}
	answer, err := r.session.Respond(ctx, text) // if refused, this is the replacement text
	switch no := host.Refused(err); {
	case no == nil && err != nil:
		return nil, err
	case no != nil && no.Halt:
		r.end(err)
	}
	content := withText(ev.Content, text, answer)
	if content == nil {
		return nil, nil
	}
	other := *ev
	other.Content = content
	if other.Output != nil {
		other.Output = answer
	}
	return &other, nil
}

// ended returns the refusal that ended the turn, or nil.
func (r *run) ended() *host.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

func (r *run) isOver() bool { return r.ended() != nil }

// end ends the turn with a refusal, unless it has already ended.
func (r *run) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == nil {
		r.over = host.Refused(err)
	}
}

// textOf returns the text of a content without its thoughts, and whether it has any text.
func textOf(c *genai.Content) (text string, ok bool) {
	if c == nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range c.Parts {
		if isText(p) {
			b.WriteString(p.Text)
			ok = true
		}
	}
	return b.String(), ok
}

func isText(p *genai.Part) bool { return p != nil && p.Text != "" && !p.Thought }

// withText returns the content with another text, or nil if the text is unchanged. The new text
// replaces the first text part, or is added at the end.
func withText(c *genai.Content, was, now string) *genai.Content {
	if was == now {
		return nil
	}
	other := &genai.Content{Role: c.Role}
	written := false
	for _, p := range c.Parts {
		if !isText(p) {
			other.Parts = append(other.Parts, p)
		} else if !written {
			other.Parts = append(other.Parts, genai.NewPartFromText(now))
			written = true
		}
	}
	if !written {
		other.Parts = append(other.Parts, genai.NewPartFromText(now))
	}
	return other
}
