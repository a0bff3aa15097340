package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
)

// Trust is the stored approval of a project's policy. It covers the content of the policy and of
// the project files that its command lines name. It does not cover files that those files load.
type Trust struct {
	File   string       `json:"file"`
	Root   string       `json:"root,omitempty"`  // root of the project; programs of other systems use it in file names
	SHA256 string       `json:"sha256"`          // digest of the policy file
	Loads  []PinnedLoad `json:"loads,omitempty"` // hook files of other systems, by entry
	Pins   []Pin        `json:"pins"`            // other files, by path
	Time   time.Time    `json:"time"`            // time of the approval

	Vouched bool `json:"vouched,omitempty"` // trusted without a prompt because a user or managed policy lists the digest; valid only while it does
}

// PinnedLoad is a file that an entry of `load:` found.
type PinnedLoad struct {
	Entry  int    `json:"entry"` // index from 0
	Format string `json:"format"`
	Path   string `json:"path"`
	Name   string `json:"name"` // name relative to the search directory
	SHA256 string `json:"sha256"`
}

// Pin is a file that a command line names.
type Pin struct {
	Path   string   `json:"path"`
	SHA256 string   `json:"sha256,omitempty"` // empty = the file must not exist
	Hooks  []string `json:"hooks"`            // hooks that name the file
}

// Digest returns one digest for all trusted content, as sha256:HEX. It does not depend on the
// location of the project. If nothing else is pinned, it is the digest of the policy file.
func (t *Trust) Digest() string {
	if len(t.Pins) == 0 && len(t.Loads) == 0 {
		return "sha256:" + t.SHA256
	}
	dir := filepath.Dir(t.File)
	var b strings.Builder
	line := func(sum, format, path string) {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			name = path
		}
		fmt.Fprintf(&b, "%s  %s%s\n", sum, format, filepath.ToSlash(name))
	}
	line(t.SHA256, "", t.File)
	for _, load := range t.Loads {
		line(load.SHA256, load.Format+":", load.Path)
	}
	for _, pin := range t.Pins {
		line(pin.SHA256, "", pin.Path)
	}
	return "sha256:" + files.Digest([]byte(b.String()))
}

