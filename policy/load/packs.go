package load

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

// Packs are the packs that `use:` can name. A program that is started for each event contains them as
// static data. They are immutable.
type Packs struct{ list []Compiled }

// A Compiled is a pack in the form in which snapshots store policies, see compiledWriter.
type Compiled struct {
	Name    string
	Version int
	Digest  string           // SHA-256 of its file, in hexadecimal
	Events  [][]grapnel.Kind // lists that Rows refer to by number
	Tools   []string         // likewise
	Begins  string           // prefixes of the commands of its hooks, see [shell.Begins]
	Rows    []string         // its hooks
}

// NewPacks returns Packs. It does not copy the list, so the caller must not change it afterwards.
func NewPacks(list []Compiled) Packs { return Packs{list} }

// Names returns the names of the packs.
func (p Packs) Names() []string {
	var names []string
	for i := range p.list {
		names = append(names, p.list[i].Name)
	}
	return names
}

// Find returns a copy of the pack with a name.
func (p Packs) Find(name string) (pack Compiled, ok bool) {
	found := p.find(name)
	if found == nil {
		return Compiled{}, false
	}
	pack = *found
	pack.Tools, pack.Rows, pack.Events = slices.Clone(pack.Tools), slices.Clone(pack.Rows), slices.Clone(pack.Events)
	for i := range pack.Events {
		pack.Events[i] = slices.Clone(pack.Events[i])
	}
	return pack, true
}

func (p Packs) find(name string) *Compiled {
	for i := range p.list {
		if p.list[i].Name == name {
			return &p.list[i]
		}
	}
	return nil
}

// selection returns a selection of the rows of the pack; nil = all.
func (c *Compiled) selection(facts *match.Facts) rowSelection {
	s := newSelection(&codecReader{}, facts)
	s.listen, s.tools = make([]bool, len(c.Events)), make([]toolChoice, len(c.Tools))
	for i, kinds := range c.Events {
		s.listen[i] = len(kinds) == 0 || s.ev != nil && slices.Contains(kinds, s.ev.Kind)
	}
	for i, names := range c.Tools {
		s.tools[i].names = names
	}
	return s
}

// row reads the row of a hook.
func (c *Compiled) row(i int) (x row) {
	r := codecReader{left: c.Rows[i]}
	x.head(&r)
	x.texts(&r)
	x.rest(&r)
	x.needs.Tools = c.Tools[x.tools]
	return x
}

// Hooks returns the names of the hooks.
func (c *Compiled) Hooks() (names []string) {
	for i := range c.Rows {
		names = append(names, c.row(i).name)
	}
	return names
}

// decode returns the hook of a row.
func (x *row) decode() (*policyfile.Hook, error) {
	h, r := &policyfile.Hook{}, codecReader{left: x.hook}
	if r.hookValue(h); r.bad {
		return nil, fmt.Errorf("the hook %q of a pack is damaged", x.name)
	}
	return h, nil
}

// ReadPacks reads and compiles the packs NAME.yaml of a directory, and skips their tests
// NAME_test.yaml. It returns all errors in these files.
func ReadPacks(dir fs.FS) (Packs, []*policyfile.Error) {
	names, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return Packs{}, []*policyfile.Error{{File: "*.yaml", Msg: err.Error()}}
	}
	var all []Compiled
	var errs []*policyfile.Error
	for _, file := range names {
		if strings.HasSuffix(file, "_test.yaml") {
			continue
		}
		pack, wrong := readPack(dir, file)
		all, errs = append(all, pack), append(errs, wrong...)
	}
	return NewPacks(all), errs
}

func readPack(dir fs.FS, file string) (Compiled, []*policyfile.Error) {
	pack := Compiled{Name: strings.TrimSuffix(path.Base(file), ".yaml")}
	data, err := fs.ReadFile(dir, file)
	if err != nil {
		return pack, []*policyfile.Error{{File: file, Msg: files.Reason(err)}}
	}
	p, errs := policy.Parse(file, data)
	if len(errs) > 0 {
		return pack, errs
	}
	if p.Pack == nil {
		return pack, []*policyfile.Error{{File: file, Line: 1, Col: 1, Msg: "it is not a pack", Hint: "write `pack: {version: 1}`"}}
	}
	if len(p.Hooks) > shell.MaxLists {
		return pack, []*policyfile.Error{{File: file, Line: p.Hooks[shell.MaxLists].Line, Col: 1, Msg: fmt.Sprintf("a pack can have at most %d hooks", shell.MaxLists), Hint: "write two packs"}}
	}
	for i := range p.Hooks { // the line comes from the file that uses the pack
		p.Hooks[i].Line, p.Hooks[i].Incident = 0, ""
	}
	var w compiledWriter
	pack.Version, pack.Digest = p.Pack.Version, files.Digest(data)
	pack.Begins, pack.Rows = w.block(p.Hooks)
	pack.Events, pack.Tools = w.events, w.tools
	return pack, nil
}

// Pack is a pack as one policy file uses it.
type Pack struct {
	policyfile.Use
	Digest string             // SHA-256 of the pack's content, in hexadecimal
	Policy *policyfile.Policy // the hooks in use; their line is the line of the `use:` entry
}

