// Package builtin contains the hooks that are part of Grapnel: an audit, a log, a list of
// forbidden tools, and a summary of each session.
//
// Policies select them with `builtin:`. A Go program adds their Specs to its engine:
//
//	engine, err := grapnel.New([]grapnel.Spec{
//		builtin.Audit("audit", write),
//		builtin.SessionSummary(conversations, summarize, builtin.InDir(dir)),
//	}, nil)
//
// The package contains no model, no storage and no agent. The caller provides functions that read
// a conversation, call a model and store the answer.
package builtin
