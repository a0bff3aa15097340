package load_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// Only managed policies have a revision that Records name. Several are listed in the order of their
// files, and an expired one stays in force and says so. A snapshot keeps them.
func TestRevision(t *testing.T) {
	t.Parallel()
	req := load.Request{Snapshots: t.TempDir()}
	req.Files = append(policiesOf(t, grapnel.ScopeManaged,
		"version: 1\nrevision: 42\nexpires: 2031-12-31\n", "version: 1\n", "version: 1\nrevision: 7\n"),
		policiesOf(t, grapnel.ScopeUser, "version: 1\nrevision: 99\n")...)
	end := time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 2 { // parsed, then from its snapshot
		set := load.Policies(req)
		for at, want := range map[time.Time]string{end.Add(-time.Second): "42, 7", end: "42 (expired), 7"} {
			if got := set.Revision(at); got != want {
				t.Errorf("at %v: revision %q, want %q", at, got, want)
			}
		}
		if l := set.Files[0]; l.State != load.Valid || !l.Expires.Equal(end) {
			t.Errorf("the first file is %+v, want a valid one until %v", l, end)
		}
	}
	if got := (&load.Set{}).Revision(end); got != "" {
		t.Errorf("revision of no policy: %q", got)
	}
}

// A hook with groups is in force only on machines of one of them. If the groups cannot be read, the
// file is treated like any managed policy that cannot be read: tools are blocked.
func TestGroups(t *testing.T) {
	t.Parallel()
	const text = "version: 1\nhooks:\n  - {name: all, on: tool.before, block: a}\n" +
		"  - {name: some, groups: [canary, lab], on: tool.before, block: b}\n"
	bad := errors.New("permission denied")
	for name, tt := range map[string]struct {
		groups func() ([]string, error)
		want   []string
	}{
		"no file":       {func() ([]string, error) { return nil, nil }, []string{"all"}},
		"not asked":     {nil, []string{"all"}},
		"another group": {func() ([]string, error) { return []string{"can", "office"}, nil }, []string{"all"}},
		"one of two":    {func() ([]string, error) { return []string{"office", "lab"}, nil }, []string{"all", "some"}},
		"unreadable":    {func() ([]string, error) { return nil, bad }, []string{"broken-policy", "policy-notice"}},
	} {
		req := load.Request{Files: policiesOf(t, grapnel.ScopeManaged, text), Groups: tt.groups, Snapshots: t.TempDir()}
		for range 2 { // parsed, then from its snapshot
			set := load.Policies(req)
			var got []string
			for i := range set.Specs {
				if s := &set.Specs[i]; s.Source.File == req.Files[0].Path && s.Phase == grapnel.PhaseRule {
					got = append(got, s.Name)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s: rules %v, want %v", name, got, tt.want)
			}
			if broken := set.Files[0].State == load.Broken; broken != (name == "unreadable") {
				t.Errorf("%s: %+v", name, set.Files[0])
			}
		}
	}
	asked := false
	req := load.Request{Files: []load.File{{Path: filepath.Join(t.TempDir(), "p.yaml"), Scope: grapnel.ScopeManaged}}, Groups: func() ([]string, error) { asked = true; return nil, nil }}
	req.Content = map[string][]byte{req.Files[0].Path: []byte("version: 1\nhooks:\n  - {name: all, on: tool.before, block: a}\n")}
	if load.Policies(req); asked {
		t.Error("the groups are read although no hook names one")
	}
}
