package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/files"
)

// A Found is one hook in an agent's configuration, of Grapnel or of another program.
type Found struct {
	Event   string // as the file names it; empty for plugins, which have no events
	Matcher string
	Name    string
	Command string          // the command; for hooks without a command: the address, the prompt or the type
	Entry   json.RawMessage // the original entry with sorted members; nil if the file itself is the hook
	Group   int             // index in the list of the event
	Index   int             // index in the group; 0 without groups

	Ours    bool   // by the form of its command, which anyone can write
	Program string // for Ours: the program of the command
	ID      string // for Ours: the token of the installation
	Root    string // for Ours: the value of --root
}

// Digest returns the fingerprint of the entry: SHA-256, in hex.
func (f *Found) Digest() string {
	return files.Digest(append([]byte(f.Event+"\x00"+f.Matcher+"\x00"+f.Command+"\x00"), f.Entry...))
}

// A Layer is one file from which an agent reads hooks or switches.
type Layer struct {
	Scope Scope
	Rel   string // as in [dialect.Switch]; empty = the file with the hooks
	File  string // the absolute path
}

// Layers returns the files that an agent reads, existing or not: the files with the hooks, and
// the files that Setup.Off names. Managed files are below system. For agents that read whole
// directories, the File of a Layer is a directory.
func (a Agent) Layers(home, project, system string, env func(string) string) []Layer {
	var layers []Layer
	add := func(scope Scope, base, rel, as string) {
		if rel == "" || base == "" {
			return
		}
		l := Layer{Scope: scope, Rel: as}
		var err error
		if l.File, err = a.below(scope, base, rel, env); err == nil && !slices.Contains(layers, l) {
			layers = append(layers, l)
		}
	}
	add(Managed, system, a.managed(), "")
	for _, of := range []struct {
		scope     Scope
		base, rel string
	}{{User, home, a.Setup.User}, {Project, project, a.Setup.Project}} {
		add(of.scope, of.base, of.rel, "")
		for _, over := range a.Setup.Over {
			if of.rel != "" {
				add(of.scope, of.base, path.Join(path.Dir(of.rel), over), "")
			}
		}
	}
	for _, sw := range a.Setup.Off {
		if strings.HasPrefix(sw.File, "/") {
			add(Managed, system, sw.File, sw.File)
			continue
		}
		add(User, home, sw.File, sw.File)
		add(Project, project, sw.File, sw.File)
	}
	return layers
}

// Settings parses a settings file for read-only use, so it accepts comments and trailing commas.
// A name that ends in .toml means TOML, other files are JSON; cuts is Cuts of a [dialect.Setup].
// Empty data is an empty object.
func Settings(file string, data []byte, cuts bool) (map[string]any, error) {
	var tree map[string]any
	if path.Ext(file) == ".toml" {
		if err := toml.Unmarshal(data, &tree); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return tree, nil
	}
	if cuts {
		data = cutComments(data)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return map[string]any{}, nil
	}
	if len(data) > maxSize {
		return nil, fmt.Errorf("%s: larger than %d MiB", file, maxSize>>20)
	}
	if _, deep := survey(data); deep >= 0 {
		return nil, fmt.Errorf("%s: values are nested more than %d deep", file, maxDepth)
	}
	plain, err := hujson.Standardize(append(slices.Clip(data), '\n'))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := json.Unmarshal(plain, &tree); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return tree, nil
}

// cutComments removes comments as some agents do, which also look inside strings.
func cutComments(data []byte) []byte {
	var out []byte
	for i := 0; i < len(data); {
		n := commentLen(data[i:])
		if n == 0 {
			out = append(out, data[i])
			n = 1
		}
		i += n
	}
	return out
}

// Hooks returns the hooks of a settings file that [Settings] has parsed, sorted by the names of
// the events.
func Hooks(setup *dialect.Setup, tree map[string]any) []Found {
	switch setup.Shape {
	case dialect.ShapePlugin:
		return plugins(tree)
	case dialect.ShapeNamed:
		var found []Found
		for _, name := range sortedKeys(tree) {
			events, _ := tree[name].(map[string]any)
			if on, ok := events["enabled"].(bool); !ok || on {
				found = append(found, hooksOf(events)...)
			}
		}
		return found
	case dialect.ShapeGroups, dialect.ShapeFlat, dialect.ShapeList, dialect.ShapeFiles:
	}
	hooks, wrapped := tree["hooks"]
	if list, ok := hooks.([]any); ok {
		var found []Found
		for i, v := range list {
			if entry, ok := v.(map[string]any); ok {
				event := word(entry, "trigger", "event", "name")
				found = append(found, entryOf(event, "", entry, i, 0))
			}
		}
		return found
	}
	events, _ := hooks.(map[string]any)
	if !wrapped && len(setup.Over) > 0 { // the top-level object has the events
		events = tree
	}
	return hooksOf(events)
}

