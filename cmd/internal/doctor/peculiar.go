package doctor

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// peculiar has the checks that are specific to one agent: kinds of trust, and files that prevent
// it from starting. They run only if Grapnel is installed.
var peculiar = map[string]func(*facts, *agent) []Finding{
	"codex":       func(f *facts, a *agent) []Finding { return append(codexTrust(f, a), codexFile(a)...) },
	"gemini-cli":  func(f *facts, a *agent) []Finding { return folderTrust(f, a, true) },
	"qwen-code":   func(f *facts, a *agent) []Finding { return folderTrust(f, a, false) },
	"openclaw":    openclawGrants,
	"opencode":    openCodePlugin,
	"copilot-cli": copilotFile,
	"crush":       crushEntries,
	"cursor":      cursorEntries,
}

// openCodePlugin judges the plugin for OpenCode 2, which needs a default export. Without one,
// OpenCode 2 writes a line to its log and runs the agent without the plugin.
func openCodePlugin(_ *facts, a *agent) []Finding {
	if a.version == "" || install.Older(a.version, "2") {
		return nil
	}
	found := []Finding{{
		ID: "agent.documented", Level: Info, What: fmt.Sprintf("%s %s was not tested", a.Title, a.version),
		Why: "Grapnel knows the hooks of version 2 only from its source and reports", Hint: "check with a harmless command that a rule blocks it",
	}}
	for _, in := range a.installs {
		if in.named && in.void == "" {
			found = append(found, Finding{
				ID: "settings.void", Level: Bad, Subject: in.Settings, What: fmt.Sprintf("%s %s does not load %s: it is a plugin for version 1", a.Title, a.version, in.Settings),
				Why: "the agent does not call Grapnel", Hint: fmt.Sprintf("grapnel install %s --scope %s", a.Name, in.Scope),
			})
		}
	}
	return found
}

// layer returns the file of a scope that Switch.File would name.
func (a *agent) layer(scope install.Scope, rel string) *layer {
	for i := range a.layers {
		if l := &a.layers[i]; l.scope == string(scope) && l.rel == rel {
			return l
		}
	}
	return nil
}

// codexTrust compares the trusted hashes of Codex with the entries of Grapnel. Codex skips an
// untrusted hook silently (seen live, 0.169.0).
func codexTrust(_ *facts, a *agent) []Finding {
	var found []Finding
	state := map[string]any{}
	if l := a.layer(install.User, ".codex/config.toml"); l != nil {
		if v, ok := at(l.tree, "hooks.state"); ok {
			state, _ = v.(map[string]any)
		}
	}
	for _, in := range a.installs {
		l := a.layerOf(in.Settings)
		if l == nil || in.Scope == string(install.Managed) { // managed hooks are trusted
			continue
		}
		var not, off []string
		for _, h := range l.hooks {
			if !h.Ours {
				continue
			}
			entry, _ := state[fmt.Sprintf("%s:%s:%d:%d", l.file, snake(h.Event), h.Group, h.Index)].(map[string]any)
			switch hash, _ := entry["trusted_hash"].(string); {
			case entry["enabled"] == false:
				off = append(off, h.Event)
			case hash != codexHash(h):
				not = append(not, h.Event)
			}
		}
		if len(not) > 0 {
			found = append(found, Finding{
				ID: "trust.hooks", Level: Bad, Subject: l.file, What: fmt.Sprintf("Codex does not trust Grapnel's entries for %s", strings.Join(not, ", ")),
				Why: "it silently skips hooks that are not trusted", Hint: "start codex, and trust the entries named Grapnel when it asks, or in /hooks",
			})
		}
		if len(off) > 0 {
			found = append(found, Finding{
				ID: "trust.hooks", Level: Bad, Subject: l.file, What: fmt.Sprintf("Grapnel's entries for %s are switched off in Codex", strings.Join(off, ", ")), Hint: "open codex, enter /hooks, and switch them on",
			})
		}
	}
	return found
}

// entries calls see for all entries of a file, sorted by event, in the order of the lists.
func (l *layer) entries(see func(event string, entry map[string]any)) {
	events, _ := l.tree["hooks"].(map[string]any)
	for _, event := range slices.Sorted(maps.Keys(events)) {
		list, _ := events[event].([]any)
		for _, v := range list {
			if entry, ok := v.(map[string]any); ok {
				see(event, entry)
			}
		}
	}
}

// void returns the finding for a file that its agent ignores completely.
func void(a *agent, l *layer, what string) Finding {
	return Finding{
		ID: "settings.void", Level: Bad, Subject: l.file, What: fmt.Sprintf("%s does not read %s: %s", a.Title, l.file, what),
		Why: "so it ignores the whole file", Hint: "repair or remove it",
	}
}

