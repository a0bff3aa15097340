package service

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/forwarding"
	"github.com/grapnel-dev/grapnel/local"
)

// A daemon that answers no events uses new targets, and keeps them while a policy is broken.
func TestReadTargets(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	d := &daemon{place: place, log: log, forward: forwarding.NewGroup(place, nil, log)}
	file := filepath.Join(root, "etc", "grapnel", "policy.d", "records.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		policy string
		want   bool
	}{
		{"version: 1\n", false},
		{"version: 1\nrecords: {forward: [{to: 'nats://n'}]}\n", true},
		{"version: 1\nrecords: {forward: [{to: 'kafka://n'}]}\n", true},
		{"version: 1\nrecords: {keep: masked}\n", false},
	} {
		if err := os.WriteFile(file, []byte(step.policy), 0o600); err != nil {
			t.Fatal(err)
		}
		if d.readTargets(); d.forward.Any() != step.want {
			t.Errorf("after %q there are targets: %v, want %v", step.policy, d.forward.Any(), step.want)
		}
	}
}
