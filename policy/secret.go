package policy

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// masking is the hook of a `mask:` action.
type masking struct {
	globs   []match.Glob
	rules   *secret.Rules
	fields  []grapnel.Field
	message string
}

// Handle returns the fields in which a secret was masked, with their new text.
func (m *masking) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	paths := match.EventPaths(ev)
	return changeTexts(ev, m.fields, m.message, "mask", func(text string) string {
		return m.rules.Mask(text, paths, func(id string) bool { return match.AnyGlob(m.globs, id) })
	})
}

// everySecret is the glob list for `secret: true` and `mask: true`.
var everySecret = []string{"*"}

// secretIDs parses the value of `secret:` and `mask:`.
func (p *fileParser) secretIDs(n *yaml.Node, key string) []string {
	if n.Kind == yaml.Bool {
		if n.Text != "true" {
			p.fail(n, "omit it", "%s must be true or a list of rule ids", key)
		}
		return everySecret
	}
	ids := p.each(n, p.glob)
	for _, item := range itemsOf(n) {
		p.usedIDs = append(p.usedIDs, word(item))
	}
	return ids
}

// secretRules parses a `secrets:` section.
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

// knownIDs rejects unknown rule IDs. If the policy has rule files, it checks nothing, because their
// IDs are only known after reading them.
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
			p.errs = append(p.errs, &policyfile.Error{File: p.file, Line: w.Line, Col: w.Col, Msg: fmt.Sprintf("unknown rule for secrets %q", w.Text), Hint: wording.Nearest(w.Text, known)})
		}
	}
}
