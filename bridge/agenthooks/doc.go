// Package agenthooks makes an agent a host of the Agent Hooks Specification 0.1. This
// specification is a framework-neutral contract between the code that runs the loop of model and
// tools, and interceptors that may stop or change its steps.
//
// [Hooks] replace an engine. They take the events of package host, create an emission at each of
// the eight points of the specification, call the interceptors, and return a Verdict for the
// loop:
//
//	hooks, err := agenthooks.New(&agenthooks.Options{
//		Interceptors: []agenthooks.Interceptor{{Name: "mask", Judge: mask}},
//		Engine:       engine, // Grapnel's own hooks, as an additional interceptor
//		Records:      keep,
//	})
//	agent := host.New(hooks, &host.Options{Tools: host.Infos(tools)})
//
// An [Interceptor] gets the context of the emission as JSON and returns a verdict as JSON; use
// [Typed] for a function with Go types. The [Composition] defines how several verdicts are
// combined. The host chooses it, never an interceptor.
//
// All failures fail closed, and without any interceptor everything is denied. The specification
// requires this; Grapnel's own rules differ. See docs/agent-hooks.md for the differences.
//
// The package does not judge content, does not fetch evidence that a verdict points to, and does
// not verify interceptors.
package agenthooks
