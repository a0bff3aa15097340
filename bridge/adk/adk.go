// Package adk lets an agent that is built with Google's Agent Development Kit for Go
// have hooks. New returns a plugin for its runner:
//
//	hooks := adk.New(host.New(engine, nil), nil)
//	defer hooks.Close()
//
//	r, err := runner.New(runner.Config{
//		AppName: "my-agent", Agent: root, SessionService: sessions,
//		PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{hooks}},
//	})
//
// It guards every model and every tool of every agent below the root. Put it behind
// other plugins: ADK asks the others no more once one has answered, and what hooks have
// judged should be what runs.
//
// Hooks see requests, responses and tools' inputs and outputs as JSON of ADK's own
// types: [model.LLMRequest], [model.LLMResponse], objects. A hook that halts ends the
// run: no model and no tool is called any more, and its words are the answer.
//
// An agent behind agenttool has a runner of its own, without plugins. Give its
// llmagent.Config the callbacks of the plugin too; see [New].
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

// Options are settings of the plugin. The zero value is the default, and nil is fine.
type Options struct {
	// Session is what hooks are told of every session that the plugin starts, beside the
	// id and the user, which are ADK's. An empty CWD is the working directory.
	Session grapnel.Session
}

// maxSessions is how many sessions the plugin keeps. Beyond that the one ends that has
// not been used for longest; it is resumed should it be used again.
const maxSessions = 10_000

// New returns the plugin that fires the events of a host from inside ADK. It is safe for
// concurrent use, and one will do for several runners.
//
// It works for the session that the context of a run carries, as [host.Host.Start]
// returns it. Where there is none, each session of ADK is one: it starts with its first
// run and ends with the plugin's Close.
//
// Callbacks of the plugin, such as plugin.BeforeToolCallback, can stand in a
// llmagent.Config too, for agents that are run by somebody else's runner. All of them
// belong together.
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
		b.opts.Session.CWD, _ = os.Getwd() // where there is none, hooks are told of none
	}
	return b
}

type bridge struct {
	host *host.Host
	opts Options

	mu       sync.Mutex
	sessions map[key]*held   // guarded by mu
	runs     map[string]*run // guarded by mu; those under way, by invocation
	uses     int             // guarded by mu
}

// held is a session that the plugin has started.
type held struct {
	start   sync.Once
	session *host.Session // set by start, like the next two
	context []string      // of session.start, until a prompt takes it; guarded by bridge.mu
	refused *host.Refusal

	runs int // under way; guarded by bridge.mu
	used int // when, counted in uses; guarded by bridge.mu
}

// A run is one turn: a message of the user, and all that agents do about it.
type run struct {
	session *host.Session
	forget  func()      // takes the run out of bridge.runs
	stop    func() bool // forget is not called any more when the context ends

	mu      sync.Mutex
	context []string            // of session.start, for the prompt
	over    *host.Refusal       // not nil: hooks ended the turn
	main    string              // the agent that began first; all others are its sub-agents
	agents  map[string]*working // by name
	told    map[string]bool     // calls of tools whose end was told of, by id
	last    string              // what any of them said last
	bare    bool                // its runner has no plugins: only callbacks of the agents tell of it
	failure error               // of the model
}

// begin returns the run that ctx belongs to, and begins it if it is not under way yet.
func (b *bridge) begin(ctx agent.InvocationContext) *run {
	s := ctx.Session()
	return b.at(ctx, ctx.InvocationID(), key{s.AppName(), s.UserID(), s.ID()}, s.Events().Len() > 0)
}

// of is begin for callbacks of agents, which are shown less.
func (b *bridge) of(ctx agent.Context) *run {
	return b.at(ctx, ctx.InvocationID(), key{ctx.AppName(), ctx.UserID(), ctx.SessionID()}, false)
}

// key names a session of ADK.
type key struct{ app, user, session string }

