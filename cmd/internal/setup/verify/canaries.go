package verify

import (
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// canaries are the runs of a Check. Each thing under test is a separate step, and the steps after
// it show whether the run continued. A step that may end a run is the last one of its run.
var canaries = []canary{
	{
		name: "calls of tools, with guards that decide, change, fail and hang",
		policy: `
  - {name: blocks, on: tool.before, match: {command: [touch blocked.txt, touch pair-blocked.txt]}, block: CANARY-BLOCK}
  - {name: keeps-a-path, on: tool.before, match: {tool: [write, edit], path: "kept/**"}, block: CANARY-PATH}
  - {name: rewrites, on: tool.before, match: {command: touch written.txt}, set: {tool.command: touch rewritten.txt}}
  - {name: adds-at-start, on: session.start, context: CANARY-START}
  - {name: adds-to-prompt, on: prompt.before, context: CANARY-PROMPT}
  - {name: adds-to-agent, on: agent.before, context: CANARY-AGENT}
  - {name: adds-after, on: tool.after, match: {command: touch after.txt}, context: CANARY-AFTER}
  - {name: adds-to-batch, on: toolbatch.after, context: CANARY-BATCH}
  - {name: replaces, on: tool.after, replace: [{pattern: CANARY-LEAKED, with: CANARY-HIDDEN}]}
  - {name: feeds-back, on: tool.after, match: {command: touch feedback.txt}, block: CANARY-FEEDBACK}
  - {name: feeds-back-failures, on: tool.failed, block: CANARY-FAILED}
  - {name: crashes-open, on: tool.before, match: {command: touch crash-open.txt}, run: exit 7, on_error: open}
  - {name: crashes-closed, on: tool.before, match: {command: touch crash-closed.txt}, run: exit 7, on_error: closed}
  - {name: hangs-open, on: tool.before, match: {command: touch hang-open.txt}, run: sleep 60, timeout: 500ms, on_error: open}
  - {name: hangs-closed, on: tool.before, match: {command: touch hang-closed.txt}, run: sleep 60, timeout: 500ms, on_error: closed}
  - {name: asks, on: tool.before, match: {command: touch asked.txt}, ask: CANARY-ASK}
  - {name: halts, on: tool.before, match: {command: touch halted.txt}, run: "echo '{\"halt\": \"CANARY-HALT\"}'"}
`,
		steps: func(w *World) []model.Step {
			return slices.Concat(
				// The sleep is needed: Qwen Code sometimes reports an empty output for commands
				// that end at once.
				shells(w, "touch first.txt", "touch blocked.txt", "touch written.txt", "touch after.txt", "exit 3", "printf 'CANARY-%s\\n' LEAKED; sleep 0.5", "touch feedback.txt"),
				[]model.Step{
					model.Do(w.Read("absent.txt")),
					model.Do(w.Write("kept/../kept/file.txt", "kept\n")),
					model.Do(w.Shell("touch pair-blocked.txt"), w.Write("pair-free.txt", "free\n")),
				},
				shells(w, "touch crash-open.txt", "touch crash-closed.txt", "touch hang-open.txt", "touch hang-closed.txt",
					"touch between.txt", "touch asked.txt", "touch unasked.txt", "touch halted.txt", "touch last.txt"),
				[]model.Step{model.Answer("all done")},
			)
		},
		judge: judgeTools,
	},
	{
		name: "a sub-agent, and stops that are blocked once",
		policy: `
  - {name: blocks, on: tool.before, match: {command: touch helper-blocked.txt}, block: CANARY-BLOCK}
  - {name: adds-to-helper, on: subagent.start, context: CANARY-HELPER}
  - {name: helper-goes-on, on: subagent.after, run: "test -e '$ROOT/helped' || { touch '$ROOT/helped'; echo CANARY-HELP-ON >&2; exit 2; }"}
  - {name: goes-on, on: agent.after, run: "test -e '$ROOT/stopped' || { touch '$ROOT/stopped'; echo CANARY-GO-ON >&2; exit 2; }"}
  - {name: hides-from-the-model, on: model.before, replace: [{pattern: CANARY-SECRET, with: CANARY-HIDDEN}]}
  - {name: hides-from-the-person, on: [model.after, response.before], replace: [{pattern: CANARY-SAID, with: CANARY-SHOWN}]}
`,
		also: []use{{grapnel.ModelBefore, "rewrite"}, {grapnel.ModelAfter, "replace"}, {grapnel.ResponseBefore, "replace"}},
		steps: func(w *World) []model.Step {
			steps := []model.Step{model.Answer("that was it, CANARY-SAID"), model.Answer("now it is done, CANARY-SAID")}
			if w.Agent.Tools.Task == nil {
				return steps
			}
			done := model.Answer("helped")
			if w.Agent.Tools.Done != nil {
				done = w.Agent.Tools.Done("helped")
			}
			helper := model.Prompt("You help.", append(shells(w, "touch helper-blocked.txt", "touch helper-free.txt"), done, model.Answer("really helped"))...)
			return append([]model.Step{model.Do(w.Agent.Tools.Task(helper))}, steps...)
		},
		judge: judgeStops,
	},
	{
		name:   "a prompt that is blocked",
		policy: "  - {name: blocks, on: prompt.before, block: CANARY-BLOCK}\n",
		needs:  func(c *check) bool { return c.claim(grapnel.PromptBefore, "block") != "" },
		steps:  func(w *World) []model.Step { return append(shells(w, "touch first.txt"), model.Answer("all done")) },
		judge: func(c *check, res Result) {
			seen := Not
			if len(res.Requests.MainRequests()) == 0 {
				seen = Native
			}
			c.note(grapnel.PromptBefore, "block", seen)
		},
	},
	{
		name:   "a prompt that is changed",
		policy: "  - {name: hides, on: prompt.before, replace: [{pattern: CANARY-SECRET, with: CANARY-HIDDEN}]}\n",
		needs:  func(c *check) bool { return c.claim(grapnel.PromptBefore, "rewrite") == Native }, // a rewrite that becomes a block is covered by the block canary
		steps:  func(w *World) []model.Step { return append(shells(w, "touch first.txt"), model.Answer("all done")) },
		judge: func(c *check, res Result) {
			c.note(grapnel.PromptBefore, "rewrite", hidden(res))
		},
	},
	{
		name:   "a call that ends the turn",
		policy: "  - {name: halts, on: tool.before, match: {command: touch halted.txt}, run: \"echo '{\\\"halt\\\": \\\"CANARY-HALT\\\"}'\"}\n",
		needs:  func(c *check) bool { return c.askEnds && c.claim(grapnel.ToolBefore, "halt") != "" },
		steps: func(w *World) []model.Step {
			return append(shells(w, "touch unasked.txt", "touch halted.txt", "touch last.txt"), model.Answer("all done"))
		},
		judge: func(c *check, res Result) { judgeHalt(c, res) },
	},
	{
		name:     "a call that is allowed where the agent itself would ask",
		policy:   "  - {name: allows, on: [tool.before, permission.before], match: {command: touch allowed.txt}, allow: it is harmless}\n",
		cautious: true,
		needs:    func(c *check) bool { return c.claim(grapnel.ToolBefore, "allow") == Native },
		steps: func(w *World) []model.Step {
			return append(shells(w, "touch allowed.txt", "touch refused.txt"), model.Answer("all done"))
		},
		judge: func(c *check, res Result) {
			seen := Not
			switch {
			case has(res, "refused.txt"):
				seen = "nothing was asked" // then the other call proves nothing
			case has(res, "allowed.txt"):
				seen = Native
			}
			c.note(grapnel.ToolBefore, "allow", seen)
		},
	},
}

// shells returns steps that run one command each.
func shells(w *World, commands ...string) []model.Step {
	var steps []model.Step
	for _, command := range commands {
		steps = append(steps, model.Do(w.Shell(command)))
	}
	return steps
}

func has(res Result, name string) bool {
	_, ok := res.Files[name]
	return ok
}

// stopped returns how a call that should not happen was prevented, judged by the calls before and
// after it.
func stopped(res Result, before, file, after, reason string) string {
	switch {
	case has(res, file):
		return Not
	case !has(res, before):
		return "nothing ran" // then the missing file proves nothing
	case !has(res, after):
		return AsHalt
	case res.Requests.Contains(reason):
		return AsBlock
	}
	return "silently"
}

// supportFor returns Native if a request to the model contains marker, and Not otherwise.
func supportFor(res Result, marker string) string {
	if res.Requests.Contains(marker) {
		return Native
	}
	return Not
}

// hidden returns Native if the secret in the prompt reached the model only as its replacement.
func hidden(res Result) string {
	if res.Requests.Contains("CANARY-SECRET") {
		return Not
	}
	return supportFor(res, "CANARY-HIDDEN")
}

// judgeTools judges the run of many calls.
func judgeTools(c *check, res Result) {
	block := stopped(res, "first.txt", "blocked.txt", "between.txt", "CANARY-BLOCK")
	if block == AsBlock {
		block = Native
	}
	c.note(grapnel.ToolBefore, "block", block)

	rewrite := stopped(res, "first.txt", "written.txt", "between.txt", "touch rewritten.txt")
	if rewrite != Not && has(res, "rewritten.txt") {
		rewrite = Native
	}
	c.note(grapnel.ToolBefore, "rewrite", rewrite)

	for _, more := range []struct {
		kind         grapnel.Kind
		word, marker string
	}{
		{grapnel.SessionStart, "context", "CANARY-START"},
		{grapnel.PromptBefore, "context", "CANARY-PROMPT"},
		{grapnel.AgentBefore, "context", "CANARY-AGENT"},
		{grapnel.ToolAfter, "context", "CANARY-AFTER"},
		{grapnel.ToolAfter, "block", "CANARY-FEEDBACK"},
		{grapnel.ToolFailed, "block", "CANARY-FAILED"},
		{grapnel.ToolBatchAfter, "context", "CANARY-BATCH"},
	} {
		c.note(more.kind, more.word, supportFor(res, more.marker))
	}

	replace := "nothing ran"
	switch leaked, hidden := res.Requests.Contains("CANARY-LEAKED"), res.Requests.Contains("CANARY-HIDDEN"); {
	case leaked:
		replace = Not
	case hidden && c.claim(grapnel.ToolAfter, "replace") == AsBlock:
		replace = AsBlock // the same text, as a reason
	case hidden:
		replace = Native
	}
	c.note(grapnel.ToolAfter, "replace", replace)

	for _, guard := range []struct {
		what, file string
		runs       bool
	}{
		{"guard that crashes, on_error open", "crash-open.txt", true},
		{"guard that crashes, on_error closed", "crash-closed.txt", false},
		{"guard that hangs, on_error open", "hang-open.txt", true},
		{"guard that hangs, on_error closed", "hang-closed.txt", false},
		{"guard of a path that is written by a detour", "kept/file.txt", false},
		{"guard of one of two calls at once", "pair-blocked.txt", false},
		{"the other of two calls at once", "pair-free.txt", true},
		{"call that no hook has an opinion on", "between.txt", true},
	} {
		c.promise(grapnel.ToolBefore, guard.what, has(res, guard.file), guard.runs)
	}

	// These runs have no user, so an agent that asks refuses the call.
	ask := stopped(res, "between.txt", "asked.txt", "unasked.txt", "CANARY-ASK")
	c.askEnds = ask == AsHalt
	if c.claim(grapnel.ToolBefore, "ask") == Native && has(res, "between.txt") && ask != Not {
		ask = Native // the agent may use any text to refuse
	}
	c.note(grapnel.ToolBefore, "ask", ask)
	if !c.askEnds {
		judgeHalt(c, res)
	}
}

func judgeHalt(c *check, res Result) {
	halt := stopped(res, "unasked.txt", "halted.txt", "last.txt", "CANARY-HALT")
	if halt == AsHalt {
		halt = Native
	}
	c.note(grapnel.ToolBefore, "halt", halt)
}

// judgeStops judges the run with two answers and, if the agent supports it, a sub-agent.
func judgeStops(c *check, res Result) {
	if c.world.Agent.Tools.Task != nil {
		c.promise(grapnel.ToolBefore, "guard of a call of a sub-agent", has(res, "helper-blocked.txt"), c.world.Agent.Tools.TaskUnseen)
		c.promise(grapnel.ToolBefore, "other call of a sub-agent", has(res, "helper-free.txt"), true)
		c.note(grapnel.SubagentStart, "context", supportFor(res, "CANARY-HELPER"))
		c.note(grapnel.SubagentAfter, "block", supportFor(res, "CANARY-HELP-ON"))
	}
	c.note(grapnel.AgentAfter, "block", supportFor(res, "CANARY-GO-ON"))
	c.note(grapnel.ModelBefore, "rewrite", hidden(res))
	for _, kind := range []grapnel.Kind{grapnel.ModelAfter, grapnel.ResponseBefore} {
		shown := "nothing said"
		switch {
		case strings.Contains(res.Answer, "CANARY-SAID"):
			shown = Not
		case strings.Contains(res.Answer, "CANARY-SHOWN"):
			shown = Native
		}
		c.note(kind, "replace", shown)
	}
}
