// Package shim generates the plugins for agents whose hooks are functions in their own process,
// not programs: JavaScript that keeps one grapnel-hook --serve running, sends it events, and
// applies its replies.
//
//	files, ok := shim.Files("opencode", shim.Options{Command: []string{"/usr/bin/grapnel-hook", "opencode", "--id", token}, Events: events})
//
// README.md describes the files. The package writes no files; package install does.
package shim

import (
	"cmp"
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
	Deadline time.Duration // timeout of a reply; 0 = below the agent's own timeout, or above the timeout of all hooks
}

//go:embed common.js openclaw opencode
var sources embed.FS

// deadlines are longer than the time for all hooks of an event, so that Grapnel replies first,
// and shorter than the agent's own timeout.
var deadlines = map[string]time.Duration{"openclaw": 14 * time.Second, "opencode": 58 * time.Second}

// Files returns the files of an agent's plugin, by name, and whether the agent has a plugin.
func Files(agent string, o Options) (map[string][]byte, bool) {
	entries, err := sources.ReadDir(agent)
	if err != nil {
		return nil, false
	}
	files := make(map[string][]byte, len(entries))
	for _, entry := range entries {
		source, _ := sources.ReadFile(path.Join(agent, entry.Name())) // cannot fail: the file is embedded
		if ext := path.Ext(entry.Name()); ext == ".js" || ext == ".mjs" {
			source = module(source, agent, o)
		}
		files[entry.Name()] = source
	}
	return files, true
}

// module returns the common part followed by the agent's own part.
func module(own []byte, agent string, o Options) []byte {
	common, _ := sources.ReadFile("common.js")
	constant := func(v any) string {
		text, _ := json.Marshal(v) // strings, numbers and booleans can always be encoded
		return string(text)
	}
	places := strings.NewReplacer("$COMMAND", constant(o.Command), "$EVENTS", constant(append([]string{}, o.Events...)),
		"$CLOSED", constant(o.Closed), "$DEADLINE", constant(cmp.Or(o.Deadline, deadlines[agent]).Milliseconds()))
	return []byte(places.Replace(string(common)) + "\n" + string(own))
}
