package policy

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/yaml"
	"github.com/grapnel-dev/grapnel/shell"
)

// later names the keys of the format that this version does not know yet, so that
// people are told the truth instead of a nearest key.
var later = []string{"wasm"}

// DefaultTimeout bounds a program whose hook and file name no timeout.
const DefaultTimeout = 10 * time.Second

// Parse reads a policy file. It returns all that is wrong; the Policy counts only
// when that is nothing.
func Parse(file string, data []byte) (*Policy, []*Error) {
	p := &fileParser{file: file}
	root, err := yaml.Parse(data)
	if err != nil {
		var at *yaml.Error
		errors.As(err, &at)
		return nil, []*Error{{File: file, Line: at.Line, Col: at.Col, Msg: at.Msg}}
	}
	policy := p.policy(root)
	p.knownIDs(policy.Secrets)
	return policy, p.errs
}

// fileParser collects what is wrong instead of stopping at the first thing.
type fileParser struct {
	file string
	errs []*Error

	usedIDs []Word // of rules for secrets
}

func (p *fileParser) fail(n *yaml.Node, hint, format string, args ...any) {
	p.errs = append(p.errs, &Error{File: p.file, Line: n.Line, Col: n.Col, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// mapping walks a mapping and has each key read, which tells whether it knows the key. Others
// are errors; known names, with spaces between, what may have been meant.
func (p *fileParser) mapping(n *yaml.Node, what, known string, read func(key string, n *yaml.Node) bool) {
	if n.Kind != yaml.Map {
		p.fail(n, "", "%s must be a mapping, not %s", what, n.Kind)
		return
	}
	for _, pair := range n.Pairs {
		switch key := pair.Key.Text; {
		case read(key, pair.Value):
		case slices.Contains(later, key):
			p.fail(pair.Key, "", "%q is not supported by this version of Grapnel", key)
		default:
			words := strings.Fields(known)
			slices.Sort(words)
			p.fail(pair.Key, didYouMean(key, words), "unknown key %q in %s", key, what)
		}
	}
}

// keys is mapping with a function for each key.
func (p *fileParser) keys(n *yaml.Node, what string, known map[string]func(*yaml.Node)) {
	p.mapping(n, what, strings.Join(slices.Collect(maps.Keys(known)), " "), func(key string, n *yaml.Node) bool {
		handle := known[key]
		if handle != nil {
			handle(n)
		}
		return handle != nil
	})
}

func (p *fileParser) policy(n *yaml.Node) *Policy {
	policy := &Policy{}
	if n.Kind == yaml.Null {
		p.fail(n, "write `version: 1` and a list of `hooks:`, or run \"grapnel init\"", "the file is empty")
		return policy
	}
	var hooks, pack *yaml.Node
	var sandbox *Sandbox
	p.mapping(n, "the policy", "version pack use strict defaults hooks load records redact networks grants trust use_only_managed secrets", func(key string, n *yaml.Node) bool {
		switch key {
		case "version":
			if n.Text != "1" {
				p.fail(n, "write `version: 1`", "version %s is not known", n.Text)
			}
			policy.Version = 1
		case "pack":
			pack, policy.Pack = n, p.packInfo(n)
		case "use":
			policy.Use = p.uses(n)
		case "strict":
			policy.Strict = p.boolean(n)
		case "defaults":
			p.mapping(n, "defaults", "timeout on_error sandbox", func(key string, n *yaml.Node) bool {
				switch key {
				case "timeout":
					policy.Defaults.Timeout = p.duration(n)
				case "on_error":
					policy.Defaults.OnError = p.oneOf(n, "open", "closed", "ask")
				case "sandbox":
					sandbox = p.sandbox(n)
				default:
					return false
				}
				return true
			})
		case "hooks":
			hooks = n
		case "load":
			policy.Load = p.loads(n)
		case "records":
			policy.Records = p.records(n)
		case "redact":
			policy.Redact = p.redact(n)
		case "networks":
			policy.Networks = p.networks(n)
		case "grants":
			policy.Grants = p.grants(n)
		case "trust":
			policy.Vouches = p.vouches(n)
		case "use_only_managed":
			policy.OnlyManaged = p.boolean(n)
		case "secrets":
			policy.Secrets = p.secretRules(n)
		default:
			return false
		}
		return true
	})
	if n.Kind == yaml.Map && n.Get("version") == nil {
		p.fail(n, "write `version: 1` as the first line", "the version is missing")
	}
	if pack != nil {
		p.plainPack(n)
	}
	if hooks == nil || hooks.Kind == yaml.Null {
		return policy
	}
	if hooks.Kind != yaml.List {
		p.fail(hooks, "", "hooks must be a list, not %s", hooks.Kind)
		return policy
	}
	lines := map[string]int{}
	for _, item := range hooks.Items {
		h := p.hook(item)
		p.sandboxed(&h, item.Get("sandbox"), sandbox)
		if first := lines[h.Name]; first > 0 {
			p.fail(item, "", "hook %q stands twice, first in line %d: names are unique in a file", h.Name, first)
		}
		lines[h.Name] = h.Line
		policy.Hooks = append(policy.Hooks, h)
		if pack != nil {
			p.plainPackHook(item)
		}
	}
	return policy
}

// hookActions are the keys that say what a hook does.
var hookActions = []string{"block", "ask", "allow", "limit", "context", "replace", "mask", "set", "run", "worker", "http", "notify", "builtin"}

func (p *fileParser) hook(n *yaml.Node) Hook {
	h := Hook{Line: n.Line}
	var actions []string
	var on, after *yaml.Node
	var async *yaml.Node
	var speaks string
	var env []string
	p.mapping(n, "a hook", "name on match except when after mode on_error priority timeout message advice incident block ask allow context replace mask fields set limit run worker http notify builtin async speaks env sandbox", func(key string, n *yaml.Node) bool {
		switch key {
		case "name":
			h.Name = p.name(n)
		case "on":
			on = n
		case "match":
			m := p.match(n)
			h.Match = &m
		case "except":
			h.Except = p.matches(n)
		case "when":
			h.When = p.when(n)
		case "after":
			after, h.After = n, p.afters(n)
		case "mode":
			h.Mode = p.oneOf(n, "enforce", "observe")
		case "on_error":
			h.OnError = p.oneOf(n, "open", "closed", "ask")
		case "priority":
			h.Priority = p.integer(n)
		case "timeout":
			h.Timeout = p.duration(n)
		case "message":
			h.Message = p.text(n)
		case "advice":
			h.Advice = p.each(n, p.advice)
		case "incident":
			h.Incident = p.text(n)
		case "block", "ask", "allow":
			h.Decide, h.Reason = key, p.reason(n, key)
		case "context":
			h.Context = p.context(n)
		case "replace":
			h.Replace = p.replacements(n)
		case "mask":
			h.Mask = p.secretIDs(n, "mask")
		case "fields":
			h.Fields = p.fields(n)
		case "set":
			p.set(&h, n)
		case "limit":
			h.Limit = p.limit(n)
		case "run":
			h.Run = p.command(n)
		case "worker":
			h.Run = p.command(n)
			h.Run.Worker = true
		case "http":
			h.HTTP = p.http(n)
		case "notify":
			h.HTTP = p.notify(n)
		case "builtin":
			p.builtin(n, &h)
		case "async":
			async = n
		case "speaks":
			speaks = p.speaks(n)
		case "env":
			env = p.texts(n)
		case "sandbox": // read with that of the file
		default:
			return false
		}
		if slices.Contains(hookActions, key) {
			actions = append(actions, key)
		}
		return true
	})
	if n.Kind != yaml.Map {
		return h
	}
	if h.Name == "" && n.Get("name") == nil {
		p.fail(n, "write `name: ...`", "the hook has no name")
	}
	switch len(actions) {
	case 1:
	case 0:
		p.fail(n, "one of "+strings.Join(hookActions, ", "), "hook %q does nothing", h.Name)
	default:
		p.fail(n, "write one hook for each", "hook %q does several things: %s", h.Name, strings.Join(actions, ", "))
	}
	if h.Advice != nil && h.Decide != "block" && h.Decide != "ask" {
		p.fail(n, "", "hook %q: `advice` goes with `block` and `ask`", h.Name)
	}
	if h.Fields != nil && h.Replace == nil && h.Mask == nil {
		p.fail(n, "", "hook %q: `fields` goes with `replace` or `mask`", h.Name)
	}
	switch {
	case h.Builtin != nil:
		if h.Run != nil {
			h.Run.Name = h.Name
		}
		if async != nil || speaks != "" || env != nil {
			p.fail(n, "", "hook %q: `async`, `speaks` and `env` go with `run`, and not with a builtin", h.Name)
		}
	case h.Run != nil:
		h.Run.Name, h.Run.Env, h.Run.Speaks = h.Name, env, speaks
		h.Run.Async = async != nil && p.boolean(async)
		if speaks != "" && h.Run.Worker {
			p.fail(n, "", "hook %q: `speaks` goes with `run`, and not with a worker", h.Name)
		}
	case h.HTTP != nil:
		h.HTTP.Name = h.Name
		p.inTime(n.Get("timeout"), h.Timeout)
		if h.HTTP.Notify {
			p.notified(&h, n)
			break
		}
		h.HTTP.Async = async != nil && p.boolean(async)
		if speaks != "" || env != nil {
			p.fail(n, "", "hook %q: `speaks` and `env` go with `run`, and not with http", h.Name)
		}
	case h.program() != nil:
		h.Context.Run.Name, h.Context.Run.Env, h.Context.Run.Context = h.Name, env, true
		if async != nil || speaks != "" {
			p.fail(n, "", "hook %q: `async` and `speaks` go with `run`, and not with a context", h.Name)
		}
	case async != nil:
		p.fail(async, "", "hook %q: `async` goes with `run` and `http`", h.Name)
	case speaks != "":
		p.fail(n, "", "hook %q: `speaks` goes with `run`", h.Name)
	case env != nil:
		p.fail(n, "", "hook %q: `env` goes with `run`", h.Name)
	}
	if on == nil && h.Builtin != nil {
		h.On = h.Builtin.withoutOn()
		return h
	}
	if on == nil {
		p.fail(n, "for example `on: tool.before`", "hook %q does not say `on` which event it runs", h.Name)
		return h
	}
	p.events(&h, on)
	if after != nil {
		p.comparable(&h, after)
	}
	return h
}

// reason reads what is beside a decision.
func (p *fileParser) reason(n *yaml.Node, decision string) string {
	switch {
	case n.Kind == yaml.String:
		return strings.TrimSpace(n.Text)
	case n.Kind != yaml.Bool || n.Text != "true":
		p.fail(n, "", "%s must be the reason, or true", decision)
	}
	return ""
}

// events reads `on:` and checks that the event permits what the hook does.
func (p *fileParser) events(h *Hook, n *yaml.Node) {
	items := itemsOf(n)
	if len(items) == 0 {
		p.fail(n, "", "hook %q: `on` is empty", h.Name)
	}
	for _, item := range items {
		kinds := Kinds(item.Text)
		if item.Kind != yaml.String || kinds == nil {
			p.fail(item, didYouMean(item.Text, eventNames()), "unknown event %q", item.Text)
			continue
		}
		for _, kind := range kinds {
			if why := h.forbidden(kind); why != "" {
				p.fail(item, whereInstead(h.changes()), "hook %q: %s", h.Name, why)
				continue
			}
			if !slices.Contains(h.On, kind) {
				h.On = append(h.On, kind)
			}
		}
	}
	for _, field := range h.changes() {
		if len(h.On) > 0 && !slices.ContainsFunc(h.On, func(k grapnel.Kind) bool { return mayChange(contractOf(k), field) }) {
			p.fail(n, whereInstead([]grapnel.Field{field}), "hook %q: no event that it listens to permits a change of %s", h.Name, field)
		}
	}
}

// Kinds returns what a name in a policy stands for: what [dialect.Kinds] knows, and the
// events of systems whose hook files alone are read. It is nil for a name nobody knows.
func Kinds(name string) []grapnel.Kind {
	if kinds := dialect.Kinds(name); kinds != nil {
		return kinds
	}
	for _, row := range dialect.IronClawEvents {
		if row.Native == name {
			return []grapnel.Kind{row.Kind}
		}
	}
	for _, ev := range openclawEvents {
		if ev.name == strings.ReplaceAll(name, "-", "_") {
			return ev.on
		}
	}
	return nil
}

func eventNames() []string {
	var names []string
	for _, c := range grapnel.Contracts {
		names = append(names, string(c.Kind))
	}
	for _, d := range slices.Concat(dialect.Dialects, dialect.HookOnly) {
		for _, row := range d.Events {
			names = append(names, row.Native)
		}
	}
	for _, row := range dialect.IronClawEvents {
		names = append(names, row.Native)
	}
	for _, ev := range openclawEvents {
		names = append(names, ev.name)
	}
	return names
}

// forbidden says why a hook cannot do on an event what it wants to do.
func (h *Hook) forbidden(kind grapnel.Kind) string {
	c := contractOf(kind)
	permits := func(fields ...grapnel.Field) bool {
		return slices.ContainsFunc(fields, func(f grapnel.Field) bool { return mayChange(c, f) })
	}
	switch {
	case h.Builtin != nil && h.Builtin.Name == summaryBuiltin && kind != grapnel.SessionEnd:
		return "a session is summarised on session.end"
	case h.Decide == "block" && c.Blocks == grapnel.BlockNothing:
		return fmt.Sprintf("%s cannot be blocked", kind)
	case h.Decide == "ask" && c.Blocks != grapnel.BlockAction:
		return fmt.Sprintf("nothing can be asked on %s: it has happened or cannot be stopped", kind)
	case h.Decide == "allow" && !c.Permit:
		return fmt.Sprintf("%s has no permission prompt that `allow` could skip", kind)
	case h.Limit != nil && c.Blocks == grapnel.BlockStop:
		return fmt.Sprintf("a limit would keep the agent from stopping on %s", kind)
	case h.Limit != nil && c.Blocks == grapnel.BlockNothing:
		return fmt.Sprintf("%s cannot be blocked", kind)
	case h.Limit != nil && h.Limit.Then == "ask" && c.Blocks != grapnel.BlockAction:
		return fmt.Sprintf("nothing can be asked on %s: it has happened", kind)
	case h.Context != nil && !c.Context:
		return fmt.Sprintf("no context can be added on %s", kind)
	case (h.Replace != nil || h.Mask != nil) && len(c.Changes) == 0:
		return fmt.Sprintf("nothing can be changed on %s", kind)
	case len(h.changes()) > 0 && !permits(h.changes()...):
		return fmt.Sprintf("%s permits no change of %s%s", kind, joinFields(h.changes()), permitted(c))
	}
	return ""
}

func contractOf(kind grapnel.Kind) *grapnel.Contract {
	if c := grapnel.ContractOf(kind); c != nil {
		return c
	}
	for _, d := range dialect.Dialects {
		for _, row := range d.Events {
			if row.Kind == kind && row.Contract != nil {
				return row.Contract
			}
		}
	}
	return &grapnel.Contract{Kind: kind}
}

func permitted(c *grapnel.Contract) string {
	var fields []grapnel.Field
	for _, ch := range c.Changes {
		if mayChange(c, ch.Field) {
			fields = append(fields, ch.Field)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return ", only of " + joinFields(fields)
}

func joinFields(fields []grapnel.Field) string {
	var b strings.Builder
	for i, f := range fields {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(f))
	}
	return b.String()
}

func (p *fileParser) name(n *yaml.Node) string {
	name := p.text(n)
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.Contains(name, "::") || len(name) > 100 {
		p.fail(n, "letters, digits and dashes are best", "%q is no name for a hook", name)
	}
	return name
}

func (p *fileParser) text(n *yaml.Node) string {
	if n.Kind == yaml.List || n.Kind == yaml.Map || n.Kind == yaml.Null || n.Text == "" {
		p.fail(n, "", "want text, not %s", n.Kind)
	}
	return n.Text
}

func (p *fileParser) texts(n *yaml.Node) []string {
	if n.Kind != yaml.List {
		return []string{p.text(n)}
	}
	if len(n.Items) == 0 {
		p.fail(n, "", "the list is empty: it would match nothing")
	}
	var texts []string
	for _, item := range n.Items {
		texts = append(texts, p.text(item))
	}
	return texts
}

// itemsOf lists what stands alone or in a list.
func itemsOf(n *yaml.Node) []*yaml.Node {
	if n.Kind == yaml.List {
		return n.Items
	}
	return []*yaml.Node{n}
}

func (p *fileParser) boolean(n *yaml.Node) bool {
	if n.Kind != yaml.Bool {
		p.fail(n, "", "want true or false, not %q", n.Text)
	}
	return n.Text == "true"
}

func (p *fileParser) oneOf(n *yaml.Node, words ...string) string {
	if !slices.Contains(words, n.Text) {
		p.fail(n, didYouMean(n.Text, words), "want one of %s, not %q", strings.Join(words, ", "), n.Text)
	}
	return n.Text
}

func (p *fileParser) integer(n *yaml.Node) *int {
	i, err := strconv.Atoi(n.Text)
	if err != nil || n.Kind != yaml.Number || strconv.Itoa(i) != n.Text {
		p.fail(n, "", "want a whole number, not %q", n.Text)
	}
	return &i
}

func (p *fileParser) duration(n *yaml.Node) Duration {
	d, err := time.ParseDuration(n.Text)
	switch {
	case err != nil:
		p.fail(n, "write a number with a unit: 500ms, 5s, 1m", "%q is no duration", n.Text)
	case d <= 0:
		p.fail(n, "", "a timeout must be longer than nothing")
	}
	return Duration(d)
}

func (p *fileParser) when(n *yaml.Node) string {
	source := p.text(n)
	if _, err := compileExpression(keyWhen, source); err != nil {
		p.fail(n, "", "%v", err)
	}
	return source
}

func (p *fileParser) context(n *yaml.Node) *Context {
	if n.Kind != yaml.Map {
		return &Context{Text: p.text(n)}
	}
	c := &Context{}
	p.mapping(n, "context", "text file run", func(key string, n *yaml.Node) bool {
		switch key {
		case "text":
			c.Text = p.text(n)
		case "file":
			c.File = p.text(n)
		case "run":
			c.Run = p.command(n)
		default:
			return false
		}
		return true
	})
	if len(n.Pairs) != 1 {
		p.fail(n, "write one hook for each", "context wants one of text, file and run")
	}
	return c
}

func (p *fileParser) replacements(n *yaml.Node) []Replacement {
	if n.Kind != yaml.List {
		p.fail(n, "for example [{pattern: 'sk-[a-z]+', with: sk-***}]", "replace must be a list, not %s", n.Kind)
		return nil
	}
	if len(n.Items) == 0 {
		p.fail(n, "", "the list is empty: it would replace nothing")
	}
	var out []Replacement
	for _, item := range n.Items {
		var r Replacement
		p.mapping(item, "replace", "pattern with", func(key string, n *yaml.Node) bool {
			switch key {
			case "pattern":
				r.Pattern = p.text(n)
				re := p.regexp(n, r.Pattern)
				r.Literal = requiredLiteral(r.Pattern)
				if re != nil && re.MatchString("") {
					p.fail(n, "", "pattern %q matches the empty text", r.Pattern)
				}
			case "with":
				if r.With = n.Text; n.Kind == yaml.List || n.Kind == yaml.Map {
					p.fail(n, "", "want text, not %s", n.Kind)
				}
			default:
				return false
			}
			return true
		})
		if r.Pattern == "" || item.Get("with") == nil {
			p.fail(item, "", "replace wants `pattern` and `with`")
		}
		out = append(out, r)
	}
	return out
}

func (p *fileParser) regexp(n *yaml.Node, pattern string) *regexp.Regexp {
	re, err := regexp.Compile(pattern)
	if err != nil {
		p.fail(n, "the syntax is that of RE2", "%v", err)
		return nil
	}
	return re
}

func (p *fileParser) fields(n *yaml.Node) []grapnel.Field {
	fields := []grapnel.Field{}
	for _, item := range itemsOf(n) {
		if fields = append(fields, p.field(item)); item.Text == string(grapnel.FieldClear) {
			p.fail(item, "", "%s holds no text", item.Text)
		}
	}
	return fields
}

func (p *fileParser) command(n *yaml.Node) *Command {
	if n.Kind == yaml.List {
		return &Command{Args: p.texts(n)}
	}
	return &Command{Line: p.text(n)}
}

// speaks reads whose hook a program is.
func (p *fileParser) speaks(n *yaml.Node) string {
	var known []string
	for _, d := range slices.Concat(dialect.Dialects, dialect.HookOnly) {
		if d.WriteEvent != nil {
			known = append(known, d.Name)
		}
	}
	d, ok := dialect.Find(n.Text)
	if !ok || d.WriteEvent == nil {
		p.fail(n, didYouMean(n.Text, known), "no hooks speak %q, only %s", n.Text, strings.Join(known, ", "))
		return ""
	}
	return d.Name
}

func (p *fileParser) matches(n *yaml.Node) []Match {
	if n.Kind != yaml.List {
		return []Match{p.match(n)}
	}
	var out []Match
	for _, item := range n.Items {
		out = append(out, p.match(item))
	}
	return out
}

func (p *fileParser) match(n *yaml.Node) Match {
	var m Match
	p.mapping(n, "match", "tool command shell path reads writes url host content prompt text secret agent mcp mode subagent failed not", func(key string, n *yaml.Node) bool {
		switch key {
		case "tool":
			m.Tool = p.each(n, p.glob)
		case "command":
			m.Command = p.each(n, p.commandPattern)
		case "shell":
			m.Shell = []string{p.oneOf(n, "unknown")}
		case "path":
			m.Path = p.each(n, p.pathPattern)
		case "reads":
			m.Reads = p.each(n, p.pathPattern)
		case "writes":
			m.Writes = p.each(n, p.pathPattern)
		case "url":
			m.URL = p.each(n, p.glob)
		case "host":
			m.Host = p.each(n, p.glob)
		case "content":
			m.Content = p.patterns(n)
		case "prompt":
			m.Prompt = p.patterns(n)
		case "text":
			m.Text = p.patterns(n)
		case "secret":
			m.Secret = p.secretIDs(n, "secret")
		case "agent":
			m.Agent = p.each(n, p.agent)
		case "mcp":
			m.MCP = p.each(n, p.glob)
		case "mode":
			m.Mode = p.each(n, p.glob)
		case "subagent":
			m.Subagent = p.each(n, p.glob)
		case "failed":
			failed := p.boolean(n)
			m.Failed = &failed
		case "not":
			not := p.match(n)
			m.Not = &not
		default:
			return false
		}
		return true
	})
	if n.Kind == yaml.Map && len(n.Pairs) == 0 {
		p.fail(n, "", "the match is empty")
	}
	return m
}

func (p *fileParser) patterns(n *yaml.Node) (all []Pattern) {
	for _, text := range p.each(n, p.pattern) {
		pattern := Pattern{Text: text}
		if re, ok := regexpOf(text); ok {
			if pattern.Near = nearTexts(re); pattern.Near == "" {
				pattern.Literal = requiredLiteral(re)
			}
		}
		all = append(all, pattern)
	}
	return all
}

// each reads text or a list of texts and checks every one.
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
	if re, ok := regexpOf(n.Text); ok {
		p.regexp(n, re)
	} else if _, err := path.Match(n.Text, ""); err != nil {
		p.fail(n, "", "%q is no glob: %v", n.Text, err)
	}
}

func (p *fileParser) pattern(n *yaml.Node) {
	if re, ok := regexpOf(n.Text); ok {
		p.regexp(n, re)
	}
}

func (p *fileParser) pathPattern(n *yaml.Node) {
	if !doublestar.ValidatePattern(n.Text) {
		p.fail(n, "", "%q is no path pattern", n.Text)
	}
}

func (p *fileParser) commandPattern(n *yaml.Node) {
	if _, err := shell.Compile(n.Text); err != nil {
		p.fail(n, "", "%v", err)
	}
}

// advice refuses what no shell could run.
func (p *fileParser) advice(n *yaml.Node) {
	if script := shell.Parse(n.Text); len(script.Commands) == 0 || len(script.Unknown) > 0 {
		p.fail(n, "write a command that can be run as it stands", "the advice %q is no command", n.Text)
	}
}

// agent refuses what is likely to be a mistyped name. Others may be those of agents that
// somebody writes.
func (p *fileParser) agent(n *yaml.Node) {
	if _, ok := dialect.FindAgent(n.Text); ok || strings.ContainsAny(n.Text, "*?[") {
		return
	}
	known := dialect.Names()
	for _, d := range dialect.Dialects {
		known = append(known, d.Aliases...)
	}
	if hint := didYouMean(n.Text, known); hint != "" {
		p.fail(n, hint, "unknown agent %q", n.Text)
	}
}
