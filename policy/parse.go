package policy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/glob"
	"github.com/grapnel-dev/grapnel/internal/loss"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/prefilter"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
	"github.com/grapnel-dev/grapnel/systems"
)

// later lists keys that the format reserves for later versions. Messages state that instead of
// suggesting a similar key.
var later = []string{"wasm"}

// Parse parses a policy file. It returns all errors; the Policy is valid only if Parse returns no
// error.
func Parse(file string, data []byte) (*policyfile.Policy, []*policyfile.Error) {
	p := &fileParser{file: file}
	root, err := yaml.Parse(data)
	if err != nil {
		var at *yaml.Error
		errors.As(err, &at)
		if line := conflict(data); line > 0 {
			return nil, []*policyfile.Error{{File: file, Line: line, Col: 1, Msg: "the file has an unresolved merge conflict", Hint: "keep one of the versions, and delete the lines <<<<<<<, ======= and >>>>>>>"}}
		}
		return nil, []*policyfile.Error{{File: file, Line: at.Line, Col: at.Col, Msg: at.Msg}}
	}
	policy := p.policy(root)
	p.knownIDs(policy.Secrets)
	return policy, p.errs
}

// conflict returns the line of the first conflict marker of git, or 0.
func conflict(data []byte) int {
	before, _, ok := bytes.Cut(append([]byte("\n"), data...), []byte("\n<<<<<<< "))
	if !ok {
		return 0
	}
	return bytes.Count(before, []byte("\n")) + 1
}

// fileParser collects errors and continues after each of them.
type fileParser struct {
	file string
	errs []*policyfile.Error

	usedIDs []policyfile.Word // used IDs of secret rules
}

