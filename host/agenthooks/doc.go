// Package agenthooks makes an agent a host of the Agent Hooks Specification 0.1: a
// contract, neutral of frameworks, between whatever runs the loop of model and tools
// and the interceptors that may stop or change a step of it.
//
// [Hooks] stand where an engine would. They take the events that package host fires,
// make one emission of each at the eight points of the specification, ask the
// interceptors, and answer with a Verdict that the loop obeys:
//
//	hooks, err := agenthooks.New(&agenthooks.Options{
//		Interceptors: []agenthooks.Interceptor{{Name: "mask", Judge: mask}},
//		Engine:       engine, // Grapnel's own hooks, as one interceptor more
//		Records:      keep,
//	})
//	agent := host.New(hooks, &host.Options{Tools: host.Infos(tools)})
//
// An [Interceptor] gets the context of the emission as JSON and returns a verdict as
// JSON; [Typed] is for those who like Go's types better. How several verdicts become
// one is the [Composition], which is the host's to choose and never an interceptor's.
//
// What fails here fails closed, and with no interceptor at all everything is denied:
// that is the specification's law, and another than Grapnel's own. See
// docs/agent-hooks.md for where the two differ and what holds.
//
// The package does not say what is good or bad, fetches nothing that a verdict points
// to, and proves nothing about an interceptor.
package agenthooks
