package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/systems"
)

// The hints for words that name the same thing in several mappings.
const (
	writeBlock    = "write `block: REASON`; the other actions are ask and allow"
	writeAction   = "the action is a key: `block: REASON`, `ask: REASON`, `allow: true` or `run: PROGRAM`"
	writeWhen     = "write `when: EXPRESSION` next to `on`, for example `when: tool.name == \"Bash\"`"
	writeOn       = "write `on: EVENT`, for example `on: tool.before`"
	writeHooks    = "write `hooks:` and a list of entries: `- {name: ..., on: tool.before, match: {...}, block: REASON}`"
	writeUse      = "write `use:` for packs of Grapnel and `load:` for hook files of other systems; a policy cannot include another policy"
	writeComment  = "write it as a comment, after #"
	writeServer   = "write it below `http` or `notify`: `http: {url: URL, %s: ...}`"
	writeDisabled = "write `mode: observe` to only record the decision, or run \"grapnel hooks disable NAME\""
)

// meant has hints for keys that other systems have, or that belong into another mapping. It is a
// table without a map, because maps cost time at each start of grapnel-hook.
var meant = [...]struct{ what, words, hint string }{ // what: the mapping, as messages name it
	{"the policy", " rules rule policies policy guards hook ", writeHooks},
	{"the policy", " include includes import imports extends ", writeUse},
	{"the policy", " packs ", "write `use: [PACK]`"},
	{"the policy", " agents agent ", "each hook selects agents: `match: {agent: claude-code}`"},
	{"the policy", " mode ", "write `defaults: {mode: observe}`"},
	{"the policy", " message ", "write it in a hook, next to its action: the user sees it with the decision"},
	{"the policy", " name description title ", writeComment},
	{"the policy", " timeout ", "write `defaults: {timeout: 5s}`"},
	{"the policy", " on_error ", "write `defaults: {on_error: closed}`"},
	{"the policy", " sandbox ", "write `defaults: {sandbox: ...}`"},
	{"the policy", " permissions ", "write a hook for each permission, with `allow: true`, `ask: REASON` or `block: REASON`"},
	{"the policy", " tests ", "this is a file of tests: run \"grapnel test FILE\""},
	{"a hook", " deny reject forbid refuse prevent stop ", writeBlock},
	{"a hook", " warn ", "write `message: TEXT` next to an action: the user sees it"},
	{"a hook", " action decision do then effect type permission ", writeAction},
	{"a hook", " reason ", "the reason is the value of the action: `block: REASON`"},
	{"a hook", " if condition where expr ", writeWhen},
	{"a hook", " unless ", "write `except: {...}` with match keys"},
	{"a hook", " event events trigger hook ", writeOn},
	{"a hook", " matcher matchers ", "write `match: {tool: ...}`"},
	{"a hook", " command ", "write `match: {command: ...}` to select commands, or `run: PROGRAM` to start a program"},
	{"a hook", " exec program script ", "write `run: PROGRAM`"},
	{"a hook", " args ", "write `run: [PROGRAM, ARGUMENT]`"},
	{"a hook", " webhook ", "write `http: URL` to ask a server, or `notify: URL` to inform it"},
	{"a hook", " enabled disabled ", writeDisabled},
	{"a hook", " description comment title ", writeComment},
	{"a hook", " redact redaction ", "write `mask: true` to hide secrets, or `replace:` with patterns"},
	{"a hook", " id ", "write `name: ...`"},
	{"a hook", " per count ", "write `limit: {count: 20, per: 1m}`"},
	{"a hook", " within ", "write `after: {event: EVENT, within: 5m}`"},
	{"a hook", " pattern ", "write `replace: [{pattern: RE2, with: TEXT}]`, or the pattern in a match key: `match: {text: /RE2/}`"},
	{"match", " cmd commandline ", "write `command: ...`"},
	{"match", " regex pattern ", "write /RE2/ as the value of tool, host, url, text, content or prompt"},
	{"match", " file files ", "write `path: ...`"},
	{"match", " dir directory ", "write `path: DIRECTORY/**`"},
	{"match", " tool_name name ", "write `tool: ...`"},
	{"match", " server ", "write `mcp: SERVER`, or `host: NAME` for a server on the network"},
	{"match", " domain ", "write `host: ...`"},
	{"match", " if ", writeWhen},
	{"match", " any or ", "write a list: one of its values must match"},
	{"match", " and all ", "write several keys: all of them must match"},
	{"match", " input ", "write `when:` next to `match`, for example `when: tool.input.timeout > 60`"},
	{"http", " method ", "remove it: the request is a POST"},
	{"http", " token auth ", "write `headers: {authorization: env:NAME}`"},
	{"notify", " method ", "remove it: the request is a POST"},
	{"notify", " token auth ", "write `headers: {authorization: env:NAME}`"},
	{"use", " name ", "write `pack: ...`"},
	{"use", " disable without ", "write `except: [HOOK]`"},
	{"use", " hooks ", "a pack is used as a whole: leave hooks out with `except: [HOOK]`"},
}

