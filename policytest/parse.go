package policytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/yaml"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
)

// Suffix ends the names of files of tests. The short ending of YAML does as well.
const (
	Suffix      = "_test.yaml"
	suffixShort = "_test.yml"
)

// Read reads a file of tests, and returns all that is wrong with it.
func Read(file string) (*File, []*policy.Error) {
	data, err := os.ReadFile(file)
	if err != nil {
		if at, ok := errors.AsType[*os.PathError](err); ok {
			err = at.Err
		}
		return nil, []*policy.Error{{File: file, Msg: "cannot be read: " + err.Error()}}
	}
	return Parse(file, data)
}

// Parse reads the text of a file of tests. It returns all that is wrong with it; the File
// counts only where that is nothing. Files that the tests name are looked for beside it.
func Parse(file string, data []byte) (*File, []*policy.Error) {
	root, err := yaml.Parse(data)
	if err != nil {
		at, _ := errors.AsType[*yaml.Error](err)
		return nil, []*policy.Error{{File: file, Line: at.Line, Col: at.Col, Msg: at.Msg}}
	}
	p := &parser{File: &File{Path: file}, names: map[string]int{}}
	p.file(root)
	return p.File, p.errs
}

// parser collects what is wrong instead of stopping at the first thing.
type parser struct {
	*File
	errs  []*policy.Error
	vars  []string       // pairs of what stands for something, and what
	names map[string]int // of tests, and their lines
}

