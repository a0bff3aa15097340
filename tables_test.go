package grapnel_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/scramble"
)

// TestTablesCannotBeChanged pins a defect: ContractOf(ToolBefore).Blocks = "" disabled every
// Block in the process. Changes of a returned table must not affect other callers or the engine.
func TestTablesCannotBeChanged(t *testing.T) {
	for name, table := range map[string]func() any{
		"Contracts": func() any { return grapnel.Contracts() },
		"ContractOf": func() any {
			c, _ := grapnel.ContractOf(grapnel.ToolBefore)
			return &c
		},
		"FindPreset": func() any {
			p, _ := grapnel.FindPreset("gemini")
			return &p
		},
	} {
		before := scramble.Print(table())
		scramble.Value(table())
		if after := scramble.Print(table()); after != before {
			t.Errorf("%s: got\n%s\nwant\n%s", name, after, before)
		}
	}
	for _, row := range contractRows { // also for an engine that was created after the change
		if v, _ := fire(t, event(row.kind), step("h", decides(grapnel.Block, "no"))); (v.Decision == grapnel.Block) != (row.blocks != "") {
			t.Errorf("%s: decided %v, want a block: %t", row.kind, v.Decision, row.blocks != "")
		}
	}
}
