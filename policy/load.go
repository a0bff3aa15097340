package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/digest"
	"github.com/grapnel-dev/grapnel/internal/match"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/owner"
	"github.com/grapnel-dev/grapnel/internal/packindex"
	"github.com/grapnel-dev/grapnel/internal/readfile"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/yaml"
	"github.com/grapnel-dev/grapnel/policy/hookfiles"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// File is a policy file to load.
type File struct {
	Path  string
	Scope grapnel.Scope
	Must  bool // somebody named it: that it does not exist is an error
	Trust bool // it comes with a project: only what a person trusted of it is loaded
	Root  bool // it counts only if nobody but root can write it, and what is kept of it, where the user can write, does not

	NoAllow bool // its `allow` has no effect, whatever a grant says: it is not the policy of the project that the session works in
}

// Request says what to load.
type Request struct {
	Files     []File
	Packs     packindex.Registry                          // that `use:` may name
	Always    []string                                    // packs that are in force whatever the files say, with the word of the managed scope
	Snapshots string                                      // where the last valid content of each file is kept; empty = nowhere
	Trusts    Trusts                                      // what was trusted of files that want it; empty = nothing
	Command   func(policyfile.Command) grapnel.Hook       // makes the hook behind a `run:`; nil = programs are left out
	HTTP      func(policyfile.HTTP) (grapnel.Hook, error) // makes the hook behind a `http:`; nil = they are left out
	Notify    func(policyfile.HTTP) (grapnel.Hook, error) // makes the hook behind a `notify:`; nil = they are left out
	Counter   Counter                                     // where limits count; nil = in memory, anew with each Load
	State     string                                      // where built-in hooks keep the files that they name no place for; empty = nowhere
	Frozen    map[string]string                           // path -> digest: load this content from its snapshot, whatever the file says now
	Content   map[string][]byte                           // path -> content: load that, whatever the file says now, and keep no snapshot of it
	Now       func() time.Time                            // the clock of limits and of `after:`; nil = that of the system

	// Event, if it is not nil, is the only event that the Set is for: hooks that it cannot
	// match are left out, which saves their time.
	Event *grapnel.Event

	// Of `load:`. The files of a user are below Home and beside the policy file, those
	// of a project beside it.
	Home    string                                        // empty = the home directory of the user database
	Webhook func(hookfiles.Webhook) (grapnel.Hook, error) // makes the hook behind an address; nil = they are left out

	ruling  *ruling          // of root and the user over the others; nil = they say nothing
	early   *match.Facts     // of Event; nil = the Set is for any event
	facts   *match.FactCache // of all that is loaded: a shell line is read once, however many packs look at it
	beyond  *bool            // set where another program has to load them
	seen    map[string]bool  // foreign sources that are loaded: each counts once, for the strongest scope
	noAllow bool             // of the file that is loaded now; see File
}

// State is what became of a file.
type State string

// The states of a file.
const (
	Valid  State = "valid"
	Absent State = "absent" // it does not exist and never did
	Broken State = "broken" // what it says is not valid
	Gone   State = "gone"   // it was in force and does not exist any more

	Trusted   State = "trusted"   // it is what was trusted
	Changed   State = "changed"   // it is not what was trusted, and that stays in force
	Untrusted State = "untrusted" // nobody trusted it, and nothing of it is in force
	Ignored   State = "ignored"   // a managed policy lets only managed ones count
)

// Loaded is one file after loading.
type Loaded struct {
	File   string              `json:"file"`
	Scope  string              `json:"scope"`
	State  State               `json:"state"`
	Digest string              `json:"digest,omitempty"` // of the content in force
	Hooks  int                 `json:"hooks"`            // in force, those of its packs included
	Errors []*policyfile.Error `json:"errors,omitempty"`
	Notice string              `json:"notice,omitempty"` // what the person should be told

	// Of a file that `load:` found.
	Format   string              `json:"format,omitempty"`
	RunBy    string              `json:"run_by,omitempty"` // the agent that runs its hooks by itself: they do not listen to its events
	Rules    int                 `json:"rules,omitempty"`
	Commands int                 `json:"commands,omitempty"`
	Webhooks int                 `json:"webhooks,omitempty"`
	Skipped  int                 `json:"skipped,omitempty"` // hooks that are left out; Errors says why
	Notes    []*policyfile.Error `json:"notes,omitempty"`   // of hooks that are kept: what does not count of them

	strict bool
}