func (p *parser) fail(n *yaml.Node, hint, format string, args ...any) {
	p.errs = append(p.errs, &policy.Error{File: p.Path, Line: n.Line, Col: n.Col, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// unknown says that a word is none of those that are known.
func (p *parser) unknown(n *yaml.Node, what string, known []string) {
	hint := ""
	if near := policy.Nearest(n.Text, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	} else if len(known) <= 20 {
		hint = "there are " + strings.Join(known, ", ")
	}
	p.fail(n, hint, "unknown %s %q", what, n.Text)
}

// A key is one of a mapping.
type key struct {
	name string
	read func(*yaml.Node)
}

// keys has the keys of a mapping read, in the order of the file.
func (p *parser) keys(n *yaml.Node, what string, keys ...key) {
	if n.Kind != yaml.Map {
		p.fail(n, "", "%s must be a mapping, not %s", what, n.Kind)
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
			if n.Text != "1" {
				p.fail(n, "write `version: 1`", "version %s is not known", n.Text)
			}
		}},
		{"policy", func(n *yaml.Node) { of, p.Policy = n, p.beside(p.text(n)) }},
		{"pack", func(n *yaml.Node) {
			if p.Pack = p.text(n); !slices.Contains(packs.All.Names(), p.Pack) {
				p.unknown(n, "pack", packs.All.Names())
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
		p.fail(of, "write one file for each", "a file tests a policy or a pack, and not both")
	}
	if p.Pack == "" && n.Get("policy") == nil {
		p.tested(n)
	}
	switch {
	case tests == nil:
		p.fail(n, "for example `tests: [{command: git push --force, want: block}]`", "there are no tests")
	case tests.Kind != yaml.List:
		p.fail(tests, "", "tests must be a list, not %s", tests.Kind)
	default:
		for _, item := range tests.Items {
			p.test(p.filled(item))
		}
	}
}

// tested finds the policy of a file that does not name it: NAME.yaml of NAME_test.yaml.
func (p *parser) tested(n *yaml.Node) {
	base, ok := strings.CutSuffix(p.Path, Suffix)
	if !ok {
		base, ok = strings.CutSuffix(p.Path, suffixShort)
	}
	if !ok {
		p.fail(n, "write `policy: FILE`", "it is not said which policy is tested, and the file is not called NAME%s", Suffix)
		return
	}
	for _, ending := range []string{".yaml", ".yml"} {
		if _, err := os.Stat(base + ending); err == nil {
			p.Policy = base + ending
			return
		}
	}
	p.fail(n, "write `policy: FILE`", "there is no policy %s beside it", filepath.Base(base)+".yaml")
}

// beside is a path that the file names.
func (p *parser) beside(path string) string {
	if path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "/") {
		return path // also the absolute path of another system: an agent may work there
	}
	return filepath.Join(filepath.Dir(p.Path), filepath.FromSlash(path))
}

func (p *parser) variables(n *yaml.Node) {
	p.vars = []string{"$${", "${"}
	if n.Kind != yaml.Map {
		p.fail(n, "for example `vars: {main: main}`", "vars must be a mapping, not %s", n.Kind)
		return
	}
	for _, pair := range n.Pairs {
		if !variable.MatchString(pair.Key.Text) {
			p.fail(pair.Key, "", "%q is no name for a variable: letters, digits and _ are", pair.Key.Text)
		}
		p.vars = append(p.vars, "${"+pair.Key.Text+"}", p.text(pair.Value))
	}
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// filled is a node with the variables of the file in its texts. What is no variable of the
// file stays, since a shell line has variables too.
func (p *parser) filled(n *yaml.Node) *yaml.Node {
	if p.vars == nil {
		return n
	}
	return fill(n, strings.NewReplacer(p.vars...).Replace)
}

// fill is a node with its texts changed.
func fill(n *yaml.Node, change func(string) string) *yaml.Node {
	out := *n
	if n.Kind == yaml.String {
		out.Text = change(n.Text)
	}
	out.Items, out.Pairs = nil, nil
	for _, item := range n.Items {
		out.Items = append(out.Items, fill(item, change))
	}
	for _, pair := range n.Pairs {
		out.Pairs = append(out.Pairs, yaml.Pair{Key: pair.Key, Value: fill(pair.Value, change)})
	}
	return &out
}

// test reads a test, or each row of one that is a table.
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

// row reads one test. in is the name of the table that it is in.
func (p *parser) row(n *yaml.Node, in string) {
	t := &Test{File: p.File, Line: n.Line, Col: n.Col}
	before := len(p.errs)
	want := false
	p.event(n, "a test", &t.Event,
		key{"name", func(n *yaml.Node) { t.Name = p.text(n) }},
		key{"skip", func(n *yaml.Node) {
			if t.Skip = n.Text; n.Kind != yaml.String {
				p.fail(n, "for example `skip: until the server answers`", "skip must say why")
			}
		}},
		key{"agents", func(n *yaml.Node) { t.Agents = p.agents(n) }},
		key{"cwd", func(n *yaml.Node) { t.CWD = p.beside(p.text(n)) }},
		key{"files", func(n *yaml.Node) { t.Files = p.seeds(n) }},
		key{"programs", func(n *yaml.Node) { t.Programs = p.answers(n) }},
		key{"before", func(n *yaml.Node) { t.Before = p.events(n) }},
		key{"want", func(n *yaml.Node) {
			want = true
			t.Want = p.want(n)
		}},
	)
	switch {
	case len(p.errs) > before:
		return
	case !want:
		p.fail(n, "for example `want: block`", "the test does not say what it wants")
	case len(t.Files) > 0 && t.CWD != "":
		p.fail(n.Get("cwd"), "leave `cwd` out", "the agent works where `files` are, and that is a new directory")
	}
	parts := []string{t.Event.String()}
	for i := range slices.Backward(t.Before) {
		parts = append(parts, t.Before[i].String())
	}
	said := strings.Join(parts, ", after ")
	own := t.Name != ""
	switch {
	case !own && in != "":
		t.Name = in + ": " + said
	case !own:
		t.Name = said
	case in != "":
		t.Name = in + ": " + t.Name
	}
	if first := p.names[t.Name]; first > 0 && own {
		p.fail(n, "names are unique in a file", "the test %q stands twice, first in line %d", t.Name, first)
	} else if first > 0 {
		t.Name += fmt.Sprintf(" (line %d)", n.Line)
	}
	p.names[t.Name] = n.Line
	p.Tests = append(p.Tests, t)
}

// events reads those that come before: texts are commands.
func (p *parser) events(n *yaml.Node) []Event {
	var list []Event
	for _, item := range itemsOf(n) {
		var ev Event
		if item.Kind == yaml.String {
			ev = Event{Line: item.Line, Col: item.Col, Tool: string(grapnel.ClassShell), Command: &item.Text}
		} else {
			p.event(item, "an event", &ev)
		}
		list = append(list, ev)
	}
	return list
}

// event reads the keys of an event, and others that are beside them.
func (p *parser) event(n *yaml.Node, what string, ev *Event, beside ...key) {
	ev.Line, ev.Col = n.Line, n.Col
	text := func(to **string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			if n.Kind == yaml.List || n.Kind == yaml.Map || n.Kind == yaml.Null {
				p.fail(n, "", "want text, not %s", n.Kind)
			}
			*to = &n.Text
		}
	}
	before := len(p.errs)
	p.keys(n, what, append(beside,
		key{"tool", func(n *yaml.Node) { ev.Tool = p.text(n) }},
		key{"command", text(&ev.Command)},
		key{"path", text(&ev.Path)},
		key{"content", text(&ev.Content)},
		key{"url", text(&ev.URL)},
		key{"input", func(n *yaml.Node) {
			if ev.Input = n.JSON(); n.Kind != yaml.Map {
				p.fail(n, "for example `input: {timeout: 5}`", "input must be a mapping, not %s", n.Kind)
			}
		}},
		key{"output", func(n *yaml.Node) { ev.Output = n.JSON() }},
		key{"error", text(&ev.Error)},
		key{"prompt", text(&ev.Prompt)},
		key{"event", func(n *yaml.Node) { ev.Plain = p.plain(n) }},
		key{"payload", func(n *yaml.Node) { p.payload(n, ev) }},
		key{"agent", func(n *yaml.Node) { ev.Agent = p.agent(n) }},
		key{"mode", func(n *yaml.Node) { ev.Mode = p.text(n) }},
		key{"subagent", func(n *yaml.Node) { ev.Subagent = p.text(n) }},
	)...)
	if len(p.errs) == before {
		p.whole(n, what, ev)
	}
}

// whole finds what does not go together.
func (p *parser) whole(n *yaml.Node, what string, ev *Event) {
	call := ev.Tool != "" || ev.Command != nil || ev.Path != nil || ev.Content != nil || ev.URL != nil || ev.Input != nil
	var said []string
	for _, form := range []struct {
		name string
		is   bool
	}{{"a call", call}, {"prompt", ev.Prompt != nil}, {"event", ev.Plain != nil}, {"payload", ev.Payload != nil}} {
		if form.is {
			said = append(said, form.name)
		}
	}
	switch {
	case len(said) == 0:
		p.fail(n, "write one of `command`, `tool`, `prompt`, `event` and `payload`", "%s says nothing that happens", what)
		return
	case len(said) > 1:
		p.fail(n, "write one test for each", "%s says several things that happen: %s", what, strings.Join(said, ", "))
		return
	case !call && (ev.Output != nil || ev.Error != nil):
		p.fail(n, "", "`output` and `error` go with a call of a tool")
		return
	case ev.Output != nil && ev.Error != nil:
		p.fail(n, "", "a call has an `output` or an `error`, and not both")
		return
	case ev.Agent != "" && ev.Payload == nil:
		p.fail(n.Get("agent"), "`agents:` says in which agents a test holds", "`agent` goes with `payload`")
		return
	case ev.Payload != nil && ev.Agent == "" && dialect.Detect(ev.Payload) == nil:
		p.fail(n.Get("payload"), "write `agent:` beside it", "nobody can tell which agent sent this payload")
		return
	case (ev.Mode != "" || ev.Subagent != "") && !call && ev.Prompt == nil:
		p.fail(n, "", "`mode` and `subagent` go with a call of a tool and with a prompt")
		return
	}
	if call {
		if _, _, err := ev.call(); err != nil {
			p.fail(n, err.hint, "%s", err.msg)
		}
	}
}

// plain reads an event of the plain dialect.
func (p *parser) plain(n *yaml.Node) json.RawMessage {
	if n.Kind == yaml.String {
		n = &yaml.Node{Kind: yaml.Map, Line: n.Line, Col: n.Col, Pairs: []yaml.Pair{{Key: &yaml.Node{Kind: yaml.String, Text: "kind"}, Value: n}}}
	}
	kind := (*yaml.Node)(nil)
	if n.Kind == yaml.Map {
		kind = n.Get("kind")
	}
	if kind == nil {
		p.fail(n, "for example `event: {kind: session.start}`", "the event has no kind")
		return n.JSON()
	}
	kinds := dialect.Kinds(kind.Text)
	if len(kinds) == 0 {
		var known []string
		for _, c := range grapnel.Contracts {
			known = append(known, string(c.Kind))
		}
		p.unknown(kind, "event", known)
		return n.JSON()
	}
	named := *n
	named.Pairs = slices.Clone(n.Pairs)
	for i := range named.Pairs {
		if named.Pairs[i].Value == kind {
			named.Pairs[i].Value = &yaml.Node{Kind: yaml.String, Text: string(kinds[0])}
		}
	}
	return named.JSON()
}

// payload reads what an agent sent: as it stands, or from a file.
func (p *parser) payload(n *yaml.Node, ev *Event) {
	switch n.Kind {
	case yaml.Map:
		ev.Payload = n.JSON()
	case yaml.String:
		name := p.beside(n.Text)
		data, err := os.ReadFile(name)
		if err != nil {
			if at, ok := errors.AsType[*os.PathError](err); ok {
				err = at.Err
			}
			p.fail(n, "", "the payload %s cannot be read: %v", n.Text, err)
			return
		}
		if err := ev.recorded(name, data); err != nil {
			p.fail(n, "", "the payload %s: %v", n.Text, err)
		}
	default:
		p.fail(n, "write what the agent sent, or the name of a file with it", "payload must be a mapping or a file, not %s", n.Kind)
	}
}

func (p *parser) want(n *yaml.Node) Want {
	if n.Kind != yaml.Map {
		return Want{Line: n.Line, Col: n.Col, Decision: p.decisions(n)}
	}
	w := Want{Line: n.Line, Col: n.Col}
	p.keys(n, "want", append(p.wanted(&w),
		key{"would", func(n *yaml.Node) { w.Would = p.decisions(n) }},
		key{"failed", func(n *yaml.Node) { w.Failed = p.words(n) }},
		key{"not", func(n *yaml.Node) {
			w.Not = &Want{Line: n.Line, Col: n.Col}
			if n.Kind == yaml.String {
				w.Not.Decision = p.decisions(n)
				return
			}
			p.keys(n, "not", p.wanted(w.Not)...)
		}},
		key{"reply", func(n *yaml.Node) { w.reply("", p.reply(n)) }},
		key{"replies", func(n *yaml.Node) {
			for _, pair := range p.pairs(n, "replies") {
				w.reply(p.agent(pair.Key), p.reply(pair.Value))
			}
		}},
	)...)
	if len(n.Pairs) == 0 {
		p.fail(n, "for example `want: {decision: block, rule: no-force-push}`", "the test wants nothing")
	}
	return w
}

// wanted are the keys of a Want that may stand in a `not:` too.
func (p *parser) wanted(w *Want) []key {
	return []key{
		{"decision", func(n *yaml.Node) { w.Decision = p.decisions(n) }},
		{"reason", func(n *yaml.Node) { w.Reason = p.pattern(n) }},
		{"rule", func(n *yaml.Node) { w.Rule = p.words(n) }},
		{"changes", func(n *yaml.Node) {
			w.Changes = map[grapnel.Field]json.RawMessage{}
			for _, pair := range p.pairs(n, "changes") {
				w.Changes[p.field(pair.Key)] = pair.Value.JSON()
			}
		}},
		{"context", func(n *yaml.Node) { w.Context = p.patterns(n) }},
		{"message", func(n *yaml.Node) { w.Message = p.patterns(n) }},
		{"halt", func(n *yaml.Node) { w.Halt = p.pattern(n) }},
		{"lost", func(n *yaml.Node) { w.Lost = p.patterns(n) }},
	}
}

func (w *Want) reply(agent string, r Reply) {
	if w.Replies == nil {
		w.Replies = map[string]Reply{}
	}
	w.Replies[agent] = r
}

func (p *parser) reply(n *yaml.Node) Reply {
	var r Reply
	stream := func(to **Text) func(*yaml.Node) {
		return func(n *yaml.Node) {
			switch n.Kind {
			case yaml.Map, yaml.List:
				*to = &Text{Text: string(n.JSON()), Whole: true}
			case yaml.Null:
				*to = &Text{Whole: true}
			default:
				t := p.pattern(n)
				t.Whole = t.re == nil
				*to = t
			}
		}
	}
	p.keys(n, "reply", key{"stdout", stream(&r.Stdout)}, key{"stderr", stream(&r.Stderr)}, key{"exit", func(n *yaml.Node) { r.Exit = p.integer(n) }})
	return r
}

// answers reads what is said in place of programs and servers.
func (p *parser) answers(n *yaml.Node) map[string]Answer {
	answers := map[string]Answer{}
	for _, pair := range p.pairs(n, "programs") {
		answers[pair.Key.Text] = p.answer(pair.Key, pair.Value)
	}
	return answers
}

func (p *parser) answer(name, n *yaml.Node) Answer {
	a := Answer{Line: name.Line, Col: name.Col}
	if n.Kind == yaml.String {
		if decisions := p.decisions(n); len(decisions) == 1 {
			a.Outcome.Decision = decisions[0]
		}
		return a
	}
	decide := func(d grapnel.Decision) func(*yaml.Node) {
		return func(n *yaml.Node) {
			a.Outcome.Decision = max(a.Outcome.Decision, d)
			if n.Kind == yaml.String {
				a.Outcome.Reason = n.Text
			} else if n.Kind != yaml.Bool || n.Text != "true" {
				p.fail(n, "", "%s must be the reason, or true", d)
			}
		}
	}
	output := func() *Output {
		if a.Output == nil {
			a.Output = &Output{}
		}
		return a.Output
	}
	fields := func(to *map[grapnel.Field]json.RawMessage) func(*yaml.Node) {
		return func(n *yaml.Node) {
			*to = map[grapnel.Field]json.RawMessage{}
			for _, pair := range p.pairs(n, "the fields") {
				(*to)[p.field(pair.Key)] = pair.Value.JSON()
			}
		}
	}
	p.keys(n, "an answer",
		key{"block", decide(grapnel.Block)}, key{"ask", decide(grapnel.Ask)}, key{"allow", decide(grapnel.Allow)},
		key{"message", func(n *yaml.Node) { a.Outcome.Message = p.text(n) }},
		key{"context", func(n *yaml.Node) {
			for _, item := range itemsOf(n) {
				a.Outcome.Context = append(a.Outcome.Context, p.text(item))
			}
		}},
		key{"set", fields(&a.Outcome.Set)}, key{"patch", fields(&a.Outcome.Patch)},
		key{"halt", func(n *yaml.Node) { a.Outcome.Halt = p.text(n) }},
		key{"exit", func(n *yaml.Node) { output().Exit = *p.integer(n) }},
		key{"stdout", func(n *yaml.Node) { output().Stdout = p.written(n) }},
		key{"stderr", func(n *yaml.Node) { output().Stderr = p.written(n) }},
		key{"error", func(n *yaml.Node) { a.Error = p.text(n) }},
		key{"timeout", func(n *yaml.Node) {
			if a.Timeout = n.Text == "true"; n.Kind != yaml.Bool {
				p.fail(n, "", "want true or false, not %q", n.Text)
			}
		}},
	)
	if out := &a.Outcome; a.Output != nil && (out.Decision > grapnel.None || out.Message != "" || out.Halt != "" || out.Context != nil || out.Set != nil || out.Patch != nil) {
		p.fail(n, "write the one or the other", "an answer is what the program leaves (exit, stdout, stderr) or what it means")
	}
	return a
}

// written is what a program writes: a mapping is written as JSON.
func (p *parser) written(n *yaml.Node) string {
	if n.Kind == yaml.Map || n.Kind == yaml.List {
		return string(n.JSON())
	}
	return n.Text
}

func (p *parser) seeds(n *yaml.Node) []Seed {
	var seeds []Seed
	for _, pair := range p.pairs(n, "files") {
		s := Seed{Name: pair.Key.Text}
		if !filepath.IsLocal(filepath.FromSlash(s.Name)) {
			p.fail(pair.Key, "names are relative, as src/main.go", "the file %q would lie outside of the project", s.Name)
		}
		if v := pair.Value; v.Kind == yaml.Map {
			p.keys(v, "a file", key{"from", func(n *yaml.Node) {
				s.From = p.beside(p.text(n))
				if _, err := os.Stat(s.From); err != nil {
					p.fail(n, "", "there is no %s", n.Text)
				}
			}})
		} else if s.Text = v.Text; v.Kind == yaml.List {
			p.fail(v, "", "want the text of the file, not %s", v.Kind)
		}
		seeds = append(seeds, s)
	}
	return seeds
}

// pairs are those of a mapping.
func (p *parser) pairs(n *yaml.Node, what string) []yaml.Pair {
	if n.Kind != yaml.Map {
		p.fail(n, "", "%s must be a mapping, not %s", what, n.Kind)
	}
	return n.Pairs
}

// itemsOf lists what stands alone or in a list.
func itemsOf(n *yaml.Node) []*yaml.Node {
	if n.Kind == yaml.List {
		return n.Items
	}
	return []*yaml.Node{n}
}

func (p *parser) text(n *yaml.Node) string {
	if n.Kind == yaml.List || n.Kind == yaml.Map || n.Kind == yaml.Null || n.Text == "" {
		p.fail(n, "", "want text, not %s", n.Kind)
	}
	return n.Text
}

func (p *parser) words(n *yaml.Node) []policy.Word {
	words := []policy.Word{}
	for _, item := range itemsOf(n) {
		words = append(words, policy.Word{Text: p.text(item), Line: item.Line, Col: item.Col})
	}
	return words
}

func (p *parser) integer(n *yaml.Node) *int {
	i, err := strconv.Atoi(n.Text)
	if err != nil || n.Kind != yaml.Number {
		p.fail(n, "", "want a whole number, not %q", n.Text)
	}
	return &i
}

func (p *parser) decisions(n *yaml.Node) []grapnel.Decision {
	list := []grapnel.Decision{}
	for _, item := range itemsOf(n) {
		var d grapnel.Decision
		if item.Kind != yaml.String || d.UnmarshalText([]byte(item.Text)) != nil {
			p.unknown(item, "decision", []string{"none", "allow", "ask", "block"})
		}
		list = append(list, d)
	}
	return list
}

func (p *parser) scope(n *yaml.Node) grapnel.Scope {
	known := []string{}
	for _, s := range []grapnel.Scope{grapnel.ScopeUser, grapnel.ScopeProject, grapnel.ScopeManaged} {
		if n.Text == s.String() {
			return s
		}
		known = append(known, s.String())
	}
	p.unknown(n, "scope", known)
	return 0
}

func (p *parser) agents(n *yaml.Node) []string {
	var agents []string
	for _, item := range itemsOf(n) {
		if name := p.agent(item); slices.Contains(agents, name) {
			p.fail(item, "", "the agent %s stands twice", name)
		} else {
			agents = append(agents, name)
		}
	}
	return agents
}

func (p *parser) agent(n *yaml.Node) string {
	d, ok := dialect.FindAgent(n.Text)
	if !ok {
		known := dialect.Names()
		for _, d := range dialect.Dialects {
			known = append(known, d.Aliases...)
		}
		p.unknown(n, "agent", known)
		return n.Text
	}
	return d.Name
}

func (p *parser) field(n *yaml.Node) grapnel.Field {
	known := fields()
	if !slices.Contains(known, n.Text) {
		p.unknown(n, "field", known)
	}
	return grapnel.Field(n.Text)
}

// fields lists what of an event can change.
func fields() []string {
	names := []string{string(grapnel.FieldCommand), string(grapnel.FieldPath), string(grapnel.FieldURL), string(grapnel.FieldContent)}
	for _, c := range grapnel.Contracts {
		for _, change := range c.Changes {
			if !slices.Contains(names, string(change.Field)) {
				names = append(names, string(change.Field))
			}
		}
	}
	return names
}

// pattern reads a part of a text, or /RE2/.
func (p *parser) pattern(n *yaml.Node) *Text {
	t := &Text{Text: n.Text}
	if n.Kind == yaml.List || n.Kind == yaml.Map || n.Kind == yaml.Null {
		p.fail(n, "", "want text, not %s", n.Kind)
	}
	if re := n.Text; len(re) > 2 && re[0] == '/' && re[len(re)-1] == '/' {
		var err error
		if t.re, err = regexp.Compile(re[1 : len(re)-1]); err != nil {
			p.fail(n, "the syntax is that of RE2", "%v", err)
		}
	}
	return t
}

func (p *parser) patterns(n *yaml.Node) []Text {
	list := []Text{}
	for _, item := range itemsOf(n) {
		list = append(list, *p.pattern(item))
	}
	return list
}