func (p *fileParser) fail(n *yaml.Node, hint, format string, args ...any) {
	p.errs = append(p.errs, &policyfile.Error{File: p.file, Line: n.Line, Col: n.Col, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// A key is a valid key of a mapping, with the function that parses its value.
type key struct {
	name string
	read func(*yaml.Node)
}

// names returns the names of keys, in table order. It clones the strings: otherwise the compiler
// would allocate the functions of each table for each mapping.
func names(keys []key) []string {
	var all []string
	for _, k := range keys {
		all = append(all, strings.Clone(k.name))
	}
	return all
}

// keyOf returns the key with the given name, or nil.
func keyOf(keys []key, name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}

// keysIn returns the keys of a mapping that are in a table, in file order.
func keysIn(n *yaml.Node, keys []key) []string {
	var all []string
	for _, pair := range n.Pairs {
		if keyOf(keys, pair.Key.Text) != nil {
			all = append(all, pair.Key.Text)
		}
	}
	return all
}

// mapping parses a mapping with one or more tables of keys. It reports an error for a key that no
// table has.
func (p *fileParser) mapping(n *yaml.Node, what string, tables ...[]key) {
	if n.Kind != yaml.Map {
		p.fail(n, mappingHint(what), "%s must be a mapping, not %s", what, n.Kind)
		return
	}
	for _, pair := range n.Pairs {
		if !readKey(pair, tables) {
			p.unknownKey(pair.Key, what, tables)
		}
	}
}

// readKey parses the value of a pair, and reports whether a table has its key.
func readKey(pair yaml.Pair, tables [][]key) bool {
	for _, keys := range tables {
		if k := keyOf(keys, pair.Key.Text); k != nil {
			k.read(pair.Value)
			return true
		}
	}
	return false
}

func (p *fileParser) unknownKey(n *yaml.Node, what string, tables [][]key) {
	if slices.Contains(later, n.Text) {
		p.fail(n, "use `run` to start a program", "%q is not supported by this version of Grapnel", n.Text)
		return
	}
	var known []string
	for _, keys := range tables {
		known = append(known, names(keys)...)
	}
	slices.Sort(known)
	p.fail(n, keyHint(n.Text, what, known), "unknown key %q in %s", n.Text, what)
}

// unknownKeys reports whether a mapping has a key that no table has.
func unknownKeys(n *yaml.Node, tables ...[]key) bool {
	return slices.ContainsFunc(n.Pairs, func(pair yaml.Pair) bool {
		return !slices.ContainsFunc(tables, func(keys []key) bool { return keyOf(keys, pair.Key.Text) != nil })
	})
}

func (p *fileParser) policy(n *yaml.Node) *policyfile.Policy {
	policy := &policyfile.Policy{}
	if n.Kind == yaml.Null {
		p.fail(n, "write `version: 1` and a list of `hooks:`, or run \"grapnel init\"", "the file is empty")
		return policy
	}
	if d := hookFileOf(n); d != nil {
		p.hookFile(n, d)
		return policy
	}
	var hooks, pack *yaml.Node
	var sandbox *policyfile.Sandbox
	p.mapping(n, "the policy", []key{
		{"version", func(n *yaml.Node) {
			if n.Text != "1" {
				p.fail(n, "write `version: 1`", "unknown version %s", n.Text)
			}
			policy.Version = 1
		}},
		{"pack", func(n *yaml.Node) { pack, policy.Pack = n, p.packInfo(n) }},
		{"use", func(n *yaml.Node) { policy.Use = p.uses(n) }},
		{"strict", func(n *yaml.Node) { policy.Strict = p.boolean(n) }},
		{"defaults", func(n *yaml.Node) {
			p.mapping(n, "defaults", []key{
				{"timeout", func(n *yaml.Node) { policy.Defaults.Timeout = p.duration(n) }},
				{"on_error", func(n *yaml.Node) { policy.Defaults.OnError = p.oneOf(n, "open", "closed", "ask") }},
				{"sandbox", func(n *yaml.Node) { sandbox = p.sandbox(n) }},
				{"mode", func(n *yaml.Node) { policy.Defaults.Mode = p.oneOf(n, "enforce", "observe") }},
			})
		}},
		{"hooks", func(n *yaml.Node) { hooks = n }},
		{"load", func(n *yaml.Node) { policy.Load = p.loads(n) }},
		{"records", func(n *yaml.Node) { policy.Records = p.records(n) }},
		{"retention", func(n *yaml.Node) { policy.Retention = p.retention(n) }},
		{"redact", func(n *yaml.Node) { policy.Redact = p.redact(n) }},
		{"networks", func(n *yaml.Node) { policy.Networks = p.networks(n) }},
		{"ca", func(n *yaml.Node) { policy.CA = p.authorities(n) }},
		{"grants", func(n *yaml.Node) { policy.Grants = p.grants(n) }},
		{"trust", func(n *yaml.Node) { policy.Vouches = p.vouches(n) }},
		{"revision", func(n *yaml.Node) { policy.Revision = p.revision(n) }},
		{"expires", func(n *yaml.Node) { policy.Expires = p.expires(n) }},
		{"use_only_managed", func(n *yaml.Node) { policy.OnlyManaged = p.boolean(n) }},
		{"secrets", func(n *yaml.Node) { policy.Secrets = p.secretRules(n) }},
	})
	if n.Kind == yaml.Map && n.Get("version") == nil {
		p.fail(n, "write `version: 1` as the first line", "the version is missing")
	}
	if pack != nil {
		p.plainPack(n)
	}
	if policy.Defaults.Mode == "observe" { // to enforce is the default anyway
		for i := range policy.Use {
			policy.Use[i].Mode = cmp.Or(policy.Use[i].Mode, policy.Defaults.Mode)
		}
	}
	if hooks == nil || hooks.Kind == yaml.Null {
		return policy
	}
	if hooks.Kind != yaml.List {
		p.fail(hooks, "begin each hook with a dash: `- name: ...`", "hooks must be a list, not %s", hooks.Kind)
		return policy
	}
	lines := map[string]int{}
	for _, item := range hooks.Items {
		h := p.hook(item)
		if policy.Defaults.Mode == "observe" {
			h.Mode = cmp.Or(h.Mode, policy.Defaults.Mode)
		}
		p.sandboxed(&h, item.Get("sandbox"), sandbox)
		if first := lines[h.Name]; first > 0 {
			p.fail(item, "rename one of them", "hook %q is defined twice, first in line %d: names must be unique in a file", h.Name, first)
		}
		lines[h.Name] = h.Line
		policy.Hooks = append(policy.Hooks, h)
		if pack != nil {
			p.plainPackHook(item)
		}
	}
	for i, item := range hooks.Items {
		p.targets(item, &policy.Hooks[i], policy.Hooks)
	}
	return policy
}

func (p *fileParser) hook(n *yaml.Node) policyfile.Hook {
	h := policyfile.Hook{Line: n.Line}
	var on, after *yaml.Node
	options := options{hook: n}
	actionKeys := p.actionKeys(&h)
	hookKeys := []key{
		{"name", func(n *yaml.Node) { h.Name = p.name(n) }},
		{"on", func(n *yaml.Node) { on = n }},
		{"match", func(n *yaml.Node) { h.Match = new(p.match(n)) }},
		{"except", func(n *yaml.Node) { h.Except = p.matches(n) }},
		{"when", func(n *yaml.Node) { h.When = p.when(n) }},
		{"after", func(n *yaml.Node) { after, h.After = n, p.afters(n) }},
		{"mode", func(n *yaml.Node) { h.Mode = p.oneOf(n, "enforce", "observe") }},
		{"on_error", func(n *yaml.Node) { h.OnError = p.oneOf(n, "open", "closed", "ask") }},
		{"priority", func(n *yaml.Node) { h.Priority = p.integer(n) }},
		{"timeout", func(n *yaml.Node) { h.Timeout = p.duration(n) }},
		{"message", func(n *yaml.Node) { h.Message = p.text(n) }},
		{"approve", func(n *yaml.Node) { h.Approve = p.approve(n) }},
		{"advice", func(n *yaml.Node) { h.Advice = p.each(n, p.advice) }},
		{"incident", func(n *yaml.Node) { h.Incident = p.text(n) }},
		{"groups", func(n *yaml.Node) { h.Groups = p.each(n, p.group) }},
		{"fields", func(n *yaml.Node) { h.Fields = p.fields(n) }},
		{"async", func(n *yaml.Node) { options.async = n }},
		{"speaks", func(n *yaml.Node) { options.speaks = p.speaks(n) }},
		{"env", func(n *yaml.Node) { options.env = p.each(n, p.variable) }},
		{"sandbox", func(*yaml.Node) {}}, // sandboxed parses it, together with the file's default
	}
	p.mapping(n, "a hook", actionKeys, hookKeys)
	if n.Kind != yaml.Map {
		return h
	}
	if h.Name == "" && n.Get("name") == nil {
		p.fail(n, "write `name: ...`", "the hook has no name")
	}
	switch does := keysIn(n, actionKeys); len(does) {
	case 1:
	case 0:
		if unknownKeys(n, actionKeys, hookKeys) {
			break // one of them is probably the action, and has its own error
		}
		p.fail(n, "one of "+strings.Join(names(actionKeys), ", "), "hook %q has no action", h.Name)
	default:
		p.fail(n, "split it into one hook per action", "hook %q has several actions: %s", h.Name, strings.Join(does, ", "))
	}
	if h.Advice != nil && h.Decide != "block" && h.Decide != "ask" {
		p.fail(keyIn(n, "advice"), "remove it, or write `block: REASON`", "hook %q: `advice` needs `block` or `ask`", h.Name)
	}
	if h.Approve != nil && h.Decide != "ask" {
		p.fail(keyIn(n, "approve"), "remove it, or write `ask: QUESTION`", "hook %q: `approve` needs `ask`", h.Name)
	}
	if h.Fields != nil && h.Replace == nil && h.Mask == nil {
		p.fail(keyIn(n, "fields"), "remove it, or write `mask: true`", "hook %q: `fields` needs `replace` or `mask`", h.Name)
	}
	p.options(&h, &options)
	if on == nil && h.Builtin != nil {
		h.On = defaultEvents(h.Builtin)
		return h
	}
	if on == nil {
		p.fail(n, "for example `on: tool.before`", "hook %q has no `on`", h.Name)
		return h
	}
	p.events(&h, on)
	if after != nil {
		p.comparable(&h, after)
	}
	return h
}

// options holds keys that only some actions permit.
type options struct {
	hook   *yaml.Node // the mapping of the hook, with all keys
	async  *yaml.Node // nil or empty = the key is missing, also for the other fields
	speaks string
	env    []string
}

// options applies the options to the action of the hook, or rejects them.
func (p *fileParser) options(h *policyfile.Hook, o *options) {
	switch a := actionOf(h); {
	case a != nil && a.options != nil:
		a.options(p, h, o)
	case o.async != nil:
		p.fail(keyIn(o.hook, "async"), "remove it: only a program or a server can run in the background", "hook %q: `async` needs `run` or `http`", h.Name)
	case o.speaks != "":
		p.fail(keyIn(o.hook, "speaks"), "remove it: only a program has a protocol", "hook %q: `speaks` needs `run`", h.Name)
	case o.env != nil:
		p.fail(keyIn(o.hook, "env"), "remove it: only a program has environment variables", "hook %q: `env` needs `run`", h.Name)
	}
}

// programOptions reads the options of a `run:` or `worker:` action.
func (p *fileParser) programOptions(h *policyfile.Hook, o *options) {
	h.Run.Name, h.Run.Env, h.Run.Speaks = h.Name, o.env, o.speaks
	h.Run.Async = o.async != nil && p.boolean(o.async)
	p.unheard(h, o, h.Run.Async)
	if o.speaks != "" && h.Run.Worker {
		p.fail(keyIn(o.hook, "speaks"), "remove it, or write `run` in place of `worker`", "hook %q: `speaks` needs `run`, and cannot be used with a worker", h.Name)
	}
}

// unheard rejects an `on_error` of a hook for which no agent waits.
func (p *fileParser) unheard(h *policyfile.Hook, o *options, async bool) {
	if n := o.hook.Get("on_error"); async && n != nil && n.Text != "open" {
		p.fail(n, "remove it, or remove `async: true`", "hook %q: `on_error: %s` has no effect with `async: true`, because the action does not wait", h.Name, n.Text)
	}
}

// contextOptions reads the options of a `context:` action. Only a context with a program permits
// `env`.
func (p *fileParser) contextOptions(h *policyfile.Hook, o *options) {
	switch run := h.Context.Run; {
	case o.async != nil || o.speaks != "":
		p.fail(o.hook, "", "hook %q: `async` and `speaks` need `run`, and cannot be used with a context", h.Name)
	case run != nil:
		run.Name, run.Env, run.Context = h.Name, o.env, true
	case o.env != nil:
		p.fail(keyIn(o.hook, "env"), "remove it: only a program has environment variables", "hook %q: `env` needs `run`", h.Name)
	}
}

// decision parses the value of `block:`, `ask:` or `allow:`: a reason, or true.
func (p *fileParser) decision(h *policyfile.Hook, n *yaml.Node, decision string) {
	h.Decide = decision
	switch {
	case n.Kind == yaml.String:
		h.Reason = strings.TrimSpace(n.Text)
	case n.Kind != yaml.Bool || n.Text != "true":
		p.fail(n, "write `"+decision+": REASON`, or remove the hook", "%s must be the reason, or true", decision)
	}
}

// The shortest and the longest time for the answer of a person.
const (
	minWithin = time.Second
	maxWithin = 24 * time.Hour
)

func (p *fileParser) approve(n *yaml.Node) *policyfile.Approve {
	a := &policyfile.Approve{}
	p.mapping(n, "approve", []key{
		{"within", func(n *yaml.Node) {
			a.Within = p.duration(n)
			if d := time.Duration(a.Within); d != 0 && (d < minWithin || d > maxWithin) {
				p.fail(n, "write for example 10m", "a person answers within %v to %v", minWithin, maxWithin)
			}
		}},
		{"else", func(n *yaml.Node) { a.Else = p.oneOf(n, "block", "ask") }},
		{"notify", func(n *yaml.Node) { a.Notify = p.texts(n) }},
	})
	if n.Kind == yaml.Map && n.Get("within") == nil {
		p.fail(n, "write `within: 10m`", "`approve` has no `within`, the time for a person's answer")
	}
	return a
}

// targets rejects the name of a target in `approve:` that is not an observing hook of the file.
func (p *fileParser) targets(item *yaml.Node, h *policyfile.Hook, hooks []policyfile.Hook) {
	if h.Approve == nil || h.Approve.Notify == nil {
		return
	}
	for _, target := range itemsOf(item.Get("approve").Get("notify")) {
		known := slices.ContainsFunc(hooks, func(h policyfile.Hook) bool {
			return h.Name == target.Text && (h.HTTP != nil && h.HTTP.Async || h.Run != nil && h.Run.Async)
		})
		if !known {
			p.fail(target, "write the name of a hook with `notify:`, or with `run:` and `async: true`", "hook %q: no hook of this file with the name %q observes", h.Name, target.Text)
		}
	}
}

// events parses `on:` and checks that each event permits the action of the hook.
func (p *fileParser) events(h *policyfile.Hook, n *yaml.Node) {
	items := itemsOf(n)
	if len(items) == 0 {
		p.fail(n, "for example `on: [tool.before]`", "hook %q: `on` is empty", h.Name)
	}
	for _, item := range items {
		kinds := Kinds(item.Text)
		if item.Kind == yaml.Null {
			p.fail(item, "for example `on: tool.before`", "the event is missing")
			continue
		}
		if item.Kind != yaml.String || kinds == nil {
			p.fail(item, eventHint(item.Text), "unknown event %q", item.Text)
			continue
		}
		for _, kind := range kinds {
			if why := forbidden(h, kind); why != "" {
				p.fail(item, cmp.Or(whereInstead(changes(h)), eventsFor(h, kind)), "hook %q: %s", h.Name, why)
				continue
			}
			if !slices.Contains(h.On, kind) {
				h.On = append(h.On, kind)
			}
		}
	}
	for _, field := range changes(h) {
		if len(h.On) > 0 && !unknownField(field) && !slices.ContainsFunc(h.On, func(k grapnel.Kind) bool { return mayChange(contractOf(k), field) }) {
			p.fail(n, whereInstead([]grapnel.Field{field}), "hook %q: none of its events permits changing %s", h.Name, field)
		}
	}
}

// eventsFor returns a hint with events that permit the action of a hook, and with the actions that are possible at the
// event that does not.
func eventsFor(h *policyfile.Hook, not grapnel.Kind) string {
	var kinds []string
	for _, c := range grapnel.Contracts() {
		if forbidden(h, c.Kind) == "" && len(kinds) < 6 {
			kinds = append(kinds, string(c.Kind))
		}
	}
	if kinds == nil {
		return ""
	}
	hint := "possible on " + strings.Join(kinds, ", ")
	if contractOf(not).Context && h.Decide != "" {
		hint += fmt.Sprintf("; at %s, `context` adds text for the model", not)
	}
	return hint
}

// Kinds returns the event kinds for an event name in a policy. It knows the names of
// [dialect.Kinds] and the events of systems of which Grapnel only reads hook files. It returns nil
// for an unknown name.
func Kinds(name string) []grapnel.Kind {
	if kinds := dialect.Kinds(name); kinds != nil {
		return kinds
	}
	for _, ev := range systems.Events() {
		if ev.Name == name || ev.Name == strings.ReplaceAll(name, "-", "_") {
			return ev.Kinds
		}
	}
	return nil
}

// eventHint returns a hint for an unknown event: the most similar name, or the events of something
// that the name mentions, as in block-tool.
func eventHint(name string) string {
	if words := strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == ',' }); len(words) > 1 && Kinds(words[0]) != nil {
		return "write a list: on: [" + strings.Join(words, ", ") + "]"
	}
	names := eventNames()
	slices.SortStableFunc(names, func(a, b string) int { // of equally similar names, the one of a single agent is the worse hint
		return slices.IndexFunc(Kinds(a), grapnel.Kind.Native) - slices.IndexFunc(Kinds(b), grapnel.Kind.Native)
	})
	if hint := wording.Nearest(strings.NewReplacer("-", ".", "_", ".").Replace(name), names); hint != "" {
		return hint
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r < 'a' || r > 'z' })
	var similar []string
	for _, c := range grapnel.Contracts() {
		if subject, _, _ := strings.Cut(string(c.Kind), "."); slices.Contains(words, subject) {
			similar = append(similar, string(c.Kind))
		}
	}
	if similar == nil {
		return ""
	}
	return "similar events: " + strings.Join(similar, ", ")
}

