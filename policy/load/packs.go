package load

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/nearest"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/packindex"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Pack is a pack as one policy file uses it.
type Pack struct {
	policyfile.Use
	Digest string             // SHA-256 of the pack's content, in hexadecimal
	Policy *policyfile.Policy // the hooks in use; their line is the line of the `use:` entry
}

// PacksOf returns the packs in the `use:` key of a policy file. It returns all errors.
func PacksOf(p *policyfile.Policy, file string, registry packindex.Registry) (packs []Pack, errs []*policyfile.Error) {
	for i, found := range registryPacks(p, file, registry, &errs) {
		if found == nil {
			continue
		}
		use := p.Use[i]
		pack := Pack{Use: use, Digest: found.Digest, Policy: &policyfile.Policy{Version: 1, Pack: &policyfile.PackInfo{Version: found.Version}}}
		for j := range found.Hooks {
			if leavesOut(&use, found.Hooks[j].Name) {
				continue
			}
			h, err := hookOf(&found.Hooks[j])
			if err != nil {
				errs = append(errs, &policyfile.Error{File: file, Line: use.Pack.Line, Col: use.Pack.Col, Msg: fmt.Sprintf("pack %q: hook %q: %v", found.Name, found.Hooks[j].Name, err)})
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

// registryPacks returns the packs of the `use:` entries, with nil for an unknown pack. It appends
// errors to errs.
func registryPacks(p *policyfile.Policy, file string, registry packindex.Registry, errs *[]*policyfile.Error) []*packindex.Pack {
	fail := func(at policyfile.Word, hint, format string, args ...any) {
		*errs = append(*errs, &policyfile.Error{File: file, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf(format, args...), Hint: hint})
	}
	var packs []*packindex.Pack
	for i := range p.Use {
		use := &p.Use[i]
		pack := registry.Find(use.Pack.Text)
		packs = append(packs, pack)
		if pack == nil {
			hint := nearest.Hint(use.Pack.Text, registry.Names())
			if hint == "" {
				hint = "valid values: " + strings.Join(registry.Names(), ", ")
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
		for _, w := range named {
			var names []string
			for j := range pack.Hooks {
				names = append(names, pack.Hooks[j].Name)
			}
			if !slices.Contains(names, w.Text) {
				fail(w, cmp.Or(nearest.Hint(w.Text, names), fmt.Sprintf("\"grapnel hooks list --pack %s\" and docs/packs.md list its hooks", pack.Name)), "pack %q has no hook %q", pack.Name, w.Text)
			}
		}
	}
	return packs
}

// leavesOut reports whether the `use:` entry excludes a hook of the pack.
func leavesOut(u *policyfile.Use, hook string) bool {
	return policyfile.HasWord(u.Except, hook)
}

// permitted returns the `except:` of a hook of the pack with what the `use:` entry allows.
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
	packs := registryPacks(policy, file.Path, ld.Packs, &errs)
	if len(errs) > 0 {
		return nil, 0, errs[0]
	}
	for i, pack := range packs {
		if file.Path != notice.OwnFile && slices.Contains(ld.Always, pack.Name) {
			continue // its hooks are in force regardless of the file
		}
		use := &policy.Use[i]
		source := grapnel.Source{Name: file.Path + "#" + pack.Name, Scope: file.Scope, File: file.Path, Digest: pack.Digest}
		for j := range pack.Hooks {
			if leavesOut(use, pack.Hooks[j].Name) {
				continue
			}
			hook := &packHook{Hook: &pack.Hooks[j], pack: pack, number: j, use: use, source: &source, facts: ld.facts, secrets: ld.facts.Secrets}
			if ld.early != nil && !hook.concerns(ld.early) {
				skipped++
				continue
			}
			spec, err := hook.toSpec(use)
			if err != nil {
				return nil, 0, err
			}
			specs = append(specs, spec)
		}
	}
	return specs, skipped, nil
}
