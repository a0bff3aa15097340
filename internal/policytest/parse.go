package policytest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Suffix is the end of the names of test files. The short extension .yml is also accepted.
const (
	Suffix      = "_test.yaml"
	suffixShort = "_test.yml"
)

// Read reads a test file and returns all its errors.
func Read(file string) (*File, []*policyfile.Error) {
	data, err := readFile(file)
	if err != nil {
		return nil, []*policyfile.Error{{File: file, Msg: "cannot read the file: " + err.Error()}}
	}
	return Parse(file, data)
}

// maxFile is the maximum size of a file in bytes: the limit of grapnel-hook.
const maxFile = 32 << 20

// readFile reads a file. It rejects devices and pipes, which may block or never end. The error
// does not contain the file name.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	var data []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	case info.Size() > maxFile:
		err = fmt.Errorf("it has %d bytes, the limit is %d", info.Size(), maxFile)
	default:
		data, err = os.ReadFile(name)
	}
	if at, ok := errors.AsType[*os.PathError](err); ok {
		err = at.Err
	}
	return data, err
}

// Parse parses the text of a test file and returns all its errors. The File is valid only if Parse
// returns no error. Files that the tests name are relative to the test file.
func Parse(file string, data []byte) (*File, []*policyfile.Error) {
	root, err := yaml.Parse(data)
	if err != nil {
		at, _ := errors.AsType[*yaml.Error](err)
		return nil, []*policyfile.Error{{File: file, Line: at.Line, Col: at.Col, Msg: at.Msg}}
	}
	p := &parser{File: &File{Path: file}, reported: map[policyfile.Error]bool{}, looked: map[*yaml.Node]bool{}, names: map[string]int{}}
	p.file(root)
	return p.File, p.errs
}

// A parser collects all errors instead of stopping at the first one.
type parser struct {
	*File
	errs     []*policyfile.Error
	reported map[policyfile.Error]bool // errors that were already reported
	failed   int                       // number of errors

	replies []*yaml.Node        // the agents with an expected reply
	looked  map[*yaml.Node]bool // and whether a test runs in them
	vars    []string            // pairs of a variable and its value
	names   map[string]int      // lines of the tests by name
}

// fail reports an error once: rows of a table share nodes, which are read for each row.
func (p *parser) fail(n *yaml.Node, hint, format string, args ...any) {
	p.failed++
	err := policyfile.Error{File: p.Path, Line: n.Line, Col: n.Col, Msg: fmt.Sprintf(format, args...), Hint: hint}
	if !p.reported[err] {
		p.reported[err] = true
		p.errs = append(p.errs, &err)
	}
}

// unknown reports a word that is not in the list of known words.
func (p *parser) unknown(n *yaml.Node, what string, known []string) {
	if n.Kind == yaml.List || n.Kind == yaml.Map || n.Kind == yaml.Null {
		p.text(n)
		return
	}
	hint := cmp.Or(didYouMean(n.Text, known), examples[what])
	if hint == "" && len(known) <= 30 {
		hint = "valid values: " + strings.Join(known, ", ")
	}
	p.fail(n, hint, "unknown %s %q", what, n.Text)
}

// A key is a key of a mapping, with its reader.
type key struct {
	name string
	read func(*yaml.Node)
}

// examples has an example for each kind of mapping.
var examples = map[string]string{
	aTest:       "for example `{command: git push --force, want: block}`",
	anEvent:     "write a shell line, or for example `{prompt: hello}`",
	anAnswer:    "for example `none`, `block` or `{block: reason}`",
	theKind:     "for example `session.start`; docs/events.md lists them",
	aWant:       "for example `want: {decision: block, rule: no-force-push}`",
	notThat:     "for example `not: {rule: no-force-push}`",
	aReply:      "for example `{stdout: /deny/, exit: 0}`",
	someReplies: "for example `replies: {gemini-cli: {exit: 0}}`",
}

