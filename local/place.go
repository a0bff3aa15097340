package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/owner"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
)

// Place is where one invocation finds its policy and keeps its state.
type Place struct {
	Policy string // the user's policy file
	State  string // everything that Grapnel keeps
	Agent  string // whose settings file the command stands in; empty = unknown
	Path   string // PATH for the programs of hooks; empty = that of this process
	Home   string // where other systems keep the hooks of a user; empty = the home directory of the user database

	// Managed holds, in policy.d, what root says for everybody; empty = nobody does.
	// Standing is set where it stands in for the directory of the system: who owns it
	// does not count then, since the whole root is somebody's.
	Managed  string
	Standing bool

	Roots *Roots // caches the roots of sessions; nil = each event reads the file
}

// Spool is the directory of Records and pending observers.
func (p Place) Spool() string { return filepath.Join(p.State, "spool") }

// Store is the directory of the database that a daemon keeps Records and deliveries in.
func (p Place) Store() string { return filepath.Join(p.State, "store") }

// Snapshots is the directory of the last valid contents of policy files.
func (p Place) Snapshots() string { return filepath.Join(p.State, "policy") }

// Installs is the directory of the records of installations.
func (p Place) Installs() string { return filepath.Join(p.State, "installs") }

// Pause is the file that says whether hooks only observe; see [policy.ReadPause].
func (p Place) Pause() string { return filepath.Join(p.State, "pause.json") }

// Trusts keeps what was trusted of projects' policies.
func (p Place) Trusts() policy.Trusts { return policy.Trusts(filepath.Join(p.State, "trust")) }

// sessions is the directory of the sessions' roots.
func (p Place) sessions() string { return filepath.Join(p.State, "sessions") }

// ManagedFiles lists the managed policies, in the order of their names. A directory that
// cannot be listed, or that others than root can write, is a policy that cannot be
// read: nobody knows what it forbids.
func (p Place) ManagedFiles() []policy.File {
	if p.Managed == "" {
		return nil
	}
	dir := filepath.Join(p.Managed, "policy.d")
	unreadable := []policy.File{{Path: dir, Scope: grapnel.ScopeManaged, Must: true, Root: !p.Standing}}
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unreadable
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !p.Standing {
		if err = owner.Root(info); err == nil {
			err = owner.Path(dir)
		}
	}
	if err != nil {
		return unreadable
	}
	entries, err := f.ReadDir(-1)
	if err != nil {
		return unreadable
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".yaml") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	var files []policy.File
	for _, name := range names {
		files = append(files, policy.File{Path: filepath.Join(dir, name), Scope: grapnel.ScopeManaged, Must: true, Root: !p.Standing})
	}
	return files
}

// Files lists the policy files: the managed ones, the user's, those that a project may
// have, from its root down, and those that the command line names, each once. What is
// named needs no trust.
func (p Place) Files(named []string, dirs []Dir) []policy.File {
	files := append(p.ManagedFiles(), policy.File{Path: p.Policy, Scope: grapnel.ScopeUser})
	for _, dir := range dirs {
		if name := filepath.Join(dir.Path, ProjectPolicy); name != p.Policy {
			files = append(files, policy.File{Path: name, Scope: grapnel.ScopeProject, Trust: true, NoAllow: dir.GuardsOnly})
		}
	}
	for _, name := range Absolute(named) {
		i := 0
		for i < len(files) && files[i].Path != name && !(files[i].Trust && files[i].Path == policy.RealPath(name)) {
			i++
		}
		if i < len(files) {
			files[i].Must, files[i].Trust, files[i].NoAllow = true, false, false
			continue
		}
		files = append(files, policy.File{Path: name, Scope: grapnel.ScopeSession, Must: true})
	}
	return files
}

// HasPolicy reports whether there is a policy that does not depend on the project.
func (p Place) HasPolicy(named []string) bool {
	return slices.ContainsFunc(p.Files(named, nil), func(f policy.File) bool {
		_, err := os.Lstat(f.Path)
		return f.Must || !errors.Is(err, fs.ErrNotExist)
	})
}

// Absolute returns names as absolute paths. A name stays as it is if the working directory is
// unknown.
func Absolute(names []string) []string {
	var all []string
	for _, name := range names {
		if abs, err := filepath.Abs(name); err == nil {
			name = abs
		}
		all = append(all, name)
	}
	return all
}

// Request is what loads policy files here. command makes the hook behind a `run:`;
// nil = programs are left out.
func (p Place) Request(files []policy.File, command func(policy.Command) grapnel.Hook) policy.Request {
	return policy.Request{Files: files, Packs: packs.All(), Always: packs.Always(), Snapshots: p.Snapshots(), Trusts: p.Trusts(), State: p.State, Home: p.Home, Command: command}
}

// Opened are the networks that whoever owns this machine, or works on it, has opened.
func (p Place) Opened() []string {
	return policy.Load(p.Request(append(p.ManagedFiles(), policy.File{Path: p.Policy, Scope: grapnel.ScopeUser}), nil)).Networks
}

// Networks are those that webhooks may reach beyond what is public: managed policies
// and the user's name them, and no other may, since it can come from somebody else.
func (p Place) Networks() []string {
	return policy.Load(p.Request(p.Files(nil, nil), nil)).Networks
}

// installed is the place that an installation recorded. One that names no policy
// would guard nothing, and is broken; but for a managed one, where every user has a
// policy and a state of their own.
func installed(rec installation.Record) (Place, error) {
	if rec.Scope == "managed" {
		state, err := installation.State("")
		if err != nil {
			return Place{}, err
		}
		dir, err := home.Dir()
		if err != nil {
			return Place{}, err
		}
		rec.State, rec.Policy = state, filepath.Join(dir, ".config", "grapnel", "grapnel.yaml")
	}
	for what, dir := range map[string]string{"policy": rec.Policy, "state directory": rec.State} {
		if !filepath.IsAbs(dir) {
			return Place{}, fmt.Errorf("installation %s: its record names no %s (%q), run \"grapnel install\" again", rec.ID, what, dir)
		}
	}
	return Place{Policy: rec.Policy, State: rec.State, Agent: rec.Agent, Path: rec.Path, Managed: installation.Managed("/")}, nil
}

// Locate finds the place of an invocation. With root, everything lies below that
// directory, managed policies included: there it stands in for the root of the system. With an id, it is what the installation recorded: the environment is
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
		home, _ := os.UserHomeDir() // without one, what the user database says
		return Place{Policy: filepath.Join(abs, "grapnel.yaml"), State: filepath.Join(abs, "state"), Home: home, Managed: installation.Managed(abs), Standing: true}, nil
	case id != "":
		rec, err := installation.Find(id)
		if err != nil {
			return Place{}, err
		}
		return installed(rec)
	}
	config := os.Getenv("XDG_CONFIG_HOME")
	home, err := os.UserHomeDir()
	if !filepath.IsAbs(config) {
		if err != nil {
			return Place{}, errors.New("no home directory: set HOME, or use --root DIR")
		}
		config = filepath.Join(home, ".config")
	}
	state, err := installation.State("")
	if err != nil {
		return Place{}, err
	}
	return Place{Policy: filepath.Join(config, "grapnel", "grapnel.yaml"), State: state, Home: home, Managed: installation.Managed("/")}, nil
}
