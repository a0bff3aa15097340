// Package ironclaw has the lifecycle hooks of IronClaw, with its names in Go form.
// It follows the document, not part of v1: names can change with the document.
//
//	hooks := ironclaw.NewHookRegistry(nil)
//	loaded, err := hooks.Bootstrap(&ironclaw.BootstrapOptions{Workspace: dir})
//	err = hooks.Register(ironclaw.HookFunc{
//		HookName: "vet", Points: []ironclaw.HookPoint{ironclaw.BeforeToolCall}, Mode: ironclaw.FailClosed, Func: vet,
//	})
//	outcome, err := hooks.Run(ctx, ironclaw.Inbound{UserID: "ada", Channel: "web", Content: text})
//	if rejected, ok := errors.AsType[*ironclaw.RejectedError](err); ok {
//		return "[Message rejected: " + rejected.Reason + "]"
//	}
//
// A [HookRegistry] is an engine with the preset "ironclaw": lower priorities run first, each hook
// sees the text that the hooks before it left, a rejection ends the run, and the failure mode of a
// hook decides about the result if it fails or takes too long. [HookRegistry.Engine] returns this engine,
// for package host and for observers.
//
// Hooks are registered in four ways: [HookRegistry.RegisterSessionSummary],
// [HookRegistry.RegisterBundledHooks], [HookRegistry.RegisterPluginBundles] and
// [HookRegistry.RegisterWorkspaceBundles]. [HookRegistry.Bootstrap] does all of them and adds up a
// summary. To run bundles in other agents, use `load: [ironclaw]` in a policy.
package ironclaw
