package hooks

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// ParseToolHookResponse reports whether a hook blocked the action: by exit code 2, or by JSON with
// the decision block. The reason is the first block's member reason, otherwise its Stderr. It may be
// empty, and has at most 4096 bytes. Use it for [HookPreToolUse] and [HookPreSampling].
func ParseToolHookResponse(results *ExecuteResults) (blocked bool, reason string) {
	v, reason := judge(results, grapnel.ToolBefore)
	return v.Decision == grapnel.Block, reason
}

// ParseStopHookResponse reports whether a hook of [HookStop] ends the loop: by any exit code except
// 0. ParseToolHookResponse describes the reason. A hook that did not start, or that exceeded
// its timeout, does not end the loop.
func ParseStopHookResponse(results *ExecuteResults) (shouldStop bool, reason string) {
	v, reason := judge(results, grapnel.AgentAfter)
	return v.Halt != "", reason
}

// ParsePermissionResponse returns the decision of the hooks of [HookPermission]: "allow", "deny"
// with a reason, or "", which means that the agent must ask the user. A deny or a block wins over
// every allow. If any hook failed, an allow is not valid.
func ParsePermissionResponse(results *ExecuteResults) (decision, reason string) {
	switch v, reason := judge(results, grapnel.PermissionBefore); v.Decision {
	case grapnel.Block:
		return "deny", reason
	case grapnel.Allow:
		return "allow", ""
	default:
		return "", ""
	}
}

// ParsePostCompactHookResponse returns the text that hooks of post_compact add to a summary: the
// Stdout of each successful hook below the line "[hook: post_compact]". It returns "" if no hook
// adds anything.
func ParsePostCompactHookResponse(results *ExecuteResults) string {
	var outputs dialect.FlytoResults
	for _, r := range results.all() {
		outputs = append(outputs, dialect.NewFlytoResult(grapnel.Output{Exit: r.ExitCode, Stdout: []byte(r.Stdout)}, r.Error))
	}
	return outputs.Summary()
}

// judge reads the results as package dialect reads the output of programs, and lets an engine merge
// the answers. The reason comes from the first hook that blocked or ended the loop. It is empty if
// this hook gave none.
func judge(results *ExecuteResults, kind grapnel.Kind) (v grapnel.Verdict, reason string) {
	preset, _ := grapnel.FindPreset(flyto.Name)
	ev := &grapnel.Event{Kind: kind, Agent: grapnel.Agent{Name: flyto.Name}}
	var first *HookResult // the first one that decides
	var specs []grapnel.Spec
	for i, r := range results.all() {
		answer, err := flyto.ReadOutcome(ev, *r.output())
		if first == nil && (answer.Decision == grapnel.Block || answer.Halt != "") {
			first = r
		}
		specs = append(specs, grapnel.Spec{
			Name: strconv.Itoa(i), On: []grapnel.Kind{kind},
			Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				return answer, errors.Join(err, r.Error)
			}),
		})
	}
	engine, err := grapnel.New(specs, &grapnel.Options{Preset: preset})
	if err != nil {
		return grapnel.Verdict{Decision: grapnel.Block}, err.Error()
	}
	v = engine.Fire(context.Background(), ev)
	if first == nil {
		return v, ""
	}
	if text, _ := first.object()["reason"].(string); text == "" && strings.TrimSpace(first.Stderr) == "" {
		return v, "" // the text is the engine's or the dialect's
	}
	return v, cmp.Or(v.Halt, v.Reason())
}
