package local

import (
	"path/filepath"
	"sync"
	"testing"
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
