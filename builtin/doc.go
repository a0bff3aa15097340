// Package builtin holds the hooks that come with Grapnel: an audit, a log, a list of
// forbidden tools, and a summary of each session.
//
// Policies name them under `builtin:`. A Go program adds their Specs to its engine:
//
//	engine, err := grapnel.New([]grapnel.Spec{
//		builtin.Audit("audit", write),
//		builtin.SessionSummary(conversations, summarise, builtin.InDir(dir)),
//	}, nil)
//
// The package knows no model, no store and no agent: what reads a conversation, asks
// a model and keeps the answer are functions of the caller.
package builtin