// serverOnly lists keys of `http:` and `notify:` that no hook has.
var serverOnly = []string{"headers", "body", "breaker", "ordered", "max_in_flight"}

// keysOfHooks lists the actions, and other keys of a hook that are not match keys. It is not derived from
// the table of actions, whose parsers report unknown keys.
var keysOfHooks = []string{
	"block", "ask", "contain", "allow", "limit", "context", "replace", "mask", "set", "run", "worker", "http", "notify", "builtin",
	"on", "match", "except", "when", "after", "message", "advice", "incident", "fields", "env", "priority", "async", "speaks", "timeout", "on_error", "sandbox",
}

// examples has a value for each mapping that users write as something else.
var examples = [...]struct{ what, hint string }{
	{"the policy", "begin with `version: 1` and `hooks:`"},
	{"a hook", "for example `- {name: no-rm, on: tool.before, match: {command: rm -rf}, block: REASON}`"},
	{"match", "for example {command: rm -rf}; a list belongs below a key: {command: [rm -rf, dd]}"},
	{"defaults", "for example {timeout: 5s, on_error: closed}"},
	{"limit", "for example {count: 20, per: 1m}"},
	{"retention", "for example {days: 30, size: 1GB}"},
	{"redact", "for example {fields: [/tool/input/password]}"},
	{"after", "for example {event: tool.after, within: 5m}"},
	{"pack", "write `pack: {version: 1}`"},
	{"secrets", "for example {rules: rules.toml}"},
}

// mappingHint returns an example of a mapping, or "".
func mappingHint(what string) string {
	for _, row := range examples {
		if row.what == what {
			return row.hint
		}
	}
	return ""
}

// keyHint returns the way out for an unknown key of a mapping: the key of Grapnel for this purpose,
// the mapping that has the key, or the most similar key. known are the keys of the mapping.
func keyHint(word, what string, known []string) string {
	lower := strings.ToLower(word)
	for _, row := range meant {
		if row.what == what && strings.Contains(row.words, " "+lower+" ") {
			return row.hint
		}
	}
	inMatch := func(key string) bool {
		return key == "not" || key == "failed" || slices.ContainsFunc(match.Keys, func(k match.Key) bool { return k.Name == key })
	}
	single := strings.TrimSuffix(lower, "s")
	switch {
	case what == "a hook" && slices.Contains(serverOnly, lower):
		return fmt.Sprintf(writeServer, lower)
	case what == "a hook" && inMatch(lower):
		return fmt.Sprintf("write it below `match`: `match: {%s: ...}`", lower)
	case what == "a hook" && wording.NearestWord(word, known) == "" && inMatch(single):
		return fmt.Sprintf("write it below `match`: `match: {%s: [...]}`", single)
	case what == "match" && slices.Contains(keysOfHooks, lower):
		return fmt.Sprintf("`%s` is a key of the hook: write it next to `match`", lower)
	case what == "the policy" && slices.Contains(keysOfHooks, lower):
		return fmt.Sprintf("`%s` is a key of a hook: write it in an entry of `hooks`, after `- name: ...`", lower)
	case what == "the policy" && Kinds(word) != nil:
		return fmt.Sprintf("write `hooks:` and an entry `- {name: ..., on: %s, ...}`", word)
	}
	return cmp.Or(wording.Nearest(word, known), "valid keys: "+strings.Join(known, ", "))
}

// hookFileOf returns the agent whose hook file a user gives as a policy, such as Claude Code with
// its settings.json, or nil. In these files, `hooks` is a mapping of events.
func hookFileOf(root *yaml.Node) *dialect.Dialect {
	hooks := root.Get("hooks")
	if hooks == nil || hooks.Kind != yaml.Map || len(hooks.Pairs) == 0 {
		return nil
	}
	for _, d := range dialect.All() {
		if !slices.ContainsFunc(hooks.Pairs, func(pair yaml.Pair) bool { return d.Row(pair.Key.Text) == nil }) {
			return d
		}
	}
	return nil
}

// hookFile reports a hook file of an agent, which is not a policy.
func (p *fileParser) hookFile(n *yaml.Node, d *dialect.Dialect) {
	hint := "write an entry for each hook: `- {name: ..., on: EVENT, run: PROGRAM}`"
	if slices.Contains(systems.Names, d.Name) {
		hint = fmt.Sprintf("convert it with \"grapnel import %s %s\", or write a policy with `load: [{format: %[1]s, file: %[2]s}]`", d.Name, p.file)
	}
	p.fail(n.Get("hooks"), hint, "this is a hook file of %s, not a policy", d.Title)
}