// OfProject reports whether the file came with a project.
func (l Loaded) OfProject() bool { return l.Scope == grapnel.ScopeProject.String() }

// Set is what is in force.
type Set struct {
	Specs    []grapnel.Spec
	Files    []Loaded
	Strict   bool     // a file says so: an event whose Record cannot be kept is not let through
	Beyond   bool     // a program that has called [LinkForeign] must load them: this one cannot, and tools are blocked
	Networks []string // that outbound requests may reach although the guard forbids them

	// Unsteady is set where more decides than the content of Files, and what of them is
	// trusted: files of other systems, rules for secrets, and scripts that are pinned.
	Unsteady bool

	OnlyManaged string         // what the person is told where a managed policy lets no other count; empty = none does
	Records     redact.Keeping // what is kept of firings

	// Hide masks in a text what rules for secrets of the files' own find; nil = they have none.
	Hide func(text string) string
}

// Load reads the files and never fails. The last valid content of a file that is
// now broken or gone stays in force, and is said to at session start and at each
// prompt. A broken file that never was valid blocks what a guard would have seen,
// since nobody knows what it forbids; prompts and stops are never locked.
func Load(req Request) Set {
	set := req.loadAll()
	if req.Event != nil && changesEvent(set.Specs, req.Event) {
		req.Event = nil // hooks that were left out may match the event as it is after that
		return req.loadAll()
	}
	return set
}

func (req Request) loadAll() Set { //nolint:gocognit // the order of the steps is the order in which files count
	var set Set
	req.facts = &match.FactCache{Clock: req.Now}
	if req.Event != nil {
		req.early = req.facts.Early(req.Event)
	}
	req.ruling = &ruling{}
	if !readfile.Exists(string(req.Trusts)) {
		req.Trusts = "" // nobody ever trusted anything
	}
	req.seen, req.beyond = map[string]bool{}, &set.Beyond
	set.Specs = req.always()
	var ignored []string
	var redacts []*policyfile.Redact
	foreign := map[string]bool{} // sources that other systems' files are
	for _, file := range strongestFirst(req.Files) {
		if req.ruling.only != "" && file.Scope > grapnel.ScopeManaged {
			if readfile.Exists(file.Path) {
				ignored = append(ignored, file.Path)
				set.Files = append(set.Files, Loaded{File: file.Path, Scope: file.Scope.String(), State: Ignored})
			}
			continue
		}
		got := req.load(file)
		loaded := got.loaded
		loaded.Notice = policyfile.OneLine(loaded.Notice)
		if file.Trust && loaded.State == Absent {
			continue // most directories of a project have none
		}
		set.Strict = set.Strict || loaded.strict
		set.Specs = append(set.Specs, got.specs...)
		set.Files = append(set.Files, loaded)
		if loaded.Notice != "" {
			set.Specs = append(set.Specs, loaded.notice(sourceOf(file)))
		}
		if got.policy == nil {
			if loaded.State == Broken && !file.Trust {
				set.Records.Unknown = true
			}
			continue
		}
		req.ruling.hear(file, got.policy.Policy)
		if p := got.policy; len(p.Load) > 0 || p.Secrets != nil && len(p.Secrets.Files) > 0 || got.trust != nil && len(got.trust.Pins) > 0 {
			set.Unsteady = true
		}
		set.Records.Add(got.policy.Records, file.Scope)
		if got.policy.Redact != nil {
			redacts = append(redacts, got.policy.Redact)
		}
		set.hide(got.policy.Secrets)
		set.Networks = append(set.Networks, networks(got.policy.Policy)...)
		if len(got.policy.Load) > 0 && req.Frozen[file.Path] == "" {
			if got.trust != nil {
				file.Must = false
			}
			req.noAllow = file.NoAllow
			specs, rows := req.loadsOf(file, got.policy.Policy, got.trust)
			for i := range specs {
				foreign[specs[i].Source.Name] = true
			}
			set.Specs, set.Files = append(set.Specs, specs...), append(set.Files, rows...)
		}
	}
	if req.ruling.only != "" {
		set.OnlyManaged = fmt.Sprintf("grapnel: %s lets only managed policies count", req.ruling.only)
		if len(ignored) > 0 {
			set.OnlyManaged += ", so nothing of " + strings.Join(ignored, ", ") + " is in force"
		}
		set.OnlyManaged = policyfile.OneLine(set.OnlyManaged + ".")
		spec := notice.For(grapnel.Source{Name: req.ruling.only, Scope: grapnel.ScopeManaged, File: req.ruling.only}, set.OnlyManaged)
		spec.On = []grapnel.Kind{grapnel.SessionStart}
		set.Specs = append(set.Specs, spec)
	}
	redact.New(redacts).Guard(set.Specs, func(s *grapnel.Spec) bool { return seesRedacted(s) || foreign[s.Source.Name] })
	set.Specs = together(set.Specs, req.Counter)
	return set
}

