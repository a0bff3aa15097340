package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/policy/load"
)

func TestLocate(t *testing.T) {
	state, err := installation.State("")
	if err != nil {
		t.Fatal(err)
	}
	home, root := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", root)
	for name, tt := range map[string]struct {
		xdg, root string
		want      Place
	}{
		"root":                 {"/x", root, Place{Policy: filepath.Join(root, "grapnel.yaml"), State: filepath.Join(root, "state"), Home: home, Managed: filepath.Join(root, "etc", "grapnel"), Standing: true}},
		"a person":             {"", "", Place{Policy: filepath.Join(home, ".config", "grapnel", "grapnel.yaml"), State: state, Home: home, Managed: "/etc/grapnel"}},
		"a person, XDG":        {root, "", Place{Policy: filepath.Join(root, "grapnel", "grapnel.yaml"), State: state, Home: home, Managed: "/etc/grapnel"}},
		"XDG that is relative": {"x", "", Place{Policy: filepath.Join(home, ".config", "grapnel", "grapnel.yaml"), State: state, Home: home, Managed: "/etc/grapnel"}},
	} {
		t.Setenv("XDG_CONFIG_HOME", tt.xdg)
		if got, err := Locate(tt.root, ""); got != tt.want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, tt.want)
		}
	}
	for _, id := range []string{"x", "../../../etc/passwd", strings.Repeat("a", 26)} {
		if got, err := Locate("", id); err == nil {
			t.Errorf("id %q is taken for an installation: %+v", id, got)
		}
	}
}

// An installation takes everything from its record. A record without a policy is an error, because
// it would guard nothing.
func TestInstalled(t *testing.T) {
	t.Parallel()
	whole := installation.Record{ID: "t", Agent: "claude-code", Policy: "/p/grapnel.yaml", State: "/s", Path: "/bin"}
	if got, err := installed(whole); err != nil || got != (Place{Policy: "/p/grapnel.yaml", State: "/s", Agent: "claude-code", Path: "/bin", Managed: "/etc/grapnel"}) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, spoil := range map[string]func(*installation.Record){
		"no policy":         func(r *installation.Record) { r.Policy = "" },
		"a relative policy": func(r *installation.Record) { r.Policy = "grapnel.yaml" },
		"no state":          func(r *installation.Record) { r.State = "" },
	} {
		rec := whole
		spoil(&rec)
		if _, err := installed(rec); err == nil || !strings.Contains(err.Error(), "grapnel install") {
			t.Errorf("%s: %v, want an error with a way out", name, err)
		}
	}
}

func TestFilesOnce(t *testing.T) {
	t.Parallel()
	p := Place{Policy: "/p/grapnel.yaml"}
	want := []load.File{
		{Path: "/p/grapnel.yaml", Scope: grapnel.ScopeUser, Must: true},
		{Path: "/q.yaml", Scope: grapnel.ScopeSession, Must: true},
	}
	if diff := cmp.Diff(want, p.Files([]string{"/q.yaml", "/p/../p/grapnel.yaml", "/q.yaml"}, nil)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A project's policies need trust, unless they are named on the command line. A policy with several
// names is loaded once.
func TestFilesOfAProject(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p/sub")
	root, sub := filepath.Join(dir, "p"), filepath.Join(dir, "p", "sub")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	own := load.File{Path: "/u/grapnel.yaml"}
	of := func(dir string) load.File {
		return load.File{Path: filepath.Join(dir, ProjectPolicy), Scope: grapnel.ScopeProject, Trust: true}
	}
	namedSub := of(sub)
	namedSub.Must, namedSub.Trust = true, false
	for name, tt := range map[string]struct {
		policy string
		named  []string
		want   []load.File
	}{
		"root first":                {own.Path, nil, []load.File{own, of(root), of(sub)}},
		"one of them named":         {own.Path, []string{namedSub.Path}, []load.File{own, of(root), namedSub}},
		"named through a link":      {own.Path, []string{filepath.Join(link, "sub", ProjectPolicy)}, []load.File{own, of(root), namedSub}},
		"the user's is the project": {of(root).Path, nil, []load.File{{Path: of(root).Path}, of(sub)}},
	} {
		if diff := cmp.Diff(tt.want, Place{Policy: tt.policy}.Files(tt.named, []Dir{{Path: root}, {Path: sub}})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
