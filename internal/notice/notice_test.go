package notice_test

import (
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/notice"
)

// An event can have several notices of Grapnel itself, and the user sees all of them.
func TestSeveralNotices(t *testing.T) {
	t.Parallel()
	engine, err := grapnel.New([]grapnel.Spec{notice.New("a", "one"), notice.New("b", "two")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []grapnel.Kind{grapnel.SessionStart, grapnel.PromptBefore, grapnel.ToolBefore} {
		v := engine.Fire(t.Context(), &grapnel.Event{Kind: kind})
		if shown := slices.Equal(v.Messages, []string{"one", "two"}); shown != notice.Shows(kind) {
			t.Errorf("%s: messages %q, Shows = %v", kind, v.Messages, notice.Shows(kind))
		}
	}
}
