package policy

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/digest"
	"github.com/grapnel-dev/grapnel/internal/yaml"
)

// PackInfo is the `pack:` of a file that others can use: a pack is a policy of
// rules and nothing else, so that using one starts no program and reads no file.
type PackInfo struct {
	Version int `json:"version"` // goes up whenever the pack's hooks change
}

// Use is one entry of `use:`. It is about the file that it stands in and changes
// nothing for another file that uses the same pack.
type Use struct {
	Pack   Word   `json:"pack"`
	Except []Word `json:"except,omitempty"` // hooks of the pack that are left out
	Mode   string `json:"mode,omitempty"`   // enforce, observe: of all its hooks; empty = as each says
}

// Word is a word of a file and where it stands.
type Word struct {
	Text string `json:"text"`
	Line int    `json:"line"`
	Col  int    `json:"col"`
}

// Pack is a pack as one file uses it.
type Pack struct {
	Use
	Digest string  // SHA-256 of the pack's content, in hex
	Policy *Policy // what is left of it; its hooks stand where the file names the pack
}

// Packs looks up what the `use:` of a policy file names. shipped has NAME.yaml for
// each pack; nil has none. It returns all that is wrong.
func (p *Policy) Packs(file string, shipped fs.FS) ([]Pack, []*Error) {
	return p.packs(file, shipped, snapshots{})
}

func (p *Policy) packs(file string, shipped fs.FS, snaps snapshots) (packs []Pack, errs []*Error) {
	fail := func(at Word, hint, format string, args ...any) {
		errs = append(errs, &Error{File: file, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf(format, args...), Hint: hint})
	}
	if shipped == nil {
		shipped = embed.FS{}
	}
	for _, use := range p.Use {
		name := use.Pack.Text
		data, err := fs.ReadFile(shipped, name+".yaml")
		if err != nil {
			hint := didYouMean(name, packNames(shipped))
			if hint == "" {
				hint = "there are " + strings.Join(packNames(shipped), ", ")
			}
			fail(use.Pack, hint, "unknown pack %q", name)
			continue
		}
		pack := Pack{Use: use, Digest: digestOf(data)}
		whole := snaps.read(pack.Digest)
		if whole == nil {
			var wrong []*Error
			if whole, wrong = Parse(name+".yaml", data); len(wrong) > 0 {
				fail(use.Pack, "", "pack %q: %v", name, wrong[0])
				continue
			}
			snaps.write("pack "+name, pack.Digest, whole)
		}
		if whole.Pack == nil {
			fail(use.Pack, "", "%q is no pack: its file does not say `pack:`", name)
			continue
		}
		pack.Policy = &Policy{Version: whole.Version, Pack: whole.Pack}
		var names []string
		for _, h := range whole.Hooks {
			names = append(names, h.Name)
			if slices.ContainsFunc(use.Except, func(w Word) bool { return w.Text == h.Name }) {
				continue
			}
			h.Line = use.Pack.Line
			if use.Mode != "" {
				h.Mode = use.Mode
			}
			pack.Policy.Hooks = append(pack.Policy.Hooks, h)
		}
		for _, w := range use.Except {
			if !slices.Contains(names, w.Text) {
				fail(w, didYouMean(w.Text, names), "pack %q has no hook %q", name, w.Text)
			}
		}
		packs = append(packs, pack)
	}
	return packs, errs
}

// buildPacks makes the Specs of the packs of a file: a source each, with the scope
// of the file. A person finds them in the line that names the pack.
func (req Request) buildPacks(file File, policy *Policy) ([]grapnel.Spec, error) {
	snaps := snapshots{dir: req.Snapshots}
	if file.Root {
		snaps.dir = ""
	}
	packs, errs := policy.packs(file.Path, req.Packs, snaps)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	var specs []grapnel.Spec
	for _, pack := range packs {
		source := grapnel.Source{Name: file.Path + "#" + pack.Pack.Text, Scope: file.Scope, File: file.Path, Digest: pack.Digest}
		more, err := pack.Policy.build(source, req.facts, nil)
		if err != nil {
			return nil, err
		}
		specs = append(specs, more...)
	}
	return specs, nil
}

func packNames(shipped fs.FS) []string {
	var names []string
	top, err := shipped.Open(".")
	if err != nil {
		return nil
	}
	defer top.Close()
	if files, ok := top.(fs.ReadDirFile); ok {
		entries, _ := files.ReadDir(-1) // unsorted: see internal/folder
		for _, e := range entries {
			if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func digestOf(data []byte) string {
	return digest.Of(data)
}

func (p *fileParser) packInfo(n *yaml.Node) *PackInfo {
	info := &PackInfo{}
	p.keys(n, "pack", map[string]func(*yaml.Node){
		"version": func(n *yaml.Node) { info.Version = *p.integer(n) },
	})
	if n.Kind == yaml.Map && n.Get("version") == nil {
		p.fail(n, "write `pack: {version: 1}`", "the pack has no version")
	}
	return info
}

// plainPack refuses in a pack what would make using it more than adding rules.
func (p *fileParser) plainPack(policy *yaml.Node) {
	for _, key := range []string{"use", "strict", "defaults", "load", "networks"} {
		if n := policy.Get(key); n != nil {
			p.fail(n, "write it into the file that uses the pack", "a pack has no `%s`", key)
		}
	}
}

func (p *fileParser) plainPackHook(hook *yaml.Node) {
	for _, key := range []string{"run", "worker"} {
		if n := hook.Get(key); n != nil {
			p.fail(n, "write the hook into the file that uses the pack", "a pack runs no programs")
		}
	}
	if n := hook.Get("builtin"); n != nil {
		p.fail(n, "write the hook into the file that uses the pack", "a pack writes no files")
	}
	if n := hook.Get("context"); n != nil && n.Get("file") != nil {
		p.fail(n, "write the text itself", "a pack has no files beside it")
	} else if n != nil && n.Get("run") != nil {
		p.fail(n, "write the hook into the file that uses the pack", "a pack runs no programs")
	}
}

func (p *fileParser) uses(n *yaml.Node) []Use {
	if n.Kind != yaml.List {
		p.fail(n, "for example [destructive, {pack: secrets, mode: observe}]", "use must be a list of packs, not %s", n.Kind)
		return nil
	}
	var uses []Use
	for _, item := range n.Items {
		use := Use{}
		if item.Kind != yaml.Map {
			use.Pack = p.word(item)
		} else {
			p.keys(item, "use", map[string]func(*yaml.Node){
				"pack": func(n *yaml.Node) { use.Pack = p.word(n) },
				"except": func(n *yaml.Node) {
					p.texts(n)
					for _, item := range itemsOf(n) {
						use.Except = append(use.Except, word(item))
					}
				},
				"mode": func(n *yaml.Node) { use.Mode = p.oneOf(n, "enforce", "observe") },
			})
			if item.Get("pack") == nil {
				p.fail(item, "for example {pack: secrets, mode: observe}", "the entry names no `pack`")
			}
		}
		for _, before := range uses {
			if before.Pack.Text == use.Pack.Text && use.Pack.Text != "" {
				p.fail(item, "", "pack %q is used twice, first in line %d", use.Pack.Text, before.Pack.Line)
			}
		}
		uses = append(uses, use)
	}
	return uses
}

func (p *fileParser) word(n *yaml.Node) Word {
	p.text(n)
	return word(n)
}

func word(n *yaml.Node) Word { return Word{n.Text, n.Line, n.Col} }
