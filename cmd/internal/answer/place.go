package answer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/install/record"
	"github.com/grapnel-dev/grapnel/policy"
)

// Place is where one invocation finds its policy and keeps its state.
type Place struct {
	Policy string // the user's policy file
	State  string // everything that Grapnel keeps
	Agent  string // whose settings file the command stands in; empty = unknown
	Path   string // PATH for the programs of hooks; empty = that of this process
}

// Spool is the directory of Records and pending observers.
func (p Place) Spool() string { return filepath.Join(p.State, "spool") }

// Snapshots is the directory of the last valid contents of policy files.
func (p Place) Snapshots() string { return filepath.Join(p.State, "policy") }

// Installs is the directory of the records of installations.
func (p Place) Installs() string { return filepath.Join(p.State, "installs") }

// Files lists the policy files: the user's, and those that the command line names,
// each once.
func (p Place) Files(named []string) []policy.File {
	files := []policy.File{{Path: p.Policy, Scope: grapnel.ScopeUser}}
	for _, name := range named {
		if abs, err := filepath.Abs(name); err == nil {
			name = abs
		}
		if i := slices.IndexFunc(files, func(f policy.File) bool { return f.Path == name }); i >= 0 {
			files[i].Must = true
			continue
		}
		files = append(files, policy.File{Path: name, Scope: grapnel.ScopeSession, Must: true})
	}
	return files
}

// installed is the place that an installation recorded. One that names no policy
// would guard nothing, and is broken.
func installed(rec record.Record) (Place, error) {
	for what, dir := range map[string]string{"policy": rec.Policy, "state directory": rec.State} {
		if !filepath.IsAbs(dir) {
			return Place{}, fmt.Errorf("installation %s: its record names no %s (%q), run \"grapnel install\" again", rec.ID, what, dir)
		}
	}
	return Place{Policy: rec.Policy, State: rec.State, Agent: rec.Agent, Path: rec.Path}, nil
}

// Locate finds the place of an invocation. With root, everything lies below that
// directory. With an id, it is what the installation recorded: the environment is
// not asked, because an agent's project settings can set it. Without either a
// person typed the command: XDG_CONFIG_HOME and HOME say where the policy is, and
// state lies where installations keep theirs.
func Locate(root, id string) (Place, error) {
	switch {
	case root != "":
		abs, err := filepath.Abs(root)
		if err != nil {
			return Place{}, fmt.Errorf("--root %s: %w", root, err)
		}
		return Place{Policy: filepath.Join(abs, "grapnel.yaml"), State: filepath.Join(abs, "state")}, nil
	case id != "":
		dir, err := record.Dir("")
		if err != nil {
			return Place{}, err
		}
		rec, err := record.Read(dir, id)
		if err != nil {
			return Place{}, err
		}
		return installed(rec)
	}
	config := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		home, err := os.UserHomeDir()
		if err != nil {
			return Place{}, errors.New("no home directory: set HOME, or use --root DIR")
		}
		config = filepath.Join(home, ".config")
	}
	state, err := record.State("")
	if err != nil {
		return Place{}, err
	}
	return Place{Policy: filepath.Join(config, "grapnel", "grapnel.yaml"), State: state}, nil
}
