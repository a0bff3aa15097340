// Package agenthooks runs conformance vectors of the Agent Hooks Specification 0.1
// against Grapnel's own agent loop and its adapter (package host/agenthooks).
//
//	vectors, err := agenthooks.Load("vectors")
//	results := agenthooks.Run(ctx, vectors, nil)
//
// The command in conformance/cmd/agenthooks does the same from a shell. A vector is
// data in the specification's own format; each of its scripts becomes one interceptor of
// a fresh host, and only the model and the tools are scripted beside that. A member that
// nobody knows fails the vector, and a script that does not foresee what happens fails
// it too.
//
// The vectors in testdata are ours. The specification's own are not kept here: give the
// command their directory.
package agenthooks
