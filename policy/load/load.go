package load

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/counts"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/redact"
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// File is a policy file to load.
type File struct {
	Path  string
	Scope grapnel.Scope
	Must  bool // the user named the file: it must exist
	Trust bool // the file is part of a project: only trusted content is loaded
	Root  bool // used only if no user except root can write it; snapshots, which the user can write, are not used

	NoAllow bool // its `allow` has no effect, even with a grant, because the session works in another project
}

// A Counter stores the memory of rules of earlier events.
type Counter = state.Counter

// Request configures Policies.
type Request struct {
	policy.Runners

	Files     []File
	Packs     Packs                    // packs that `use:` can name
	Always    []string                 // packs that are always in force, with managed scope
	Snapshots string                   // directory for the last valid content of each file; empty = no snapshots
	Trusts    Trusts                   // trusted content of project policies; empty = none
	Counter   Counter                  // storage for limits; nil = in memory, empty after each call
	Groups    func() ([]string, error) // groups of this machine, see `groups:`; called only if a hook names a group; nil = no group
	State     string                   // directory for files of built-in hooks that name no file; empty = none
	Frozen    map[string]string        // path -> digest: load this content from its snapshot instead of the file
	Content   map[string][]byte        // path -> content: load this content instead of the file, without a snapshot
	Now       func() time.Time         // clock of limits and `after:`; nil = time.Now

	// Settled is for programs that load the policies for each event. A file that was changed in the
	// last 0.15 seconds may be half written: until then, its last valid content stays in force. A
	// file without a snapshot is used at once. Commands that show or test a policy leave it false.
	Settled bool

	// Announced is for programs that receive events from outside, where a model could run them with
	// a separate event: the result of a call then counts for `until:` only if the call was
	// announced before, and was not blocked.
	Announced bool

	// Event, if not nil, is the only event that the Set is used for. Hooks that cannot match it are
	// skipped, which saves time.
	Event *grapnel.Event

	// Home is the home directory whose user files `load:` finds; empty = the one in the user database. Project
	// files are next to the policy file.
	Home string
}

// State is the result of loading a file.
type State string

// States of a file.
const (
	Valid  State = "valid"
	Absent State = "absent" // the file does not exist and never did
	Broken State = "broken" // the content is invalid
	Gone   State = "gone"   // the file was in force and no longer exists

	Trusted   State = "trusted"   // the content is trusted
	Changed   State = "changed"   // the content differs from the trusted content, which stays in force
	Untrusted State = "untrusted" // the file is not trusted, and none of it is in force
	Ignored   State = "ignored"   // a managed policy permits only managed policies
)

// Loaded is the result of loading one file.
type Loaded struct {
	File   string `json:"file"`
	Scope  string `json:"scope"`
	State  State  `json:"state"`
	Digest string `json:"digest,omitempty"` // digest of the content in force
	Hooks  int    `json:"hooks"`            // number of hooks in force, including hooks of packs

	Revision int       `json:"revision,omitempty"` // `revision:` of the content in force
	Expires  time.Time `json:"expires,omitzero"`   // `expires:` of the content in force

	Errors []*policyfile.Error `json:"errors,omitempty"`
	Notice string              `json:"notice,omitempty"` // message for the user

	// For files that `load:` found.
	Format   string              `json:"format,omitempty"`
	RunBy    string              `json:"run_by,omitempty"` // agent that runs the hooks itself; here they ignore its events
	Rules    int                 `json:"rules,omitempty"`
	Commands int                 `json:"commands,omitempty"`
	Webhooks int                 `json:"webhooks,omitempty"`
	Skipped  int                 `json:"skipped,omitempty"` // number of skipped hooks; Errors has the reasons
	Notes    []*policyfile.Error `json:"notes,omitempty"`   // ignored parts of hooks that are in force
	Order    string              `json:"order,omitempty"`   // which priorities run first, if the files of the format differ in it

	Handlers []hookfiles.HandlerFile `json:"-"` // files that the hooks run

	strict bool
}

// OfProject reports whether the file is part of a project.
func (l Loaded) OfProject() bool { return l.Scope == grapnel.ScopeProject.String() }

