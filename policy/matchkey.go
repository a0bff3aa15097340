package policy

import "strconv"

// A matchKey is a key of a match that has words, of which one has to fit.
type matchKey struct {
	name  string
	words func(*Match) *[]string       // nil = it has texts
	texts func(*Match) *[]Pattern      // nil = it has words
	got   func(*facts) []string        // what an event has for it
	fits  func(*compiled, *facts) bool // nil = (*compiled).whole
}

// matchKeys lists them in the order in which people are told of them.
var matchKeys = []matchKey{
	{name: "tool", words: func(m *Match) *[]string { return &m.Tool }, got: toolWords},
	{name: "agent", words: func(m *Match) *[]string { return &m.Agent }, got: func(f *facts) []string { return someOf(f.ev.Agent.Name) }},
	{name: "mcp", words: func(m *Match) *[]string { return &m.MCP }, got: func(f *facts) []string { return someOf(part(part(f.ev.Tool).MCP).Server) }},
	{name: "mode", words: func(m *Match) *[]string { return &m.Mode }, got: func(f *facts) []string { return someOf(f.ev.Session.Mode) }},
	{name: "subagent", words: func(m *Match) *[]string { return &m.Subagent }, got: func(f *facts) []string { return someOf(part(f.ev.Session.Subagent).Type) }},
	{name: "command", words: func(m *Match) *[]string { return &m.Command }, got: (*facts).commandTexts, fits: func(c *compiled, f *facts) bool { return c.fitsCommands(f, nil) }},
	{name: "shell", words: func(m *Match) *[]string { return &m.Shell }, got: (*facts).unknown},
	{name: "path", words: func(m *Match) *[]string { return &m.Path }, got: (*facts).pathTexts, fits: func(c *compiled, f *facts) bool { return c.fitsPaths(f, 0, nil) }},
	{name: "reads", words: func(m *Match) *[]string { return &m.Reads }, got: (*facts).pathTexts, fits: func(c *compiled, f *facts) bool { return c.fitsPaths(f, 1, nil) }},
	{name: "writes", words: func(m *Match) *[]string { return &m.Writes }, got: (*facts).pathTexts, fits: func(c *compiled, f *facts) bool { return c.fitsPaths(f, 2, nil) }},
	{name: "url", words: func(m *Match) *[]string { return &m.URL }, got: (*facts).urls, fits: fitsURLs},
	{name: "host", words: func(m *Match) *[]string { return &m.Host }, got: (*facts).hosts, fits: fitsURLs},
	{name: "content", texts: func(m *Match) *[]Pattern { return &m.Content }, got: (*facts).content},
	{name: "prompt", texts: func(m *Match) *[]Pattern { return &m.Prompt }, got: (*facts).prompt},
	{name: "text", texts: func(m *Match) *[]Pattern { return &m.Text }, got: (*facts).allTexts},
	{name: "secret", words: func(m *Match) *[]string { return &m.Secret }},
}

func fitsURLs(c *compiled, f *facts) bool { return c.fitsURLs(f, nil) }

// said are the words of the key, as the file says them.
func (k *matchKey) said(m *Match) []string {
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
func (k *matchKey) only(m *Match, i int) *Match {
	one := &Match{}
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
