package doctor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

func init() { peculiar["codex"] = codexChecks }

func codexChecks(_ *facts, a *agent) []Finding { return append(codexTrust(a), codexFile(a)...) }

// codexTrust compares the trusted hashes of Codex with the entries of Grapnel. Codex skips an
// untrusted hook silently (seen live, 0.169.0).
func codexTrust(a *agent) []Finding {
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
