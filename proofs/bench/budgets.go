package main

import (
	"context"
	"fmt"
)

// A target is the budget of a path.
type target struct {
	name   string
	budget float64 // the ratio must stay below it; in the unit if the path has no reference
	above  string  // a path of the same group; the budget is added to its ratio
	exact  bool    // the cost is the same in each run, so no tolerance is necessary

	// today is the ratio of a path that does not meet its budget yet. The gate holds it
	// there. Lower it when the path becomes faster, and delete it when the budget is met.
	today float64

	// todayFloors is the same ceiling for a rate of the whole machine, as a multiple of the floor
	// in the same run. Two other programs on two CPUs halve both the rate and its floor.
	todayFloors float64

	unit unit
}

// A unit prints costs.
type unit struct {
	name   string
	format func(float64) string
}

var (
	milliseconds = unit{"ms", func(x float64) string {
		if x >= 1000 {
			return fmt.Sprintf("%.2f s", x/1000)
		}
		return fmt.Sprintf("%.2f ms", x)
	}}
	nanoseconds = unit{"ns", func(x float64) string {
		if x >= 1000 {
			return fmt.Sprintf("%.1f µs", x/1000)
		}
		return fmt.Sprintf("%.0f ns", x)
	}}
	allocations = unit{"allocations", func(x float64) string { return fmt.Sprintf("%.0f", x) }}
	calls       = unit{"calls", func(x float64) string { return fmt.Sprintf("%.0f", x) }}

	// Records are measured in microseconds for each, and shown as a rate.
	records = unit{"µs", func(x float64) string { return fmt.Sprintf("%.0f/s", 1e6/x) }}
)

// A group is a set of paths that are measured in turn. Its setup runs right before the
// measurement, and its cleanup right after it.
type group struct {
	name      string
	targets   []target
	setup     func(context.Context, *setup) error
	runs      int // of each series, where fewer than planned are enough; 0 = as planned
	screening int // runs of each candidate, where only the worst becomes a row; 0 = all are rows
}

// builtLines are lines that a program builds, with all packs: CPU time of the whole hook.
var builtLines = []target{
	{name: "2,100 commands", budget: 100, unit: milliseconds},
	{name: "100 KB of Python", budget: 100, unit: milliseconds},
	{name: "2,000 operands", budget: 100, unit: milliseconds},
}