func eventNames() []string {
	var names []string
	for _, c := range grapnel.Contracts() {
		names = append(names, string(c.Kind))
	}
	for _, d := range slices.Concat(dialect.All(), dialect.HookOnly()) {
		for _, row := range d.Events {
			names = append(names, row.Native)
		}
	}
	for _, ev := range systems.Events() {
		names = append(names, ev.Name)
	}
	return names
}

func (p *fileParser) name(n *yaml.Node) string {
	name := p.text(n)
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.Contains(name, "::") || len(name) > 100 {
		p.fail(n, "use letters, digits and dashes", "%q is not a valid hook name", name)
	}
	return name
}

func (p *fileParser) text(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.Null:
		p.fail(n, "write the text after the colon, or remove the key", "want text, not %s", n.Kind)
	case n.Kind == yaml.List || n.Kind == yaml.Map:
		p.fail(n, "write one text; a text with special characters needs quotes", "want text, not %s", n.Kind)
	case n.Text == "":
		p.fail(n, "write the text, or remove the key", "want text, not an empty text")
	}
	return n.Text
}

func (p *fileParser) texts(n *yaml.Node) []string {
	if n.Kind != yaml.List {
		return []string{p.text(n)}
	}
	if len(n.Items) == 0 {
		p.fail(n, "write at least one value, or remove the key", "the list is empty")
	}
	var texts []string
	for _, item := range n.Items {
		texts = append(texts, p.text(item))
	}
	return texts
}

