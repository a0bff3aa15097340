package policy

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// grants parses a `grants:` key.
func (p *fileParser) grants(n *yaml.Node) (all []policyfile.Grant) {
	p.entries(n, "grants", "for example [{source: ~/src/mine/**, may: [allow, run, http]}]", func(item *yaml.Node) {
		g := policyfile.Grant{}
		p.mapping(item, "grants", []key{
			{"source", func(n *yaml.Node) { g.Source = p.sourcePattern(n) }},
			{"may", func(n *yaml.Node) {
				for _, item := range itemsOf(n) {
					p.oneOf(item, policyfile.GrantWords[:]...)
					g.May = append(g.May, word(item))
				}
			}},
		})
		p.wants(item, "source", "may")
		all = append(all, g)
	})
	return all
}

// vouches parses a `trust:` key.
func (p *fileParser) vouches(n *yaml.Node) (all []policyfile.Vouch) {
	p.entries(n, "trust", "for example [{source: ~/src/**, digest: sha256:...}]", func(item *yaml.Node) {
		v := policyfile.Vouch{}
		p.mapping(item, "trust", []key{
			{"source", func(n *yaml.Node) { v.Source = p.sourcePattern(n) }},
			{"digest", func(n *yaml.Node) {
				v.Digest = p.word(n)
				if sum, ok := strings.CutPrefix(v.Digest.Text, "sha256:"); !ok || !files.IsDigest(sum) {
					p.fail(n, "\"grapnel trust\" shows it at a terminal", "%q is not a digest", v.Digest.Text)
				}
			}},
		})
		p.wants(item, "source", "digest")
		all = append(all, v)
	})
	return all
}

// entries calls each for every item of a list of mappings.
func (p *fileParser) entries(n *yaml.Node, key, hint string, each func(*yaml.Node)) {
	if n.Kind != yaml.List {
		p.fail(n, hint, "%s must be a list, not %s", key, n.Kind)
		return
	}
	for _, item := range n.Items {
		each(item)
	}
}

func (p *fileParser) wants(n *yaml.Node, keys ...string) {
	for _, key := range keys {
		if n.Kind == yaml.Map && n.Get(key) == nil {
			p.fail(n, entryHint(key), "the entry has no `%s`", key)
		}
	}
}

// sourcePattern parses a path pattern that does not depend on the working directory.
func (p *fileParser) sourcePattern(n *yaml.Node) policyfile.Word {
	p.pathPattern(n)
	w := p.word(n)
	if w.Text != "" && w.Text != "~" && !strings.HasPrefix(w.Text, "~/") && w.Text != "**" && !strings.HasPrefix(w.Text, "**/") && !filepath.IsAbs(w.Text) {
		p.fail(n, "write an absolute path, or begin with ~/ or **/", "%q is not an absolute path", w.Text)
	}
	return w
}

// CheckScope returns an error for a key that policies of this scope cannot set.
func CheckScope(p *policyfile.Policy, file string, scope grapnel.Scope) *policyfile.Error {
	only := func(at policyfile.Word, who, key string) *policyfile.Error {
		return &policyfile.Error{File: file, Line: at.Line, Col: at.Col, Msg: fmt.Sprintf("only %s may contain `%s`", who, key)}
	}
	const persons = "the policy of a user, and a managed one,"
	switch {
	case p.OnlyManaged && scope != grapnel.ScopeManaged:
		return only(policyfile.Word{}, "a managed policy", "use_only_managed")
	case scope <= grapnel.ScopeUser:
		return nil
	case len(p.Networks) > 0:
		return only(p.Networks[0], persons, "networks")
	case p.CA.Text != "":
		return only(p.CA, persons, "ca")
	case len(p.Grants) > 0:
		return only(p.Grants[0].Source, persons, "grants")
	case p.Records != nil && len(p.Records.Forward) > 0:
		return only(p.Records.Forward[0].To, persons, "forward")
	case p.Retention != nil:
		return only(policyfile.Word{Line: p.Retention.Line, Col: 1}, persons, "retention")
	case len(p.Vouches) > 0:
		return only(p.Vouches[0].Source, persons, "trust")
	}
	return nil
}

// entryHint returns the way out for an entry of `grants:` or `trust:` without a key.
func entryHint(key string) string {
	switch key {
	case "digest":
		return "\"grapnel trust FILE\" prints the digest of a policy"
	case "to":
		return targetExample
	}
	return "for example {source: ~/src, may: [run]}"
}
