// Package shim makes the plugins for agents whose hooks are functions in their own
// process, not programs: JavaScript that keeps one grapnel-hook --serve running, tells it
// of events, and does what it answers.
//
//	files, ok := shim.Files("opencode", shim.Options{Command: []string{"/usr/bin/grapnel-hook", "opencode", "--id", token}, Events: events})
//
// README.md says what is in them. The package writes nothing; package install does.
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
	Command  []string      // how grapnel-hook is called for one event, without --serve
	Events   []string      // the native names of the events that it is told of
	Closed   bool          // a guard blocks when grapnel-hook does not answer
	Deadline time.Duration // until when an answer is waited for; 0 = below the agent's own, or above that of all hooks
}

//go:embed common.js openclaw opencode
var sources embed.FS

// deadlines lie above the time that all hooks of an event get, so that it is Grapnel that
// answers, and below the agent's own.
var deadlines = map[string]time.Duration{"openclaw": 14 * time.Second, "opencode": 58 * time.Second}

// Files returns the files of an agent's plugin, by name, and whether it has one.
func Files(agent string, o Options) (map[string][]byte, bool) {
	entries, err := sources.ReadDir(agent)
	if err != nil {
		return nil, false
	}
	files := make(map[string][]byte, len(entries))
	for _, entry := range entries {
		source, _ := sources.ReadFile(path.Join(agent, entry.Name())) // it is linked in
		if ext := path.Ext(entry.Name()); ext == ".js" || ext == ".mjs" {
			source = module(source, agent, o)
		}
		files[entry.Name()] = source
	}
	return files, true
}

// module is the common part and the agent's own.
func module(own []byte, agent string, o Options) []byte {
	common, _ := sources.ReadFile("common.js")
	constant := func(v any) string {
		text, _ := json.Marshal(v) // words, numbers and truths: they can always be written
		return string(text)
	}
	places := strings.NewReplacer("$COMMAND", constant(o.Command), "$EVENTS", constant(append([]string{}, o.Events...)),
		"$CLOSED", constant(o.Closed), "$DEADLINE", constant(cmp.Or(o.Deadline, deadlines[agent]).Milliseconds()))
	return []byte(places.Replace(string(common)) + "\n" + string(own))
}