// codexFile finds entries that make Codex ignore a whole file of hooks (seen live, 0.169.0).
func codexFile(a *agent) []Finding {
	var found []Finding
	for i := range a.layers {
		l := &a.layers[i]
		if l.rel != "" {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(l.tree)) {
			if !slices.Contains(a.Setup().Tops, key) {
				found = append(found, void(a, l, fmt.Sprintf("it has the top-level member %q", key)))
			}
		}
		l.entries(func(event string, group map[string]any) {
			list, _ := group["hooks"].([]any)
			for _, v := range list {
				handler, _ := v.(map[string]any)
				kind, _ := handler["type"].(string)
				if !slices.Contains([]string{"command", "mcp_tool", "prompt", "agent"}, kind) {
					found = append(found, void(a, l, fmt.Sprintf("an entry for %s has the type %q", event, kind)))
				}
				if timeout, ok := handler["timeout"].(float64); ok && timeout != math.Trunc(timeout) {
					found = append(found, void(a, l, fmt.Sprintf("an entry for %s has a timeout that is not a whole number", event)))
				}
			}
		})
	}
	return found
}

// copilotFile checks the version, because Copilot CLI rejects a file with another one (seen live,
// 1.0.102).
func copilotFile(_ *facts, a *agent) []Finding {
	var found []Finding
	for i := range a.layers {
		l := &a.layers[i]
		if version, ok := l.tree["version"]; ok && (l.rel == "" || l.rel == besideOurs) && version != 1.0 {
			found = append(found, void(a, l, "its version is not 1"))
		}
	}
	return found
}

var upper = regexp.MustCompile(`(.)([A-Z])`)

func snake(name string) string { return strings.ToLower(upper.ReplaceAllString(name, "${1}_$2")) }

// codexHash returns the hash that Codex stores for an entry: SHA-256 of compact JSON with sorted
// members, in which missing members have their defaults (reproduced live, 0.169.0).
func codexHash(h install.Found) string {
	var entry map[string]any
	if json.Unmarshal(h.Entry, &entry) != nil {
		return ""
	}
	timeout, given := entry["timeout"].(float64)
	if ends := h.Event == "SessionEnd" || h.Event == "Interrupt"; ends && !given {
		timeout = 1
	} else if ends {
		timeout = min(timeout, 3)
	} else if !given {
		timeout = 600
	}
	async, _ := entry["async"].(bool)
	handler := map[string]any{"type": "command", "command": h.Command, "timeout": int64(max(timeout, 1)), "async": async}
	if message, ok := entry["statusMessage"]; ok {
		handler["statusMessage"] = message
	}
	pinned := map[string]any{"event_name": snake(h.Event), "hooks": []any{handler}}
	if h.Matcher != "" {
		pinned["matcher"] = h.Matcher
	}
	text, err := rawjson.Marshal(pinned)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// folderTrust checks agents that run no hooks in an untrusted folder. asks is whether they ask
// for trust by default.
func folderTrust(f *facts, a *agent, asks bool) []Finding {
	dir := strings.TrimSuffix(a.Setup().User, "/settings.json")
	for _, l := range a.layers {
		if on, ok := at(l.tree, "security.folderTrust.enabled"); ok && l.scope != string(install.Project) {
			asks = on == true
		}
	}
	l := a.layer(install.User, dir+"/trustedFolders.json")
	if !asks || l == nil || f.dir == "" {
		return nil
	}
	best, trust := "", ""
	for folder, v := range l.tree {
		word, _ := v.(string)
		if word == "TRUST_PARENT" {
			folder = filepath.Dir(folder)
		}
		if within(f.dir, folder) && len(folder) > len(best) {
			best, trust = folder, word
		}
	}
	switch {
	case trust == "DO_NOT_TRUST":
		return []Finding{{ID: "trust.folder", Level: Bad, Subject: best, What: a.Title + " is set not to trust " + best, Why: "it runs no hooks in an untrusted folder", Hint: "trust it in " + l.file + ", or with /permissions in the agent"}}
	case trust == "":
		return []Finding{{ID: "trust.folder", Level: Info, Subject: f.dir, What: a.Title + " has not been asked yet whether to trust " + f.dir, Why: "it runs no hooks in an untrusted folder", Hint: "start it here once and answer its question"}}
	}
	return nil
}

// openclawGrants checks the setting that OpenClaw requires before a plugin may see conversations.
// Without it, OpenClaw drops the plugin's hooks silently (seen live).
func openclawGrants(_ *facts, a *agent) []Finding {
	var found []Finding
	for _, in := range a.installs {
		l := a.layerOf(in.Settings)
		if l == nil || l.tree == nil {
			continue
		}
		if granted, ok := at(l.tree, "plugins.entries.grapnel.hooks.allowConversationAccess"); !ok || granted != true && granted != false {
			found = append(found, Finding{
				ID: "settings.grant", Level: Bad, Subject: l.file, What: "plugins.entries.grapnel.hooks.allowConversationAccess is not true in " + l.file,
				Why: "so Grapnel silently gets no prompts, answers and turns", Hint: "grapnel install " + a.Name,
			})
		}
		if len(in.Files) > 0 && !slices.ContainsFunc(in.Files, func(f installation.File) bool {
			paths, _ := at(l.tree, "plugins.load.paths")
			list, _ := paths.([]any)
			return slices.Contains(list, any(filepath.ToSlash(filepath.Dir(f.Path))))
		}) {
			found = append(found, Finding{
				ID: "settings.grant", Level: Bad, Subject: l.file, What: "plugins.load.paths in " + l.file + " does not contain the plugin of Grapnel", Why: "OpenClaw does not load it", Hint: "grapnel install " + a.Name,
			})
		}
		if list, ok := at(l.tree, "plugins.allow"); ok {
			names, _ := list.([]any)
			if !slices.Contains(names, any("grapnel")) {
				found = append(found, Finding{
					ID: "settings.grant", Level: Bad, Subject: l.file, What: "plugins.allow in " + l.file + " does not name grapnel", Why: "OpenClaw loads only the plugins in this list", Hint: "grapnel install " + a.Name,
				})
			}
		}
	}
	return found
}

// cursorEntries finds entries that make Cursor silently ignore a whole file, including Grapnel's
// entries (seen in its engine, 1.0.32).
func cursorEntries(_ *facts, a *agent) []Finding {
	var found []Finding
	for i := range a.layers {
		l := &a.layers[i]
		if l.rel != "" || !l.is || l.err != "" {
			continue
		}
		for _, what := range cursorFaults(l) {
			found = append(found, Finding{
				ID: "settings.void", Level: Bad, Subject: l.file, What: fmt.Sprintf("Cursor does not read %s: %s", l.file, what), Why: "one wrong entry makes it ignore the whole file", Hint: "repair or remove it",
			})
		}
	}
	return found
}

func cursorFaults(l *layer) (wrong []string) {
	if v, _ := l.tree["version"].(float64); v < 1 || v != math.Trunc(v) {
		wrong = append(wrong, "its version is not a whole number above 0")
	}
	for i := range l.hooks {
		for _, what := range cursorEntryFaults(&l.hooks[i]) {
			wrong = append(wrong, fmt.Sprintf("an entry for %s %s", l.hooks[i].Event, what))
		}
	}
	l.entries(func(event string, entry map[string]any) {
		if _, nested := entry["hooks"]; nested {
			wrong = append(wrong, fmt.Sprintf("an entry for %s has a list of hooks, which only Claude Code supports", event))
		}
	})
	if text := slash(l.tree); text != "" {
		wrong = append(wrong, fmt.Sprintf("%q contains // or /*, which Cursor reads as a comment", cut(text, 60)))
	}
	return wrong
}

func cursorEntryFaults(h *install.Found) (wrong []string) {
	var entry map[string]any
	_ = json.Unmarshal(h.Entry, &entry) // entryOf has encoded it
	for _, name := range []string{"timeout", "loop_limit"} {
		value, ok := entry[name]
		if n, _ := value.(float64); ok && n <= 0 && (value != nil || name == "timeout") {
			wrong = append(wrong, "has a "+name+" that is not a number above 0")
		}
	}
	if matcher, ok := entry["matcher"]; ok {
		if text, is := matcher.(string); !is || text != "*" && !validRegexp(text) {
			wrong = append(wrong, "has a matcher that is not a regular expression")
		}
	}
	switch kind, given := entry["type"]; {
	case given && kind != "command" && kind != "prompt":
		wrong = append(wrong, "is neither a command nor a prompt")
	case kind != "prompt" && h.Command == "":
		wrong = append(wrong, "has no command")
	}
	return wrong
}

// slash returns a string with // or /* in it, which Cursor reads as a comment.
func slash(v any) string {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, "//") || strings.Contains(v, "/*") {
			return v
		}
	case []any:
		for _, item := range v {
			if text := slash(item); text != "" {
				return text
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if text := cmp.Or(slash(key), slash(v[key])); text != "" {
				return text
			}
		}
	}
	return ""
}

