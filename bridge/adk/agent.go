package adk

import (
	"google.golang.org/adk/v2/agent"
	"google.golang.org/genai"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// working is an agent at work in a run. Nothing in it changes while its model answers,
// and only what its tools have given does while they run.
type working struct {
	session *host.Session
	system  string   // takes the place of its instruction; empty = none does
	model   string   // takes the place of its model's name
	context []string // stands below its instruction
	sub     bool

	last     string                      // what it said last
	active   bool                        // it has gone on because of a hook
	stopped  bool                        // it was asked whether it may stop, and may
	withheld int                         // answers in a row that hooks did not let pass
	said     map[string][]*genai.Content // what the model is told in the place of a thought of ours

	results []host.Result // of tools, since the model was called; guarded by run.mu
}

// beforeAgent begins the agent of a run, or one of its sub-agents.
func (b *bridge) beforeAgent(ctx agent.Context) (*genai.Content, error) {
	r := b.of(ctx)
	if no := r.ended(); no != nil {
		return words(no), nil
	}
	name := ctx.AgentName()
	task, _ := textOf(ctx.UserContent())
	w := &working{session: r.session, said: map[string][]*genai.Content{}}

	r.mu.Lock()
	first := r.main == ""
	if first {
		r.main = name
	}
	w.sub = r.main != name
	again := !w.sub && !first // it goes on after a task that it gave to a sub-agent
	var done []*working
	for other, sub := range r.agents {
		if again && sub.sub { // ADK does not tell that a task has ended
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

// afterAgent tells of the end of an agent, unless its model had the last word and hooks
// have heard of that.
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

// stop asks whether the agent may stop.
func (w *working) stop(ctx agent.Context) (host.Stop, error) {
	if w.sub {
		return w.session.StopSubagent(ctx, w.last, w.active)
	}
	return w.session.Stop(ctx, w.last, w.active)
}

// at is the agent that ctx belongs to. An agent whose beginning nobody has told of, as
// in a live run, works for the session itself.
func (r *run) at(ctx agent.Context) *working {
	name := ctx.AgentName()
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.agents[name]
	if w == nil {
		w = &working{session: r.session, said: map[string][]*genai.Content{}}
		r.agents[name] = w
	}
	return w
}

// words is what stands in the place of what was refused.
func words(no *host.Refusal) *genai.Content {
	return genai.NewContentFromText(no.Text, genai.RoleModel)
}
