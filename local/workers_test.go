package local

import (
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// A policy that is loaded again gets the workers that run. A worker that it no longer names is
// returned once, so that it can be closed.
func TestWorkersOfReload(t *testing.T) {
	t.Parallel()
	var w Workers
	place := Place{State: t.TempDir()}
	hook := func(line string) *process.Worker {
		worker, ok := w.Hook(place, policyfile.Command{Name: "count", Line: line, Worker: true}).(*process.Worker)
		if !ok {
			t.Fatal("no worker")
		}
		return worker
	}
	a, b := hook("a"), hook("b")
	if a == b || hook("a") != a || len(w.Unused()) != 0 {
		t.Error("the workers are not told apart, or not found again")
	}
	if hook("b") != b {
		t.Error("another worker after a load")
	}
	if unused := w.Unused(); len(unused) != 1 || unused[0] != a || hook("a") == a {
		t.Errorf("unused: %v, want only %v", unused, a)
	}
	if _, ok := w.Hook(place, policyfile.Command{Name: "once", Line: "a"}).(*process.Command); !ok {
		t.Error("a program that runs once is a worker")
	}
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := hook("a").Handle(t.Context(), &grapnel.Event{Kind: grapnel.ToolBefore}); err == nil {
		t.Error("a worker runs after Close")
	}
}