// Names of the parts of tests for messages.
const (
	aTest       = "a test"
	anEvent     = "an event"
	anAnswer    = "an answer"
	theKind     = "event"
	aWant       = "want"
	notThat     = "not"
	aReply      = "reply"
	someReplies = "replies"
)

// keys reads the keys of a mapping in the order of the file.
func (p *parser) keys(n *yaml.Node, what string, keys ...key) {
	if n.Kind != yaml.Map {
		p.fail(n, examples[what], "%s must be a mapping, not %s", what, n.Kind)
		return
	}
	for _, pair := range n.Pairs {
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == pair.Key.Text })
		if i < 0 {
			var known []string
			for _, k := range keys {
				known = append(known, k.name)
			}
			p.unknown(pair.Key, "key of "+what, known)
			continue
		}
		keys[i].read(pair.Value)
	}
}

func (p *parser) file(n *yaml.Node) {
	if n.Kind == yaml.Null {
		p.fail(n, "write `version: 1` and a list of `tests:`", "the file is empty")
		return
	}
	if vars := n.Get("vars"); vars != nil {
		p.variables(vars)
	}
	var tests *yaml.Node
	of := n
	p.keys(n, "a file of tests", []key{
		{"version", func(n *yaml.Node) {
			if p.text(n) != "1" && n.Text != "" {
				p.fail(n, "write `version: 1`", "unknown version %s", n.Text)
			}
		}},
		{"policy", func(n *yaml.Node) { of, p.Policy = n, p.beside(p.text(n)) }},
		{"pack", func(n *yaml.Node) {
			if p.Pack = p.text(n); p.Pack != "" && !slices.Contains(packs.All().Names(), p.Pack) {
				p.unknown(n, "pack", packs.All().Names())
			}
		}},
		{"scope", func(n *yaml.Node) { p.Scope = p.scope(n) }},
		{"agents", func(n *yaml.Node) { p.Agents = p.agents(n) }},
		{"vars", func(*yaml.Node) {}},
		{"cwd", func(n *yaml.Node) { p.CWD = p.beside(p.text(n)) }},
		{"programs", func(n *yaml.Node) { p.Programs = p.answers(n) }},
		{"tests", func(n *yaml.Node) { tests = n }},
	}...)
	if n.Kind != yaml.Map {
		return
	}
	switch {
	case n.Get("version") == nil:
		p.fail(n, "write `version: 1` as the first line", "the version is missing")
	case p.Pack != "" && n.Get("policy") != nil:
		p.fail(of, "write a separate file for each", "a file tests either a policy or a pack")
	case p.Policy != "":
		if _, err := os.Stat(p.Policy); err != nil {
			p.fail(of, "names are relative to the directory of this file", "policy %s does not exist", of.Text)
		}
	}
	if p.Pack == "" && n.Get("policy") == nil {
		p.tested(n)
	}
	switch {
	case tests == nil:
		p.fail(n, "for example `tests: [{command: git push --force, want: block}]`", "the file has no tests")
	case tests.Kind != yaml.List:
		p.fail(tests, "with a dash before each", "tests must be a list, not %s", tests.Kind)
	default:
		for _, item := range tests.Items {
			p.test(p.filled(item))
		}
		p.unseen()
		p.misspelt(tests)
	}
}

// tested finds the policy of a file that does not name it: NAME.yaml for NAME_test.yaml.
func (p *parser) tested(n *yaml.Node) {
	base, ok := strings.CutSuffix(p.Path, Suffix)
	if !ok {
		base, ok = strings.CutSuffix(p.Path, suffixShort)
	}
	if !ok {
		p.fail(n, "write `policy: FILE`", "the file does not name the policy, and its own name is not NAME%s", Suffix)
		return
	}
	for _, ending := range []string{".yaml", ".yml"} {
		if _, err := os.Stat(base + ending); err == nil {
			p.Policy = base + ending
			return
		}
	}
	p.fail(n, "write `policy: FILE`", "policy %s does not exist in its directory", filepath.Base(base)+".yaml")
}

