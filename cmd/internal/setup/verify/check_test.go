package verify

import (
	"encoding/json"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/dialect"
)

// A missing call proves something only between two calls that ran, or after one.
func TestStopped(t *testing.T) {
	t.Parallel()
	requests := model.Log{{Main: true, Body: json.RawMessage(`{"text": "that is WHY"}`)}}
	for name, tt := range map[string]struct {
		files    []string
		requests model.Log
		want     string
	}{
		"it happened":        {files: []string{"before", "call", "after"}, requests: requests, want: Not},
		"it alone happened":  {files: []string{"call"}, want: Not},
		"told why":           {files: []string{"before", "after"}, requests: requests, want: AsBlock},
		"not told why":       {files: []string{"before", "after"}, want: "silently"},
		"the run ended":      {files: []string{"before"}, requests: requests, want: AsHalt},
		"the run never came": {files: []string{"after"}, requests: requests, want: "nothing ran"},
		"there was no run":   {want: "nothing ran"},
	} {
		res := Result{Requests: tt.requests, Files: map[string]string{}}
		for _, file := range tt.files {
			res.Files[file] = ""
		}
		if got := stopped(res, "before", "call", "after", "that is WHY"); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A row contains the result of a claim. If the event did not fire, there is no row, except for a
// tool call, which must fire.
func TestNote(t *testing.T) {
	t.Parallel()
	d, ok := dialect.FindAgent("codex")
	if !ok {
		t.Fatal("no dialect")
	}
	c := &check{dialect: d, fired: map[use]bool{{grapnel.PromptBefore, "UserPromptSubmit"}: true}, report: &Report{}}
	c.note(grapnel.ToolBefore, "rewrite", Native)
	c.note(grapnel.ToolBefore, "halt", Native)
	c.note(grapnel.PromptBefore, "block", Not)
	c.note(grapnel.AgentAfter, "block", Not)     // it did not fire
	c.note(grapnel.ModelBefore, "rewrite", Not)  // it is not installed
	c.note(grapnel.SessionStart, "rewrite", Not) // it does not support a rewrite
	c.promise(grapnel.ToolBefore, "call", true, false)
	want := []Row{
		{Event: "PreToolUse", Kind: grapnel.ToolBefore, What: "rewrite", Claim: Native, Seen: Native, OK: true},
		{Event: "PreToolUse", Kind: grapnel.ToolBefore, What: "halt", Claim: AsBlock, Seen: Native},
		{Event: "UserPromptSubmit", Kind: grapnel.PromptBefore, What: "block", Claim: Native, Seen: Not},
		{Event: "PreToolUse", Kind: grapnel.ToolBefore, What: "call", Seen: "the call happened"},
	}
	if len(c.report.Rows) != len(want) {
		t.Fatalf("rows %+v, want %+v", c.report.Rows, want)
	}
	for i, row := range c.report.Rows {
		if row != want[i] {
			t.Errorf("row %+v, want %+v", row, want[i])
		}
	}
	if c.report.OK() {
		t.Error("a report with a broken promise is good")
	}
}
