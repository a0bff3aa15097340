package policy

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
	"github.com/grapnel-dev/grapnel/internal/atomicfile"
	"github.com/grapnel-dev/grapnel/internal/digest"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/match"
	"github.com/grapnel-dev/grapnel/internal/packindex"
	"github.com/grapnel-dev/grapnel/internal/readfile"
	"github.com/grapnel-dev/grapnel/internal/shell"
	"github.com/grapnel-dev/grapnel/internal/yaml"
	"github.com/grapnel-dev/grapnel/policy/hookfiles"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Trust is a person's word for a project's policy: for its content, and for that of
// the project files which its command lines name. What those load in turn is not
// part of it.
type Trust struct {
	File   string       `json:"file"`
	Root   string       `json:"root,omitempty"`  // of the project, which programs of other systems name their files by
	SHA256 string       `json:"sha256"`          // of the policy file
	Loads  []PinnedLoad `json:"loads,omitempty"` // hook files of other systems, by entry
	Pins   []Pin        `json:"pins"`            // of other files, by path
	Time   time.Time    `json:"time"`            // when the person said so

	Vouched bool `json:"vouched,omitempty"` // nobody was asked: a policy of the user, or a managed one, names the digest, and it counts for as long as that does
}

// PinnedLoad is a file that an entry of `load:` finds.
type PinnedLoad struct {
	Entry  int    `json:"entry"` // from 0
	Format string `json:"format"`
	Path   string `json:"path"`
	Name   string `json:"name"` // below the directory it was found in
	SHA256 string `json:"sha256"`
}

// Pin is a file that a command line names.
type Pin struct {
	Path   string   `json:"path"`
	SHA256 string   `json:"sha256,omitempty"` // empty = no file is there
	Hooks  []string `json:"hooks"`            // that name it
}

// Digest is one number for all that is trusted: sha256:HEX. It is the same wherever
// the project lies, and that of the policy's content where nothing else is pinned.
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
	return "sha256:" + digest.Of([]byte(b.String()))
}

