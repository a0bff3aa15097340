package match

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Key is a key of a match with a list of words, of which one must match. Its row in [Keys]
// defines everything that a policy does with the key. Only keys for parts of a call, such as
// commands and paths, have their own code in [FactCache.Matcher].
type Key struct {
	Name   string
	tool   bool                                          // only tool events have values for the key
	Words  func(*policyfile.Match) *[]string             // nil = the key uses Texts
	Texts  func(*policyfile.Match) *[]policyfile.Pattern // nil = the key uses Words
	Form   form                                          // syntax of its words
	word   func(*grapnel.Event) (word string, ok bool)   // the single value of an event; nil = an event has several, see got
	got    func(*Facts) []string                         // the values of an event; nil = use word
	sure   func(*Facts) []string                         // for texts: used instead of got if the reading requires all to match
	each   bool                                          // for texts: each must match if the reading requires all, and sure is for an allow only
	fits   func(*compiled, *Facts) bool                  // nil = (*compiled).whole
	covers func(wide, narrow string, as Reading) bool    // reports whether wide matches wherever narrow does; the two differ
}

// A form is the syntax of the words of a key. The parser checks the words with it.
type form int

// Syntax of the words of a key.
const (
	formText    form = iota // a literal text, or /RE2/
	formGlob                // a glob for names and addresses, or /RE2/
	FormPath                // a glob for paths
	FormCommand             // a pattern of package shell
	FormAgent               // the name of an agent, or a glob
	FormBranch              // the name of a branch or of a reference, a glob, or /RE2/
	FormSecret              // the ID of a secret rule, a glob, or true
	FormShell               // one of the words of shell
	FormLoss                // one of loss.Words
	FormDrop                // one of DropWords
	FormPhrase              // words, see newPhrase
)

// The words of the key shell.
const (
	ShellUnknown     = "unknown"     // the line hides what it runs or where it writes
	ShellRedirection = "redirection" // the line has redirections, and only their files count
)