// variable rejects a value in the place of a name.
func (p *fileParser) variable(n *yaml.Node) {
	if name, _, ok := strings.Cut(n.Text, "="); ok {
		p.fail(n, fmt.Sprintf("write `env: %s`: the value comes from the environment of the agent", name), "`env` is a list of names, without values")
	}
}

// keyIn returns the key of a mapping, or the mapping if it has no such key.
func keyIn(n *yaml.Node, key string) *yaml.Node {
	for _, pair := range n.Pairs {
		if pair.Key.Text == key {
			return pair.Key
		}
	}
	return n
}

// itemsOf returns the items of a list, or n itself if it is not a list.
func itemsOf(n *yaml.Node) []*yaml.Node {
	if n.Kind == yaml.List {
		return n.Items
	}
	return []*yaml.Node{n}
}

func (p *fileParser) boolean(n *yaml.Node) bool {
	if n.Kind != yaml.Bool {
		p.fail(n, "write one of these words, without quotes", "want true or false, not %q", n.Text)
	}
	return n.Text == "true"
}

func (p *fileParser) oneOf(n *yaml.Node, words ...string) string {
	if !slices.Contains(words, n.Text) {
		p.fail(n, wording.Nearest(n.Text, words), "want one of %s, not %q", strings.Join(words, ", "), n.Text)
	}
	return n.Text
}

