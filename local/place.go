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
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Place contains the paths of policies and state.
type Place struct {
	Policy string // the user's policy file
	State  string // directory of records, snapshots, trust and counters
	Agent  string // agent that runs the installed command; empty = unknown
	Path   string // PATH for programs of hooks; empty = this process's PATH
	Home   string // directory of other systems' user hooks; empty = home directory of the user database

	// Managed is the parent directory of policy.d, which contains the managed policies; empty =
	// no managed policies. Standing means that the directory is below --root; its owner is then
	// not checked.
	Managed  string
	Standing bool

	Roots *Roots // caches the roots of sessions; nil = Dirs reads the root's file for each event
}

// Journal returns the directory of the log.
func (p Place) Journal() string { return filepath.Join(p.State, spool.JournalDir) }

// Index returns the directory of the index of Records.
func (p Place) Index() string { return filepath.Join(p.State, "index") }

// Queue returns the directory of the database of deliveries.
func (p Place) Queue() string { return filepath.Join(p.State, "queue") }

// Snapshots returns the directory of snapshots of policies.
func (p Place) Snapshots() string { return filepath.Join(p.State, "policy") }

// Installs returns the directory of installation records.
func (p Place) Installs() string { return filepath.Join(p.State, "installs") }

// Pause returns the path of the file that records a pause.
func (p Place) Pause() string { return filepath.Join(p.State, "pause.json") }

// Off returns the path of the file that lists the hooks that the user has switched off.
func (p Place) Off() string { return filepath.Join(p.State, "off.json") }

// Approvals returns the store of the calls that the user has allowed.
func (p Place) Approvals() approval.Store { return approval.Store(filepath.Join(p.State, "approvals")) }

// Trusts returns the store of trusted project policies.
func (p Place) Trusts() load.Trusts { return load.Trusts(filepath.Join(p.State, "trust")) }

// sessions returns the directory of the stored session roots.
func (p Place) sessions() string { return filepath.Join(p.State, "sessions") }

// ManagedFiles lists the managed policies by name. If the directory cannot be listed, or if users
// other than root can write to it, the result is one policy that cannot be read.
func (p Place) ManagedFiles() []load.File {
	if p.Managed == "" {
		return nil
	}
	dir := filepath.Join(p.Managed, "policy.d")
	unreadable := []load.File{{Path: dir, Scope: grapnel.ScopeManaged, Must: true, Root: !p.Standing}}
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
		if err = files.OnlyRoot(info); err == nil {
			err = files.OnlyRootPath(dir)
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
	var files []load.File
	for _, name := range names {
		files = append(files, load.File{Path: filepath.Join(dir, name), Scope: grapnel.ScopeManaged, Must: true, Root: !p.Standing})
	}
	return files
}

// Files lists policy files without duplicates: managed policies, the user's policy, project
// policies in dirs, and the named files. Named files need no trust.
func (p Place) Files(named []string, dirs []Dir) []load.File {
	files := append(p.ManagedFiles(), load.File{Path: p.Policy, Scope: grapnel.ScopeUser})
	for _, dir := range dirs {
		if name := filepath.Join(dir.Path, ProjectPolicy); name != p.Policy {
			files = append(files, load.File{Path: name, Scope: grapnel.ScopeProject, Trust: true, NoAllow: dir.GuardsOnly})
		}
	}
	for _, name := range Absolute(named) {
		i := 0
		for i < len(files) && files[i].Path != name && !(files[i].Trust && files[i].Path == match.RealPath(name)) {
			i++
		}
		if i < len(files) {
			files[i].Must, files[i].Trust, files[i].NoAllow = true, false, false
			continue
		}
		files = append(files, load.File{Path: name, Scope: grapnel.ScopeSession, Must: true})
	}
	return files
}

// Stamps returns the stamps of all files that determine the policies in force.
func (p Place) Stamps(policies []load.File) files.Stamps {
	all := []files.Stamped{{Path: string(p.Trusts())}, {Path: p.Snapshots()}, {Path: p.Pause()}, {Path: p.Off()}}
	if p.Managed != "" {
		all = append(all, files.Stamped{Path: p.GroupsFile()}) // the directory is the one of the managed policies
	}
	for _, f := range policies {
		all = append(all, files.Stamped{Path: f.Path, Root: f.Root})
	}
	return files.StampsOf(all...)
}

// HasPolicy reports whether a managed policy, the user's policy or a named policy exists.
func (p Place) HasPolicy(named []string) bool {
	return slices.ContainsFunc(p.Files(named, nil), func(f load.File) bool {
		_, err := os.Lstat(f.Path)
		return f.Must || !errors.Is(err, fs.ErrNotExist)
	})
}

// Absolute returns names as absolute paths. A name is unchanged if the working directory is
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

// Request returns a request that loads files with the packs and the state of the place. Shell lines are
// contained by the grapnel-hook of this program, if run sets nothing else.
func (p Place) Request(files []load.File, run policy.Runners) load.Request {
	if run.Contain == nil {
		run.Contain = containing
	}
	return load.Request{
		Files: files, Runners: run, Packs: packs.All(), Always: packs.Always(), Snapshots: p.Snapshots(), Trusts: p.Trusts(), State: p.State, Home: p.Home,
		Groups: p.groups, Announced: true,
	}
}

// Settings returns the managed policies and the user's policy that are in force, without hooks that
// leave the process.
func (p Place) Settings() load.Set {
	return load.Policies(p.Request(p.Files(nil, nil), policy.Runners{}))
}

// Reach returns the servers that managed policies and the user's policy open for outbound requests.
func (p Place) Reach() policyfile.Reach {
	return p.Settings().Reach
}

// installed returns the place of an installation record. A record without a policy path would
// guard nothing, so it is an error. A managed installation is the exception: each user has a
// separate policy and state.
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
			return Place{}, fmt.Errorf("installation %s: its record has no valid %s (%q), run \"grapnel install\" again", rec.ID, what, dir)
		}
	}
	return Place{Policy: rec.Policy, State: rec.State, Agent: rec.Agent, Path: rec.Path, Managed: installation.Managed("/")}, nil
}

// Locate returns the place for a --root, for the ID of an installation, or, if both are empty,
// for the user. With a root, everything is below it, including managed policies. For an
// installation, the paths come from its record, and the environment is ignored, because an
// agent's project settings can set it. For a user, XDG_CONFIG_HOME and HOME determine the
// directory of the policy.
func Locate(root, id string) (Place, error) {
	switch {
	case root != "":
		abs, err := filepath.Abs(root)
		if err != nil {
			return Place{}, fmt.Errorf("--root %s: %w", root, err)
		}
		home, _ := os.UserHomeDir() // if unknown, the user database is used
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
			return Place{}, errors.New("no home directory: set HOME, or use another root (--root DIR)")
		}
		config = filepath.Join(home, ".config")
	}
	state, err := installation.State("")
	if err != nil {
		return Place{}, err
	}
	return Place{Policy: filepath.Join(config, "grapnel", "grapnel.yaml"), State: state, Home: home, Managed: installation.Managed("/")}, nil
}