// Changed says what is not as it was trusted: the pinned files, not the policy.
func (t *Trust) Changed() []error {
	var errs []error
	for _, pin := range t.Pins {
		if err := pin.check(); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// maxPinned is the size in bytes of the largest file that can be pinned. It is read
// each time before a hook that names it runs.
const maxPinned = 16 << 20

// unreadable says why a file cannot be read, behind its name.
func unreadable(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return goneNow
	}
	return readfile.Reason(err)
}

const goneNow = "is gone"

// Examined is a project's policy as it is now, and what a person should know before
// trusting it.
type Examined struct {
	Trust
	Policy   *policyfile.Policy
	Foreign  []ForeignFile // that its `load:` finds
	Unpinned []string      // what hooks may read or run beside the pins, a sentence each

	contents map[string][]byte // of all files, by digest
}

// maxPins bounds the files of one policy.
const maxPins = 256

// Examine reads a project's policy, and the files below root that its command lines
// name, as they are now. The errors are about the policy; whoever gets any trusts
// nothing.
func Examine(file, root string, packs packindex.Registry) (*Examined, []*policyfile.Error) {
	fail := func(err error) []*policyfile.Error {
		return []*policyfile.Error{{File: file, Msg: readfile.Reason(err)}}
	}
	data, err := readfile.Regular(file, yaml.MaxSize+1)
	if err != nil {
		return nil, fail(err)
	}
	policy, errs := Parse(file, data)
	if len(errs) == 0 {
		registryPacks(policy, file, packs, &errs)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	if err := checkScope(policy, file, grapnel.ScopeProject); err != nil {
		return nil, []*policyfile.Error{err}
	}
	if err := checkHTTP(policy, file, grapnel.ScopeProject); err != nil {
		return nil, []*policyfile.Error{err}
	}
	x := &Examined{Trust: Trust{File: file, Root: root, SHA256: digest.Of(data), Pins: []Pin{}}, Policy: policy, contents: map[string][]byte{}}
	x.contents[x.SHA256] = data
	for i := range policy.Hooks {
		h := &policy.Hooks[i]
		if h.Context != nil && h.Context.File != "" {
			x.unpinned(h.Name, "reads %s for the model, as it then is", h.Context.File)
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

// Content is that of the policy or of a pinned file, by its digest.
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

// pinFile pins what has this name now: the content of a file, or that there is none,
// where the word looks like a file's name. Otherwise a script that is not there yet
// would run later with nobody having seen it.
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
		x.unpinned(hook, "names %s, which stands for files that are only known when it runs", name)
		return nil
	case err != nil && (!strings.ContainsAny(name, "/.") || strings.ContainsAny(name, " \t|&;$(){}<>'\"`\\")):
		return nil
	case err != nil: // not there, or no name that any file could have
	default:
		data, err := readfile.Regular(path, maxPinned+1)
		if err == nil && len(data) > maxPinned {
			err = fmt.Errorf("is larger than %d MiB", maxPinned>>20)
		}
		if err != nil {
			return fmt.Errorf("%s %s: keep it outside of the project, or do not name it", path, readfile.Reason(err))
		}
		pin.SHA256 = digest.Of(data)
		x.contents[pin.SHA256] = data
	}
	if len(x.Pins) == maxPins {
		return fmt.Errorf("the policy names more than %d files", maxPins)
	}
	x.Pins = append(x.Pins, pin)
	return nil
}

// commandWord is a word of a command line whose value is known.
type commandWord struct {
	text    string
	program bool // it stands where a program does
}

// names are the files that a word could mean: the word, and what an option holds.
func (w commandWord) names() []string {
	text := w.text
	switch {
	case text == "" || strings.Contains(text, "://") || strings.ContainsAny(text, "\n\x00") || len(text) > match.MaxPath:
		return nil
	case w.program && !strings.ContainsRune(text, '/') && !strings.ContainsRune(text, filepath.Separator):
		return nil // looked for on PATH
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

// commandWords lists the words of a command line that are known, and says what is not.
func commandWords(c *policyfile.Command, root string) (words []commandWord, unclear []string) {
	script := shell.Parse(withRoot(c, root))
	for _, cmd := range script.Commands {
		if (cmd.Name == "source" || cmd.Name == ".") && len(cmd.Args) > 0 && cmd.Args[0].Literal {
			unclear = append(unclear, "hides what it runs: sourced file: "+cmd.Args[0].Text)
		}
		if cmd.Name != "" {
			words = append(words, commandWord{text: cmd.Path, program: true})
		}
		for _, arg := range cmd.Args {
			if arg.Literal {
				words = append(words, commandWord{text: arg.Text})
			} else if strings.Contains(arg.Text, "/") {
				unclear = append(unclear, fmt.Sprintf("names %s, which is only known when it runs", arg.Text))
			}
		}
	}
	for _, name := range script.Reads {
		words = append(words, commandWord{text: name})
	}
	for _, why := range script.Unknown {
		unclear = append(unclear, "hides what it runs: "+why)
	}
	return words, unclear
}

// withRoot is the command line with the variables replaced by which the hooks of its
// system name the files of a project.
func withRoot(c *policyfile.Command, root string) string {
	line := hookfiles.CommandLine(c)
	if strings.ContainsAny(root, "\\'\"`$ \t\n*?[]{}()<>|&;~#!") {
		return line // what it names is only known when it runs
	}
	for _, name := range rootVars(c, root) {
		line = regexp.MustCompile(`\$(\{`+name+`\}|`+name+`\b)`).ReplaceAllLiteralString(line, root)
	}
	return line
}

// rootVars names the variables that hold the root.
func rootVars(c *policyfile.Command, root string) (names []string) {
	d := DialectOf(c)
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

// below reports whether a path lies in a directory, by its name.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel) && rel != "."
}

// Trusts keeps what was trusted below a directory: a file per policy, named by its
// path, and each content, named by its SHA-256.
type Trusts string

func (s Trusts) name(file string) string {
	return filepath.Join(string(s), digest.Of([]byte(file))[:32]+".json")
}

// Has reports whether anything was trusted of a policy file, without reading it.
func (s Trusts) Has(file string) bool { return s != "" && readfile.Exists(s.name(file)) }

// Of returns what was trusted of a policy file, or nil. An error means that
// something was, and what is not known any more.
func (s Trusts) Of(file string) (*Trust, error) {
	if s == "" {
		return nil, nil
	}
	data, err := readfile.Regular(s.name(file), yaml.MaxSize)
	if errors.Is(err, fs.ErrNotExist) || err != nil && !readfile.Exists(s.name(file)) {
		return nil, nil // the latter where no state can be read at all, which every event says
	}
	var t Trust
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err == nil && t.File != file {
		err = fmt.Errorf("it is about %q", t.File)
	}
	if err == nil && !digest.Valid(t.SHA256) {
		err = fmt.Errorf("%q is not a digest", t.SHA256) // and may be a path
	}
	if err != nil {
		return nil, fmt.Errorf("what was trusted is not known any more, since %s cannot be read (%w)", s.name(file), err)
	}
	return &t, nil
}

// All returns all that was trusted, by the names of the files. What cannot be read is in
// the errors, by the name of what keeps it.
func (s Trusts) All() (all []*Trust, broken []*policyfile.Error) {
	names, _ := filepath.Glob(filepath.Join(string(s), "*.json"))
	for _, name := range names {
		var t Trust
		data, err := readfile.Regular(name, yaml.MaxSize)
		if err == nil {
			err = json.Unmarshal(data, &t)
		}
		if err == nil && s.name(t.File) != name {
			err = fmt.Errorf("it is about %q", t.File)
		}
		if err == nil && !digest.Valid(t.SHA256) {
			err = fmt.Errorf("%q is not a digest", t.SHA256)
		}
		if err != nil {
			broken = append(broken, &policyfile.Error{File: name, Msg: fmt.Sprintf("what was trusted is not known any more: %v", err)})
			continue
		}
		all = append(all, &t)
	}
	slices.SortFunc(all, func(a, b *Trust) int { return strings.Compare(a.File, b.File) })
	return all, broken
}

// Keep keeps that a person trusts what was examined.
func (s Trusts) Keep(x *Examined) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("keep that %s is trusted: %w", x.File, err)
		}
	}()
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return err
	}
	for digest, data := range x.contents {
		if err := atomicfile.Write(filepath.Join(string(s), digest), data, 0o600); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(x.Trust, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(s.name(x.File), append(data, '\n'), 0o600); err != nil {
		return err
	}
	s.sweep()
	return nil
}

// Forget takes the trust in a policy file back, and reports whether there was any.
// The snapshot of the content goes too, so that no hook that was put off runs.
func (s Trusts) Forget(file, snapshotDir string) (bool, error) {
	if t, err := s.Of(file); err == nil && t != nil {
		_ = os.Remove(snapshots{dir: snapshotDir}.file(t.SHA256))
	}
	err := os.Remove(s.name(file))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("untrust %s: %w", file, err)
	}
	s.sweep()
	return true, nil
}

// Content returns a trusted content by its digest.
func (s Trusts) Content(sum string) ([]byte, error) {
	data, err := readfile.Regular(filepath.Join(string(s), sum), maxPinned)
	if err == nil && digest.Of(data) != sum {
		err = errors.New("it is damaged")
	}
	if err != nil {
		return nil, fmt.Errorf("the trusted content %s is lost: %w", sum, err)
	}
	return data, nil
}

// sweepAge keeps what another "grapnel trust" is just writing.
const sweepAge = time.Minute

// sweep removes contents that nothing trusted refers to. While a trust cannot be
// read, nobody knows which those are.
func (s Trusts) sweep() {
	keep := map[string]bool{}
	files, _ := filepath.Glob(filepath.Join(string(s), "*.json"))
	for _, name := range files {
		data, err := readfile.Regular(name, yaml.MaxSize)
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

// loadTrusted loads the policy of a project: the content that was trusted, whatever
// the file says now, and nothing of a file that nobody trusts.
func (req Request) loadTrusted(file File) inForce {
	loaded := Loaded{File: file.Path, Scope: file.Scope.String(), State: Trusted}
	trust, err := req.Trusts.Of(file.Path)
	if trust != nil && trust.Vouched {
		trust = req.vouched(trust)
	}
	if trust == nil && err == nil {
		if loaded.State = Untrusted; !readfile.Exists(file.Path) || req.loadsElsewhere(file.Path) {
			loaded.State = Absent
			return inForce{loaded: loaded}
		}
		loaded.Notice = fmt.Sprintf("grapnel: nothing of %s is in force, since nobody has trusted it. Look at it with \"grapnel trust %s\".", file.Path, file.Path)
		return inForce{loaded: loaded}
	}
	var policy *loadedPolicy
	var specs []grapnel.Spec
	if err == nil {
		policy, err = req.trustedPolicy(trust)
	}
	if err == nil {
		pinned := req
		pinned.Command = trust.command(req.Command, "")
		var wrong *policyfile.Error
		if specs, wrong = pinned.build(file, policy, trust.SHA256); wrong != nil {
			err = errors.New(wrong.Msg)
		}
	}
	if err != nil {
		wrong := &policyfile.Error{File: file.Path, Msg: err.Error(), Hint: fmt.Sprintf("run \"grapnel trust %s\" again, or let go of it with \"grapnel untrust %s\"", file.Path, file.Path)}
		loaded.State, loaded.Errors = Broken, []*policyfile.Error{wrong}
		loaded.Notice = fmt.Sprintf("grapnel: %v; until then tools are blocked.", wrong)
		return inForce{specs: []grapnel.Spec{brokenSpec(sourceOf(file), wrong)}, loaded: loaded}
	}
	loaded.Digest, loaded.Hooks, loaded.strict = trust.SHA256, len(specs)+policy.skipped, policy.Strict
	loaded.leftOut(policy.Policy, req.ruling.of(file.Path))
	if why := trust.differs(); why != "" {
		loaded.State = Changed
		loaded.Errors = append([]*policyfile.Error{{File: file.Path, Msg: why}}, loaded.Errors...)
		loaded.Notice = fmt.Sprintf("grapnel: %s %s; what was trusted stays in force. Look at it with \"grapnel trust %s\", or let go of it with \"grapnel untrust %s\".", file.Path, why, file.Path, file.Path)
		if why == goneNow {
			loaded.State = Gone
		}
	}
	return inForce{specs: specs, loaded: loaded, policy: policy, trust: trust}
}

// differs says how the policy file is not what was trusted, or nothing.
func (t *Trust) differs() string {
	data, err := readfile.Regular(t.File, yaml.MaxSize+1)
	switch {
	case errors.Is(err, fs.ErrNotExist) && readfile.Exists(t.File):
		return "is a link to a file that does not exist"
	case err != nil:
		return unreadable(err)
	case digest.Of(data) != t.SHA256:
		return "was changed"
	}
	return ""
}

// loadsElsewhere reports whether a file is loaded already by another name, as the
// user's policy is for somebody who keeps it in a repository and works there.
func (req Request) loadsElsewhere(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	for i := range req.Files {
		if req.Files[i].Trust {
			continue
		}
		if same, err := os.Stat(req.Files[i].Path); err == nil && os.SameFile(info, same) {
			return true
		}
	}
	return false
}

// trustedPolicy is the policy that was trusted: from its snapshot, else from the
// content itself, which is kept.
func (req Request) trustedPolicy(trust *Trust) (*loadedPolicy, error) {
	if frozen := req.Frozen[trust.File]; frozen != "" && frozen != trust.SHA256 {
		return nil, fmt.Errorf("its content %s is not trusted any more", frozen)
	}
	snaps := snapshots{dir: req.Snapshots}
	if policy := snaps.read(trust.SHA256, req.early); policy != nil && freshRules(policy.Secrets, trust.File, req.Trusts.rules(trust)) {
		return policy, nil
	}
	data, err := req.Trusts.Content(trust.SHA256)
	if err != nil {
		return nil, err
	}
	policy, errs := Parse(trust.File, data)
	if len(errs) == 0 {
		errs = req.rules(policy, trust.File, req.Trusts.rules(trust))
	}
	if len(errs) > 0 {
		return nil, errors.New(errs[0].Msg)
	}
	snaps.keep(trust.File, trust.SHA256, policy)
	snaps.prune()
	return &loadedPolicy{Policy: policy}, nil
}

// command makes the hooks of programs that run only while the files they name are
// what was trusted. What comes before the name of a hook in the pins is the prefix.
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

// pinned is a program that names files of a project.
type pinned struct {
	grapnel.Hook
	file string
	pins []Pin
	root string // by which it names the files; empty = it does not

	informs bool // it guards nothing
}

// Handle runs the program while the files it names are what was trusted. Otherwise
// it fails, and blocks what can be blocked whatever its on_error says: who may
// change a script must not be able to open a gate by it, nor while it runs.
func (p *pinned) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	seen := make([]fs.FileInfo, len(p.pins))
	for i, pin := range p.pins {
		var err error
		if seen[i], err = pin.look(); err != nil {
			return p.refuse(ev, "not run", err)
		}
	}
	if p.root != "" && p.root != ev.Session.Root { // another root would have other files, which nobody trusted
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
	err = fmt.Errorf("%s: %w; the person has to look at it with \"grapnel trust %s\"", what, err, p.file)
	c := ev.Contract
	if c == nil {
		c = contractOf(ev.Kind)
	}
	var out grapnel.Outcome
	if c.Blocks != grapnel.BlockNothing && !c.FailOpen && !p.informs {
		out = grapnel.Outcome{Decision: grapnel.Block, Reason: "A hook of this project was " + err.Error(), Message: "grapnel: a hook of this project was " + err.Error()}
	}
	return out, err
}

// Unwrap returns the hook that runs the program.
func (p *pinned) Unwrap() grapnel.Hook { return p.Hook }