func (p *fileParser) integer(n *yaml.Node) *int {
	i, err := strconv.Atoi(n.Text)
	if err != nil || n.Kind != yaml.Number || strconv.Itoa(i) != n.Text {
		p.fail(n, "write digits only", "want a whole number, not %q", n.Text)
	}
	return &i
}

func (p *fileParser) duration(n *yaml.Node) policyfile.Duration {
	d, err := policyfile.ParseDuration(n.Text)
	switch {
	case err != nil:
		p.fail(n, "write a number with a unit: 500ms, 5s, 1m, 7d", "%q is not a duration", n.Text)
	case d <= 0:
		p.fail(n, "write for example 5s, or remove it", "the timeout must be more than 0")
	}
	return policyfile.Duration(d)
}

func (p *fileParser) when(n *yaml.Node) string { return p.expression(n, match.KeyWhen) }

// expression parses the expression of a key.
func (p *fileParser) expression(n *yaml.Node, key string) string {
	source := p.text(n)
	if _, err := match.CompileExpression(key, source); err != nil {
		hint := ""
		switch {
		case strings.Contains(err.Error(), `unexpected "="`):
			hint = "compare with =="
		case strings.ContainsAny(source, "“”‘’"):
			hint = "write plain quotes"
		case key == match.KeyBody && strings.Contains(err.Error(), "unknown name"):
			hint = `the value is an expression: a text needs quotes in quotes, '"blocked"'`
		}
		p.fail(n, hint, "%v", err)
	}
	return source
}

