package policy

import (
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func (p *fileParser) packInfo(n *yaml.Node) *policyfile.PackInfo {
	info := &policyfile.PackInfo{}
	p.mapping(n, "pack", []key{
		{"version", func(n *yaml.Node) { info.Version = *p.integer(n) }},
	})
	if n.Kind == yaml.Map && n.Get("version") == nil {
		p.fail(n, "write `pack: {version: 1}`", "the pack has no version")
	}
	return info
}

// plainPack rejects keys that would make a pack do more than add rules.
func (p *fileParser) plainPack(policy *yaml.Node) {
	for _, key := range []string{"use", "strict", "defaults", "load", "networks", "ca", "secrets", "redact", "records", "retention", "grants", "trust", "use_only_managed", "revision", "expires"} {
		if n := policy.Get(key); n != nil {
			p.fail(n, "write it into the file that uses the pack", "a pack cannot contain `%s`", key)
		}
	}
}

func (p *fileParser) plainPackHook(hook *yaml.Node) {
	if n := hook.Get("approve"); n != nil {
		p.fail(n, "remove it: users write it into their own policy", "a pack cannot know how long a person may take")
	}
	if n := hook.Get("groups"); n != nil {
		p.fail(n, "remove it: users write it into their own policy", "a pack cannot know the groups of machines")
	}
	for i := range actions {
		a := &actions[i]
		n := hook.Get(a.name)
		if n == nil || a.notInPack == nil {
			continue
		}
		if problem, hint := a.notInPack(n); problem != "" {
			p.fail(n, hint, "%s", problem)
		}
	}
}

func (p *fileParser) uses(n *yaml.Node) []policyfile.Use {
	if n.Kind != yaml.List {
		p.fail(n, "for example [destructive, {pack: secrets, mode: observe}]", "use must be a list of packs, not %s", n.Kind)
		return nil
	}
	var uses []policyfile.Use
	for _, item := range n.Items {
		use := policyfile.Use{}
		if item.Kind != yaml.Map {
			use.Pack = p.word(item)
		} else {
			p.mapping(item, "use", []key{
				{"pack", func(n *yaml.Node) { use.Pack = p.word(n) }},
				{"except", func(n *yaml.Node) {
					p.texts(n)
					for _, item := range itemsOf(n) {
						use.Except = append(use.Except, word(item))
					}
				}},
				{"allow", func(n *yaml.Node) { use.Allow = p.permits(n) }},
				{"mode", func(n *yaml.Node) { use.Mode = p.oneOf(n, "enforce", "observe") }},
			})
			if item.Get("pack") == nil {
				p.fail(item, "for example {pack: secrets, mode: observe}", "the entry has no `pack`")
			}
			for i := range use.Allow {
				if w := use.Allow[i].Hook; policyfile.HasWord(use.Except, w.Text) {
					p.fail(item, "remove it from one of them", "the hook %q is in `except` and in `allow`", w.Text)
				}
			}
		}
		for _, before := range uses {
			if before.Pack.Text == use.Pack.Text && use.Pack.Text != "" {
				p.fail(item, "remove one of them", "pack %q is used twice, first in line %d", use.Pack.Text, before.Pack.Line)
			}
		}
		uses = append(uses, use)
	}
	return uses
}

// permits parses a mapping from hooks of a pack to their exceptions.
func (p *fileParser) permits(n *yaml.Node) (all []policyfile.Permit) {
	const example = "for example {no-recursive-delete: {command: rm -rf reports}}"
	if n.Kind != yaml.Map || len(n.Pairs) == 0 {
		p.fail(n, example, "allow must be a mapping from hooks of the pack to what they allow")
		return nil
	}
	for _, pair := range n.Pairs {
		m := p.matches(pair.Value)
		if len(m) == 0 {
			p.fail(pair.Value, example, "the hook %q allows nothing", pair.Key.Text)
		}
		all = append(all, policyfile.Permit{Hook: word(pair.Key), Match: m})
	}
	return all
}

func (p *fileParser) word(n *yaml.Node) policyfile.Word {
	p.text(n)
	return word(n)
}

func word(n *yaml.Node) policyfile.Word {
	return policyfile.Word{Text: n.Text, Line: n.Line, Col: n.Col}
}