// Set is the result of Policies: the hooks and settings in force.
type Set struct {
	Specs  []grapnel.Spec
	Files  []Loaded
	Strict bool             // at least one file is strict: an event whose record cannot be written is blocked
	Reach  policyfile.Reach // what outbound requests may reach

	// Unsteady is set if the result depends on more than the content of Files and their trust: on
	// files of other systems, secret rules, or pinned scripts, or on the time since a change.
	Unsteady bool

	OnlyManaged string         // message for the user if a managed policy excludes all other policies; empty = no such policy
	Records     redact.Keeping // record settings

	// Forward lists the targets of all managed and user policies, each once.
	Forward []policyfile.Forward

	// Retention combines the limits of managed and user policies. For each limit, the first policy
	// that sets it decides; managed policies are first.
	Retention policyfile.Retention

	// Hide masks secrets in a text with the files' own secret rules; nil = the files have none.
	Hide func(text string) string
}

// Digest returns the digest of the contents in force, in hex: the SHA-256 of the digests of Files,
// one per line. It is empty if no file is in force.
func (s *Set) Digest() string {
	var all []byte
	for i := range s.Files {
		if d := s.Files[i].Digest; d != "" {
			all = append(append(all, d...), '\n')
		}
	}
	if all == nil {
		return ""
	}
	return files.Digest(all)
}

// forward adds the targets that no stronger policy lists.
func (s *Set) forward(targets []policyfile.Forward) {
	for _, t := range targets {
		if !slices.ContainsFunc(s.Forward, func(f policyfile.Forward) bool { return f.To.Text == t.To.Text }) {
			s.Forward = append(s.Forward, t)
		}
	}
}

// Policies reads the policy files. It never fails. If a file is broken or gone, its last valid content
// stays in force, and a message is shown at session start and with each prompt. A broken file
// without valid content blocks tool calls, because its rules are unknown. Prompts and stops are
// never blocked for this reason.
func Policies(req Request) Set {
	ld := loader{Request: req, about: req.Event}
	if req.Event != nil {
		ld.entries = map[entryKey]*entry{}
	}
	set := ld.loadAll()
	if ld.Event != nil && changesEvent(set.Specs, ld.Event) {
		ld.Event, ld.early = nil, nil // skipped hooks may match the changed event
		return ld.loadAll()
	}
	return set
}

// A loader is the state of loading the files of one Request.
type loader struct {
	Request
	facts   *match.FactCache    // shared by all packs and files, so that each shell line is parsed once
	early   *match.Facts        // facts of Event; nil = the Set is for all events
	about   *grapnel.Event      // as Event, but not nil when hooks are loaded that match only after a change
	entries map[entryKey]*entry // what was read for about
	ruling  *ruling             // rules of managed and user policies about other policies; nil = no rules
	seen    map[string]bool     // foreign sources already loaded: each is loaded once, with the strongest scope
	noAllow bool                // NoAllow of the current file
}