func (p *fileParser) context(n *yaml.Node) *policyfile.Context {
	if n.Kind != yaml.Map {
		return &policyfile.Context{Text: p.text(n)}
	}
	c := &policyfile.Context{}
	p.mapping(n, "context", []key{
		{"text", func(n *yaml.Node) { c.Text = p.text(n) }},
		{"file", func(n *yaml.Node) { c.File = p.text(n) }},
		{"run", func(n *yaml.Node) { c.Run = p.command(n) }},
	})
	if len(n.Pairs) != 1 {
		p.fail(n, "split it into one hook per action", "context needs exactly one of text, file and run")
	}
	return c
}

func (p *fileParser) replacements(n *yaml.Node) []policyfile.Replacement {
	if n.Kind != yaml.List {
		p.fail(n, "for example [{pattern: 'sk-[a-z]+', with: sk-***}]", "replace must be a list, not %s", n.Kind)
		return nil
	}
	if len(n.Items) == 0 {
		p.fail(n, "", "the list is empty: it would replace nothing")
	}
	var out []policyfile.Replacement
	for _, item := range n.Items {
		var r policyfile.Replacement
		p.mapping(item, "replace", []key{
			{"pattern", func(n *yaml.Node) {
				r.Pattern = p.text(n)
				re := p.regexp(n, r.Pattern)
				r.Literal = prefilter.RequiredLiteral(r.Pattern)
				if re != nil && re.MatchString("") {
					p.fail(n, "name a text that must occur, for example with + in place of *", "pattern %q matches the empty text, which is everywhere", r.Pattern)
				}
			}},
			{"with", func(n *yaml.Node) {
				if r.With = n.Text; n.Kind == yaml.List || n.Kind == yaml.Map {
					p.fail(n, "", "want text, not %s", n.Kind)
				}
			}},
		})
		if r.Pattern == "" || item.Get("with") == nil {
			p.fail(item, "", "replace needs `pattern` and `with`")
		}
		out = append(out, r)
	}
	return out
}

