package match

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// SecretRules returns the secret rules for the hooks of a file; nil = only the built-in rules.
func SecretRules(s *policyfile.Secrets) *secret.Rules {
	if s == nil {
		return nil
	}
	rs := &secret.Rules{Off: slices.Clone(s.Off), Allow: slices.Clone(s.Lists)}
	globs := NewGlobs(s.Disable)
	for _, id := range secret.IDs() {
		if AnyGlob(globs, id) {
			rs.Off = append(rs.Off, id)
		}
	}
	for _, r := range s.Rules {
		if !AnyGlob(globs, r.ID) {
			rs.More = append(rs.More, r)
		}
	}
	for _, text := range s.Allow {
		if re, ok := RegexpOf(text); ok {
			rs.Allow = append(rs.Allow, &secret.Allow{Regexes: []string{re}})
		} else {
			rs.Allow = append(rs.Allow, &secret.Allow{Regexes: []string{`\A` + regexp.QuoteMeta(text) + `\z`}})
		}
	}
	return rs
}

// secretTest is the key `secret:` of a match.
type secretTest struct {
	globs []Glob
	rules *secret.Rules
	every bool // all secrets found must match, as in an exception: one harmless key must not permit another one
}

func (t *secretTest) holds(f *Facts) bool {
	ids := f.secrets(t.rules)
	if len(ids) == 0 {
		return false
	}
	fits := func(id string) bool { return AnyGlob(t.globs, id) }
	if t.every {
		return !slices.ContainsFunc(ids, func(id string) bool { return !fits(id) })
	}
	return slices.ContainsFunc(ids, fits)
}

// foundSecrets is the cached result of one set of rules for an event.
type foundSecrets struct {
	rules *secret.Rules
	ids   []string
}

// secrets returns the IDs of the rules that find a secret in a text of the event or match one of
// its paths. It returns neither the position nor the value.
func (f *Facts) secrets(rules *secret.Rules) []string {
	f.secretsLock.Lock()
	defer f.secretsLock.Unlock()
	for _, kept := range f.keptSecrets {
		if kept.rules == rules {
			return kept.ids
		}
	}
	paths := EventPaths(f.Event)
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

// replaced returns the texts that an edit removes from a file: a secret in them is being deleted.
func (f *Facts) replaced() []string {
	if OrZero(f.Event.Tool).Class != grapnel.ClassEdit || f.Event.Kind != grapnel.ToolBefore {
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

// NearSecret reports whether the built-in secret rules may find anything in the event.
func (f *Facts) NearSecret() bool {
	return f.keptNear.get(func() bool { return slices.ContainsFunc(f.allTexts(), secret.Near) })
}

// EventPaths returns the cleaned paths of the tool input, without resolving them.
func EventPaths(ev *grapnel.Event) []string {
	var paths []string
	for _, p := range OrZero(ev.Tool).Paths {
		paths = append(paths, path.Clean(filepath.ToSlash(p.Path))) // a/../b must not bypass a rule for b
	}
	return paths
}

// explain returns the IDs of the rules that found a secret, without the secret.
func (t *secretTest) explain(f *Facts) []string {
	var words []string
	for _, id := range f.secrets(t.rules) {
		if AnyGlob(t.globs, id) {
			words = append(words, "secret "+id)
		}
	}
	return words
}

// Secrets returns the secret rules that a Matcher uses; ok is false if it uses none.
func (m *Matcher) Secrets() (rules *secret.Rules, ok bool) {
	for _, c := range append(slices.Clip(m.except), m.match) {
		for ; c != nil; c = c.not {
			if c.secret != nil {
				rules, ok = c.secret.rules, true
			}
		}
	}
	return rules, ok
}
