package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A matchKey is a key of a match that has words, of which one has to fit. All that a
// policy does with such a key is in its row of matchKeys; (*factCache).compile puts the
// rows into an order that is quick to judge.
type matchKey struct {
	name   string
	code   byte                                          // its name in snapshots, unique among these keys
	tool   bool                                          // only events about tools have anything for it
	words  func(*policyfile.Match) *[]string             // nil = it has texts
	texts  func(*policyfile.Match) *[]policyfile.Pattern // nil = it has words
	parse  func(*fileParser, *yaml.Node) []string        // reads the words; nil for texts
	got    func(*facts) []string                         // what an event has for it
	fits   func(*compiled, *facts) bool                  // nil = (*compiled).whole
	covers func(wide, narrow string, as reading) bool    // wide fits wherever narrow does; the two differ
}

// matchKeys lists them in the order in which people are told of them.
var matchKeys = []matchKey{
	{
		name: "tool", code: 'a', tool: true, words: func(m *policyfile.Match) *[]string { return &m.Tool }, parse: parseGlobs,
		got:    toolWords,
		covers: func(wide, _ string, _ reading) bool { return wide == "*" }, // a word may be a class, which globs do not match
	},
	{
		name: "agent", code: 'j', words: func(m *policyfile.Match) *[]string { return &m.Agent },
		parse: func(p *fileParser, n *yaml.Node) []string { return p.each(n, p.agent) },
		got:   func(f *facts) []string { return someOf(f.ev.Agent.Name) }, covers: coversNothing,
	},
	{
		name: "mcp", code: 'k', tool: true, words: func(m *policyfile.Match) *[]string { return &m.MCP }, parse: parseGlobs,
		got:    func(f *facts) []string { return someOf(part(part(f.ev.Tool).MCP).Server) },
		covers: coversGlob,
	},
	{
		name: "mode", code: 'l', words: func(m *policyfile.Match) *[]string { return &m.Mode }, parse: parseGlobs,
		got:    func(f *facts) []string { return someOf(f.ev.Session.Mode) },
		covers: coversGlob,
	},
	{
		name: "subagent", code: 'm', words: func(m *policyfile.Match) *[]string { return &m.Subagent }, parse: parseGlobs,
		got:    func(f *facts) []string { return someOf(part(f.ev.Session.Subagent).Type) },
		covers: coversGlob,
	},
	{
		name: "command", code: 'b', tool: true, words: func(m *policyfile.Match) *[]string { return &m.Command },
		parse:  func(p *fileParser, n *yaml.Node) []string { return p.each(n, p.commandPattern) },
		got:    (*facts).commandTexts,
		fits:   func(c *compiled, f *facts) bool { return c.fitsCommands(f, nil) },
		covers: commandCovers,
	},
	{
		name: "shell", code: 'c', tool: true, words: func(m *policyfile.Match) *[]string { return &m.Shell },
		parse: func(p *fileParser, n *yaml.Node) []string { return []string{p.oneOf(n, "unknown")} },
		got:   (*facts).unknown, covers: coversNothing,
	},
	{
		name: "path", code: 'd', tool: true, words: func(m *policyfile.Match) *[]string { return &m.Path }, parse: parsePaths,
		got:    (*facts).pathTexts,
		fits:   func(c *compiled, f *facts) bool { return c.fitsPaths(f, 0, nil) },
		covers: coversPath,
	},
	{
		name: "reads", code: 'e', tool: true, words: func(m *policyfile.Match) *[]string { return &m.Reads }, parse: parsePaths,
		got:    (*facts).pathTexts,
		fits:   func(c *compiled, f *facts) bool { return c.fitsPaths(f, 1, nil) },
		covers: coversPath,
	},
	{
		name: "writes", code: 'f', tool: true, words: func(m *policyfile.Match) *[]string { return &m.Writes }, parse: parsePaths,
		got:    (*facts).pathTexts,
		fits:   func(c *compiled, f *facts) bool { return c.fitsPaths(f, 2, nil) },
		covers: coversPath,
	},
	{
		name: "url", code: 'g', tool: true, words: func(m *policyfile.Match) *[]string { return &m.URL }, parse: parseGlobs,
		got: (*facts).urls, fits: fitsURLs,
		covers: coversGlob,
	},
	{
		name: "host", code: 'h', tool: true, words: func(m *policyfile.Match) *[]string { return &m.Host }, parse: parseGlobs,
		got: (*facts).hosts, fits: fitsURLs,
		covers: func(wide, narrow string, _ reading) bool {
			return globCovers(strings.ToLower(wide), strings.ToLower(narrow))
		},
	},
	{
		name: "content", code: 'C', texts: func(m *policyfile.Match) *[]policyfile.Pattern { return &m.Content },
		got:    (*facts).content,
		covers: coversText,
	},
	{
		name: "prompt", code: 'P', texts: func(m *policyfile.Match) *[]policyfile.Pattern { return &m.Prompt },
		got:    (*facts).prompt,
		covers: coversText,
	},
	{
		name: "text", code: 'T', texts: func(m *policyfile.Match) *[]policyfile.Pattern { return &m.Text },
		got:    (*facts).allTexts,
		covers: coversText,
	},
	{
		name: "secret", code: 'i', words: func(m *policyfile.Match) *[]string { return &m.Secret },
		parse: func(p *fileParser, n *yaml.Node) []string { return p.secretIDs(n, "secret") }, covers: coversNothing,
	},
}

