package allow_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/allow"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/local"
)

// A rule must not be written before the waiting call has used its approval: the approval is for the
// policies of the question. A call for which no program waits is not waited for.
func TestAwaitUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testAwaitUse) // its clock, the files are real
}

func testAwaitUse(t *testing.T) {
	dir := t.TempDir()
	place := local.Place{Policy: filepath.Join(dir, "grapnel.yaml"), State: filepath.Join(dir, "state"), Home: dir}
	store := place.Approvals()
	now := time.Now()
	asked := func(waits time.Time) (*approval.Request, *approval.Grant) {
		r := &approval.Request{
			ID: approval.NewID(), PID: os.Getpid(), Since: now.UTC(), Until: now.Add(time.Hour).UTC(), Waits: waits.UTC(), Policy: "p",
			Digest: store.Digest(&grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Input: []byte(`{}`)}}), Hooks: []string{"ask"},
		}
		if err := store.Ask(r); err != nil {
			t.Fatal(err)
		}
		g, err := r.Yes("me", "", false, now)
		if err != nil {
			t.Fatal(err)
		}
		if _, first, err := store.Answer(r.ID, &approval.Answer{State: approval.Approved, Grant: g, Waited: true}); err != nil || !first {
			t.Fatal(first, err)
		}
		return r, g
	}
	r, g := asked(now.Add(time.Hour))
	go func() {
		time.Sleep(9 * time.Second)
		store.Use(g, "event")
	}()
	if allow.AwaitUse(t.Context(), place, r); store.Unused(g) {
		t.Error("it did not wait for the call")
	}
	r, g = asked(now.Add(-time.Second))
	if allow.AwaitUse(t.Context(), place, r); !store.Unused(g) {
		t.Error("the approval was used")
	}
}