func (b *bridge) at(ctx context.Context, id string, k key, resumed bool) *run {
	b.mu.Lock()
	r := b.runs[id]
	b.mu.Unlock()
	if r != nil {
		return r
	}
	r = &run{session: host.FromContext(ctx), agents: map[string]*working{}, bare: true}
	var h *held
	if r.session == nil {
		h = b.hold(ctx, k, resumed)
		r.session = h.session
	}
	r.session.Update(func(info *grapnel.Session) { info.Turn = id })

	b.mu.Lock()
	defer b.mu.Unlock()
	if other := b.runs[id]; other != nil { // agents that run side by side came here together
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
	r.stop = context.AfterFunc(ctx, r.forget) // ADK does not tell of the end of runs that could not begin
	return r
}

// hold returns the session that the plugin keeps for ADK's, and starts it if need be.
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

// evict takes the session out that was not used for longest. b.mu is held.
func (b *bridge) evict() *held {
	var oldest key
	var found *held
	for k, h := range b.sessions {
		if h.runs == 0 && (found == nil || h.used < found.used) {
			oldest, found = k, h
		}
	}
	if found != nil { // if all are in use there are more for a while
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

// Withheld stands in ADK's session in the place of a prompt that was refused.
const Withheld = "[This message was refused and is not kept.]"

// userMessage asks about a prompt. What is refused is answered when the agent begins:
// ADK keeps the message in any case, so something else has to stand there.
func (b *bridge) userMessage(ctx agent.InvocationContext, content *genai.Content) (*genai.Content, error) {
	r := b.begin(ctx)
	if r.isOver() {
		return genai.NewContentFromText(Withheld, genai.RoleUser), nil
	}
	text, ok := textOf(content)
	if !ok && slices.ContainsFunc(content.Parts, func(p *genai.Part) bool { return p != nil && p.FunctionResponse != nil }) {
		return nil, nil // a person's answer to a tool is no prompt; a picture is one
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
	return saying(content, text, prompt), nil
}

func (b *bridge) beforeRun(ctx agent.InvocationContext) (*genai.Content, error) {
	r := b.begin(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bare = false
	return nil, nil // ADK would answer with the prompt itself, whatever this says
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

// event asks about an answer before anybody gets it.
func (b *bridge) event(ctx agent.InvocationContext, ev *session.Event) (*session.Event, error) {
	r := b.begin(ctx)
	if ev == nil || !ev.IsFinalResponse() || ev.Author == genai.RoleUser || !r.session.Listens(grapnel.ResponseBefore) || r.isOver() {
		return nil, nil
	}
	text, ok := textOf(ev.Content)
	if !ok {
		return nil, nil
	}
	answer, err := r.session.Respond(ctx, text) // where it was refused this is what stands in its place
	switch no := host.Refused(err); {
	case no == nil && err != nil:
		return nil, err
	case no != nil && no.Halt:
		r.end(err)
	}
	content := saying(ev.Content, text, answer)
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

// ended is why the turn is over, or nil.
func (r *run) ended() *host.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

func (r *run) isOver() bool { return r.ended() != nil }

// end ends the turn with a refusal, unless it is over already.
func (r *run) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == nil {
		r.over = host.Refused(err)
	}
}

// textOf is the text of a content, thoughts left out, and whether it has any.
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

// saying is the content with another text, which takes the place of the first part that
// is one, or stands behind all others, or nil if it is the same text.
func saying(c *genai.Content, was, now string) *genai.Content {
	if was == now {
		return nil
	}
	other := &genai.Content{Role: c.Role}
	said := false
	for _, p := range c.Parts {
		if !isText(p) {
			other.Parts = append(other.Parts, p)
		} else if !said {
			other.Parts = append(other.Parts, genai.NewPartFromText(now))
			said = true
		}
	}
	if !said {
		other.Parts = append(other.Parts, genai.NewPartFromText(now))
	}
	return other
}