// strongestFirst puts what root says before what the user does, and that before all
// else: who is heard first says what the others may.
func strongestFirst(files []File) []File {
	var sorted []File
	for scope := grapnel.ScopeManaged; scope <= grapnel.ScopeSession; scope++ {
		for _, file := range files {
			if file.Scope == scope {
				sorted = append(sorted, file)
			}
		}
	}
	return sorted
}

// noSuchFile is the message about a file that was there before.
const noSuchFile = "there is no such file"

// inForce is what came of one file.
type inForce struct {
	specs  []grapnel.Spec
	loaded Loaded
	policy *loadedPolicy // nil = none is in force
	trust  *Trust        // nil = it needs none
}

func (req Request) load(file File) inForce {
	if file.Trust {
		return req.loadTrusted(file)
	}
	loaded := Loaded{File: file.Path, Scope: file.Scope.String(), State: Valid}
	snaps := snapshots{dir: req.Snapshots}
	if req.Content[file.Path] != nil {
		snaps.dir = ""
	}
	policy, digest, errs := req.read(file, snaps)
	if file.Root {
		snaps.dir = ""
	}
	switch {
	case errs == nil && policy == nil:
		loaded.State = Absent
		return inForce{loaded: loaded}
	case errs == nil:
		specs, err := req.build(file, policy, digest)
		if err == nil {
			loaded.Digest, loaded.Hooks, loaded.strict = digest, len(specs)+policy.skipped, policy.Strict
			return inForce{specs: specs, loaded: loaded, policy: policy}
		}
		errs = []*policyfile.Error{err}
	}
	loaded.State, loaded.Errors = Broken, errs
	if errs[0].Msg == noSuchFile {
		loaded.State = Gone
	}
	if digest := snaps.last(file.Path); digest != "" && req.Frozen[file.Path] == "" {
		if old := snaps.read(digest, req.early); old != nil {
			if specs, err := req.build(file, old, digest); err == nil {
				loaded.Digest, loaded.Hooks, loaded.strict = digest, len(specs)+old.skipped, old.Strict
				loaded.Notice = fmt.Sprintf("grapnel: %v; its last valid content stays in force. Run \"grapnel check\".", errs[0])
				if loaded.State == Gone {
					loaded.Notice = fmt.Sprintf("grapnel: %s is gone; its last content stays in force. To let go of it run \"grapnel untrust %s\".", file.Path, file.Path)
				}
				return inForce{specs: specs, loaded: loaded, policy: old}
			}
		}
	}
	loaded.Notice = fmt.Sprintf("grapnel: %v; until it is mended tools are blocked. Run \"grapnel check\".", errs[0])
	return inForce{specs: []grapnel.Spec{brokenSpec(sourceOf(file), errs[0])}, loaded: loaded}
}

