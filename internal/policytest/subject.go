package policytest

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A subject is the policy or pack under test: its hooks, with the positions of their words.
type subject struct {
	name   string // name for messages
	source string // suffix of the source of its hooks
	hooks  []policyfile.Hook
	uses   []policyfile.Use
	items  map[string]*yaml.Node // the nodes of the hooks, by name
}

// newSubject reads the policy of a stage.
func newSubject(key stageKey) (*subject, error) {
	s := &subject{name: key.policy, items: map[string]*yaml.Node{}}
	var data []byte
	var err error
	if key.pack != "" {
		s.name, s.source = "pack "+key.pack, "#"+key.pack
		data, err = packs.Files().ReadFile(key.pack + ".yaml")
	} else {
		if s.source, err = filepath.Abs(key.policy); err != nil {
			return nil, err
		}
		data, err = os.ReadFile(key.policy)
	}
	if err != nil {
		return nil, err
	}
	p, errs := policy.Parse(s.name, data)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	s.hooks, s.uses = p.Hooks, p.Use
	root, err := yaml.Parse(data) // Parse has already accepted data
	if err != nil {
		return nil, err
	}
	if hooks := root.Get("hooks"); hooks != nil {
		for i, item := range hooks.Items {
			s.items[s.hooks[i].Name] = item
		}
	}
	return s, nil
}

// hook returns the index of the hook from which a Spec was made, or -1.
func (s *subject) hook(spec *grapnel.Spec) int {
	if !s.is(spec.Source.Name) {
		return -1
	}
	return slices.IndexFunc(s.hooks, func(h policyfile.Hook) bool { return h.Name == spec.Name })
}

// is reports whether a source is the policy.
func (s *subject) is(source string) bool {
	if strings.HasPrefix(s.source, "#") {
		return strings.HasSuffix(source, s.source)
	}
	return source == s.source
}

// place returns the position of a part of a hook, as named by a Check or a Mutant, or of the
// nearest node around it.
func (s *subject) place(hook, at string) (line, col int) {
	n := s.items[hook]
	if n == nil {
		return 0, 0
	}
	for at != "" && n.Kind == yaml.Map {
		var name string
		name, at, _ = strings.Cut(at, ".")
		name, number, listed := strings.Cut(name, "[")
		next := n.Get(name)
		if next == nil {
			break
		}
		n = next
		if listed {
			i, _ := strconv.Atoi(strings.TrimSuffix(number, "]"))
			if items := itemsOf(n); i < len(items) {
				n = items[i]
			}
		}
		if name == "on" || name == "event" {
			for _, item := range itemsOf(n) {
				if slices.Contains(policy.Kinds(item.Text), grapnel.Kind(at)) {
					n = item
				}
			}
		}
	}
	return n.Line, n.Col
}

// subjects reads the policies of tests, each once, in the order in which the tests name them.
func subjects(tests []*Test, instead string) (keys []stageKey, all map[stageKey]*subject, err error) {
	all = map[stageKey]*subject{}
	for _, t := range tests {
		key := t.File.key(instead)
		if all[key] != nil {
			continue
		}
		if all[key], err = newSubject(key); err != nil {
			return nil, nil, err
		}
		keys = append(keys, key)
	}
	slices.SortStableFunc(keys, func(a, b stageKey) int { return cmp.Compare(all[a].name, all[b].name) })
	return keys, all, nil
}

// key returns the key of the stages for the tests of a file. instead is a policy that replaces
// the policy of the file, or "".
func (f *File) key(instead string) stageKey {
	if instead != "" {
		return stageKey{policy: instead, scope: f.Scope}
	}
	return stageKey{f.Policy, f.Pack, f.Scope}
}