func parseGlobs(p *fileParser, n *yaml.Node) []string { return p.each(n, p.glob) }
func parsePaths(p *fileParser, n *yaml.Node) []string { return p.each(n, p.pathPattern) }

func coversNothing(_, _ string, _ reading) bool { return false }

func coversGlob(wide, narrow string, _ reading) bool { return globCovers(wide, narrow) }
func coversPath(wide, narrow string, _ reading) bool { return pathCovers(wide, narrow) }
func coversText(wide, narrow string, _ reading) bool { return textCovers(wide, narrow) }

// matchWords lists how the keys are read into m.
func (p *fileParser) matchWords(m *policyfile.Match) []key {
	var keys []key
	for i := range matchKeys {
		k := &matchKeys[i]
		keys = append(keys, key{k.name, func(n *yaml.Node) {
			if k.words != nil {
				*k.words(m) = k.parse(p, n)
			} else {
				*k.texts(m) = p.patterns(n)
			}
		}})
	}
	return keys
}

// describe says in a few words what a match wants: tool bash, path **/.env.
func describe(m *policyfile.Match) []string {
	var parts []string
	aboutText := false
	for i := range matchKeys {
		k := &matchKeys[i]
		switch words := k.said(m); {
		case len(words) == 0:
		case k.words != nil:
			parts = append(parts, k.name+" "+strings.Join(words, " or "))
		case !aboutText: // a regular expression is too long for a few words
			aboutText = true
			parts = append(parts, "a text")
		}
	}
	if m.Failed != nil {
		parts = append(parts, fmt.Sprintf("failed %v", *m.Failed))
	}
	if m.Not != nil {
		parts = append(parts, "not ("+strings.Join(describe(m.Not), ", ")+")")
	}
	return parts
}

func fitsURLs(c *compiled, f *facts) bool { return c.fitsURLs(f, nil) }

// said are the words of the key, as the file says them.
func (k *matchKey) said(m *policyfile.Match) []string {
	if k.words != nil {
		return *k.words(m)
	}
	var words []string
	for _, p := range *k.texts(m) {
		words = append(words, p.Text)
	}
	return words
}

// only is a match of nothing but this key, and of one of its words if i is not negative.
func (k *matchKey) only(m *policyfile.Match, i int) *policyfile.Match {
	one := &policyfile.Match{}
	if k.words != nil {
		*k.words(one) = just(*k.words(m), i)
	} else {
		*k.texts(one) = just(*k.texts(m), i)
	}
	return one
}

func just[T any](list []T, i int) []T {
	if i < 0 {
		return list
	}
	return list[i : i+1 : i+1]
}

func (k *matchKey) holds(c *compiled, f *facts) bool {
	if k.fits != nil {
		return k.fits(c, f)
	}
	return c.whole(f)
}

func toolWords(f *facts) []string {
	if f.ev.Tool == nil {
		return nil
	}
	return []string{string(f.ev.Tool.Class), f.ev.Tool.CanonicalName()}
}

func someOf(word string) []string {
	if word == "" {
		return nil
	}
	return []string{word}
}

func (f *facts) commandTexts() (texts []string) {
	for _, script := range f.scripts() {
		for i := range script.Commands {
			texts = append(texts, script.Commands[i].String())
		}
	}
	return texts
}

func (f *facts) pathTexts() (texts []string) {
	for _, p := range f.pathNames() {
		texts = append(texts, p.name)
	}
	return texts
}

func (f *facts) hosts() (hosts []string) {
	for _, address := range f.urls() {
		hosts = append(hosts, hostOf(address))
	}
	return hosts
}

// ending says how a call ended, for `failed`.
func (f *facts) ending() []string {
	if !hasEnded(f.ev) {
		return nil
	}
	return []string{strconv.FormatBool(f.failed())}
}