func (p *fileParser) regexp(n *yaml.Node, pattern string) *regexp.Regexp {
	re, err := regexp.Compile(pattern)
	if err != nil {
		p.fail(n, "the syntax is RE2: \\ before a character makes it literal", "invalid regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return nil
	}
	return re
}

func (p *fileParser) fields(n *yaml.Node) []grapnel.Field {
	fields := []grapnel.Field{}
	for _, item := range itemsOf(n) {
		if fields = append(fields, p.field(item)); item.Text == string(grapnel.FieldClear) {
			p.fail(item, "", "%s is not a text field", item.Text)
		}
	}
	return fields
}

func (p *fileParser) command(n *yaml.Node) *policyfile.Command {
	if n.Kind == yaml.List {
		return &policyfile.Command{Args: p.texts(n)}
	}
	return &policyfile.Command{Line: p.text(n)}
}

// speaks parses the name of the dialect that a program uses.
func (p *fileParser) speaks(n *yaml.Node) string {
	var known []string
	for _, d := range slices.Concat(dialect.All(), dialect.HookOnly()) {
		if d.WriteEvent != nil {
			known = append(known, d.Name)
		}
	}
	d, ok := dialect.Find(n.Text)
	if !ok || d.WriteEvent == nil {
		p.fail(n, wording.Nearest(n.Text, known), "unknown hook format %q: use one of %s", n.Text, strings.Join(known, ", "))
		return ""
	}
	return d.Name
}

func (p *fileParser) matches(n *yaml.Node) []policyfile.Match {
	if n.Kind != yaml.List {
		return []policyfile.Match{p.match(n)}
	}
	var out []policyfile.Match
	for _, item := range n.Items {
		out = append(out, p.match(item))
	}
	return out
}

func (p *fileParser) match(n *yaml.Node) policyfile.Match {
	var m policyfile.Match
	p.mapping(n, "match", p.matchWords(&m), []key{
		{"failed", func(n *yaml.Node) { m.Failed = new(p.boolean(n)) }},
		{"not", func(n *yaml.Node) { m.Not = new(p.match(n)) }},
	})
	if n.Kind == yaml.Map && len(n.Pairs) == 0 {
		p.fail(n, "write a key, such as `command: rm -rf`, or remove it", "the match is empty")
	}
	return m
}

// matchWords returns the match keys; their parsers write into m.
func (p *fileParser) matchWords(m *policyfile.Match) []key {
	var keys []key
	for i := range match.Keys {
		k := &match.Keys[i]
		keys = append(keys, key{k.Name, func(n *yaml.Node) {
			if k.Words != nil {
				*k.Words(m) = p.wordsOf(n, k)
			} else {
				*k.Texts(m) = p.patterns(n)
			}
		}})
	}
	return keys
}

// wordsOf parses the words of a match key.
func (p *fileParser) wordsOf(n *yaml.Node, k *match.Key) []string {
	switch k.Form {
	case match.FormPath:
		return p.each(n, p.pathPattern)
	case match.FormCommand:
		return p.each(n, p.commandPattern)
	case match.FormAgent:
		return p.each(n, p.agent)
	case match.FormPhrase:
		return p.each(n, p.phrase)
	case match.FormSecret:
		return p.secretIDs(n, k.Name)
	case match.FormLoss:
		return p.each(n, func(n *yaml.Node) { p.oneOf(n, loss.Words()...) })
	case match.FormDrop:
		return p.each(n, func(n *yaml.Node) { p.oneOf(n, match.DropWords()...) })
	case match.FormShell:
		if n.Text != match.ShellUnknown && n.Text != match.ShellRedirection {
			p.fail(n, "write `shell: unknown` or `shell: redirection`; to select the shell of an agent, write `tool: shell`",
				"`shell` finds lines that hide what they run, or redirections, so its values are unknown and redirection")
		}
		return []string{n.Text}
	default:
		return p.each(n, p.glob)
	}
}

func (p *fileParser) patterns(n *yaml.Node) (all []policyfile.Pattern) {
	for _, text := range p.each(n, p.pattern) {
		all = append(all, match.NewPattern(text))
	}
	return all
}

// each parses a text or a list of texts, and calls check for every one.
func (p *fileParser) each(n *yaml.Node, check func(*yaml.Node)) []string {
	before := len(p.errs)
	texts := p.texts(n)
	if len(p.errs) > before {
		return nil
	}
	for _, item := range itemsOf(n) {
		check(item)
	}
	return texts
}

func (p *fileParser) glob(n *yaml.Node) {
	if re, ok := match.RegexpOf(n.Text); ok {
		p.regexp(n, re)
	} else if _, err := path.Match(n.Text, ""); err != nil {
		p.fail(n, "", "%q is not a glob: %v", n.Text, err)
	}
}

func (p *fileParser) pattern(n *yaml.Node) {
	if re, ok := match.RegexpOf(n.Text); ok {
		p.regexp(n, re)
	}
}

func (p *fileParser) phrase(n *yaml.Node) {
	if err := match.CheckPhrase(n.Text); err != nil {
		p.fail(n, "write words, for example `words: delete|drop database|table`", "%q never matches: %v", n.Text, err)
	}
}

func (p *fileParser) pathPattern(n *yaml.Node) {
	if !glob.Valid(n.Text) {
		p.fail(n, "write \\ before a bracket or brace that is part of a name", "%q is not a path pattern: a bracket or brace is not closed", n.Text)
	}
}

func (p *fileParser) commandPattern(n *yaml.Node) {
	if _, ok := match.RegexpOf(n.Text); ok && strings.ContainsAny(n.Text, `\+*|()$^`) {
		p.fail(n, "write words and globs, such as `command: rm -rf`, or a regular expression in `when`", "command pattern %q: a command pattern cannot be a regular expression", n.Text)
	} else if _, err := shell.Compile(n.Text); err != nil {
		p.fail(n, "", "%v", err)
	}
}

// advice rejects a text that is not a valid shell command.
func (p *fileParser) advice(n *yaml.Node) {
	if script := shell.Parse(n.Text); len(script.Commands) == 0 || len(script.Unknown) > 0 {
		p.fail(n, "write a complete command", "the advice %q is not a command", n.Text)
	}
}

// agent rejects a name that is probably misspelled. Other unknown names are permitted, because
// users can write their own agents.
func (p *fileParser) agent(n *yaml.Node) {
	if _, ok := dialect.FindAgent(n.Text); ok || strings.ContainsAny(n.Text, "*?[") {
		return
	}
	known := dialect.Names()
	for _, d := range dialect.All() {
		known = append(known, d.Aliases...)
	}
	if hint := wording.Nearest(n.Text, known); hint != "" {
		p.fail(n, hint, "unknown agent %q", n.Text)
	}
}
