package local

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// The ID of a machine is stored once, also if many processes need it first at the same time.
func TestIdentity(t *testing.T) {
	t.Parallel()
	p := Place{State: filepath.Join(t.TempDir(), "state")}
	var got [20]Identity
	var wait sync.WaitGroup
	for i := range got {
		wait.Go(func() { got[i] = p.Identity() })
	}
	wait.Wait()
	for _, id := range got {
		if id != got[0] || len(id.Machine) < 20 || id.Host == "" || id.User == "" {
			t.Fatalf("identities %+v", got)
		}
	}
	if other := (Place{State: filepath.Join(t.TempDir(), "state")}).Identity(); other.Machine == got[0].Machine {
		t.Error("two state directories have the same ID")
	}
	if id := (Place{State: "/dev/null/state"}).Identity(); id.Machine != "" || id.User != "" {
		t.Errorf("without a state directory: %+v", id)
	}
}

// A Record says which revision was in force at its time.
func TestMarkRevision(t *testing.T) {
	t.Parallel()
	end := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	set := &load.Set{Files: []load.Loaded{{Scope: "managed", Revision: 42, Expires: end}}}
	for at, want := range map[time.Time]string{end.Add(-time.Second): "42", end.Add(time.Second): "42 (expired)"} {
		rec := grapnel.Record{Time: at}
		Identity{}.Mark(&rec, set, "d")
		if rec.PolicyRevision != want || rec.PolicyDigest != "d" {
			t.Errorf("at %v: revision %q, digest %q, want %q", at, rec.PolicyRevision, rec.PolicyDigest, want)
		}
	}
	rec := grapnel.Record{Time: end}
	if (Identity{}).Mark(&rec, nil, ""); rec.PolicyRevision != "" {
		t.Errorf("of unknown policies: %q", rec.PolicyRevision)
	}
}
