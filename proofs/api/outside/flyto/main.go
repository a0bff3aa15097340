// Program flyto uses package systems/flyto as a program that was written for Flyto does, after its
// import paths are changed: the usage example, and each signature of the interface.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel/systems/flyto"
)

// callback is the type of a function that is a hook.
type callback = func(context.Context, hooks.HookType, map[string]string) *hooks.HookResult

// The functions.
var (
	_ func(*hooks.Config, hooks.Executor) *hooks.Manager                                                                 = hooks.NewManager
	_ func(callback) *hooks.CallbackHandler                                                                              = hooks.NewCallbackHandler
	_ func(callback, time.Duration) *hooks.CallbackHandler                                                               = hooks.NewCallbackHandlerWithTimeout
	_ func(hooks.HookDef, hooks.Executor) *hooks.ShellHandler                                                            = hooks.NewShellHandler
	_ func(session, engine *hooks.Manager) *hooks.CompositeManager                                                       = hooks.NewCompositeManager
	_ func(session, engine *hooks.Manager) hooks.HooksManager                                                            = hooks.ResolveHooksMgr
	_ func(context.Context, *hooks.Manager) context.Context                                                              = hooks.WithSessionHooksCtx
	_ func(context.Context) *hooks.Manager                                                                               = hooks.SessionHooksFromCtx
	_ func(toolName string, input any, projectRoot string) map[string]string                                             = hooks.BuildPreToolEnv
	_ func(toolName string, input any, output string, isError bool, projectRoot string) map[string]string                = hooks.BuildPostToolEnv
	_ func(sessionID, projectRoot string, hookType hooks.HookType) map[string]string                                     = hooks.BuildSessionEnv
	_ func(taskID, taskDescription, projectRoot string, hookType hooks.HookType) map[string]string                       = hooks.BuildTaskEnv
	_ func(toolName, reason, projectRoot string, hookType hooks.HookType) map[string]string                              = hooks.BuildPermissionEnv
	_ func(message, level, projectRoot string) map[string]string                                                         = hooks.BuildNotificationEnv
	_ func(model string, turnCount, messageCount int, projectRoot string) map[string]string                              = hooks.BuildPreSamplingEnv
	_ func(model string, turn, inputTokens, outputTokens int, stopReason, preview, projectRoot string) map[string]string = hooks.BuildPostSamplingEnv
	_ func(*hooks.ExecuteResults) (blocked bool, reason string)                                                          = hooks.ParseToolHookResponse
	_ func(*hooks.ExecuteResults) (shouldStop bool, reason string)                                                       = hooks.ParseStopHookResponse
	_ func(*hooks.ExecuteResults) (decision, reason string)                                                              = hooks.ParsePermissionResponse
	_ func(*hooks.ExecuteResults) string                                                                                 = hooks.ParsePostCompactHookResponse
)

