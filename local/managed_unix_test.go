//go:build unix

package local

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// Managed policies come first, ordered by name. If users other than root could have written one,
// Grapnel blocks tools and does not simply ignore the policy.
func TestManagedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place := Place{Policy: filepath.Join(dir, "user.yaml"), State: filepath.Join(dir, "state"), Managed: filepath.Join(dir, "managed")}
	opened := func() load.Set {
		req := place.Request(place.Files(nil, nil), policy.Runners{})
		req.Always = nil
		return load.Policies(req)
	}
	if set := opened(); len(set.Specs) != 0 {
		t.Fatalf("without a directory: %+v", set)
	}
	of := filepath.Join(place.Managed, "policy.d")
	if err := os.MkdirAll(of, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, hook string) string {
		name = filepath.Join(of, name)
		text := "version: 1\nhooks:\n  - {name: " + hook + ", on: tool.before, block: no}\n"
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	second := write("b.yaml", "second")
	write("a.yaml", "first")
	write("c.txt", "no-policy")
	names := func(set load.Set) (names []string) {
		for _, spec := range set.Specs {
			if spec.Source.Scope != grapnel.ScopeManaged {
				t.Errorf("%s is of scope %v", spec.Name, spec.Source.Scope)
			}
			names = append(names, spec.Name)
		}
		return names
	}
	place.Standing = true
	if got := names(opened()); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("in a root that stands in: %v", got)
	}
	place.Standing = false
	if os.Geteuid() != 0 {
		if got := names(opened()); slices.Contains(got, "first") || !slices.Contains(got, "broken-policy") {
			t.Errorf("policies of this user are taken for root's: %v", got)
		}
		return
	}
	if got := names(opened()); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("policies of root: %v", got)
	}
	// The user can write the snapshots, so they neither replace a managed file nor define its
	// meaning.
	kept, err := filepath.Glob(filepath.Join(place.Snapshots(), "*.snap"))
	if err != nil || len(kept) == 0 {
		t.Fatalf("nothing is kept for observers that run later: %v", err)
	}
	for _, name := range kept {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(string(data), "tool.before", "session.end")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, spec := range opened().Specs {
		if !slices.Contains(spec.On, grapnel.ToolBefore) {
			t.Errorf("%s listens to %v: a file of the user says what root's policy means", spec.Name, spec.On)
		}
	}
	for what, spoil := range map[string]func() error{
		"not root's":          func() error { return os.Chown(second, 65534, -1) },
		"written by others":   func() error { return os.Chmod(second, 0o666) },
		"broken":              func() error { return os.WriteFile(second, []byte("version: 1\nhooks: x\n"), 0o644) },
		"a link to nowhere":   func() error { return os.Remove(second) },
		"a directory of mine": func() error { return os.Chown(of, 65534, -1) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if what == "a link to nowhere" {
			if err := os.Symlink("/nowhere", second); err != nil {
				t.Fatal(err)
			}
		}
		if got := names(opened()); !slices.Contains(got, "broken-policy") {
			t.Errorf("%s: %v, want that everything is blocked", what, got)
		}
		_ = os.Remove(second)
		write("b.yaml", "second")
		if err := os.Chown(of, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// A file that a managed policy loads, and every directory above it, must also be writable only by
// root. Snapshots, which the user can write, add nothing.
func TestManagedLoads(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can write what is root's")
	}
	dir := t.TempDir()
	place := Place{Policy: filepath.Join(dir, "user.yaml"), State: filepath.Join(dir, "state"), Managed: filepath.Join(dir, "managed")}
	of := filepath.Join(place.Managed, "policy.d")
	hooks := filepath.Join(dir, "hooks")
	for _, name := range []string{of, hooks} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	loaded := filepath.Join(hooks, "a.hook.json")
	for name, text := range map[string]string{
		filepath.Join(of, "a.yaml"): "version: 1\nload: [{format: ironclaw, file: " + hooks + "/*.hook.json}]\n",
		loaded:                      `{"rules": [{"name": "no-rm", "points": ["beforeToolCall"], "when_regex": "rm", "reject_reason": "no"}]}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	names := func() (names []string) {
		for _, spec := range place.Settings().Specs {
			if spec.Source.Name != "grapnel#self-protection" && spec.Phase != grapnel.PhaseObserve { // not IronClaw's audit and summary
				names = append(names, spec.Name)
			}
		}
		return names
	}
	for range 2 { // the second round also uses snapshots
		if got := names(); !slices.Equal(got, []string{"no-rm"}) {
			t.Fatalf("hooks %v", got)
		}
	}
	for what, spoil := range map[string]func() error{
		"a file of somebody":                   func() error { return os.Chown(loaded, 65534, -1) },
		"a directory of somebody":              func() error { return os.Chown(hooks, 65534, -1) },
		"a directory of somebody further up":   func() error { return os.Chown(dir, 65534, -1) },
		"a directory that everybody can write": func() error { return os.Chmod(hooks, 0o777) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if got := names(); slices.Contains(got, "no-rm") || !slices.Contains(got, "broken-policy") {
			t.Errorf("%s: %v, want that tools are blocked", what, got)
		}
		for _, name := range []string{dir, hooks, loaded} {
			if err := errors.Join(os.Chown(name, 0, -1), os.Chmod(name, map[bool]os.FileMode{true: 0o644, false: 0o755}[name == loaded])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Remove(loaded); err != nil {
		t.Fatal(err)
	}
	if got := names(); slices.Contains(got, "no-rm") {
		t.Errorf("a file that root removed is in force from where the user can write: %v", got)
	}
}