// hooksOf returns the hooks of an object with events.
func hooksOf(events map[string]any) []Found {
	var found []Found
	for _, event := range sortedKeys(events) {
		list, _ := events[event].([]any)
		for i, v := range list {
			entry, ok := v.(map[string]any)
			if !ok {
				continue
			}
			inner, grouped := entry["hooks"].([]any)
			if !grouped {
				found = append(found, entryOf(event, word(entry, "matcher"), entry, i, 0))
				continue
			}
			for j, v := range inner {
				if handler, ok := v.(map[string]any); ok {
					found = append(found, entryOf(event, word(entry, "matcher"), handler, i, j))
				}
			}
		}
	}
	return found
}

// plugins returns the code that a configuration lets an agent load.
func plugins(tree map[string]any) []Found {
	var found []Found
	add := func(name string, entry any) {
		f := Found{Name: name, Command: name, Group: len(found)}
		f.Entry, _ = json.Marshal(entry)
		f.Ours = name == "grapnel" // see Setup.Edits
		found = append(found, f)
	}
	list, _ := tree["plugin"].([]any)
	for _, v := range list {
		if pair, ok := v.([]any); ok && len(pair) > 0 {
			v = pair[0]
		}
		if name, ok := v.(string); ok {
			add(name, v)
		}
	}
	of, _ := tree["plugins"].(map[string]any)
	entries, _ := of["entries"].(map[string]any)
	for _, name := range sortedKeys(entries) {
		entry, _ := entries[name].(map[string]any)
		if on, ok := entry["enabled"].(bool); !ok || on {
			add(name, entries[name])
		}
	}
	return found
}

func entryOf(event, matcher string, entry map[string]any, group, index int) Found {
	f := Found{Event: event, Matcher: matcher, Name: word(entry, "name"), Group: group, Index: index}
	f.Entry, _ = json.Marshal(entry) // cannot fail: the tree was decoded from JSON
	f.Command = word(entry, "command", "bash", "powershell", "url", "prompt", "tool", "type")
	if action, ok := entry["action"].(map[string]any); ok && f.Command == "" {
		f.Command = word(action, "command", "prompt", "type")
	}
	var args []string
	list, _ := entry["args"].([]any)
	for _, v := range list {
		if s, ok := v.(string); ok {
			args = append(args, s)
		}
	}
	ours, ok := parseEntry(f.Command, args)
	f.Ours, f.Program, f.ID, f.Root = ok, ours.Program, ours.ID, ours.Root
	if len(args) > 0 {
		f.Command += " " + strings.Join(args, " ")
	}
	return f
}

// word returns the first of these members that is a non-empty string.
func word(entry map[string]any, names ...string) string {
	for _, name := range names {
		if s, ok := entry[name].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// interpreters are programs that run the file in their first argument.
var interpreters = []string{"sh", "bash", "zsh", "dash", "python", "python3", "node", "bun", "deno", "ruby", "perl", "pwsh", "uv", "tsx"}

// Script returns the file that a shell line runs first, as written in the line; empty if it is
// unknown. expand returns the value of a variable, and of HOME for ~.
func Script(line string, expand func(name string) string) string {
	words := splitWords(line)
	for len(words) > 0 && strings.Contains(words[0], "=") && !strings.ContainsAny(words[0], `/\`) {
		words = words[1:] // an environment variable of the program
	}
	if len(words) == 0 {
		return ""
	}
	file := words[0]
	if slices.Contains(interpreters, programName(file)) {
		file = ""
		for _, w := range words[1:] {
			if w == "-c" || w == "-e" || w == "-m" {
				return ""
			}
			if !strings.HasPrefix(w, "-") && w != "run" {
				file = w
				break
			}
		}
	}
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		file = expand("HOME") + "/" + rest
	}
	file = os.Expand(file, expand)
	if !strings.ContainsAny(file, `/\`) {
		return "" // found through PATH
	}
	return file
}