// Keys lists the keys in the order in which messages list them.
var Keys = []Key{
	{
		Name: "tool", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.Tool }, Form: formGlob,
		got:    ToolWords,
		covers: func(wide, _ string, _ Reading) bool { return wide == "*" }, // a word may be a class, which globs do not match
	},
	{
		Name: "words", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.Words }, Form: FormPhrase,
		got: (*Facts).callWords, covers: coversNothing,
	},
	{
		Name: "agent", Words: func(m *policyfile.Match) *[]string { return &m.Agent },
		Form: FormAgent,
		word: func(ev *grapnel.Event) (string, bool) { return ev.Agent.Name, true }, covers: coversNothing,
	},
	{
		Name: "mcp", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.MCP }, Form: formGlob,
		word: func(ev *grapnel.Event) (string, bool) {
			mcp := OrZero(ev.Tool).MCP
			return OrZero(mcp).Server, mcp != nil
		},
		covers: coversGlob,
	},
	{
		Name: "mode", Words: func(m *policyfile.Match) *[]string { return &m.Mode }, Form: formGlob,
		word:   func(ev *grapnel.Event) (string, bool) { return ev.Session.Mode, true },
		covers: coversGlob,
	},
	{
		Name: "subagent", Words: func(m *policyfile.Match) *[]string { return &m.Subagent }, Form: formGlob,
		word: func(ev *grapnel.Event) (string, bool) {
			sub := ev.Session.Subagent
			return OrZero(sub).Type, sub != nil
		},
		covers: coversGlob,
	},
	{
		Name: "command", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.Command },
		Form:   FormCommand,
		got:    (*Facts).commandTexts,
		fits:   func(c *compiled, f *Facts) bool { return c.fitsCommands(f, nil) },
		covers: commandCovers,
	},
	{
		Name: "branch", Words: func(m *policyfile.Match) *[]string { return &m.Branch }, Form: FormBranch,
		got: (*Facts).branches, fits: func(c *compiled, f *Facts) bool { return c.fitsCommands(f, nil) },
		covers: coversGlob,
	},
	{
		Name: "pushes", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.Pushes }, Form: FormBranch,
		got: (*Facts).pushed, fits: func(c *compiled, f *Facts) bool { return c.fitsCommands(f, nil) },
		covers: coversGlob,
	},
	{
		Name: "deletes", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.Deletes }, Form: FormLoss,
		got: (*Facts).deleted, fits: func(c *compiled, f *Facts) bool { return c.fitsCommands(f, nil) },
		covers: coversNothing,
	},
	{
		Name: "drops", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.Drops }, Form: FormDrop,
		got: (*Facts).dropped, fits: func(c *compiled, f *Facts) bool { return c.fitsCommands(f, nil) },
		covers: coversNothing,
	},
	{
		Name: "shell", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.Shell },
		Form: FormShell,
		got:  (*Facts).unknown, covers: coversNothing,
	},
	{
		Name: "path", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.Path }, Form: FormPath,
		got:    func(f *Facts) []string { return f.pathTexts(nil) },
		fits:   func(c *compiled, f *Facts) bool { return c.fitsPaths(f, 0, nil) },
		covers: coversPath,
	},
	{
		Name: "reads", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.Reads }, Form: FormPath,
		got:    func(f *Facts) []string { return f.pathTexts(Path.reads) },
		fits:   func(c *compiled, f *Facts) bool { return c.fitsPaths(f, 1, nil) },
		covers: coversPath,
	},
	{
		Name: "writes", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.Writes }, Form: FormPath,
		got:    func(f *Facts) []string { return f.pathTexts(Path.writes) },
		fits:   func(c *compiled, f *Facts) bool { return c.fitsPaths(f, 2, nil) },
		covers: coversPath,
	},
	{
		Name: "url", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.URL }, Form: formGlob,
		got: (*Facts).urls, fits: fitsURLs,
		covers: coversGlob,
	},
	{
		Name: "host", tool: true, Words: func(m *policyfile.Match) *[]string { return &m.Host }, Form: formGlob,
		got: (*Facts).hosts, fits: fitsURLs,
		covers: func(wide, narrow string, _ Reading) bool {
			return globCovers(strings.ToLower(wide), strings.ToLower(narrow))
		},
	},
	{
		Name: "code", tool: true, Texts: func(m *policyfile.Match) *[]policyfile.Pattern { return &m.Code },
		got: (*Facts).code, each: true,
		sure:   func(*Facts) []string { return nil }, // a part of a program says nothing about the rest, so it never allows a call
		covers: coversText,
	},
	{
		Name: "content", Texts: func(m *policyfile.Match) *[]policyfile.Pattern { return &m.Content },
		got:    (*Facts).content,
		sure:   (*Facts).inputContent, // text that a shell line writes never allows a call
		covers: coversText,
	},
	{
		Name: "prompt", Texts: func(m *policyfile.Match) *[]policyfile.Pattern { return &m.Prompt },
		got:    (*Facts).prompt,
		covers: coversText,
	},
	{
		Name: "text", Texts: func(m *policyfile.Match) *[]policyfile.Pattern { return &m.Text },
		got:    (*Facts).texts,
		sure:   (*Facts).actedTexts,
		covers: coversText,
	},
	{
		Name: "secret", Words: func(m *policyfile.Match) *[]string { return &m.Secret },
		Form: FormSecret, covers: coversNothing,
	},
}

func coversNothing(_, _ string, _ Reading) bool { return false }

func coversGlob(wide, narrow string, _ Reading) bool { return globCovers(wide, narrow) }
func coversPath(wide, narrow string, _ Reading) bool { return pathCovers(wide, narrow) }
func coversText(wide, narrow string, _ Reading) bool { return textCovers(wide, narrow) }

