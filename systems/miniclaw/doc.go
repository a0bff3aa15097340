// Package miniclaw has the hooks of mini-claw-code's chapter about hooks, with its names in Go form.
// It follows the document, not part of v1: names can change with the document.
//
//	hooks := miniclaw.NewHookRegistry().
//		With(miniclaw.NewLoggingHook()).
//		With(miniclaw.NewBlockingHook([]string{"deploy"}, "release freeze")).
//		With(miniclaw.NewShellHook("make vet").ForTool("edit_*"))
//	action := hooks.Dispatch(ctx, miniclaw.PreToolCall{ToolName: "deploy", Args: args})
//	if reason, blocked := action.Reason(); blocked {
//		return reason // the result of the call, for the model
//	}
//
// A [HookRegistry] is an engine with the preset "miniclaw": hooks run one after the other in the
// order of registration, the first Block ends the run, each hook sees the original arguments, and
// the last ModifyArgs wins. [HookRegistry.Engine] returns this engine, for package host and for
// observers.
//
// A hook has no error result. If a hook panics, the call continues and a warning goes to log/slog.
// If a shell hook cannot run, it blocks.
package miniclaw