// read returns the policy that a file holds, from the snapshot of its content where
// there is one. All nil means that there is no such file.
func (req Request) read(file File, snaps snapshots) (*loadedPolicy, string, []*policyfile.Error) {
	if digest := req.Frozen[file.Path]; digest != "" {
		if policy := snaps.read(digest, req.early); policy != nil {
			return policy, digest, nil
		}
		return nil, "", []*policyfile.Error{{File: file.Path, Msg: fmt.Sprintf("its content %s is not kept any more", digest)}}
	}
	kept, check := snaps, func(fs.FileInfo) error { return nil }
	if file.Root {
		kept.dir, check = "", owner.Root
	}
	data := req.Content[file.Path]
	var err error
	if file.Root && data == nil {
		err = owner.Path(file.Path)
	}
	if err == nil && data == nil {
		data, err = readfile.Checked(file.Path, yaml.MaxSize+1, check)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && readfile.Exists(file.Path):
		return nil, "", []*policyfile.Error{{File: file.Path, Msg: "is a link to a file that does not exist"}}
	case errors.Is(err, fs.ErrNotExist) && !file.Must && kept.last(file.Path) == "":
		return nil, "", nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", []*policyfile.Error{{File: file.Path, Msg: noSuchFile}}
	case err != nil:
		return nil, "", []*policyfile.Error{{File: file.Path, Msg: readfile.Reason(err)}}
	}
	digest := digest.Of(data)
	known := kept.last(file.Path) == digest
	if known {
		if policy := kept.read(digest, req.early); policy != nil && freshRules(policy.Secrets, file.Path, ruleReader(file.Root)) {
			return policy, digest, nil
		}
	}
	policy, errs := Parse(file.Path, data)
	if len(errs) == 0 {
		errs = req.rules(policy, file.Path, ruleReader(file.Root))
	}
	if len(errs) == 0 {
		registryPacks(policy, file.Path, req.Packs, &errs)
	}
	if len(errs) > 0 {
		return nil, "", errs
	}
	snaps.write(file.Path, digest, policy)
	return &loadedPolicy{Policy: policy}, digest, nil
}

func (req Request) build(file File, policy *loadedPolicy, digest string) ([]grapnel.Spec, *policyfile.Error) {
	if err := checkScope(policy.Policy, file.Path, file.Scope); err != nil {
		return nil, err
	}
	may := usually | mayAllow
	if ofProject(file.Scope) {
		if may = req.ruling.of(file.Path); may&mayRun == 0 {
			req.Command = nil
		}
		if file.NoAllow {
			may &^= mayAllow
		}
		if may&mayHTTP == 0 {
			req.HTTP, req.Notify = nil, nil
		}
	}
	source := sourceOf(file)
	source.Digest = digest
	specs, skipped, err := req.buildPacks(file, policy.Policy)
	policy.skipped += skipped
	if err == nil {
		var own []grapnel.Spec
		own, err = (&builder{policy.Policy, req.facts, req.Command, req.HTTP, req.Notify, req.State}).build(source)
		specs = append(specs, own...)
		for i := range specs {
			specs[i].MayAllow = ofProject(file.Scope) && may&mayAllow != 0
		}
	}
	if err != nil {
		var at *policyfile.Error
		if !errors.As(err, &at) {
			at = &policyfile.Error{File: file.Path, Msg: err.Error()}
		}
		return nil, at
	}
	return specs, nil
}

// Read reads and parses one policy file, and keeps nothing.
func Read(file string) (*policyfile.Policy, []*policyfile.Error) {
	data, err := readfile.Regular(file, yaml.MaxSize+1)
	if err != nil {
		return nil, []*policyfile.Error{{File: file, Msg: readfile.Reason(err)}}
	}
	return Parse(file, data)
}

// notice tells the person, at session start and with each prompt, that a file is not
// what it should be.
func (l Loaded) notice(source grapnel.Source) grapnel.Spec {
	spec := notice.For(source, l.Notice)
	if l.State == Untrusted || l.State == Trusted {
		spec.On = []grapnel.Kind{grapnel.SessionStart} // nothing is missing that ever was in force
	}
	return spec
}

// brokenSpec guards in place of a policy that cannot be read.
func brokenSpec(source grapnel.Source, err *policyfile.Error) grapnel.Spec {
	spec := notice.Lock(source, fmt.Sprintf("Grapnel cannot read its policy, so no tool may run: %v. The person has to mend that file; \"grapnel check\" shows what is wrong.", err))
	spec.Name, spec.Line = "broken-policy", err.Line
	return spec
}

// sourceOf is the source of a policy file.
func sourceOf(file File) grapnel.Source {
	return grapnel.Source{Name: file.Path, Scope: file.Scope, File: file.Path}
}