// beside returns a path in the file, relative to the directory of the file.
func (p *parser) beside(path string) string {
	if path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "/") {
		return path // this may be an absolute path of another system where an agent works
	}
	return filepath.Join(filepath.Dir(p.Path), filepath.FromSlash(path))
}

// test reads a test, or each row of a test with a table.
func (p *parser) test(n *yaml.Node) {
	each := (*yaml.Node)(nil)
	if n.Kind == yaml.Map {
		each = n.Get("each")
	}
	if each == nil {
		p.row(n, "")
		return
	}
	if each.Kind != yaml.List || len(each.Items) == 0 {
		p.fail(each, "for example `each: [git push -f, git push --force]`", "each must be a list of rows")
		return
	}
	name := ""
	if n.Get("name") != nil {
		name = p.text(n.Get("name"))
	}
	for _, item := range each.Items {
		if item.Kind == yaml.Map && item.Get("each") != nil {
			p.fail(item.Get("each"), "write a separate table", "a row of a table cannot be a table")
			continue
		}
		row := &yaml.Node{Kind: yaml.Map, Line: item.Line, Col: item.Col}
		over := item
		if item.Kind != yaml.Map {
			over = &yaml.Node{Kind: yaml.Map, Pairs: []yaml.Pair{{Key: &yaml.Node{Kind: yaml.String, Text: "command", Line: item.Line, Col: item.Col}, Value: item}}}
		}
		for _, pair := range n.Pairs {
			if k := pair.Key.Text; k != "each" && k != "name" && over.Get(k) == nil {
				row.Pairs = append(row.Pairs, pair)
			}
		}
		row.Pairs = append(row.Pairs, over.Pairs...)
		p.row(row, name)
	}
}

// mostPassing is the maximum time that may pass in a test. No hook remembers more.
const mostPassing = policyfile.Duration(365 * 24 * time.Hour)

// passing checks the times between the events of a test.
func (p *parser) passing(n *yaml.Node, t *Test) {
	var passed policyfile.Duration
	for i, ev := range append(slices.Clip(t.Before), t.Event) {
		at := n.Get("later")
		if before := n.Get("before"); i < len(t.Before) {
			at = itemsOf(before)[i].Get("later")
		}
		passed += ev.Later
		switch {
		case ev.Later == 0:
		case i == 0:
			p.fail(at, "write the earlier events as `before:`", "`later` needs an earlier event")
			return
		case ev.Later > mostPassing || passed > mostPassing:
			p.fail(at, "no hook remembers anything that long", "more than %v pass in this test", mostPassing)
			return
		}
	}
}

// row reads one test. in is the name of its table.
func (p *parser) row(n *yaml.Node, in string) {
	t := &Test{File: p.File, Line: n.Line, Col: n.Col}
	before := p.failed
	want := false
	var files, checkouts []Seed
	p.event(n, aTest, &t.Event,
		key{"name", func(n *yaml.Node) { t.Name = p.text(n) }},
		key{"skip", func(n *yaml.Node) {
			if t.Skip = n.Text; n.Kind != yaml.String {
				p.fail(n, "for example `skip: until the server answers`", "skip must give a reason")
			}
		}},
		key{"agents", func(n *yaml.Node) { t.Agents = p.agents(n) }},
		key{"cwd", func(n *yaml.Node) { t.CWD = p.beside(p.text(n)) }},
		key{"files", func(n *yaml.Node) { files = p.seeds(n) }},
		key{"branch", func(n *yaml.Node) { checkouts = p.checkouts(n) }},
		key{"programs", func(n *yaml.Node) { t.Programs = p.answers(n) }},
		key{"before", func(n *yaml.Node) { t.Before = p.events(n) }},
		key{"want", func(n *yaml.Node) {
			want = true
			t.Want = p.want(n)
		}},
	)
	t.Files = append(files, checkouts...)
	switch {
	case p.failed > before:
		return
	case !want:
		p.fail(n, "for example `want: block`", "the test has no `want`")
		return
	case len(t.Files) > 0 && t.CWD != "":
		p.fail(n.Get("cwd"), "leave `cwd` out", "with `files` or `branch`, the working directory is a new directory")
	}
	p.sent(n, &t.Event, t.Agents)
	for i := range t.Before {
		p.sent(itemsOf(n.Get("before"))[i], &t.Before[i], t.Agents)
	}
	p.passing(n, t)
	p.looksAt(n.Get("want"), t.In())
	own := t.Name != ""
	if !own {
		t.Name = t.defaultName()
	}
	if in != "" {
		t.Name = in + ": " + t.Name
	}
	if first := p.names[t.Name]; first > 0 && own {
		p.fail(n, "names must be unique in a file; a test without a name is named after its events", "two tests have the name %q, the first in line %d", t.Name, first)
	} else if first > 0 {
		name := t.Name
		t.Name = fmt.Sprintf("%s (line %d)", name, n.Line)
		for i := len(p.Tests) + 1; p.names[t.Name] > 0; i++ { // several tests may be in one line
			t.Name = fmt.Sprintf("%s (line %d, test %d)", name, n.Line, i)
		}
	}
	p.names[t.Name] = n.Line
	p.Tests = append(p.Tests, t)
}

