package policy

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/secret"
	"github.com/grapnel-dev/grapnel/internal/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// secretRules are what the hooks look for; nil = what Grapnel knows.
func secretRules(s *policyfile.Secrets) *secret.Rules {
	if s == nil {
		return nil
	}
	rs := &secret.Rules{Off: slices.Clone(s.Off), Allow: slices.Clone(s.Lists)}
	globs := newGlobs(s.Disable)
	for _, id := range secret.IDs() {
		if anyGlob(globs, id) {
			rs.Off = append(rs.Off, id)
		}
	}
	for _, r := range s.Rules {
		if !anyGlob(globs, r.ID) {
			rs.More = append(rs.More, r)
		}
	}
	for _, text := range s.Allow {
		if re, ok := regexpOf(text); ok {
			rs.Allow = append(rs.Allow, &secret.Allow{Regexes: []string{re}})
		} else {
			rs.Allow = append(rs.Allow, &secret.Allow{Regexes: []string{`\A` + regexp.QuoteMeta(text) + `\z`}})
		}
	}
	return rs
}

// secretTest is `secret:` of a match.
type secretTest struct {
	globs []globPattern
	rules *secret.Rules
	every bool // all that is found has to fit, as in an exception: one harmless key does not vouch for its neighbour
}

func (t *secretTest) holds(f *facts) bool {
	ids := f.secrets(t.rules)
	if len(ids) == 0 {
		return false
	}
	fits := func(id string) bool { return anyGlob(t.globs, id) }
	if t.every {
		return !slices.ContainsFunc(ids, func(id string) bool { return !fits(id) })
	}
	return slices.ContainsFunc(ids, fits)
}

// foundSecrets is what one set of rules finds in an event.
type foundSecrets struct {
	rules *secret.Rules
	ids   []string
}

// secrets lists the rules that find a secret in some text of the event, or are about one
// of its files. It never says where, nor what.
func (f *facts) secrets(rules *secret.Rules) []string {
	f.secretsLock.Lock()
	defer f.secretsLock.Unlock()
	for _, kept := range f.keptSecrets {
		if kept.rules == rules {
			return kept.ids
		}
	}
	paths := eventPaths(f.ev)
	ids := rules.Paths(paths)
	gone := f.replaced()
	for _, text := range f.allTexts() {
		if slices.Contains(gone, text) {
			continue
		}
		for _, found := range rules.Find(text, paths) {
			if !slices.Contains(ids, found.Rule) {
				ids = append(ids, found.Rule)
			}
		}
	}
	f.keptSecrets = append(f.keptSecrets, foundSecrets{rules, ids})
	return ids
}

// replaced lists the texts that an edit takes out of a file: a key among them is on its
// way out.
func (f *facts) replaced() []string {
	if part(f.ev.Tool).Class != grapnel.ClassEdit || f.ev.Kind != grapnel.ToolBefore {
		return nil
	}
	var texts []string
	collect := func(v any) {
		for name, v := range asObject(v) {
			switch text, _ := v.(string); name {
			case "old_string", "old_str", "old_text", "oldString", "oldText":
				texts = append(texts, text)
			}
		}
	}
	input := f.input()
	collect(input)
	if edits, ok := asObject(input)["edits"].([]any); ok {
		for _, edit := range edits {
			collect(edit)
		}
	}
	return texts
}

func asObject(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}

// nearSecret reports whether the table of secrets may find anything in the event.
func (f *facts) nearSecret() bool {
	return f.keptNear.get(func() bool { return slices.ContainsFunc(f.allTexts(), secret.Near) })
}

func eventPaths(ev *grapnel.Event) []string {
	var paths []string
	for _, p := range part(ev.Tool).Paths {
		paths = append(paths, path.Clean(filepath.ToSlash(p.Path))) // a way around through a/.. is none
	}
	return paths
}

// explainSecrets says which rules found something: never what.
func (t *secretTest) explain(f *facts) []string {
	var words []string
	for _, id := range f.secrets(t.rules) {
		if anyGlob(t.globs, id) {
			words = append(words, "secret "+id)
		}
	}
	return words
}

// masking is `mask:`.
type masking struct {
	globs   []globPattern
	rules   *secret.Rules
	fields  []grapnel.Field
	message string
}

// Handle answers with the fields in which something was masked.
func (m *masking) Handle(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	paths := eventPaths(ev)
	return changeTexts(ev, m.fields, m.message, "mask", func(text string) string {
		return m.rules.Mask(text, paths, func(id string) bool { return anyGlob(m.globs, id) })
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
				if re, ok := regexpOf(text); ok && emptyMatch(re) {
					p.fail(n, "", "%s matches the empty text: nothing would be a secret", text)
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
		if _, re := regexpOf(w.Text); re {
			continue
		}
		if ok := slices.ContainsFunc(known, func(id string) bool { ok, _ := path.Match(w.Text, id); return ok }); !ok {
			p.errs = append(p.errs, &policyfile.Error{File: p.file, Line: w.Line, Col: w.Col, Msg: fmt.Sprintf("no rule for secrets is called %q", w.Text), Hint: didYouMean(w.Text, known)})
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
