// Package host is for agents that are written in Go: it fires the whole lifecycle
// around a loop of model and tools, and does to the agent what the verdicts say.
//
// Most agents need two calls, around what they do anyway:
//
//	h := host.New(engine, &host.Options{Agent: grapnel.Agent{Name: "my-agent"}})
//	ctx, session, added, err := h.Start(ctx, grapnel.Session{ID: id, CWD: dir}, "startup")
//	...
//	response, err := host.Model(ctx, request, callTheModel)
//	result, err := host.Tool(ctx, host.Call{ID: id, Name: "shell", Input: args}, runTheTool)
//
// Each takes what is about to happen and the function that lets it happen. Hooks may
// change what goes in, answer in its place, change what comes out, or refuse. What is
// refused comes back as a [Refusal]. Agents that cannot wrap, since they live behind
// callbacks of a framework, use the halves: [Session.BeforeTool] and
// [Session.AfterTool], [Session.BeforeModel] and [Session.AfterModel].
//
// A [Session] has a method for every other moment: prompts, answers, messages,
// compaction, sub-agents, tasks, the stop. [Loop] is a whole agent built of them, for
// those who have none yet.
//
// What nobody listens to costs nothing but the look whether anybody does. The package
// talks to no model and runs no tool: that is the agent's.
package host
