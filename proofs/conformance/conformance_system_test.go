//go:build system

package conformance_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
)

// Every published case passes, or a gap gives the reason. Nothing runs in parallel, because
// some cases measure.
//
// Proves: IC-78
func TestVectors(t *testing.T) {
	cases, err := conformance.Load(filepath.Join("vectors"))
	if err != nil {
		t.Fatal(err)
	}
	gaps, err := conformance.LoadGaps(filepath.Join("gaps.json"))
	if err != nil {
		t.Fatal(err)
	}
	results := conformance.Run(t.Context(), cases, &conformance.Options{Gaps: gaps})
	if len(results) != len(cases) {
		t.Errorf("%d cases have %d results", len(cases), len(results))
	}
	engineOnly := map[string]int{}
	for i := range results {
		if results[i].EngineOnly {
			engineOnly[results[i].Dialect]++
		}
	}
	// The other cases of these systems also ran through their packages, except the loops of agents.
	// More cases mean that fewer are checked this way.
	if want := map[string]int{"flyto": 11}; !maps.Equal(engineOnly, want) {
		t.Errorf("cases that the packages of systems cannot express: %v, want %v", engineOnly, want)
	}
	for i := range results {
		t.Run(results[i].ID, func(t *testing.T) {
			switch r := &results[i]; r.Status {
			case conformance.Failed:
				t.Error(r)
			case conformance.Skipped:
				t.Skip(r)
			case conformance.Passed:
				if text := r.String(); text != "" {
					t.Log(text)
				}
			}
		})
	}
}