// groups lists all groups, in the order of the table. Process paths are multiples of
// proofs/bench/static in the same run.
func groups() []group {
	const (
		noPolicy = "grapnel-hook, no policy"
		daemon   = "daemon, 1,000 rules"

		ourRule    = "rule that blocks"
		ourCommand = "run: true"
	)
	return []group{
		{name: "hook", setup: setupHook, targets: []target{
			{name: noPolicy, budget: 1.45, today: 1.65, unit: milliseconds},
			{name: "50 rules, one Record", budget: 1.55, today: 1.7, unit: milliseconds},
			{name: "all packs", budget: 1.65, today: 1.9, unit: milliseconds},
			{name: daemon, budget: 0.2, above: noPolicy, today: 2.0, unit: milliseconds},
		}},
		{name: "dialects", setup: setupDialects, screening: 20, targets: []target{
			{name: "worst dialect", budget: 1.55, today: 2.1, unit: milliseconds},
		}},
		{name: "many rules", setup: setupManyRules, targets: []target{
			{name: "1,000 rules, no daemon", budget: 2.0, today: 2.7, unit: milliseconds},
			{name: "10,000 rules, no daemon", budget: 6.0, today: 7.2, unit: milliseconds},
		}},
		// Hook files of other systems, next to the same hook in our own format.
		{name: "load rules", setup: setupLoadRules, targets: []target{
			{name: ourRule, budget: 1.55, today: 1.7, unit: milliseconds},
			{name: "IronClaw rule", budget: 0.2, above: ourRule, unit: milliseconds},
			{name: "IronClaw rule, 20 others", budget: 0.2, above: ourRule, unit: milliseconds},
		}},
		{name: "load commands", setup: setupLoadCommands, targets: []target{
			{name: ourCommand, budget: 2.8, unit: milliseconds},
			{name: "Claude Code command", budget: 0.2, above: ourCommand, unit: milliseconds},
			{name: "Claude Code command, 20 others", budget: 0.2, above: ourCommand, unit: milliseconds},
			{name: "Gemini CLI command", budget: 0.2, above: ourCommand, unit: milliseconds},
			{name: "Gemini CLI command, 20 others", budget: 0.2, above: ourCommand, unit: milliseconds},
			{name: "Flyto command", budget: 0.2, above: ourCommand, unit: milliseconds},
			{name: "Flyto command, 20 others", budget: 0.2, above: ourCommand, unit: milliseconds},
			{name: "mini-claw-code command", budget: 0.2, above: ourCommand, unit: milliseconds},
			{name: "mini-claw-code command, 20 others", budget: 0.2, above: ourCommand, unit: milliseconds},
		}},
		{name: "load modules", setup: setupLoadModules, targets: []target{
			{name: "OpenClaw module, daemon", budget: 2.5, unit: milliseconds},
		}},
		{name: "grapnel", setup: setupGrapnel, targets: []target{
			{name: "grapnel version", budget: 4.5, unit: milliseconds},
		}},
		{name: "1 MB event", setup: setupBigEvent, targets: []target{
			{name: "1 MB event, 50 rules", budget: 1.2, unit: milliseconds},
		}},
		{name: "1 MB tool result", setup: setupBigResult, targets: []target{
			{name: "all packs, 1 MB tool result", budget: 300, unit: milliseconds},
		}},
		{name: "built lines", setup: setupBuiltLines, targets: builtLines},
		{name: "sessions", setup: setupSessions, targets: []target{
			{name: "first event of a new session", budget: 1.1, today: 1.2, unit: milliseconds},
		}},
		{name: "parallel", setup: setupParallel, targets: []target{
			{name: "8 at once, total CPU", budget: 1.1, unit: milliseconds},
		}},
		{name: "engine", setup: setupEngine, targets: []target{
			{name: "no listener", budget: 150, unit: nanoseconds},
			{name: "no listener, allocations", budget: 1, exact: true, unit: allocations},
			{name: "10 functions", budget: 1000, unit: nanoseconds},
			{name: "100 rules, none matching", budget: 4000, today: 6400, unit: nanoseconds},
			{name: "100 rules, 10 matching", budget: 15_000, unit: nanoseconds},
		}},
		{name: "branch", setup: setupBranch, targets: []target{
			{name: "rule about a branch", budget: 100_000, unit: nanoseconds},
			{name: "rule about a push", budget: 100_000, unit: nanoseconds},
		}},
		// One guard of 200 ms is the reference. Guards of equal priority cost as much as one, and a
		// change that meets an earlier change costs one more call.
		{name: "guards", setup: setupGuards, runs: 5, targets: []target{
			{name: "5 guards of 200 ms", budget: 1.1, unit: milliseconds},
			{name: "5 guards of 200 ms, 2 change the event", budget: 2.1, unit: milliseconds},
			{name: "5 guards, 2 change the event: calls", budget: 6, exact: true, unit: calls},
		}},
		{name: "worker", setup: setupWorker, targets: []target{
			{name: "worker round trip", budget: 20_000, unit: nanoseconds},
		}},
		{name: "durable", setup: setupDurable, runs: 20, targets: []target{
			{name: "Records, 64 clients, synced", budget: 1e6 / 3000.0, todayFloors: 10, unit: records},
			{name: "Records, 64 clients, not synced", budget: 1e6 / 5000.0, todayFloors: 18, unit: records},
		}},
		// These rows have no line in the design. Each budget is twice the measured cost, except
		// the first: a call without hooks must cost at most 1 µs, so that wrapping a
		// tool is cheap.
		{name: "host", setup: setupHost, targets: []target{
			{name: "host: tool call, no hooks", budget: 1000, unit: nanoseconds},
			{name: "host: turn with one call, no hooks", budget: 8000, unit: nanoseconds},
			{name: "host: tool call, function at every event", budget: 3000, unit: nanoseconds},
			{name: "host: turn, function at every event", budget: 30_000, unit: nanoseconds},
		}},
		{name: "serve", setup: setupServe, targets: []target{
			{name: "hook --serve, no policy", budget: 200_000, today: 320_000, unit: nanoseconds},
			{name: "hook --serve, 50 rules, one Record", budget: 900_000, unit: nanoseconds},
		}},
		{name: "replay", setup: setupReplay, runs: 3, targets: []target{
			{name: "replay, Records of a file", budget: 100, todayFloors: 13, unit: records},
			{name: "replay, Records of the store", budget: 100, todayFloors: 15, unit: records},
		}},
		{name: "verify", setup: setupVerify, runs: 5, targets: []target{
			{name: "log verify, Records", budget: 3, unit: records},
		}},
		{name: "policy tests", setup: setupPolicyTests, runs: 5, targets: []target{
			{name: "1,000 policy tests, all packs", budget: 2000, unit: milliseconds},
		}},
	}
}
