package replay

import (
	"errors"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

// Permit changes the `use:` entry of a pack in a policy file, so that a hook of the pack does not match
// the commands of these patterns. The result differs in nothing else, and hunk is the change as a diff.
func Permit(file string, content []byte, pack, hook string, patterns []string) (changed []byte, hunk string, err error) {
	text, marked := strings.CutPrefix(string(content), "\uFEFF")
	if strings.Contains(text, "\r") {
		return nil, "", errLayout
	}
	src, err := yaml.ParseSource([]byte(text))
	if err != nil {
		return nil, "", err
	}
	after, ok := permit(src, pack, hook, patterns)
	if !ok {
		return nil, "", errLayout
	}
	before := strings.Split(string(content), "\n")
	if marked {
		after = "\uFEFF" + after
	}
	if err := onlyPermit(file, content, []byte(after), pack, policyfile.Permit{Hook: policyfile.Word{Text: hook}, Match: []policyfile.Match{{Command: patterns}}}); err != nil {
		return nil, "", err
	}
	return []byte(after), unified(file, before, strings.Split(after, "\n")), nil
}

// permit returns the text of a policy with the addition.
func permit(src *yaml.Source, pack, hook string, patterns []string) (string, bool) {
	insert := func(at int, more string) (string, bool) { return src.Text[:at] + more + src.Text[at:], true }
	line := func(after *yaml.Node, key *yaml.Node, text string) (string, bool) { // a new line with the indent of a key
		at := src.Written(after).End
		if i := strings.IndexByte(src.Text[at:], '\n'); i >= 0 {
			at += i
		} else {
			at = len(src.Text)
		}
		return insert(at, "\n"+strings.Repeat(" ", key.Col-1)+text)
	}
	match := "{command: " + flowTexts(patterns) + "}"
	entry := hook + ": " + match
	uses := src.Root.Get("use")
	if uses == nil {
		return "", false
	}
	for _, item := range uses.Items {
		at := src.Written(item)
		if item.Kind != yaml.Map {
			if item.Text == pack {
				return src.Text[:at.Start] + "{pack: " + pack + ", allow: {" + entry + "}}" + src.Text[at.End:], true
			}
			continue
		}
		name, allow := item.Get("pack"), item.Get("allow")
		switch {
		case name == nil || name.Text != pack:
		case allow == nil && !blockStyle(src, item):
			return insert(at.End-1, ", allow: {"+entry+"}")
		case allow == nil:
			return line(name, keyOf(item, "pack"), "allow: {"+entry+"}")
		case allow.Get(hook) != nil:
			old := src.Written(allow.Get(hook))
			if src.Text[old.Start] == '[' {
				return insert(old.End-1, ", "+match)
			}
			return src.Text[:old.Start] + "[" + src.Text[old.Start:old.End] + ", " + match + "]" + src.Text[old.End:], !blockStyle(src, allow.Get(hook))
		case !blockStyle(src, allow):
			return insert(src.Written(allow).End-1, ", "+entry)
		default:
			last := allow.Pairs[len(allow.Pairs)-1]
			after, ok := line(last.Value, last.Key, entry)
			return after, ok && !blockStyle(src, last.Value)
		}
	}
	return "", false
}

// Enforce changes `mode: observe` in the `defaults:` of a policy file to `mode: enforce`. The result differs
// in nothing else, and hunk is the change as a diff.
func Enforce(file string, content []byte) (changed []byte, hunk string, err error) {
	text := strings.TrimPrefix(string(content), "\uFEFF")
	if strings.Contains(text, "\r") {
		return nil, "", errLayout
	}
	src, err := yaml.ParseSource([]byte(text))
	if err != nil {
		return nil, "", err
	}
	var mode *yaml.Node
	if defaults := src.Root.Get("defaults"); defaults != nil {
		mode = defaults.Get("mode")
	}
	if mode == nil || mode.Text != "observe" {
		return nil, "", errors.New("it has no `defaults: {mode: observe}`")
	}
	at := src.Written(mode)
	start := len(content) - len(text) // of a byte order mark
	changed = slices.Concat(content[:start+at.Start], []byte("enforce"), content[start+at.End:])
	if err := onlyChange(file, content, changed, func(p *policyfile.Policy) bool {
		p.Defaults.Mode = "enforce"
		modes(p, src.Root)
		return true
	}); err != nil {
		return nil, "", err
	}
	return changed, unified(file, strings.Split(string(content), "\n"), strings.Split(string(changed), "\n")), nil
}

// modes sets the mode of each hook and pack to the one that its own entry in the file has.
func modes(p *policyfile.Policy, root *yaml.Node) {
	own := func(list string, i int) string {
		if n := root.Get(list).Items[i].Get("mode"); n != nil {
			return n.Text
		}
		return ""
	}
	for i := range p.Use {
		p.Use[i].Mode = own("use", i)
	}
	for i := range p.Hooks {
		p.Hooks[i].Mode = own("hooks", i)
	}
}

// keyOf returns a key that a mapping has.
func keyOf(n *yaml.Node, key string) *yaml.Node {
	i := slices.IndexFunc(n.Pairs, func(p yaml.Pair) bool { return p.Key.Text == key })
	return n.Pairs[i].Key
}

// blockStyle reports whether a mapping or list is on separate lines.
func blockStyle(src *yaml.Source, n *yaml.Node) bool {
	c := src.Text[src.Written(n).Start]
	return c != '{' && c != '['
}

// flowTexts returns one text, or a list of them, as YAML in braces.
func flowTexts(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		if quoted[i] = text; strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ./_-") != "" {
			quoted[i] = scalar(text, true)
		}
	}
	if len(quoted) == 1 {
		return quoted[0]
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// onlyPermit returns an error if two contents of a policy differ in more than an addition to the commands that a
// pack allows.
func onlyPermit(file string, before, after []byte, pack string, more policyfile.Permit) error {
	return onlyChange(file, before, after, func(p *policyfile.Policy) bool {
		i := slices.IndexFunc(p.Use, func(u policyfile.Use) bool { return u.Pack.Text == pack })
		if i < 0 {
			return false
		}
		u := &p.Use[i]
		j := slices.IndexFunc(u.Allow, func(a policyfile.Permit) bool { return a.Hook.Text == more.Hook.Text })
		if j >= 0 {
			u.Allow[j].Match = append(u.Allow[j].Match, more.Match...)
		} else {
			u.Allow = append(u.Allow, more)
		}
		return true
	})
}

// CommandPatterns returns patterns that match the commands of a line for which stopped returns true.
// stopped gets each command as a separate line. It reports false if a pattern cannot describe one of
// these commands, because it is not known completely.
func CommandPatterns(line string, stopped func(line string) bool) ([]string, bool) {
	script := shell.Parse(line)
	var patterns []string
	for i := range script.Commands {
		c := &script.Commands[i]
		words, known := []string{c.Path}, c.Name != ""
		for _, w := range c.Args {
			words, known = append(words, w.Text), known && w.Literal
		}
		for i, w := range words {
			words[i] = shell.QuoteWord(w)
		}
		text := strings.Join(words, " ")
		switch {
		case slices.Contains(patterns, text) || !stopped(text):
		case !known:
			return nil, false
		default:
			patterns = append(patterns, text)
		}
	}
	return patterns, len(patterns) > 0 && len(script.Unknown) == 0
}
