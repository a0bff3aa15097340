package adk

import (
	"google.golang.org/adk/v2/agent"
	"google.golang.org/genai"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// working is an agent in a run. Its fields do not change while its model answers. While its
// tools run, only results changes.
type working struct {
	session *host.Session
	system  string   // replaces its instruction; empty = no replacement
	model   string   // replaces its model's name
	context []string // added below its instruction
	sub     bool

	last         string                      // its last answer
	active       bool                        // it continued because of a hook
	stopped      bool                        // hooks have allowed it to stop
	withheld     int                         // refused answers in a row
	replacements map[string][]*genai.Content // contents for the model that replace a thought written by the plugin

	results []host.Result // of tools, since the last model call; guarded by run.mu
}

// beforeAgent starts the agent of a run, or one of its sub-agents.
func (b *bridge) beforeAgent(ctx agent.Context) (*genai.Content, error) {
	r := b.of(ctx)
	if no := r.ended(); no != nil {
		return words(no), nil
	}
	name := ctx.AgentName()
	task, _ := textOf(ctx.UserContent())
	w := &working{session: r.session, replacements: map[string][]*genai.Content{}}

	r.mu.Lock()
	first := r.main == ""
	if first {
		r.main = name
	}
	w.sub = r.main != name
	again := !w.sub && !first // it continues after a task that it gave to a sub-agent
	var done []*working
	for other, sub := range r.agents {
		if again && sub.sub { // ADK does not report the end of a task
			done = append(done, sub)
			delete(r.agents, other)
		}
	}
	r.mu.Unlock()

	var err error
	switch {
	case again:
		for _, sub := range done {
			if !sub.stopped && err == nil {
				_, err = sub.stop(ctx)
			}
		}
	case w.sub:
		sub := grapnel.Subagent{ID: ctx.InvocationID() + "/" + name, Type: name}
		w.session, w.context, err = r.session.BeginSubagent(ctx, sub, task)
	default:
		was := host.Beginning{Prompt: task, Model: r.session.Info().Model}
		var begin host.Beginning
		begin, err = r.session.Begin(ctx, was)
		w.system, w.context = begin.System, begin.Context
		if begin.Model != was.Model {
			w.model = begin.Model
		}
	}
	if no := host.Refused(err); no != nil {
		if no.Halt {
			r.end(err)
		}
		return words(no), nil
	}
	if err != nil {
		return nil, err
	}
	if !again {
		r.mu.Lock()
		r.agents[name] = w
		r.mu.Unlock()
	}
	return nil, nil
}

// afterAgent reports the end of an agent, unless the hooks already judged the stop at its
// model's last answer.
func (b *bridge) afterAgent(ctx agent.Context) (*genai.Content, error) {
	r := b.of(ctx)
	w := r.at(ctx)
	name := ctx.AgentName()
	r.mu.Lock()
	over := r.over != nil || r.failure != nil
	if w.sub {
		delete(r.agents, name)
	}
	if w.last == "" {
		w.last = r.last
	}
	last := r.bare && name == r.main
	r.mu.Unlock()
	if last {
		defer r.forget()
	}
	if over || w.stopped {
		return nil, nil
	}
	_, err := w.stop(ctx)
	if no := host.Refused(err); no != nil {
		r.end(err)
		return words(no), nil
	}
	return nil, nil
}

// stop asks hooks whether the agent may stop.
func (w *working) stop(ctx agent.Context) (host.StopResult, error) {
	if w.sub {
		return w.session.StopSubagent(ctx, w.last, w.active)
	}
	return w.session.Stop(ctx, w.last, w.active)
}

// at returns the agent of ctx. An agent without a beforeAgent call, as in a live run, uses the
// run's session.
func (r *run) at(ctx agent.Context) *working {
	name := ctx.AgentName()
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.agents[name]
	if w == nil {
		w = &working{session: r.session, replacements: map[string][]*genai.Content{}}
		r.agents[name] = w
	}
	return w
}

// words returns the content that replaces a refused one.
func words(no *host.Refusal) *genai.Content {
	return genai.NewContentFromText(no.Text, genai.RoleModel)
}