// validRegexp reports whether text may be a JavaScript regular expression: it is valid in Go, or
// has (?, which may begin a lookaround.
func validRegexp(text string) bool {
	_, err := regexp.Compile(text)
	return err == nil || strings.Contains(text, "(?")
}

// crushEntries finds entries that prevent Crush from starting, because its validation is fatal
// (seen live, 0.86.0).
func crushEntries(_ *facts, a *agent) []Finding {
	var found []Finding
	for _, l := range a.layers {
		for _, h := range l.hooks {
			var entry map[string]any
			_ = json.Unmarshal(h.Entry, &entry)
			why := ""
			if _, err := regexp.Compile(h.Matcher); err != nil {
				why = fmt.Sprintf("the matcher %q is not a regular expression", h.Matcher)
			} else if command, _ := entry["command"].(string); command == "" {
				why = "it has no command"
			}
			if why != "" {
				found = append(found, fatal(&l, h.Event, why))
			}
		}
		l.entries(func(event string, entry map[string]any) {
			if _, nested := entry["hooks"]; nested {
				found = append(found, fatal(&l, event, "it has a list of hooks, which only Claude Code supports, and no command"))
			}
		})
	}
	return found
}

func fatal(l *layer, event, why string) Finding {
	return Finding{
		ID: "settings.fatal", Level: Bad, Subject: l.file, What: fmt.Sprintf("an entry for %s in %s: %s", event, l.file, why), Why: "Crush does not start with this entry", Hint: "repair or remove it",
	}
}
