package policy

import (
	"fmt"
	"path/filepath"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// An action is the effect of a hook on the events that it matches. Each hook has exactly one
// action.
//
// The row of an action in [actions] defines how the action is parsed, which events permit it, and
// how its hook is built. An action also needs a field in [policyfile.Hook], which the snapshot
// codec writes, and an entry in the JSON schema.
type action struct {
	name string // key in a policy file

	// is reports whether a hook has this action.
	is func(*policyfile.Hook) bool

	// parse reads the value of the key into the hook.
	parse func(*fileParser, *policyfile.Hook, *yaml.Node)

	// options reads `async`, `speaks` and `env`; nil = the action has none of these keys.
	options func(*fileParser, *policyfile.Hook, *options)

	// forbidden returns why an event does not permit the action; nil or "" = the event permits it.
	forbidden func(*policyfile.Hook, *grapnel.Contract) string

	// notInPack returns why a pack cannot contain the action, and a hint; nil or "" = it can.
	notInPack func(*yaml.Node) (problem, hint string)

	// build adds the action to a Spec that already has its match and events.
	build func(*Builder, *policyfile.Hook, *grapnel.Spec) error
}

// actions lists all actions, in the order in which messages list them.
var actions = []action{
	{
		name:  "block",
		is:    func(h *policyfile.Hook) bool { return h.Decide == "block" },
		parse: func(p *fileParser, h *policyfile.Hook, n *yaml.Node) { p.decision(h, n, "block") },
		build: (*Builder).buildDecision,
		forbidden: func(_ *policyfile.Hook, c *grapnel.Contract) string {
			return unless(c.Blocks != grapnel.BlockingNothing, "%s cannot be blocked, because agents only report it", c.Kind)
		},
	},
	{
		name:  "ask",
		is:    func(h *policyfile.Hook) bool { return h.Decide == "ask" },
		parse: func(p *fileParser, h *policyfile.Hook, n *yaml.Node) { p.decision(h, n, "ask") },
		build: (*Builder).buildDecision,
		forbidden: func(_ *policyfile.Hook, c *grapnel.Contract) string {
			return unless(c.Blocks == grapnel.BlockingAction, "%s cannot ask: it has happened or cannot be stopped", c.Kind)
		},
	},
	{
		name:  "contain",
		is:    func(h *policyfile.Hook) bool { return h.Contain != nil },
		parse: (*fileParser).contain,
		build: (*Builder).buildContain,
		forbidden: func(_ *policyfile.Hook, c *grapnel.Contract) string {
			return unless(c.Kind == grapnel.ToolBefore, "%s has no shell line that could run in a sandbox: use %s", c.Kind, grapnel.ToolBefore)
		},
		notInPack: func(*yaml.Node) (problem, hint string) {
			return "a pack cannot run programs, which `contain` does", hintNotInPack
		},
	},
	{
		name:  "allow",
		is:    func(h *policyfile.Hook) bool { return h.Decide == "allow" },
		parse: func(p *fileParser, h *policyfile.Hook, n *yaml.Node) { p.decision(h, n, "allow") },
		build: (*Builder).buildDecision,
		forbidden: func(_ *policyfile.Hook, c *grapnel.Contract) string {
			return unless(c.Permit, "%s has no permission prompt that `allow` could skip", c.Kind)
		},
	},
	{
		name:  "limit",
		is:    func(h *policyfile.Hook) bool { return h.Limit != nil },
		parse: func(p *fileParser, h *policyfile.Hook, n *yaml.Node) { h.Limit = p.limit(n) },
		build: func(b *Builder, h *policyfile.Hook, s *grapnel.Spec) error {
			s.Phase, s.Hook = grapnel.PhaseRule, state.NewLimit(h, s.Source, b.Facts)
			return nil
		},
		forbidden: func(h *policyfile.Hook, c *grapnel.Contract) string {
			switch {
			case c.Blocks == grapnel.BlockingStop:
				return fmt.Sprintf("a limit would keep the agent from stopping on %s", c.Kind)
			case c.Blocks == grapnel.BlockingNothing:
				return fmt.Sprintf("%s cannot be blocked", c.Kind)
			}
			return unless(h.Limit.Then != "ask" || c.Blocks == grapnel.BlockingAction, "%s cannot ask: it has happened", c.Kind)
		},
	},
	{
		name:    "context",
		is:      func(h *policyfile.Hook) bool { return h.Context != nil },
		parse:   func(p *fileParser, h *policyfile.Hook, n *yaml.Node) { h.Context = p.context(n) },
		options: (*fileParser).contextOptions,
		build:   (*Builder).buildContext,
		forbidden: func(_ *policyfile.Hook, c *grapnel.Contract) string {
			return unless(c.Context, "no context can be added on %s", c.Kind)
		},
		notInPack: func(n *yaml.Node) (problem, hint string) {
			switch {
			case n.Get("file") != nil:
				return "a pack cannot use other files", "write the text itself"
			case n.Get("run") != nil:
				return noPrograms(n)
			}
			return "", ""
		},
	},
	{
		name:  "replace",
		is:    func(h *policyfile.Hook) bool { return h.Replace != nil },
		parse: func(p *fileParser, h *policyfile.Hook, n *yaml.Node) { h.Replace = p.replacements(n) },
		build: func(_ *Builder, h *policyfile.Hook, s *grapnel.Spec) error {
			s.Phase, s.Hook = grapnel.PhaseRewrite, newReplace(h)
			return nil
		},
		forbidden: forbiddenText,
	},
	{
		name:  "mask",
		is:    func(h *policyfile.Hook) bool { return h.Mask != nil },
		parse: func(p *fileParser, h *policyfile.Hook, n *yaml.Node) { h.Mask = p.secretIDs(n, "mask") },
		build: func(b *Builder, h *policyfile.Hook, s *grapnel.Spec) error {
			s.Phase, s.Hook = grapnel.PhaseRewrite, &masking{match.NewGlobs(h.Mask), b.Facts.Secrets, h.Fields, h.Message}
			return nil
		},
		forbidden: forbiddenText,
	},
	{
		name:  "set",
		is:    func(h *policyfile.Hook) bool { return h.Set != nil || h.Places != nil },
		parse: (*fileParser).set,
		build: func(_ *Builder, h *policyfile.Hook, s *grapnel.Spec) error {
			s.Phase, s.Hook = grapnel.PhaseRewrite, newSet(h)
			return nil
		},
		forbidden: forbiddenFields,
	},
	{
		name:      "run",
		is:        func(h *policyfile.Hook) bool { return h.Run != nil && !h.Run.Worker && h.Builtin == nil },
		parse:     func(p *fileParser, h *policyfile.Hook, n *yaml.Node) { h.Run = p.command(n) },
		options:   (*fileParser).programOptions,
		build:     (*Builder).buildProgram,
		notInPack: noPrograms,
	},
	{
		name: "worker",
		is:   func(h *policyfile.Hook) bool { return h.Run != nil && h.Run.Worker },
		parse: func(p *fileParser, h *policyfile.Hook, n *yaml.Node) {
			h.Run = p.command(n)
			h.Run.Worker = true
		},
		options:   (*fileParser).programOptions,
		build:     (*Builder).buildProgram,
		notInPack: noPrograms,
	},
	{
		name:    "http",
		is:      func(h *policyfile.Hook) bool { return h.HTTP != nil && !h.HTTP.Notify },
		parse:   func(p *fileParser, h *policyfile.Hook, n *yaml.Node) { h.HTTP = p.http(n) },
		options: (*fileParser).httpOptions,
		build:   (*Builder).buildHTTP,
		notInPack: func(*yaml.Node) (problem, hint string) {
			return "a pack cannot call servers", hintNotInPack
		},
	},
	{
		name:    "notify",
		is:      func(h *policyfile.Hook) bool { return h.HTTP != nil && h.HTTP.Notify },
		parse:   func(p *fileParser, h *policyfile.Hook, n *yaml.Node) { h.HTTP = p.notify(n) },
		options: (*fileParser).notifyOptions,
		build:   (*Builder).buildHTTP,
		notInPack: func(*yaml.Node) (problem, hint string) {
			return "a pack cannot notify servers", hintNotInPack
		},
	},
	{
		name:    "builtin",
		is:      func(h *policyfile.Hook) bool { return h.Builtin != nil },
		parse:   (*fileParser).builtin,
		options: (*fileParser).builtinOptions,
		build:   (*Builder).buildBuiltin,
		forbidden: func(h *policyfile.Hook, c *grapnel.Contract) string {
			return unless(h.Builtin.Name != policyfile.BuiltinSummary || c.Kind == grapnel.SessionEnd, "a session summary needs the event %s", grapnel.SessionEnd)
		},
		notInPack: func(*yaml.Node) (problem, hint string) {
			return "a pack cannot write files", hintNotInPack
		},
	},
}

const hintNotInPack = "write the hook into the file that uses the pack"

func noPrograms(*yaml.Node) (problem, hint string) {
	return "a pack cannot run programs", hintNotInPack
}

// unless returns "" if ok is true, and the formatted message otherwise.
func unless(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// actionOf returns the action of a hook, or nil if it has none.
func actionOf(h *policyfile.Hook) *action {
	for i := range actions {
		if actions[i].is(h) {
			return &actions[i]
		}
	}
	return nil
}

// actionKeys returns the keys of all actions; their parsers write into h.
func (p *fileParser) actionKeys(h *policyfile.Hook) []key {
	keys := make([]key, len(actions))
	for i := range actions {
		a := &actions[i]
		keys[i] = key{a.name, func(n *yaml.Node) { a.parse(p, h, n) }}
	}
	return keys
}

// forbidden returns why the event kind does not permit the action of a hook; "" = it does.
func forbidden(h *policyfile.Hook, kind grapnel.Kind) string {
	a := actionOf(h)
	if a == nil || a.forbidden == nil {
		return ""
	}
	return a.forbidden(h, contractOf(kind))
}

// A Builder builds the Specs of one policy.
type Builder struct {
	*policyfile.Policy
	Runners
	Facts *match.FactCache // shared by hooks that see the same events
	State string           // directory for output files of hooks that do not name one
}

// BuildRule builds the Spec of a hook that uses no program, no server and no setting of its file.
func BuildRule(h *policyfile.Hook, source grapnel.Source, facts *match.FactCache) (grapnel.Spec, error) {
	return (&Builder{Policy: &policyfile.Policy{}, Facts: facts}).Spec(h, source)
}

// Build returns the Specs of the hooks, without those whose ways to run are not given. An error is a
// *policyfile.Error.
func (b *Builder) Build(source grapnel.Source) ([]grapnel.Spec, error) {
	if err := CheckHTTP(b.Policy, source.File, source.Scope); err != nil {
		return nil, err
	}
	var specs []grapnel.Spec
	b.Facts.Secrets = match.SecretRules(b.Secrets)
	for i := range b.Hooks {
		h := &b.Hooks[i]
		if h.Program() != nil && b.Command == nil {
			continue
		}
		if h.HTTP != nil && b.makes(h.HTTP) == nil {
			continue
		}
		spec, err := b.Spec(h, source)
		if err != nil {
			return nil, &policyfile.Error{File: source.File, Line: h.Line, Col: 1, Msg: fmt.Sprintf("hook %q: %v", h.Name, err)}
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// Spec returns the Spec of one hook of the policy.
func (b *Builder) Spec(h *policyfile.Hook, source grapnel.Source) (grapnel.Spec, error) {
	spec, err := HookSpec(h, source, b.Facts)
	if err != nil {
		return spec, err
	}
	a := actionOf(h)
	if a == nil {
		return spec, fmt.Errorf("it has no action")
	}
	return spec, a.build(b, h, &spec)
}

func (*Builder) buildDecision(h *policyfile.Hook, spec *grapnel.Spec) error {
	d := decide{Reason: reasonOf(h), Message: h.Message}
	spec.Phase = grapnel.PhaseRule
	err := d.Decision.UnmarshalText([]byte(h.Decide))
	spec.Hook = d
	if m, ok := spec.Match.(*match.Matcher); ok && m.AsksForCheckouts() {
		spec.Hook = &doubting{d, m}
	}
	if h.Approve != nil {
		spec.Hook = &asking{d, *h.Approve}
	}
	return err
}

// buildContext builds the hook of a `context:` action. The hook adds information and does not
// block, so by default it fails open.
func (b *Builder) buildContext(h *policyfile.Hook, spec *grapnel.Spec) error {
	if spec.OnError == grapnel.OnErrorDefault {
		spec.OnError = grapnel.OnErrorOpen
	}
	if h.Context.Run != nil {
		return b.buildProgram(h, spec)
	}
	spec.Phase, spec.Hook = grapnel.PhaseRule, &addContext{what: *h.Context, dir: filepath.Dir(spec.Source.File), message: h.Message}
	return nil
}

func (b *Builder) buildProgram(h *policyfile.Hook, spec *grapnel.Spec) error {
	cmd := *h.Program()
	cmd.Dir, cmd.Scope = filepath.Dir(spec.Source.File), spec.Source.Scope
	if selected, _ := spec.Match.(*match.Matcher); !cmd.Worker { // a worker gets no variables of events
		cmd.CommandDir = selected.Dir
	}
	spec.Hook = b.Command(cmd)
	spec.Timeout = policyfile.FirstDuration(h.Timeout, b.Defaults.Timeout, policyfile.Duration(policyfile.DefaultTimeout))
	b.defaultOnError(spec)
	if spec.OnError == grapnel.OnErrorDefault {
		spec.OnError = dialect.OnErrorOf(cmd.Speaks)
	}
	FailOpen(spec)
	if cmd.Async {
		spec.Phase = grapnel.PhaseObserve
	}
	return nil
}

// FailOpen makes a program or a server fail open, unless the policy or its scope sets something else.
// A user can do nothing about a broken program in the middle of a task, and sees a message about it.
func FailOpen(spec *grapnel.Spec) {
	if spec.OnError == grapnel.OnErrorDefault && spec.Source.Scope != grapnel.ScopeManaged {
		spec.OnError = grapnel.OnErrorOpen
	}
}

// defaultOnError applies the file's default for errors to a hook that does not set `on_error:`.
func (b *Builder) defaultOnError(spec *grapnel.Spec) {
	if spec.OnError == grapnel.OnErrorDefault {
		spec.OnError = policyfile.ParseOnError(b.Defaults.OnError)
	}
	if spec.OnError == grapnel.OnErrorDefault && b.Strict {
		spec.OnError = grapnel.OnErrorClosed
	}
}
