// Package grapnel is the engine that runs hooks at defined points of an AI agent's work: when a session
// starts, a prompt arrives, a tool is about to run, a tool has run, or the agent stops. Hooks observe,
// add context, change fields, ask for permission, or block. An agent in Go uses package host, which
// fires the events around its model and tools.
//
// Build an [Engine] from Specs, then fire an [Event] and obey the [Verdict]:
//
//	engine, err := grapnel.New([]grapnel.Spec{{Name: "no-rm", On: []grapnel.Kind{grapnel.ToolBefore}, Hook: hook}}, nil)
//	verdict := engine.Fire(ctx, &grapnel.Event{Kind: grapnel.ToolBefore, Tool: tool})
//	if verdict.Stops() {
//		return errors.New(verdict.Reason())
//	}
//	tool = verdict.Event.Tool // with all changes
//
// An event's [Contract] defines which decisions and changes the event permits. [Engine.Plan]
// returns which hooks would run, and in which step. A [Record] describes a completed firing.
//
// Hooks can be added and removed while events are fired: see [Engine.Add], [Engine.Remove] and
// [Engine.Update]. The context carries the hooks of a session, see [NewContext]. [Engine.In]
// places them before the hooks of an agent's own engine.
//
// The package is pure apart from the hooks that it calls. It reads no files, contains no agent
// protocol (see package dialect) and starts no programs (see package process). It imports only
// the standard library.
package grapnel