// PacksOf returns the packs in the `use:` key of a policy file. It returns all errors.
func PacksOf(p *policyfile.Policy, file string, all Packs) (packs []Pack, errs []*policyfile.Error) {
	for i, found := range usedPacks(p, file, all, &errs) {
		if found == nil {
			continue
		}
		use := p.Use[i]
		pack := Pack{Use: use, Digest: found.Digest, Policy: &policyfile.Policy{Version: 1, Pack: &policyfile.PackInfo{Version: found.Version}}}
		for j := range found.Rows {
			x := found.row(j)
			if leavesOut(&use, x.name) {
				continue
			}
			h, err := x.decode()
			if err != nil {
				errs = append(errs, &policyfile.Error{File: file, Line: use.Pack.Line, Col: use.Pack.Col, Msg: fmt.Sprintf("pack %q: %v", found.Name, err)})
				continue
			}
			h.Line = use.Pack.Line
			h.Except = permitted(&use, h)
			if use.Mode != "" {
				h.Mode = use.Mode
			}
			pack.Policy.Hooks = append(pack.Policy.Hooks, *h)
		}
		packs = append(packs, pack)
	}
	return packs, errs
}

// usedPacks returns the packs of the `use:` entries, with nil for an unknown pack. It appends
// errors to errs.
func usedPacks(p *policyfile.Policy, file string, all Packs, errs *[]*policyfile.Error) []*Compiled {
	fail := func(at policyfile.Word, hint, format string, args ...any) {
		*errs = append(*errs, &policyfile.Error{File: file, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf(format, args...), Hint: hint})
	}
	var packs []*Compiled
	for i := range p.Use {
		use := &p.Use[i]
		pack := all.find(use.Pack.Text)
		packs = append(packs, pack)
		if pack == nil {
			hint := wording.Nearest(use.Pack.Text, all.Names())
			if hint == "" {
				hint = "valid values: " + strings.Join(all.Names(), ", ")
				if strings.ContainsAny(use.Pack.Text, "./") {
					hint = "`use` takes packs of Grapnel and no files; " + hint
				}
			}
			fail(use.Pack, hint, "unknown pack %q", use.Pack.Text)
			continue
		}
		named := slices.Clone(use.Except)
		for j := range use.Allow {
			named = append(named, use.Allow[j].Hook)
		}
		if len(named) == 0 {
			continue
		}
		names := pack.Hooks()
		for _, w := range named {
			if !slices.Contains(names, w.Text) {
				fail(w, cmp.Or(wording.Nearest(w.Text, names), fmt.Sprintf("\"grapnel hooks list --pack %s\" and docs/packs.md list its hooks", pack.Name)), "pack %q has no hook %q", pack.Name, w.Text)
			}
		}
	}
	return packs
}

// leavesOut reports whether the `use:` entry excludes a hook of the pack.
func leavesOut(u *policyfile.Use, hook string) bool {
	return policyfile.HasWord(u.Except, hook)
}

// permitted returns the `except:` of a hook of the pack with the exceptions of the `use:` entry.
func permitted(u *policyfile.Use, h *policyfile.Hook) []policyfile.Match {
	for i := range u.Allow {
		if u.Allow[i].Hook.Text == h.Name {
			return append(slices.Clip(h.Except), u.Allow[i].Match...)
		}
	}
	return h.Except
}

// always builds the Specs of the packs that are always in force. If a pack is missing, it returns a
// Spec that blocks the tools.
func (ld *loader) always() []grapnel.Spec {
	if len(ld.Always) == 0 {
		return nil
	}
	own := &policyfile.Policy{}
	for _, name := range ld.Always {
		own.Use = append(own.Use, policyfile.Use{Pack: policyfile.Word{Text: name}})
	}
	specs, _, err := ld.buildPacks(File{Path: notice.OwnFile, Scope: grapnel.ScopeManaged}, own)
	if err != nil {
		return notice.Locked(err.Error())
	}
	return specs
}

// buildPacks builds the Specs of a file's packs. Each pack is a source with the scope of the file,
// and its hooks have the line of the `use:` entry. Hooks that cannot match the event of the request
// are skipped and counted.
func (ld *loader) buildPacks(file File, policy *policyfile.Policy) (specs []grapnel.Spec, skipped int, err error) {
	var errs []*policyfile.Error
	ld.facts.Secrets = match.SecretRules(policy.Secrets)
	packs := usedPacks(policy, file.Path, ld.Packs, &errs)
	if len(errs) > 0 {
		return nil, 0, errs[0]
	}
	for i, pack := range packs {
		if file.Path != notice.OwnFile && slices.Contains(ld.Always, pack.Name) {
			continue // its hooks are in force regardless of the file
		}
		use := &policy.Use[i]
		source := grapnel.Source{Name: file.Path + "#" + pack.Name, Scope: file.Scope, File: file.Path, Digest: pack.Digest}
		s := pack.selection(ld.early)
		j := 0
		programs := func() bool { return ld.early.NearPrograms(pack.Begins, len(pack.Rows))[j] }
		var x row
		for ; j < len(pack.Rows); j++ {
			r := codecReader{left: pack.Rows[j]}
			if !s.selects(&x, &r, programs) {
				if len(use.Except) == 0 || !leavesOut(use, pack.row(j).name) {
					skipped++
				}
				continue
			}
			x.rest(&r)
			if leavesOut(use, x.name) {
				continue
			}
			x.needs.Tools = pack.Tools[x.tools]
			hook := &packHook{row: x, pack: pack, number: j, use: use, source: &source, facts: ld.facts, secrets: ld.facts.Secrets}
			if ld.early != nil && x.flags&rowAlways == 0 && !hook.near(ld.early) {
				skipped++
				continue
			}
			spec, err := hook.toSpec()
			if err != nil {
				return nil, 0, err
			}
			specs = append(specs, spec)
		}
	}
	return specs, skipped, nil
}