// Unknown words fail a case, and an error in a hook or a case fails only that case.
func TestRun(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want string // part of the error; empty = it passes
	}{
		"no id":               {`{"dialect": "flyto", "kind": "parse", "function": "success", "results": [], "expect": {"success": []}}`, "no id"},
		"unknown kind":        {`{"id": "x", "dialect": "flyto", "kind": "dance"}`, `unknown kind "dance"`},
		"kind of others":      {`{"id": "x", "dialect": "ironclaw", "kind": "parse"}`, `unknown kind "parse"`},
		"unknown dialect":     {`{"id": "x", "dialect": "nobody", "kind": "dispatch"}`, `of dialect "nobody"`},
		"unknown key":         {`{"id": "x", "dialect": "flyto", "kind": "parse", "functoin": "success", "results": [], "expect": {}}`, `unknown field "functoin"`},
		"unknown key, hook":   {hooked("flyto", "tool.before", `{"name": "a", "kind": "func", "prioirty": 1}`, `{}`), `unknown field "prioirty"`},
		"unknown key, does":   {hooked("flyto", "tool.before", `{"name": "a", "kind": "func", "behaviour": {"opp": "block"}}`, `{}`), `unknown field "opp"`},
		"unknown key, runs":   {hooked("flyto", "tool.before", `{"name": "a", "kind": "command", "behaviour": {"exitt": 1}}`, `{}`), `unknown field "exitt"`},
		"unknown key, rule":   {hooked("ironclaw", "prompt.before", `{"name": "a", "kind": "rule", "behaviour": {"apend": "1"}}`, `{}`), `unknown field "apend"`},
		"unknown key, plan":   {`{"id": "x", "dialect": "flyto", "kind": "dispatch", "event": "tool.before", "plan": {"hoks": []}, "expect": {}}`, `unknown field "hoks"`},
		"unknown key, input":  {`{"id": "x", "dialect": "flyto", "kind": "dispatch", "event": "tool.before", "input": {"tool": 1}, "expect": {}}`, `unknown field "tool"`},
		"unknown op":          {hooked("flyto", "tool.before", `{"name": "a", "kind": "func", "behaviour": {"op": "dance"}}`, `{}`), `unknown op "dance"`},
		"unknown op, later":   {hooked("flyto", "tool.before", `{"name": "a", "kind": "func", "behaviour": {"op": "sleep", "then": {"op": "dance"}}}`, `{}`), `unknown op "dance"`},
		"unknown hook":        {hooked("flyto", "tool.before", `{"name": "a", "kind": "magic"}`, `{}`), `unknown hook kind "magic"`},
		"unknown builtin":     {hooked("miniclaw", "tool.before", `{"name": "a", "kind": "builtin", "behaviour": {"builtin": "x"}}`, `{}`), `unknown builtin "x"`},
		"unknown event":       {hooked("flyto", "tool.beofre", ``, `{}`), `unknown event "tool.beofre"`},
		"unknown point":       {hooked("flyto", "tool.before", `{"name": "a", "kind": "func", "points": ["x"]}`, `{}`), `unknown event "x"`},
		"unknown native":      {hooked("ironclaw", "tool.before", `{"name": "a", "kind": "func", "native_points": ["x"]}`, `{}`), `no event "x"`},
		"unknown mode":        {`{"id": "x", "dialect": "flyto", "kind": "dispatch", "event": "tool.before", "plan": {"mode": "x"}, "expect": {}}`, `unknown mode "x"`},
		"unknown on_block":    {`{"id": "x", "dialect": "flyto", "kind": "dispatch", "event": "tool.before", "plan": {"on_block": "x"}, "expect": {}}`, `unknown on_block "x"`},
		"unknown mutation":    {`{"id": "x", "dialect": "flyto", "kind": "dispatch", "event": "tool.before", "plan": {"mutation": "x"}, "expect": {}}`, `unknown mutation "x"`},
		"unknown failure":     {hooked("flyto", "tool.before", `{"name": "a", "kind": "func", "failure_mode": "x"}`, `{}`), `unknown failure_mode "x"`},
		"unknown operation":   {`{"id": "x", "dialect": "flyto", "kind": "registry", "ops": [{"do": "dance"}]}`, `unknown operation "dance"`},
		"unknown op key":      {`{"id": "x", "dialect": "flyto", "kind": "registry", "ops": [{"do": "list", "expct": []}]}`, `unknown field "expct"`},
		"unknown builder":     {`{"id": "x", "dialect": "flyto", "kind": "env", "builder": "x", "expect": {}}`, `unknown builder "x"`},
		"unknown argument":    {`{"id": "x", "dialect": "flyto", "kind": "env", "builder": "task", "args": {"x": 1}, "expect": {}}`, `has no parameter "x"`},
		"no command hooks":    {hooked("ironclaw", "tool.before", `{"name": "a", "kind": "command"}`, `{}`), `ironclaw has no command hooks`},
		"a panic":             {hooked("ironclaw", "tool.before", `{"name": "a", "kind": "func", "behaviour": {"op": "panic", "message": "boom"}}`, `{"decision": "continue", "warnings": [{"hook": "a", "class": "hook_error"}]}`), ""},
		"none but a warning":  {hooked("ironclaw", "tool.before", `{"name": "a", "kind": "func", "behaviour": {"op": "error", "message": "boom"}}`, `{"warnings": []}`), `warnings`},
		"another warning":     {hooked("ironclaw", "tool.before", `{"name": "a", "kind": "func", "behaviour": {"op": "error"}}`, `{"warnings": [{"hook": "a", "class": "hook_timeout"}]}`), `warnings`},
		"it ran":              {hooked("ironclaw", "tool.before", `{"name": "a", "kind": "func"}`, `{"not_ran": ["a"]}`), `not_ran`},
		"an input not there":  {`{"id": "x", "dialect": "ironclaw", "kind": "dispatch", "event": "tool.before", "input": {"prompt": {"$error": "gone"}}, "plan": {"hooks": [{"name": "a", "kind": "func", "failure_mode": "fail_closed"}]}, "expect": {"decision": "block", "cause": "error", "reason_contains": ["gone"], "ran": []}}`, ""},
		"a value not there":   {hooked("ironclaw", "tool.before", `{"name": "a", "kind": "func", "failure_mode": "fail_closed", "behaviour": {"op": "set", "value": {"$error": "gone"}}}`, `{"decision": "block", "reason_contains": ["gone"]}`), ""},
		"too much of it":      {value(`{"$repeat": "0123456789", "$times": 1000000000}`, `{}`), `at most`},
		"a process":           {hooked("flyto", "tool.before", `{"name": "a", "kind": "command"}`, `{"process_started": false}`), `process_started`},
		"a late process":      {hooked("flyto", "model.after", `{"name": "a", "kind": "command"}`, `{"process_started": true, "ran": []}`), ``},
		"a file":              {hooked("flyto", "tool.before", `{"name": "a", "kind": "command", "behaviour": {"command": "echo > f"}}`, `{"no_file_after_ms": {"g": 0, "f": 10}}`), `it exists`},
		"exact bytes":         {hooked("flyto", "tool.before", `{"name": "a", "kind": "command", "behaviour": {"exit": 2, "stderr": "it's 100% $HOME \\n\u0000"}}`, `{"reason": "it's 100% $HOME \\n\u0000"}`), ``},
		"a lot of bytes":      {hooked("flyto", "tool.before", `{"name": "a", "kind": "command", "behaviour": {"exit": 2, "stdout": {"$repeat": "x", "$times": 300000}, "stderr": "no"}}`, `{"reason": "no"}`), ``},
		"by a signal":         {hooked("miniclaw", "tool.before", `{"name": "a", "kind": "command", "behaviour": {"signal": "SIGTERM", "stderr": "bye"}}`, `{"decision": "block", "reason": "hook failed: bye"}`), ``},
		"an operation":        {`{"id": "x", "dialect": "flyto", "kind": "registry", "ops": [{"do": "is_empty", "expect": false}]}`, `ops[0].is_empty: expect`},
		"an operation's word": {`{"id": "x", "dialect": "flyto", "kind": "registry", "ops": [{"do": "dispatch", "event": "tool.before", "expect": {"dcision": 1}}]}`, `ops[0].dispatch: expect.dcision`},
		"an error":            {`{"id": "x", "dialect": "flyto", "kind": "registry", "ops": [{"do": "register"}]}`, `expect_error`},
		"no error":            {`{"id": "x", "dialect": "flyto", "kind": "registry", "ops": [{"do": "enable", "expect_error": true}]}`, `expect_error`},
		"an alternative":      {`{"id": "x", "dialect": "flyto", "kind": "registry", "ops": [{"do": "enable", "expect_error": true, "accept_alternatives": [{"expect_error": false}]}]}`, ``},
		"a matcher":           {hooked("miniclaw", "tool.before", `{"name": "a", "kind": "command", "matcher": {"glob": "["}}`, `{"decision": "continue"}`), `decision`},
		"the environment":     {`{"id": "x", "dialect": "flyto", "kind": "env", "builder": "task", "args": {"parent_env": {"SOME": "thing"}}, "expect": {"env": {"SOME": "thing"}, "absent": ["SOME"]}}`, `absent`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runOne(t, tt.text, nil)
			if got := r.String(); (r.Status == conformance.Passed) != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("status %s, want %q to be wrong\n%s\n%s", r.Status, tt.want, tt.text, got)
			}
		})
	}
}

func ExampleRun() {
	cases, err := conformance.Parse([]byte(`[{
		"id": "a-block-wins", "dialect": "flyto", "kind": "dispatch", "event": "tool.before",
		"input": {"tool_name": "Bash", "tool_input": {"command": "ls"}},
		"plan": {"hooks": [
			{"name": "gate", "kind": "command", "behaviour": {"exit": 2, "stderr": "not here"}},
			{"name": "other", "kind": "command"}]},
		"expect": {"decision": "block", "reason": "not here", "ran": ["gate", "other"]}}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range conformance.Run(context.Background(), cases, nil) {
		fmt.Println(r.ID, r.Status)
	}
	// Output: a-block-wins passed
}