func (p *parser) seeds(n *yaml.Node) []Seed {
	var seeds []Seed
	for _, pair := range p.pairs(n, "files") {
		s := Seed{Name: pair.Key.Text, Line: pair.Key.Line, Col: pair.Key.Col}
		local := filepath.Clean(filepath.FromSlash(s.Name))
		if !filepath.IsLocal(filepath.FromSlash(s.Name)) || local == "." {
			p.fail(pair.Key, "write a relative name, for example src/main.go", "the file %q is outside of the project", s.Name)
		}
		for _, other := range seeds {
			if in, err := filepath.Rel(filepath.FromSlash(other.Name), local); err == nil && filepath.IsLocal(in) && other.From == "" {
				p.fail(pair.Key, "write another path", "%q is already a file of this project, in line %d", other.Name, other.Line)
			}
		}
		if v := pair.Value; v.Kind == yaml.Map {
			p.keys(v, "a file", key{"from", func(n *yaml.Node) {
				s.From = p.beside(p.text(n))
				if _, err := os.Stat(s.From); err != nil && n.Text != "" {
					p.fail(n, "names are relative to the directory of this file", "%s does not exist", n.Text)
				}
			}})
			if len(v.Pairs) == 0 {
				p.fail(v, "write its text, or for example `{from: main.go}`", "the file %s has no content", s.Name)
			}
		} else if s.Text = v.Text; v.Kind == yaml.List {
			p.fail(v, "", "want the text of the file, not %s", v.Kind)
		}
		seeds = append(seeds, s)
	}
	return seeds
}

// checkouts returns the files of git that put the project on a branch, or each of several directories
// on a separate branch.
func (p *parser) checkouts(n *yaml.Node) (seeds []Seed) {
	pairs := []yaml.Pair{{Key: &yaml.Node{Text: ".", Line: n.Line, Col: n.Col}, Value: n}}
	if n.Kind == yaml.Map {
		pairs = p.pairs(n, "branch")
	}
	for _, pair := range pairs {
		dir, branch := filepath.ToSlash(filepath.Clean(pair.Key.Text)), p.text(pair.Value)
		if !filepath.IsLocal(filepath.FromSlash(dir)) {
			p.fail(pair.Key, "write a relative name, for example worktree", "the checkout %q is outside of the project", pair.Key.Text)
		}
		switch {
		case branch == "": // already reported
			continue
		case !filepath.IsLocal(branch):
			p.fail(pair.Value, "for example `branch: main`", "%q is not the name of a branch", branch)
			continue
		}
		for _, file := range [][2]string{{"HEAD", "ref: refs/heads/" + branch + "\n"}, {"objects/info/packs", ""}, {"refs/heads/" + branch, strings.Repeat("0", 40) + "\n"}} {
			seeds = append(seeds, Seed{Name: dir + "/.git/" + file[0], Text: file[1], Line: pair.Key.Line, Col: pair.Key.Col})
		}
	}
	return seeds
}
