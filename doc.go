// Package grapnel runs hooks at the moments of an AI agent's life: a session
// starts, a prompt arrives, a tool is about to run, a tool ran, the agent stops.
// Hooks observe, add context, change, ask, or block.
//
// Build an [Engine] from Specs, then fire an [Event] and obey the [Verdict]:
//
//	engine, err := grapnel.New([]grapnel.Spec{{Name: "no-rm", On: []grapnel.Kind{grapnel.ToolBefore}, Hook: hook}}, nil)
//	verdict := engine.Fire(ctx, &grapnel.Event{Kind: grapnel.ToolBefore, Tool: tool})
//
// What an event permits stands in its [Contract]; who would run, and in which
// step, is what [Engine.Plan] returns; what happened is a [Record].
//
// Hooks come and go while events are fired: [Engine.Add], [Engine.Remove],
// [Engine.Update]. Those of a session travel in the context, see [NewContext], and
// [Engine.In] puts them before those of an agent's own engine.
//
// The package is pure apart from the hooks it calls. It reads no files, knows no
// agent's protocol (package dialect does) and starts no programs (package process
// does). It imports the standard library only.
package grapnel
