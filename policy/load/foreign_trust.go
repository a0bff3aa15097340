package load

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems"
)

// ForeignFile describes a hook file of another system for display.
type ForeignFile struct {
	Format string
	Path   string
	Hooks  []ForeignHook
	Errors []*policyfile.Error // entries that Grapnel skips
	Notes  []*policyfile.Error // parts that Grapnel ignores, of entries that it uses
}

// ForeignHook is one hook of a ForeignFile.
type ForeignHook struct {
	policyfile.Hook
	Webhook *policyfile.Webhook // nil = not a webhook
	Rule    bool                // a rule that only its system supports
}

// loads pins the files that `load:` finds, and the project files that their command lines name.
func (x *Examined) loads() []*policyfile.Error { //nolint:gocognit // each error is about another part of one entry
	file := File{Path: x.File, Scope: grapnel.ScopeProject}
	seen := map[string]bool{}
	for i := range x.Policy.Load {
		l := &x.Policy.Load[i]
		e := &entry{format: systems.Find(l.Format.Text)}
		for _, c := range (&loader{}).find(file, l) {
			if c.err != nil {
				return []*policyfile.Error{c.err}
			}
			if seen[c.Source.Name] {
				continue
			}
			seen[c.Source.Name] = true
			e.files = append(e.files, c)
			x.contents[c.Source.Digest] = c.Data
			x.Loads = append(x.Loads, PinnedLoad{Entry: i, Format: e.format.Name, Path: c.Path, Name: c.Name, SHA256: c.Source.Digest})
		}
		var broken []*policyfile.Error
		e.settle(func(*candidate) []byte { return nil }, false)
		for _, c := range e.files {
			if c.err != nil {
				broken = append(broken, c.err)
			}
		}
		if len(broken) > 0 {
			return broken
		}
		for j := range e.in {
			in := &e.in[j]
			f := ForeignFile{Format: e.format.Name, Path: in.Path}
			for k := range e.Hooks {
				h := &e.Hooks[k]
				if h.FileIndex != j {
					continue
				}
				f.Hooks = append(f.Hooks, ForeignHook{h.Hook, h.Webhook, h.Handler != nil})
				if h.Program() == nil {
					continue
				}
				if err := x.pin(in.Source.Name+"::"+h.Name, h.Program()); err != nil {
					return []*policyfile.Error{{File: in.Path, Line: h.Line, Col: min(h.Line, 1), Msg: fmt.Sprintf("hook %q: %v", h.Name, err)}}
				}
			}
			f.Errors, f.Notes = ofFile(e.Errors, in.Path), ofFile(e.Notes, in.Path)
			x.Foreign = append(x.Foreign, f)
		}
	}
	return nil
}

// ofFile returns the errors for one file.
func ofFile(errs []*policyfile.Error, path string) []*policyfile.Error {
	return slices.DeleteFunc(slices.Clone(errs), func(err *policyfile.Error) bool { return err.File != path })
}

// naming returns the trust of the project to which a foreign source belonged, as stored at that
// time, and the pin of the source. It returns nil if no such trust exists.
func (s Trusts) naming(source grapnel.Source) (*Trust, PinnedLoad) {
	if !policyfile.OfProject(source.Scope) {
		return nil, PinnedLoad{}
	}
	names, _ := filepath.Glob(filepath.Join(string(s), "*.json"))
	for _, name := range names {
		var t Trust
		data, err := files.Read(name, yaml.MaxSize)
		if err != nil || json.Unmarshal(data, &t) != nil || s.name(t.File) != name {
			continue // unreadable, or not stored under the name of its file
		}
		for _, load := range t.Loads {
			if load.Format+":"+load.Path == source.Name && load.SHA256 == source.Digest {
				return &t, load
			}
		}
	}
	return nil, PinnedLoad{}
}