// Describe returns a short description of a match, one part per key, such as "tool bash" and "path
// **/.env".
func Describe(m *policyfile.Match) []string {
	var parts []string
	aboutText := false
	for i := range Keys {
		k := &Keys[i]
		switch words := k.Sources(m); {
		case len(words) == 0:
		case k.Words != nil:
			parts = append(parts, k.Name+" "+strings.Join(words, " or "))
		case !aboutText: // a regular expression is too long for a short description
			aboutText = true
			parts = append(parts, "a text")
		}
	}
	if m.Failed != nil {
		parts = append(parts, fmt.Sprintf("failed %v", *m.Failed))
	}
	if m.Not != nil {
		parts = append(parts, "not ("+strings.Join(Describe(m.Not), ", ")+")")
	}
	return parts
}

func fitsURLs(c *compiled, f *Facts) bool { return c.fitsURLs(f, nil) }

// Sources returns the words of the key, as written in the file.
func (k *Key) Sources(m *policyfile.Match) []string {
	if k.Words != nil {
		return *k.Words(m)
	}
	var words []string
	for _, p := range *k.Texts(m) {
		words = append(words, p.Text)
	}
	return words
}

// only returns a match with only this key, and with only the word at i unless i is negative.
func (k *Key) only(m *policyfile.Match, i int) *policyfile.Match {
	one := &policyfile.Match{}
	if k.Words != nil {
		*k.Words(one) = just(*k.Words(m), i)
	} else {
		*k.Texts(one) = just(*k.Texts(m), i)
	}
	return one
}

func just[T any](list []T, i int) []T {
	if i < 0 {
		return list
	}
	return list[i : i+1 : i+1]
}

func (k *Key) holds(c *compiled, f *Facts) bool {
	if k.fits != nil {
		return k.fits(c, f)
	}
	return c.whole(f)
}

// ToolWords returns the values that `tool:` is compared with: the class and the canonical name.
func ToolWords(f *Facts) []string {
	if f.Event.Tool == nil {
		return nil
	}
	return []string{string(f.Event.Tool.Class), f.Event.Tool.CanonicalName()}
}

// values returns the values of an event for the key.
func (k *Key) values(f *Facts) []string {
	if k.word == nil {
		return k.got(f)
	}
	if word, ok := k.word(f.Event); ok && word != "" {
		return []string{word}
	}
	return nil
}

func (f *Facts) commandTexts() (texts []string) {
	for _, script := range f.Scripts() {
		for i := range script.Commands {
			texts = append(texts, script.Commands[i].String())
		}
	}
	return texts
}

// branches returns the branches in whose checkouts the commands or files of a call are.
func (f *Facts) branches() (names []string) {
	if len(OrZero(f.Event.Tool).Commands) == 0 {
		for _, at := range f.checkouts().ofCall() {
			names = append(names, at.String())
		}
		return names
	}
	for _, script := range f.Scripts() {
		for i := range script.Commands {
			if name := f.checkouts().ofCommand(script, i).String(); script.Commands[i].Acts() && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// pushed returns the changes that the commands of a call make in remote repositories.
func (f *Facts) pushed() (names []string) {
	for _, script := range f.Scripts() {
		for i := range script.Commands {
			for _, ref := range f.checkouts().pushed(script, i) {
				if !script.Commands[i].Again() {
					names = append(names, ref.String())
				}
			}
		}
	}
	return names
}

// pathTexts returns the paths as the call names them: all, or the ones with a use.
func (f *Facts) pathTexts(used func(p Path, sure bool) bool) (texts []string) {
	for _, p := range f.pathNames() {
		if used == nil || used(Path{use: p.use}, false) {
			texts = append(texts, p.name)
		}
	}
	return texts
}

func (f *Facts) hosts() (hosts []string) {
	for _, address := range f.urls() {
		hosts = append(hosts, HostOf(address))
	}
	return hosts
}

// ending returns whether a call failed, as the value of the key `failed`.
func (f *Facts) ending() []string {
	if !hasEnded(f.Event) {
		return nil
	}
	return []string{strconv.FormatBool(f.Failed())}
}

// KeysOf returns the keys that a match sets.
func KeysOf(m *policyfile.Match) []*Key {
	var keys []*Key
	for i := range Keys {
		if len(Keys[i].Sources(m)) > 0 {
			keys = append(keys, &Keys[i])
		}
	}
	return keys
}