func (ld *loader) loadAll() Set { //nolint:gocognit // the order of the steps is the order of precedence of the files
	var set Set
	ld.facts = &match.FactCache{Clock: ld.Now, Announced: ld.Announced}
	if ld.Counter == nil {
		ld.Counter = &counts.Memory{}
	}
	recorder := state.NewRecorder(ld.Counter, ld.facts)
	if ld.Event != nil {
		ld.early = ld.facts.Early(ld.Event)
	}
	ld.ruling = &ruling{}
	if !files.Exists(string(ld.Trusts)) {
		ld.Trusts = "" // no trust was ever stored
	}
	ld.seen = map[string]bool{}
	set.Specs = ld.always()
	var ignored []string
	var redacts []*policyfile.Redact
	foreign := map[string]bool{} // sources of files of other systems
	for _, file := range strongestFirst(ld.Files) {
		if ld.ruling.only != "" && file.Scope > grapnel.ScopeManaged {
			if files.Exists(file.Path) {
				ignored = append(ignored, file.Path)
				set.Files = append(set.Files, Loaded{File: file.Path, Scope: file.Scope.String(), State: Ignored})
			}
			continue
		}
		got := ld.load(file)
		loaded := got.loaded
		loaded.Notice = policyfile.OneLine(loaded.Notice)
		if got.policy != nil {
			loaded.sign(got.policy.Policy)
		}
		if file.Trust && loaded.State == Absent {
			continue // most project directories have no policy
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
		ld.ruling.add(file, got.policy.Policy)
		if p := got.policy; p.unsettled || len(p.Load) > 0 || p.Secrets != nil && len(p.Secrets.Files) > 0 || got.trust != nil && len(got.trust.Pins) > 0 {
			set.Unsteady = true
		}
		set.Records.Add(got.policy.Records, file.Scope)
		if recorder.Source == nil && got.policy.seesCommands() {
			recorder.Source = new(sourceOf(file))
		}
		if r := got.policy.Records; r != nil {
			set.forward(r.Forward)
		}
		if r := got.policy.Retention; r != nil {
			set.Retention = policyfile.Retention{
				Days: cmp.Or(set.Retention.Days, r.Days), Records: cmp.Or(set.Retention.Records, r.Records), Size: cmp.Or(set.Retention.Size, r.Size),
			}
		}
		if got.policy.Redact != nil {
			redacts = append(redacts, got.policy.Redact)
		}
		set.hide(got.policy.Secrets)
		addReach(&set.Reach, got.policy.Policy, file.Path)
		if len(got.policy.Load) > 0 && ld.Frozen[file.Path] == "" {
			if got.trust != nil {
				file.Must = false
			}
			ld.noAllow = file.NoAllow
			specs, rows := ld.loadForeign(file, got.policy.Policy, got.trust)
			for i := range specs {
				foreign[specs[i].Source.Name] = true
			}
			set.Specs, set.Files = append(set.Specs, specs...), append(set.Files, rows...)
		}
	}
	if ld.ruling.only != "" {
		set.OnlyManaged = fmt.Sprintf("grapnel: %s allows only managed policies", ld.ruling.only)
		if len(ignored) > 0 {
			set.OnlyManaged += ", so these policies are not in force: " + strings.Join(ignored, ", ")
		}
		set.OnlyManaged = policyfile.OneLine(set.OnlyManaged + ".")
		spec := notice.For(grapnel.Source{Name: ld.ruling.only, Scope: grapnel.ScopeManaged, File: ld.ruling.only}, set.OnlyManaged)
		spec.Name = "use-only-managed" // the file may have a notice of its own
		spec.On = []grapnel.Kind{grapnel.SessionStart}
		set.Specs = append(set.Specs, spec)
	}
	redact.New(redacts).Guard(set.Specs, func(s *grapnel.Spec) bool { return policy.SeesRedacted(s) || foreign[s.Source.Name] })
	if recorder.Source != nil {
		set.Specs = append(set.Specs, recorder.Spec())
	}
	set.Specs = state.Together(set.Specs, ld.Counter)
	return set
}

// strongestFirst sorts files by scope: managed, user, then the others. Earlier policies set the
// rules for later ones.
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

// noSuchFile is the error message for a file that existed before.
const noSuchFile = "the file does not exist"

// inForce is the result of loading one file, with its Specs.
type inForce struct {
	specs  []grapnel.Spec
	loaded Loaded
	policy *loadedPolicy // nil = no policy is in force
	trust  *Trust        // nil = the file needs no trust
}

func (ld *loader) load(file File) inForce {
	if file.Trust {
		return ld.loadTrusted(file)
	}
	loaded := Loaded{File: file.Path, Scope: file.Scope.String(), State: Valid}
	snaps := snapshots{dir: ld.Snapshots}
	if ld.Content[file.Path] != nil {
		snaps.dir = ""
	}
	policy, digest, errs := ld.read(file, snaps)
	if file.Root {
		snaps.dir = ""
	}
	switch {
	case errs == nil && policy == nil:
		loaded.State = Absent
		return inForce{loaded: loaded}
	case errs == nil:
		specs, err := ld.build(file, policy, digest)
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
	if digest := snaps.last(file.Path); digest != "" && ld.Frozen[file.Path] == "" {
		if old := snaps.read(digest, ld.early); old != nil {
			if specs, err := ld.build(file, old, digest); err == nil {
				loaded.Digest, loaded.Hooks, loaded.strict = digest, len(specs)+old.skipped, old.Strict
				loaded.Notice = fmt.Sprintf("grapnel: %v; its last valid content stays active. Run \"grapnel check\".", errs[0])
				if loaded.State == Gone {
					loaded.Notice = fmt.Sprintf("grapnel: %s was deleted; its last content stays active. To stop enforcing it, run \"grapnel untrust %s\".", file.Path, file.Path)
				}
				return inForce{specs: specs, loaded: loaded, policy: old}
			}
		}
	}
	loaded.Notice = fmt.Sprintf("grapnel: %v; tools are blocked until it is fixed. Run \"grapnel check\".", errs[0])
	return inForce{specs: []grapnel.Spec{brokenSpec(sourceOf(file), errs[0])}, loaded: loaded}
}

// read returns the policy in a file, from its snapshot if one exists. If the file does not exist,
// all results are zero.
func (ld *loader) read(file File, snaps snapshots) (*loadedPolicy, string, []*policyfile.Error) {
	if digest := ld.Frozen[file.Path]; digest != "" {
		if policy := snaps.read(digest, ld.early); policy != nil {
			return policy, digest, nil
		}
		return nil, "", []*policyfile.Error{{File: file.Path, Msg: fmt.Sprintf("its content %s is no longer stored", digest)}}
	}
	kept, check := snaps, func(fs.FileInfo) error { return nil }
	if file.Root {
		kept.dir, check = "", files.OnlyRoot
	}
	data := ld.Content[file.Path]
	var err error
	var modified, begun time.Time
	if file.Root && data == nil {
		err = files.OnlyRootPath(file.Path)
	}
	if err == nil && data == nil {
		begun = time.Now()
		data, modified, err = files.ReadStamped(file.Path, yaml.MaxSize+1, check)
	}
	unsettled := err == nil && !begun.IsZero() && settling(modified, begun)
	switch {
	case errors.Is(err, fs.ErrNotExist) && files.Exists(file.Path):
		return nil, "", []*policyfile.Error{{File: file.Path, Msg: "is a link to a file that does not exist"}}
	case errors.Is(err, fs.ErrNotExist) && !file.Must && kept.last(file.Path) == "":
		return nil, "", nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", []*policyfile.Error{{File: file.Path, Msg: noSuchFile}}
	case err != nil:
		return nil, "", []*policyfile.Error{{File: file.Path, Msg: files.Reason(err)}}
	}
	digest := files.Digest(data)
	known := kept.last(file.Path) == digest
	if known {
		if policy := kept.read(digest, ld.early); policy != nil && freshRules(policy.Secrets, file.Path, ruleReader(file.Root)) {
			return policy, digest, nil
		}
	}
	if ld.Settled && unsettled && !known {
		if last := kept.last(file.Path); last != "" {
			if policy := kept.read(last, ld.early); policy != nil {
				policy.unsettled = true
				return policy, last, nil
			}
		}
	}
	policy, errs := policy.Parse(file.Path, data)
	if len(errs) == 0 {
		errs = readRules(policy, file.Path, ruleReader(file.Root))
	}
	if len(errs) == 0 {
		usedPacks(policy, file.Path, ld.Packs, &errs)
	}
	if len(errs) > 0 {
		return nil, "", errs
	}
	if unsettled && !known {
		snaps.keep(digest, policy) // async hooks of this event need it
		snaps.prune()
	} else {
		snaps.write(file.Path, digest, policy)
	}
	return &loadedPolicy{Policy: policy, unsettled: unsettled}, digest, nil
}

// settleTime is how long a file must be unchanged before its content counts. It is longer than an
// editor needs for a file that it writes in several steps.
var settleTime = 150 * time.Millisecond // tests change it

// maxAhead is how far the clock of a file system may be ahead. A time that is further in the future
// is not the time of a write, and must not delay the file.
const maxAhead = 2 * time.Second

// settling reports whether a file may be half written: it was modified less than settleTime before
// the read began, or during the read.
func settling(modified, begun time.Time) bool {
	age := begun.Sub(modified)
	return age < settleTime && age > -maxAhead
}

func (ld *loader) build(file File, p *loadedPolicy, digest string) ([]grapnel.Spec, *policyfile.Error) {
	if err := policy.CheckScope(p.Policy, file.Path, file.Scope); err != nil {
		return nil, err
	}
	may, run := usually|mayAllow, ld.Runners
	if policyfile.OfProject(file.Scope) {
		if may = ld.ruling.of(file.Path); may&mayRun == 0 {
			run.Command = nil
		}
		if file.NoAllow {
			may &^= mayAllow
		}
		if may&mayHTTP == 0 {
			run.HTTP, run.Notify = nil, nil
		}
	}
	source := sourceOf(file)
	source.Digest = digest
	specs, skipped, err := ld.buildPacks(file, p.Policy)
	p.skipped += skipped
	if err == nil {
		var own []grapnel.Spec
		var here *policyfile.Policy
		if here, err = ld.ofGroups(p.Policy); err == nil {
			b := policy.Builder{Policy: here, Facts: ld.facts, Runners: run, State: ld.State}
			own, err = b.Build(source)
		}
		specs = append(specs, own...)
		specs = append(specs, ld.bundled(p.Policy, source)...)
		for i := range specs {
			specs[i].MayAllow = policyfile.OfProject(file.Scope) && may&mayAllow != 0
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

// Read reads and parses one policy file. It writes no snapshot.
func Read(file string) (*policyfile.Policy, []*policyfile.Error) {
	data, err := files.Read(file, yaml.MaxSize+1)
	if err != nil {
		return nil, []*policyfile.Error{{File: file, Msg: files.Reason(err)}}
	}
	return policy.Parse(file, data)
}

// notice returns a Spec that shows a message at session start and with each prompt.
func (l Loaded) notice(source grapnel.Source) grapnel.Spec {
	spec := notice.For(source, l.Notice)
	if l.State == Untrusted || l.State == Trusted {
		spec.On = []grapnel.Kind{grapnel.SessionStart} // no rule that was in force is missing
	}
	return spec
}

// brokenSpec returns a Spec that blocks tools in place of a policy that cannot be read.
func brokenSpec(source grapnel.Source, err *policyfile.Error) grapnel.Spec {
	who := "the user"
	if source.Scope == grapnel.ScopeManaged {
		who = "an administrator"
	}
	spec := notice.Lock(source, fmt.Sprintf("Grapnel cannot read its policy, so no tool may run: %v. Ask %s to fix that file; \"grapnel check\" shows the error.", err, who))
	spec.Name, spec.Line = "broken-policy", err.Line
	return spec
}

// sourceOf returns the source of a policy file.
func sourceOf(file File) grapnel.Source {
	return grapnel.Source{Name: file.Path, Scope: file.Scope, File: file.Path}
}

// bundled returns the hooks that the systems of a policy's `load:` start themselves. They observe, and
// write into Grapnel's state directory, so a project's policy does not start them. A session summary
// of the policy replaces the system's.
func (ld *loader) bundled(policy *policyfile.Policy, source grapnel.Source) (specs []grapnel.Spec) {
	if ld.State == "" || policyfile.OfProject(source.Scope) {
		return nil
	}
	summary := slices.ContainsFunc(policy.Hooks, func(h policyfile.Hook) bool { return h.Builtin != nil && h.Builtin.Name == policyfile.BuiltinSummary })
	for _, l := range policy.Load {
		f := systems.Find(l.Format.Text)
		if f.Start == nil || ld.seen[f.Name] {
			continue
		}
		ld.seen[f.Name] = true // the first policy starts them
		specs = append(specs, f.Start(ld.State, !summary)...)
	}
	for i := range specs {
		specs[i].Source, specs[i].Phase = source, grapnel.PhaseObserve
	}
	return slices.DeleteFunc(specs, func(s grapnel.Spec) bool { // the policy's own names come first
		return slices.ContainsFunc(policy.Hooks, func(h policyfile.Hook) bool { return h.Name == s.Name })
	})
}

// hide adds a file's own rules to the rules that mask records. Built-in rules that the file
// disables, and values that it allows, are still masked in records.
func (set *Set) hide(s *policyfile.Secrets) {
	if s == nil || len(s.Rules) == 0 {
		return
	}
	before, rules := set.Hide, &secret.Rules{Allow: s.Lists, More: s.Rules}
	set.Hide = func(text string) string {
		if before != nil {
			text = before(text)
		}
		return rules.Mask(text, nil, func(string) bool { return true })
	}
}
