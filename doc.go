// Package grapnel is the engine of hooks. Agents in Go use package host, which fires the events
// around their model and tools; this package runs the hooks and merges their answers.
//
//	engine, err := grapnel.New([]grapnel.Spec{{Name: "no-rm", On: []grapnel.Kind{grapnel.ToolBefore}, Hook: hook}}, nil)
//	verdict := engine.Fire(ctx, &grapnel.Event{Kind: grapnel.ToolBefore, Tool: tool})
//	if verdict.Stops() {
//		return errors.New(verdict.Reason())
//	}
//	tool = verdict.Event.Tool // with all changes
//
// An event's [Contract] defines what hooks may do. The package reads no files, starts no programs
// (see package process), knows no agent's protocol (see package dialect), and imports only the
// standard library.
package grapnel
