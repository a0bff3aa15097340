package policy

import (
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A format is a kind of file that another system keeps its hooks in, by the name
// that `load:` has for it.
type format struct {
	name  string
	agent string // whose id; it runs these files by itself, so its events do not reach the hooks. Empty = none does

	// Where the files are: doublestar patterns, in the order in which the system
	// reads them. Those of a user are below the home directory and beside the policy
	// file, those of a project beside its policy file; managed ones are absolute.
	user, project, managed []string

	preset string // whose Defaults its hooks get; empty = that of its name

	// parse reads all files of one `load:` entry. It is pure, never panics, and says
	// what is wrong entry by entry: what is wrong is left out, the rest stays.
	parse func(files []foreignFile) foreign
}

// formatNames are what `load:` knows.
var formatNames = []string{"claude-code", "gemini-cli", "miniclaw", "flyto", "openclaw", "ironclaw"}

// formats are those of the formatNames: a function, so that only programs hold them that
// call it.
func formats() []*format {
	return []*format{claudeFormat, geminiFormat, miniclawFormat, flytoFormat, openclawFormat, ironClawFormat}
}

// linked is what reads files in the words of others, once [LinkForeign] was called.
var linked *foreignReaders

type foreignReaders struct {
	load   func(Request, File, *policyfile.Policy, *Trust) ([]grapnel.Spec, []Loaded)
	source func(Request, grapnel.Source) ([]grapnel.Spec, error)
	rules  func(*policyfile.Policy, string, reader) []*policyfile.Error
	toml   func([]byte) (*tree.Node, *tree.Error)
}

// LinkForeign lets policies load hook files of other systems, and rules for secrets in the
// format of gitleaks. Import github.com/grapnel-dev/grapnel/policy/foreign to have it called.
//
// It stands apart because of its weight: a program that is started for each event does
// without, and lets another answer where [Set].Beyond says so. Call it before the first
// [Load], and not at the same time. The reader of TOML is handed in, since a program that
// imports its parser cannot but hold it.
func LinkForeign(toml func([]byte) (*tree.Node, *tree.Error)) {
	linked = &foreignReaders{Request.loadForeign, Request.loadForeignSource, readRules, toml}
}

// readTOML reads a file as [LinkForeign] was told to.
func readTOML(data []byte) (*tree.Node, *tree.Error) {
	if linked == nil {
		return nil, &tree.Error{Line: 1, Col: 1, Msg: cannotRead + ": " + linksForeign}
	}
	return linked.toml(data)
}

// wrongIn is what is wrong with a file.
func wrongIn(file string, err *tree.Error) *policyfile.Error {
	return &policyfile.Error{File: file, Line: err.Line, Col: err.Col, Msg: err.Msg}
}

// rules reads the files of rules for secrets that a policy file names.
func (req Request) rules(p *policyfile.Policy, file string, read reader) []*policyfile.Error {
	switch {
	case p.Secrets == nil || len(p.Secrets.Files) == 0 && linked == nil:
		return nil
	case linked == nil:
		req.leave()
		return []*policyfile.Error{notLinked(file, p.Secrets.Files[0])}
	}
	return linked.rules(p, file, read)
}

// foreign loads what the `load:` of a policy names.
func (req Request) foreign(file File, policy *policyfile.Policy, trust *Trust) ([]grapnel.Spec, []Loaded) {
	if linked == nil {
		req.leave()
		return []grapnel.Spec{brokenSpec(sourceOf(file), notLinked(file.Path, policy.Load[0].Format))}, nil
	}
	return linked.load(req, file, policy, trust)
}

// leave notes that another program has to load the policies.
func (req Request) leave() {
	if req.beyond != nil {
		*req.beyond = true
	}
}

const (
	cannotRead   = "this program cannot read files in the words of other systems"
	linksForeign = "a Go program that does imports github.com/grapnel-dev/grapnel/policy/foreign"
)

func notLinked(file string, at policyfile.Word) *policyfile.Error {
	return &policyfile.Error{File: file, Line: at.Line, Col: at.Col, Msg: cannotRead, Hint: linksForeign}
}

// A foreignFile is one file of a format.
type foreignFile struct {
	path   string // absolute
	name   string // below the directory it was found in, with slashes: hooks/hooks.json
	source grapnel.Source
	data   []byte
	own    bool   // it is where its system looks for it, and holds what is in force: that system runs its hooks by itself
	where  string // if it works in this directory; empty = in any
}

// foreign is what the files of one entry hold.
type foreign struct {
	hooks  []foreignHook       // in the order in which the system would run them
	broken []*policyfile.Error // files that could not be read at all: no hook of them is there. At most one for each
	errors []*policyfile.Error // entries that are left out, in order
	notes  []*policyfile.Error // entries that are kept, and of which something does not count
}

// A foreignHook is one hook of a foreign file: what a policy could say of it too, and
// what only its own system can say.
type foreignHook struct {
	policyfile.Hook          // Name, Line, On, Priority, Timeout, OnError, Run (with Speaks); Match where a policy's words say the same
	file            int      // index of its file
	at              string   // where it stands in it: hooks.PreToolUse[0].hooks[1]
	lost            []string // what a policy cannot say of it, a clause each: "the matcher \"mcp__.*\" ..."

	match      grapnel.Matcher // beside Match; nil = none
	hook       grapnel.Hook    // a rule that only its system has; Phase is then phase. nil = Run or webhook
	phase      grapnel.Phase
	rule       *IronClawRule // what hook was made of; nil = no rule of IronClaw's
	webhook    *Webhook
	sequential bool
	off        bool // it does not run: it is wrong, one of another file does the same, or its file is loaded already
	key        string
}

// A Webhook is an address that is told of events and has no say in them.
type Webhook struct {
	Name        string              `json:"name"` // of the hook, with its source: it is part of the body
	URL         string              `json:"url"`
	Headers     map[string]string   `json:"headers,omitempty"`
	Timeout     policyfile.Duration `json:"timeout,omitempty"`
	MaxInFlight int                 `json:"max_in_flight,omitempty"`
	Body        string              `json:"body,omitempty"` // whose words the body is in: ironclaw
}

// The tables of other systems' languages, copied once: a file of hooks is compared with
// them many times, and nothing here changes them.
var (
	claudeCode = sync.OnceValue(dialect.ClaudeCode)
	geminiCLI  = sync.OnceValue(dialect.GeminiCLI)
	flyto      = sync.OnceValue(dialect.Flyto)
	miniclaw   = sync.OnceValue(dialect.Miniclaw)
)