// The methods.
var (
	_ func(*hooks.Manager, hooks.HookType, hooks.HookDef) error                                                                      = (*hooks.Manager).Register
	_ func(*hooks.Manager, hooks.HookType)                                                                                           = (*hooks.Manager).Unregister
	_ func(*hooks.Manager, hooks.HookType, string)                                                                                   = (*hooks.Manager).UnregisterBySource
	_ func(*hooks.Manager, string)                                                                                                   = (*hooks.Manager).UnregisterAllBySource
	_ func(*hooks.Manager, context.Context, hooks.HookType, map[string]string) (*hooks.ExecuteResults, error)                        = (*hooks.Manager).Execute
	_ func(*hooks.Manager, hooks.HookType, map[string]string) <-chan *hooks.ExecuteResults                                           = (*hooks.Manager).ExecuteAsync
	_ func(*hooks.Manager, context.Context, hooks.HookType, map[string]string) (*hooks.ExecuteResults, <-chan *hooks.ExecuteResults) = (*hooks.Manager).ExecuteAll
	_ func(*hooks.Manager, hooks.HookType) bool                                                                                      = (*hooks.Manager).HasHooks
	_ func(*hooks.Manager, hooks.HookType) int                                                                                       = (*hooks.Manager).Count
	_ func(*hooks.Manager)                                                                                                           = (*hooks.Manager).Enable
	_ func(*hooks.Manager)                                                                                                           = (*hooks.Manager).Disable
	_ func(*hooks.Manager, hooks.EventObserver)                                                                                      = (*hooks.Manager).SetObserver
	_ func(hooks.HookDef) time.Duration                                                                                              = hooks.HookDef.EffectiveTimeout
	_ func(*hooks.HookResult) bool                                                                                                   = (*hooks.HookResult).Success
	_ func(*hooks.ExecuteResults, string) (any, bool)                                                                                = (*hooks.ExecuteResults).FindJSONOutput
	_ func(*hooks.ExecuteResults) *hooks.HookResult                                                                                  = (*hooks.ExecuteResults).FirstError
	_ func(*hooks.ExecuteResults) bool                                                                                               = (*hooks.ExecuteResults).HasErrors
	_ hooks.HooksManager                                                                                                             = (*hooks.CompositeManager)(nil)
	_ hooks.HookHandler                                                                                                              = (*hooks.CallbackHandler)(nil)
	_ hooks.HookHandler                                                                                                              = (*hooks.ShellHandler)(nil)
	_ hooks.HookHandler                                                                                                              = hooks.HookHandlerFunc(callback(nil))
	_ hooks.Executor                                                                                                                 = hooks.DefaultExecutor{}
)

// The fields.
var (
	_ = hooks.HookDef{Command: "", Handler: nil, WebhookURL: "", Timeout: hooks.DefaultTimeout, Async: false, Source: "", PluginDir: ""}
	_ = hooks.HookResult{Command: "", Stdout: "", Stderr: "", ExitCode: hooks.ExitCodeBlock, JSONOutput: map[string]any{}, Duration: time.Second, Error: error(nil)}
	_ = hooks.ExecuteResults{HookType: hooks.HookStop, Results: []*hooks.HookResult{}}
)

// types lists the constants with their texts.
var types = map[hooks.HookType]string{
	hooks.HookPreToolUse: "pre_tool_use", hooks.HookPostToolUse: "post_tool_use", hooks.HookPostToolUseFailure: "post_tool_use_failure",
	hooks.HookSessionStart: "session_start", hooks.HookSessionEnd: "session_end",
	hooks.HookPermission: "permission_request", hooks.HookPermissionDenied: "permission_denied",
	hooks.HookStop: "stop", hooks.HookNotification: "notification", hooks.HookConfigChange: "config_change",
	hooks.HookTaskCreated: "task_created", hooks.HookTaskCompleted: "task_completed",
	hooks.HookPreSampling: "pre_sampling", hooks.HookPostSampling: "post_sampling",
}

func main() {
	if err := errors.Join(run(context.Background()), goleak.Find()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	m := hooks.NewManager(nil, hooks.DefaultExecutor{})
	for hookType, text := range types {
		if err := m.Register(hookType, hooks.HookDef{Command: "exit 0"}); err != nil || string(hookType) != text {
			return fmt.Errorf("type %s: %w", text, err)
		}
	}
	err := m.Register(hooks.HookPreToolUse, hooks.HookDef{
		Handler: hooks.NewCallbackHandler(func(_ context.Context, _ hooks.HookType, env map[string]string) *hooks.HookResult {
			if env["TOOL_NAME"] == "Bash" && strings.Contains(env["TOOL_INPUT"], "rm -rf") {
				return &hooks.HookResult{ExitCode: hooks.ExitCodeBlock, Stderr: "delete single files"}
			}
			return &hooks.HookResult{}
		}),
	})
	if err != nil {
		return err
	}
	for line, want := range map[string]bool{"ls": false, "rm -rf build": true} {
		env := hooks.BuildPreToolEnv("Bash", map[string]string{"command": line}, "/home/dev/project")
		results, err := m.Execute(ctx, hooks.HookPreToolUse, env)
		if err != nil {
			return err
		}
		if blocked, reason := hooks.ParseToolHookResponse(results); blocked != want || len(results.Results) != 2 {
			return fmt.Errorf("%s: blocked %v (%s), %d results", line, blocked, reason, len(results.Results))
		}
	}
	return nil
}
