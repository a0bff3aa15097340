package hookfile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	ironclaw "github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

// IronClaw's audit runs before the other hooks, receives all six points and blocks nothing. It does
// not receive events that were rejected before it.
//
// Proves: IC-34, IC-35
func TestAuditLog(t *testing.T) {
	t.Parallel()
	preset, _ := grapnel.FindPreset("ironclaw")
	var all []string
	write := func(line []byte) error { all = append(all, string(line)); return nil }
	early := 10
	reject := builtin.Blocking([]string{"early", "late"}, "no")
	e, err := grapnel.New([]grapnel.Spec{
		preset.Defaults(grapnel.Spec{Name: "late", Hook: reject}),
		preset.Defaults(ironclaw.AuditLog(write)),
		preset.Defaults(grapnel.Spec{Name: "early", Priority: early - 100, Hook: builtin.Blocking([]string{"early"}, "no")}),
	}, &grapnel.Options{Preset: preset})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"early", "late", "other"} {
		e.Fire(t.Context(), &grapnel.Event{Kind: grapnel.ToolBefore, Session: grapnel.Session{ID: "s1", User: "u1"}, Tool: &grapnel.Tool{Name: tool}})
	}
	e.Fire(t.Context(), &grapnel.Event{Kind: grapnel.ToolAfter, Tool: &grapnel.Tool{Name: "other"}}) // not one of its points
	line := `{"hook":"builtin.audit_log","point":"beforeToolCall","user_id":"u1"}` + "\n"
	if diff := cmp.Diff([]string{line, line}, all); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
