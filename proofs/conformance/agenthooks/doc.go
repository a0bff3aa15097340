// Package agenthooks runs conformance vectors of the Agent Hooks Specification 0.1
// against Grapnel's own agent loop and its adapter (package bridge/agenthooks). It makes cases of them
// for package conformance, which runs them.
//
//	cases, err := agenthooks.Load("vectors", nil)
//	results := conformance.Run(ctx, cases, nil)
//
// The command in proofs/conformance/cmd/agenthooks does the same from a shell. A vector is data in the
// specification's format. Each script of a vector becomes one interceptor of a new host; apart
// from that, only the model and the tools are scripted. An unknown member fails the vector. An
// event that the script does not expect fails it too.
//
// The vectors in testdata are Grapnel's. The specification's vectors are not in this
// repository: pass their directory to the command.
package agenthooks