// Changed returns an error for each pinned file that differs from its trusted content. It does not
// check the policy file.
func (t *Trust) Changed() []error {
	var errs []error
	for _, pin := range t.Pins {
		if err := pin.check(); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// maxPinned is the maximum size of a pinned file in bytes. Grapnel reads the file each time before
// a hook that names it runs.
const maxPinned = 16 << 20

// unreadable returns why a file cannot be read, as a text that follows the file name.
func unreadable(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return goneNow
	}
	return files.Reason(err)
}

const goneNow = "is gone"

// Examined is a project's policy in its current form, with everything that a user should know
// before trusting it.
type Examined struct {
	Trust
	Policy   *policyfile.Policy
	Foreign  []ForeignFile // files that its `load:` finds
	Unpinned []string      // one sentence for each file that hooks may read or run without a pin

	contents map[string][]byte // content of all files, by digest
}

// maxPins is the maximum number of pinned files of one policy.
const maxPins = 256

// Examine reads the current content of a project's policy and of the files below root that its
// command lines name. If it returns errors, the policy must not be trusted.
func Examine(file, root string, packs Packs) (*Examined, []*policyfile.Error) {
	fail := func(err error) []*policyfile.Error {
		return []*policyfile.Error{{File: file, Msg: files.Reason(err)}}
	}
	data, err := files.Read(file, yaml.MaxSize+1)
	if err != nil {
		return nil, fail(err)
	}
	p, errs := policy.Parse(file, data)
	if len(errs) == 0 {
		usedPacks(p, file, packs, &errs)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	if err := policy.CheckScope(p, file, grapnel.ScopeProject); err != nil {
		return nil, []*policyfile.Error{err}
	}
	if err := policy.CheckHTTP(p, file, grapnel.ScopeProject); err != nil {
		return nil, []*policyfile.Error{err}
	}
	x := &Examined{Trust: Trust{File: file, Root: root, SHA256: files.Digest(data), Pins: []Pin{}}, Policy: p, contents: map[string][]byte{}}
	x.contents[x.SHA256] = data
	for i := range p.Hooks {
		h := &p.Hooks[i]
		if h.Context != nil && h.Context.File != "" {
			x.unpinned(h.Name, "reads the current content of %s for the model", h.Context.File)
		}
		if h.Program() == nil {
			continue
		}
		if err := x.pin(h.Name, h.Program()); err != nil {
			return nil, []*policyfile.Error{{File: file, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q: %v", h.Name, err)}}
		}
	}
	if err := x.pinRules(); err != nil {
		return nil, []*policyfile.Error{err}
	}
	if errs := x.loads(); len(errs) > 0 {
		return nil, errs
	}
	slices.SortStableFunc(x.Pins, func(a, b Pin) int { return strings.Compare(a.Path, b.Path) })
	return x, nil
}

func (x *Examined) unpinned(hook, format string, args ...any) {
	x.Unpinned = append(x.Unpinned, fmt.Sprintf("hook %q ", hook)+fmt.Sprintf(format, args...))
}

// Content returns the content of the policy or of a pinned file, by its digest.
func (x *Examined) Content(digest string) []byte { return x.contents[digest] }

// pin pins the files below the root that the command line of a hook names.
func (x *Examined) pin(hook string, c *policyfile.Command) error {
	words, unclear := commandWords(c, x.Root)
	for _, text := range unclear {
		x.unpinned(hook, "%s", text)
	}
	bases := []string{filepath.Dir(x.File)}
	for i := 0; i+1 < len(words); i++ {
		if words[i].program && words[i].text == "cd" && !words[i+1].program {
			bases = append(bases, home.Absolute(words[i+1].text, bases[0]))
			words = slices.Delete(words, i, i+2)
		}
	}
	for _, word := range words {
		for _, name := range word.names() {
			for _, base := range bases {
				path := home.Absolute(name, base)
				if !below(x.Root, path) || path == x.File {
					continue
				}
				if err := x.pinFile(hook, name, path); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// pinFile pins the current content of a file. If no file exists and the word looks like a file
// name, it pins that the file does not exist. Otherwise an attacker could add the script later, and
// it would run without review.
func (x *Examined) pinFile(hook, name, path string) error {
	if i := slices.IndexFunc(x.Pins, func(p Pin) bool { return p.Path == path }); i >= 0 {
		if !slices.Contains(x.Pins[i].Hooks, hook) {
			x.Pins[i].Hooks = append(x.Pins[i].Hooks, hook)
		}
		return nil
	}
	pin := Pin{Path: path, Hooks: []string{hook}}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		if filepath.Clean(name) != "." {
			x.unpinned(hook, "names %s, a directory", name)
		}
		return nil
	case err != nil && strings.ContainsAny(name, "*?["):
		x.unpinned(hook, "names %s, whose files are known only at run time", name)
		return nil
	case err != nil && (!strings.ContainsAny(name, "/.") || strings.ContainsAny(name, " \t|&;$(){}<>'\"`\\")):
		return nil
	case err != nil: // the file does not exist, or the name is not a valid file name
	default:
		data, err := files.Read(path, maxPinned+1)
		if err == nil && len(data) > maxPinned {
			err = fmt.Errorf("is larger than %d MiB", maxPinned>>20)
		}
		if err != nil {
			return fmt.Errorf("%s %s: move it out of the project, or remove it from the policy", path, files.Reason(err))
		}
		pin.SHA256 = files.Digest(data)
		x.contents[pin.SHA256] = data
	}
	if len(x.Pins) == maxPins {
		return fmt.Errorf("the policy names more than %d files", maxPins)
	}
	x.Pins = append(x.Pins, pin)
	return nil
}

// commandWord is a word of a command line with a known value.
type commandWord struct {
	text    string
	program bool // the word is in the position of a program
}

// names returns the files that a word could refer to: the word itself, and the value of an option.
func (w commandWord) names() []string {
	text := w.text
	switch {
	case text == "" || strings.Contains(text, "://") || strings.ContainsAny(text, "\n\x00") || len(text) > match.MaxPath:
		return nil
	case w.program && !strings.ContainsRune(text, '/') && !strings.ContainsRune(text, filepath.Separator):
		return nil // the shell searches PATH for it
	}
	var names []string
	if !strings.HasPrefix(text, "-") {
		names = append(names, text)
	}
	if _, value, ok := strings.Cut(text, "="); ok && value != "" {
		names = append(names, value)
	}
	return names
}

// commandWords returns the known words of a command line, and descriptions of the unknown parts.
func commandWords(c *policyfile.Command, root string) (words []commandWord, unclear []string) {
	script := shell.Parse(withRoot(c, root))
	for _, cmd := range script.Commands {
		if (cmd.Name == "source" || cmd.Name == ".") && len(cmd.Args) > 0 && cmd.Args[0].Literal {
			unclear = append(unclear, "runs unknown commands: sourced file: "+cmd.Args[0].Text)
		}
		if cmd.Name != "" {
			words = append(words, commandWord{text: cmd.Path, program: true})
		}
		for _, arg := range cmd.Args {
			if arg.Literal {
				words = append(words, commandWord{text: arg.Text})
			} else if strings.Contains(arg.Text, "/") {
				unclear = append(unclear, fmt.Sprintf("names %s, which is known only at run time", arg.Text))
			}
		}
	}
	for _, name := range script.Reads {
		words = append(words, commandWord{text: name})
	}
	for _, why := range script.Unknown {
		unclear = append(unclear, "runs unknown commands: "+why)
	}
	return words, unclear
}

// withRoot returns the command line with the project root in place of the variables that hold it.
func withRoot(c *policyfile.Command, root string) string {
	line := hookfiles.CommandLine(c)
	if strings.ContainsAny(root, "\\'\"`$ \t\n*?[]{}()<>|&;~#!") {
		return line // the root has characters with a special meaning in a shell
	}
	for _, name := range rootVars(c, root) {
		line = regexp.MustCompile(`\$(\{`+name+`\}|`+name+`\b)`).ReplaceAllLiteralString(line, root)
	}
	return line
}

// rootVars returns the names of the variables that hold the root.
func rootVars(c *policyfile.Command, root string) (names []string) {
	d := policy.DialectOf(c)
	if d == nil || d.HookEnv == nil {
		return nil
	}
	for _, v := range d.HookEnv(&grapnel.Event{Session: grapnel.Session{Root: root}}) {
		if name, value, _ := strings.Cut(v, "="); value == root {
			names = append(names, name)
		}
	}
	return names
}

// below reports whether a path is in a directory, judged by the names only.
func below(dir, path string) bool {
	rel, ok := files.Below(dir, path)
	return ok && rel != "."
}

// Trusts is a directory that stores trust: one file per policy, named by the digest of its path,
// and one file per content, named by its SHA-256.
type Trusts string

func (s Trusts) name(file string) string {
	return filepath.Join(string(s), files.Digest([]byte(file))[:32]+".json")
}

// Has reports whether a trust is stored for a policy file, without reading it.
func (s Trusts) Has(file string) bool { return s != "" && files.Exists(s.name(file)) }

// Of returns the trust of a policy file, or nil if none is stored. An error means that a trust is
// stored but cannot be read.
func (s Trusts) Of(file string) (*Trust, error) {
	if s == "" {
		return nil, nil
	}
	data, err := files.Read(s.name(file), yaml.MaxSize)
	if errors.Is(err, fs.ErrNotExist) || err != nil && !files.Exists(s.name(file)) {
		return nil, nil // in the second case no state is readable, and every event reports that
	}
	var t Trust
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err == nil && t.File != file {
		err = fmt.Errorf("it names the file %q", t.File)
	}
	if err == nil && !files.IsDigest(t.SHA256) {
		err = fmt.Errorf("%q is not a digest", t.SHA256) // a wrong digest could be a path
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the trust file %s: %w", s.name(file), err)
	}
	return &t, nil
}

// All returns all stored trusts, sorted by file name. Trusts that cannot be read are returned as
// errors with the name of the stored file.
func (s Trusts) All() (all []*Trust, broken []*policyfile.Error) {
	names, _ := filepath.Glob(filepath.Join(string(s), "*.json"))
	for _, name := range names {
		var t Trust
		data, err := files.Read(name, yaml.MaxSize)
		if err == nil {
			err = json.Unmarshal(data, &t)
		}
		if err == nil && s.name(t.File) != name {
			err = fmt.Errorf("it names the file %q", t.File)
		}
		if err == nil && !files.IsDigest(t.SHA256) {
			err = fmt.Errorf("%q is not a digest", t.SHA256)
		}
		if err != nil {
			broken = append(broken, &policyfile.Error{File: name, Msg: fmt.Sprintf("cannot read the trust file: %v", err)})
			continue
		}
		all = append(all, &t)
	}
	slices.SortFunc(all, func(a, b *Trust) int { return strings.Compare(a.File, b.File) })
	return all, broken
}

// Keep stores the trust in the examined policy.
func (s Trusts) Keep(x *Examined) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot store the trust in %s: %w", x.File, err)
		}
	}()
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return err
	}
	for digest, data := range x.contents {
		if err := files.Write(filepath.Join(string(s), digest), data, 0o600); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(x.Trust, "", "  ")
	if err != nil {
		return err
	}
	if err := files.Write(s.name(x.File), append(data, '\n'), 0o600); err != nil {
		return err
	}
	s.sweep()
	return nil
}

// Forget removes the trust in a policy file, and reports whether one existed. It also removes the
// snapshot of the content, so that no queued hook runs.
func (s Trusts) Forget(file, snapshotDir string) (bool, error) {
	if t, err := s.Of(file); err == nil && t != nil {
		_ = os.Remove(snapshots{dir: snapshotDir}.file(t.SHA256))
	}
	err := os.Remove(s.name(file))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot untrust %s: %w", file, err)
	}
	s.sweep()
	return true, nil
}

// Content returns trusted content by its digest.
func (s Trusts) Content(sum string) ([]byte, error) {
	data, err := files.Read(filepath.Join(string(s), sum), maxPinned)
	if err == nil && files.Digest(data) != sum {
		err = errors.New("it is damaged")
	}
	if err != nil {
		return nil, fmt.Errorf("the trusted content %s is lost: %w", sum, err)
	}
	return data, nil
}

// sweepAge protects files that a concurrent "grapnel trust" is writing.
const sweepAge = time.Minute

// sweep removes content that no trust refers to. If any trust cannot be read, sweep removes
// nothing, because it cannot know which content is in use.
func (s Trusts) sweep() {
	keep := map[string]bool{}
	all, _ := filepath.Glob(filepath.Join(string(s), "*.json"))
	for _, name := range all {
		data, err := files.Read(name, yaml.MaxSize)
		var t Trust
		if err != nil || json.Unmarshal(data, &t) != nil {
			return
		}
		keep[t.SHA256] = true
		for _, load := range t.Loads {
			keep[load.SHA256] = true
		}
		for _, pin := range t.Pins {
			keep[pin.SHA256] = true
		}
	}
	entries, _ := os.ReadDir(string(s))
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && len(entry.Name()) == 64 && !keep[entry.Name()] && time.Since(info.ModTime()) > sweepAge {
			_ = os.Remove(filepath.Join(string(s), entry.Name()))
		}
	}
}

// loadTrusted loads the trusted content of a project's policy, regardless of the current content of
// the file. It loads nothing from an untrusted file.
func (ld *loader) loadTrusted(file File) inForce {
	loaded := Loaded{File: file.Path, Scope: file.Scope.String(), State: Trusted}
	trust, err := ld.Trusts.Of(file.Path)
	if trust != nil && trust.Vouched {
		trust = ld.vouched(trust)
	}
	if trust == nil && err == nil {
		if loaded.State = Untrusted; !files.Exists(file.Path) || ld.loadsElsewhere(file.Path) {
			loaded.State = Absent
			return inForce{loaded: loaded}
		}
		loaded.Notice = fmt.Sprintf("grapnel: %s has no effect, because it is not trusted. Review it with \"grapnel trust %s\".", file.Path, file.Path)
		return inForce{loaded: loaded}
	}
	var policy *loadedPolicy
	var specs []grapnel.Spec
	if err == nil {
		policy, err = ld.trustedPolicy(trust)
	}
	if err == nil {
		pinned := *ld
		pinned.Command = trust.command(ld.Command, "")
		var wrong *policyfile.Error
		if specs, wrong = pinned.build(file, policy, trust.SHA256); wrong != nil {
			err = errors.New(wrong.Msg)
		}
	}
	if err != nil {
		wrong := &policyfile.Error{File: file.Path, Msg: err.Error(), Hint: fmt.Sprintf("run \"grapnel trust %s\" again, or stop enforcing it with \"grapnel untrust %s\"", file.Path, file.Path)}
		loaded.State, loaded.Errors = Broken, []*policyfile.Error{wrong}
		loaded.Notice = fmt.Sprintf("grapnel: %v; until then tools are blocked.", wrong)
		return inForce{specs: []grapnel.Spec{brokenSpec(sourceOf(file), wrong)}, loaded: loaded}
	}
	loaded.Digest, loaded.Hooks, loaded.strict = trust.SHA256, len(specs)+policy.skipped, policy.Strict
	loaded.leftOut(policy.Policy, ld.ruling.of(file.Path))
	if why := trust.differs(); why != "" {
		loaded.State = Changed
		loaded.Errors = append([]*policyfile.Error{{File: file.Path, Msg: why}}, loaded.Errors...)
		loaded.Notice = fmt.Sprintf("grapnel: %s %s; the trusted content stays active. Review it with \"grapnel trust %s\", or stop enforcing it with \"grapnel untrust %s\".", file.Path, why, file.Path, file.Path)
		if why == goneNow {
			loaded.State = Gone
		}
	}
	return inForce{specs: specs, loaded: loaded, policy: policy, trust: trust}
}

// differs returns how the policy file differs from the trusted content, or "".
func (t *Trust) differs() string {
	data, err := files.Read(t.File, yaml.MaxSize+1)
	switch {
	case errors.Is(err, fs.ErrNotExist) && files.Exists(t.File):
		return "is a link to a file that does not exist"
	case err != nil:
		return unreadable(err)
	case files.Digest(data) != t.SHA256:
		return "was changed"
	}
	return ""
}

// loadsElsewhere reports whether a file is already loaded under another name. This happens to users
// who keep their own policy in a repository and work in that repository.
func (ld *loader) loadsElsewhere(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	for i := range ld.Files {
		if ld.Files[i].Trust {
			continue
		}
		if same, err := os.Stat(ld.Files[i].Path); err == nil && os.SameFile(info, same) {
			return true
		}
	}
	return false
}

// trustedPolicy returns the trusted policy, from its snapshot or else from the stored content.
func (ld *loader) trustedPolicy(trust *Trust) (*loadedPolicy, error) {
	if frozen := ld.Frozen[trust.File]; frozen != "" && frozen != trust.SHA256 {
		return nil, fmt.Errorf("its content %s is no longer trusted", frozen)
	}
	snaps := snapshots{dir: ld.Snapshots}
	if policy := snaps.read(trust.SHA256, ld.early); policy != nil && freshRules(policy.Secrets, trust.File, ld.Trusts.rules(trust)) {
		return policy, nil
	}
	data, err := ld.Trusts.Content(trust.SHA256)
	if err != nil {
		return nil, err
	}
	policy, errs := policy.Parse(trust.File, data)
	if len(errs) == 0 {
		errs = readRules(policy, trust.File, ld.Trusts.rules(trust))
	}
	if len(errs) > 0 {
		return nil, errors.New(errs[0].Msg)
	}
	snaps.keep(trust.SHA256, policy)
	snaps.prune()
	return &loadedPolicy{Policy: policy}, nil
}

// command wraps newHook: programs only run while the files that they name have their trusted
// content. prefix precedes the hook's name in Pin.Hooks.
func (t *Trust) command(newHook func(policyfile.Command) grapnel.Hook, prefix string) func(policyfile.Command) grapnel.Hook {
	if newHook == nil {
		return nil
	}
	return func(c policyfile.Command) grapnel.Hook {
		hook := &pinned{Hook: newHook(c), file: t.File, informs: c.Context}
		for _, pin := range t.Pins {
			if slices.Contains(pin.Hooks, prefix+c.Name) {
				hook.pins = append(hook.pins, pin)
			}
		}
		if len(rootVars(&c, t.Root)) > 0 {
			hook.root = t.Root
		}
		if hook.pins == nil && hook.root == "" {
			return hook.Hook
		}
		return hook
	}
}

// pinned is a program hook that names project files.
type pinned struct {
	grapnel.Hook
	file string
	pins []Pin
	root string // root that the file names contain; empty = none

	informs bool // the hook only adds context and blocks nothing
}

// Handle runs the program while its files have their trusted content. Otherwise it fails, and
// blocks if the event permits it, regardless of on_error. An attacker who can change a script,
// before or during its run, must not be able to disable the rule.
func (p *pinned) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	seen := make([]fs.FileInfo, len(p.pins))
	for i, pin := range p.pins {
		var err error
		if seen[i], err = pin.look(); err != nil {
			return p.refuse(ev, "not run", err)
		}
	}
	if p.root != "" && p.root != ev.Session.Root { // another root would contain other, untrusted files
		there := *ev
		there.Session.Root = p.root
		ev = &there
	}
	out, err := p.Hook.Handle(ctx, ev)
	for i, pin := range p.pins {
		if swapped := pin.still(seen[i]); swapped != nil {
			return p.refuse(ev, "not believed", swapped)
		}
	}
	return out, err
}

func (p *pinned) refuse(ev *grapnel.Event, what string, err error) (grapnel.Outcome, error) {
	err = fmt.Errorf("%s: %w; the user has to review it with \"grapnel trust %s\"", what, err, p.file)
	c := ev.Contract()
	var out grapnel.Outcome
	if c.Blocks != grapnel.BlockingNothing && !c.FailOpen && !p.informs {
		out = grapnel.Outcome{Decision: grapnel.Block, Reason: "A hook of this project was " + err.Error(), Message: "grapnel: a hook of this project was " + err.Error()}
	}
	return out, err
}

// Unwrap returns the hook that runs the program.
func (p *pinned) Unwrap() grapnel.Hook { return p.Hook }
