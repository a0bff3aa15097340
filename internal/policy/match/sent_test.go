package match

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

// Expressions of a `notify:` have the names of `when:`, the reasons and the origin.
func TestSent(t *testing.T) {
	t.Parallel()
	ev := (&grapnel.Event{
		ID: "e1", Kind: grapnel.ToolBefore, Time: time.Date(2026, 11, 21, 20, 0, 0, 5, time.FixedZone("x", 3600)),
		Tool: &grapnel.Tool{Name: "Bash", Commands: []string{"rm -rf /"}, Input: json.RawMessage(`{"command":"rm -rf /","n":[1,2.5]}`)},
	}).WithVerdict(&grapnel.Verdict{Decision: grapnel.Block, Reasons: []grapnel.Reason{{Hook: "a.yaml::no-rm", Text: "no"}, {Hook: "b", Text: "never"}}})
	o := &wire.Origin{Host: "laptop", User: "ada", Machine: "m1", PolicyDigest: "d", PolicyRevision: "7", Hook: wire.HookRef{Name: "team"}}
	for source, want := range map[string]string{
		`"blocked: " + tool.command`:              `"blocked: rm -rf /"`,
		`id + " " + time`:                         `"e1 2026-11-21T19:00:00Z"`,
		`verdict.reasons`:                         `["no","never"]`,
		`verdict.rule + " " + verdict.decision`:   `"no-rm block"`,
		`[origin.host, origin.user, origin.hook]`: `["laptop","ada","team"]`,
		`origin`:         `{"hook":"team","host":"laptop","machine":"m1","policy_digest":"d","policy_revision":"7","user":"ada"}`,
		`tool.input.n`:   `[1,2.5]`,
		`4`:              `4`,
		`tool.input?.no`: `null`,
		`{a: tool.failed, b: "x" in verdict.reasons}`: `{"a":false,"b":false}`,
	} {
		value, err := Sent(KeyBody, source, ev, o)
		if text, _ := json.Marshal(value); err != nil || string(text) != want {
			t.Errorf("%s: %s, %v, want %s", source, text, err, want)
		}
	}
	for _, source := range []string{"verdict.rule", "origin.host", "verdict.reason", "time", "id"} { // of an event with nothing
		if _, err := Sent(KeyText, source, &grapnel.Event{}, nil); err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
	if text, err := Sent(KeyText, "tool.input?.no", ev, nil); text != "" || err != nil {
		t.Errorf("nil as a text: %q, %v", text, err)
	}
	for source, want := range map[string]string{`tool.input.n`: "want text, got a list", `tool.input.no.x`: "has no member"} {
		if _, err := Sent(KeyText, source, ev, nil); err == nil || !strings.Contains(err.Error(), "text: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
	if _, err := CompileExpression(KeyWhen, "origin.host == ''"); err == nil {
		t.Error("a condition has an origin")
	}
}
