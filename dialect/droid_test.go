package dialect_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// Each event of Droid with each part of a verdict. Only the answers that Droid reads are written:
// it runs a call after an ask, ignores a decision except at Stop, and discards all answers of
// Notification and SubagentStop (seen live or in the program, 0.225.2).
func TestDroidAnswers(t *testing.T) {
	t.Parallel()
	outcomes := []struct {
		name string
		out  grapnel.Outcome
		only string // events whose Contract permits it; "" = all
	}{
		{"block", grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}, ""},
		{"ask", grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"}, "PreToolUse UserPromptSubmit PreCompact"},
		{"allow", grapnel.Outcome{Decision: grapnel.Allow}, "PreToolUse"},
		{"halt", grapnel.Outcome{Halt: "enough"}, ""},
		{"message", grapnel.Outcome{Message: "note"}, ""},
		{"context", grapnel.Outcome{Context: []string{"know"}}, ""},
		{"input", grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldCommand: json.RawMessage(`"ls"`)}}, "PreToolUse"},
		{"prompt", grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldPrompt: json.RawMessage(`"other"`)}}, "UserPromptSubmit"},
		{"block and message", grapnel.Outcome{Decision: grapnel.Block, Reason: "no", Message: "note"}, ""},
	}
	want := map[string]string{
		"SessionStart block":                 "0 unsupported: message: not sent",
		"SessionStart block and message":     "0 unsupported: message: not sent",
		"SessionStart context":               `0  {"hookSpecificOutput":{"additionalContext":"know","hookEventName":"SessionStart"}}`,
		"SessionStart halt":                  "0 unsupported: halt: not sent",
		"SessionStart message":               "0 unsupported: message: not sent",
		"UserPromptSubmit ask":               "2 this needs the approval of a person, but factory-droid cannot ask for it. Tell the user, who can do it or change the policy. The question is: sure? unsupported: ask: downgraded to block",
		"UserPromptSubmit block":             "2 no",
		"UserPromptSubmit block and message": "2 no unsupported: message: not sent",
		"UserPromptSubmit context":           `0  {"hookSpecificOutput":{"additionalContext":"know","hookEventName":"UserPromptSubmit"}}`,
		"UserPromptSubmit halt":              "2 enough unsupported: halt: downgraded to block",
		"UserPromptSubmit message":           "0 unsupported: message: not sent",
		"UserPromptSubmit prompt":            `0  {"hookSpecificOutput":{"updatedInput":{"prompt":"other"},"hookEventName":"UserPromptSubmit"}}`,
		"PreToolUse allow":                   `0  {"hookSpecificOutput":{"permissionDecision":"allow","hookEventName":"PreToolUse"}}`,
		"PreToolUse ask":                     "2 this needs the approval of a person, but factory-droid cannot ask for it. Tell the user, who can do it or change the policy. The question is: sure? unsupported: ask: downgraded to block",
		"PreToolUse block":                   "2 no",
		"PreToolUse block and message":       "2 no unsupported: message: not sent",
		"PreToolUse context":                 "0 unsupported: context: not sent",
		"PreToolUse halt":                    `2 enough {"continue":false,"stopReason":"enough"}`,
		"PreToolUse input":                   `0  {"hookSpecificOutput":{"updatedInput":{"command":"ls","summary":"s","riskLevelReason":"r","riskLevel":"low"},"hookEventName":"PreToolUse"}}`,
		"PreToolUse message":                 "0 unsupported: message: not sent",
		"PostToolUse block":                  "2 no",
		"PostToolUse block and message":      `2 no {"systemMessage":"note"}`,
		"PostToolUse context":                `0  {"hookSpecificOutput":{"additionalContext":"know","hookEventName":"PostToolUse"}}`,
		"PostToolUse halt":                   `0  {"continue":false,"stopReason":"enough"}`,
		"PostToolUse message":                `0  {"systemMessage":"note"}`,
		"Notification block":                 "0 unsupported: message: not sent",
		"Notification block and message":     "0 unsupported: message: not sent",
		"Notification context":               "0 unsupported: message: not sent",
		"Notification halt":                  "0 unsupported: halt: not sent",
		"Notification message":               "0 unsupported: message: not sent",
		"PreCompact ask":                     "2 this needs the approval of a person, but factory-droid cannot ask for it. Tell the user, who can do it or change the policy. The question is: sure? unsupported: ask: downgraded to block",
		"PreCompact block":                   "2 no",
		"PreCompact block and message":       "2 no unsupported: message: not sent",
		"PreCompact context":                 "0 unsupported: context: not sent",
		"PreCompact halt":                    "2 enough unsupported: halt: downgraded to block",
		"PreCompact message":                 "0 unsupported: message: not sent",
		"SubagentStop block":                 "0 unsupported: block: not sent",
		"SubagentStop block and message":     "0 unsupported: block: not sent, message: not sent",
		"SubagentStop context":               "0 unsupported: context: not sent",
		"SubagentStop halt":                  "0 unsupported: halt: not sent",
		"SubagentStop message":               "0 unsupported: message: not sent",
		"Stop block":                         `0  {"decision":"block","reason":"no"}`,
		"Stop block and message":             `0  {"decision":"block","reason":"no","systemMessage":"note"}`,
		"Stop context":                       "0 unsupported: context: not sent",
		"Stop halt":                          `0  {"continue":false,"stopReason":"enough"}`,
		"Stop message":                       `0  {"systemMessage":"note"}`,
		"SessionEnd block":                   "0 unsupported: message: not sent",
		"SessionEnd block and message":       "0 unsupported: message: not sent",
		"SessionEnd context":                 "0 unsupported: message: not sent",
		"SessionEnd halt":                    "0 unsupported: halt: not sent",
		"SessionEnd message":                 "0 unsupported: message: not sent",
	}
	got := map[string]string{}
	d := dialect.FactoryDroid()
	for native, in := range samples(t, d) {
		ev, err := d.Read(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range outcomes {
			if o.only != "" && !slices.Contains(strings.Fields(o.only), native) {
				continue
			}
			v := engineOf(t, o.out).Fire(t.Context(), ev)
			reply := d.Write(ev, &v, "")
			text := strings.TrimSpace(fmt.Sprintf("%d %s %s", reply.Exit, strings.TrimSpace(string(reply.Stderr)), strings.TrimSpace(string(reply.Stdout))))
			if len(v.Unsupported) > 0 {
				text += " unsupported: " + strings.Join(v.Unsupported, ", ")
			}
			got[native+" "+o.name] = text
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}
