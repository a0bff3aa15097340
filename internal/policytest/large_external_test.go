//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package policytest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// Mutate removes a pack that a policy uses only as a whole. Single hooks of a pack are covered by
// the tests of the pack.
func TestMutatePacks(t *testing.T) {
	t.Parallel()
	tests := tested(t, "version: 1\nuse: [destructive, secrets]\n", "version: 1\ntests: [{command: git push --force, want: {rule: no-force-push}}]\n")
	m, err := policytest.Mutate(t.Context(), tests, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `2:20 : without the pack "secrets" <- an event that matches a hook of the pack`
	if got := survivors(m); got != want || m.Killed != 1 {
		t.Errorf("%s, want %s; %d killed", got, want, m.Killed)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "pack_test.yaml")
	if err := os.WriteFile(name, []byte("version: 1\npack: prompt-injection\ntests: [{command: ls, want: none}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, errs := policytest.Read(name)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if m, err = policytest.Mutate(t.Context(), file.Tests, nil, nil); err != nil || m.Policies[0].Policy != "pack prompt-injection" || m.Survived < 100 {
		t.Errorf("%+v %v", m, err)
	}
}
