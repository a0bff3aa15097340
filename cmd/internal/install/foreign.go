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
	"github.com/grapnel-dev/grapnel/internal/digest"
)

// A Found is one hook in an agent's configuration, whosever it is.
type Found struct {
	Event   string // as the file names it; empty where hooks have none: plugins
	Matcher string
	Name    string
	Command string          // what is run; of one that runs nothing: its address, its prompt, its type
	Entry   json.RawMessage // as it stands there, with sorted members; of a file that is a hook: nil
	Group   int             // place in the list of the event
	Index   int             // place in the group; 0 where there are none

	Ours    bool   // by the form of its command; anybody can write that
	Program string // of ours: what is run
	ID      string // of ours: the token of its installation
	Root    string // of ours: the value of --root
}

// Digest is the fingerprint of the entry: SHA-256, in hex.
func (f *Found) Digest() string {
	return digest.Of(append([]byte(f.Event+"\x00"+f.Matcher+"\x00"+f.Command+"\x00"), f.Entry...))
}

// A Layer is one file that an agent takes hooks or switches from.
type Layer struct {
	Scope Scope
	Rel   string // as [dialect.Switch] names it; empty = that with the hooks
	File  string // the absolute path
}

// Layers lists the files that an agent reads, whether they are there or not: those
// with the hooks, and those that Setup.Off names. Managed ones lie below system. For
// agents that take whole directories a file stands for its directory.
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

// Settings reads a settings file as a tree, for those who look and change nothing:
// comments and commas too many are no reason to be blind. It is TOML or JSON by its
// name; cuts is that of a [dialect.Setup]. No byte is an empty object.
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

// cutComments does what agents do that look for comments in strings, too.
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

// Hooks lists the hooks in a settings file that [Settings] has read, in its order of
// events by name.
func Hooks(setup *dialect.Setup, tree map[string]any) []Found {
	if setup.Shape == dialect.ShapePlugin {
		return plugins(tree)
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
	if !wrapped && len(setup.Over) > 0 { // its top is the object of events
		events = tree
	}
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

// plugins lists the code that a configuration tells an agent to load.
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
	f.Entry, _ = json.Marshal(entry) // of a tree that was read
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
	if word(entry, "type") == string(ViaHTTP) {
		f.ID, f.Ours = parseAddress(word(entry, "url"))
	}
	if len(args) > 0 {
		f.Command += " " + strings.Join(args, " ")
	}
	return f
}

// word returns the first of these members that is a text.
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

// interpreters run the file that is their first argument.
var interpreters = []string{"sh", "bash", "zsh", "dash", "python", "python3", "node", "bun", "deno", "ruby", "perl", "pwsh", "uv", "tsx"}

// Script is the file that a shell line runs first, as it is written there; empty where
// that cannot be told. expand is asked for the value of variables, and for ~ as HOME.
func Script(line string, expand func(name string) string) string {
	words := splitWords(line)
	for len(words) > 0 && strings.Contains(words[0], "=") && !strings.ContainsAny(words[0], `/\`) {
		words = words[1:] // a variable for the program
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
		return "" // looked up on PATH
	}
	return file
}
