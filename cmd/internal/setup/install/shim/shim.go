// Package shim generates the plugins for agents whose hooks are functions in their own process,
// not programs: JavaScript that keeps one grapnel-hook --serve running, sends it events, and
// applies its replies.
//
//	files, ok := shim.Files("opencode", shim.Options{Command: []string{"/usr/bin/grapnel-hook", "opencode", "--id", token}, Events: events})
//
// README.md describes the files. The package writes no files; package install does.
package shim

import (
	"embed"
	"encoding/json"
	"path"
	"strings"
	"time"
)

// Options are the constants of a plugin.
type Options struct {
	Command  []string      // command line of grapnel-hook for one event, without --serve
	Events   []string      // native names of the events that the plugin sends
	Closed   bool          // block the action if grapnel-hook does not reply
	Deadline time.Duration // timeout of a reply; see dialect.Setup
}

//go:embed common.js plugins
var sources embed.FS

// Files returns the files of an agent's plugin, by name, and whether the agent has a plugin.
func Files(agent string, o Options) (map[string][]byte, bool) {
	entries, err := sources.ReadDir(path.Join("plugins", agent))
	if err != nil {
		return nil, false
	}
	files := make(map[string][]byte, len(entries))
	for _, entry := range entries {
		source, _ := sources.ReadFile(path.Join("plugins", agent, entry.Name())) // cannot fail: the file is embedded
		if ext := path.Ext(entry.Name()); ext == ".js" || ext == ".mjs" {
			source = module(source, o)
		}
		files[entry.Name()] = source
	}
	return files, true
}

// module returns the common part followed by the agent's own part.
func module(own []byte, o Options) []byte {
	common, _ := sources.ReadFile("common.js")
	constant := func(v any) string {
		text, _ := json.Marshal(v) // strings, numbers and booleans can always be encoded
		return string(text)
	}
	places := strings.NewReplacer("$COMMAND", constant(o.Command), "$EVENTS", constant(append([]string{}, o.Events...)),
		"$CLOSED", constant(o.Closed), "$DEADLINE", constant(o.Deadline.Milliseconds()))
	return []byte(places.Replace(string(common)) + "\n" + string(own))
}
