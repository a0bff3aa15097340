// Package host is for agents that are written in Go: it fires the events around a loop of model
// and tools, and applies the verdicts to the agent.
//
// Most agents need two calls, around the code that they already have:
//
//	h := host.New(engine, &host.Options{Agent: grapnel.Agent{Name: "my-agent"}})
//	ctx, session, added, err := h.Start(ctx, grapnel.Session{ID: id, CWD: dir}, "startup")
//	...
//	response, err := host.Model(ctx, request, callTheModel)
//	result, err := host.Tool(ctx, host.Call{ID: id, Name: "shell", Input: args}, runTheTool)
//
// Each call takes the input and the function that performs the action. Hooks may change the
// input, answer instead of the function, change the output, or refuse. The error for a refused
// action is a [Refusal]. Agents that cannot wrap the function, because they run in callbacks of a
// framework, use the two halves: [Session.BeforeTool] and [Session.AfterTool],
// [Session.BeforeModel] and [Session.AfterModel].
//
// A [Session] has a method for every other event: prompts, answers, messages, compaction,
// sub-agents, tasks and the stop. [Loop] is a complete agent that uses these methods.
//
// An event without hooks costs only a check. The package calls no model and runs no tool; the
// agent does.
package host
