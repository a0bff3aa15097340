// Package hooks has the names of the package hooks of a Flyto agent, on top of Grapnel's engine. A
// program that uses Flyto's Manager compiles with this package after its import path is changed,
// and gets Grapnel's timeouts, process groups and Records:
//
//	m := hooks.NewManager(nil, hooks.DefaultExecutor{})
//	err := m.Register(hooks.HookPreToolUse, hooks.HookDef{Command: "./check.sh", Timeout: 5})
//	results, err := m.Execute(ctx, hooks.HookPreToolUse, hooks.BuildPreToolEnv("Bash", input, root))
//	blocked, reason := hooks.ParseToolHookResponse(results)
//
// A [HookDef] becomes a [grapnel.Spec] under the preset flyto: hooks of a type run one after the
// other in the order of their registration, and each runs independent of the previous answer.
// Programs run as [process.Command] in the format of [dialect.Flyto]. [Manager.Engine] returns the
// engine, for example to pass it to package host or to wait for its background hooks.
//
// Exit code 0 means success, 2 blocks, and any other code means that the hook is broken. A broken
// hook never blocks a tool. At [HookStop] every exit code except 0 ends the turn.
//
// In a Flyto agent, Executor and EventObserver are in other packages. Here they are in this one.
// These behaviors differ from Flyto's:
//
//   - Without an [Executor], registering a program is an error. Flyto panics in the constructor.
//   - A definition that can never run, such as one with only a WebhookURL, is an error of Register.
//   - A variable that is too long for the operating system is cut and marked, so the program
//     starts. It finds the whole event on standard input, as JSON.
//   - RESPONSE_PREVIEW ends between two characters.
//   - A panic of a handler, and a handler that ignores its timeout, are results with an Error.
//   - The type post_compact can be registered, although it has no constant.
//
// The package follows the document, and is not part of v1: it changes when the document does.
package hooks
