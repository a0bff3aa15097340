package policy

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/match"
	"github.com/grapnel-dev/grapnel/internal/nearest"
	"github.com/grapnel-dev/grapnel/internal/secret"
	"github.com/grapnel-dev/grapnel/internal/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// masking is `mask:`.
type masking struct {
	globs   []match.Glob
	rules   *secret.Rules
	fields  []grapnel.Field
	message string
}

// Handle answers with the fields in which something was masked.
func (m *masking) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	paths := match.EventPaths(ev)
	return changeTexts(ev, m.fields, m.message, "mask", func(text string) string {
		return m.rules.Mask(text, paths, func(id string) bool { return match.AnyGlob(m.globs, id) })
	})
}

// everySecret are the globs of `secret: true` and `mask: true`.
var everySecret = []string{"*"}

// secretIDs reads `secret:` and `mask:`.
func (p *fileParser) secretIDs(n *yaml.Node, key string) []string {
	if n.Kind == yaml.Bool {
		if n.Text != "true" {
			p.fail(n, "leave it out", "%s is true, or the ids of rules", key)
		}
		return everySecret
	}
	ids := p.each(n, p.glob)
	for _, item := range itemsOf(n) {
		p.usedIDs = append(p.usedIDs, word(item))
	}
	return ids
}

// secrets reads `secrets:`.
func (p *fileParser) secretRules(n *yaml.Node) *policyfile.Secrets {
	s := &policyfile.Secrets{}
	p.mapping(n, "secrets", []key{
		{"rules", func(n *yaml.Node) {
			p.texts(n)
			for _, item := range itemsOf(n) {
				s.Files = append(s.Files, word(item))
			}
		}},
		{"disable", func(n *yaml.Node) {
			s.Disable = p.each(n, p.glob)
			for _, item := range itemsOf(n) {
				p.usedIDs = append(p.usedIDs, word(item))
			}
		}},
		{"allow", func(n *yaml.Node) {
			for _, text := range p.each(n, p.pattern) {
				if re, ok := match.RegexpOf(text); ok && emptyMatch(re) {
					p.fail(n, "", "%s matches the empty text, so nothing would be a secret", text)
				}
				s.Allow = append(s.Allow, text)
			}
		}},
	})
	return s
}

func emptyMatch(source string) bool {
	re, err := regexp.Compile(source)
	return err == nil && re.MatchString("")
}

// knownIDs refuses ids that no rule has. A file of rules may bring others, which are only
// known once it is read.
func (p *fileParser) knownIDs(s *policyfile.Secrets) {
	if s != nil && len(s.Files) > 0 {
		return
	}
	known := secret.IDs()
	for _, w := range p.usedIDs {
		if _, re := match.RegexpOf(w.Text); re {
			continue
		}
		if ok := slices.ContainsFunc(known, func(id string) bool { ok, _ := path.Match(w.Text, id); return ok }); !ok {
			p.errs = append(p.errs, &policyfile.Error{File: p.file, Line: w.Line, Col: w.Col, Msg: fmt.Sprintf("no rule for secrets is called %q", w.Text), Hint: nearest.Hint(w.Text, known)})
		}
	}
}

// hide adds the rules of a file's own to what is masked in Records. What the file allows or
// disables of Grapnel's is masked there all the same.
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
