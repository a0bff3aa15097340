// Package systems lists the hook systems whose files a policy can load with `load:`. Each has a
// directory here: its Go package, where its document describes one, the reader of its files in
// hookfile, its promises with their tests, and an example. Its preset is a row in preset.go.
//
// It is exported because package policy needs it, and is not an API.
package systems

import (
	"cmp"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	claude "github.com/grapnel-dev/grapnel/systems/claude/hookfile"
	flyto "github.com/grapnel-dev/grapnel/systems/flyto/hookfile"
	gemini "github.com/grapnel-dev/grapnel/systems/gemini/hookfile"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
	ironclaw "github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
	miniclaw "github.com/grapnel-dev/grapnel/systems/miniclaw/hookfile"
	openclaw "github.com/grapnel-dev/grapnel/systems/openclaw/hookfile"
)

// Formats returns the formats of `load:`. The caller must not change them.
func Formats() []*hookfiles.Format {
	return []*hookfiles.Format{claude.Format, gemini.Format, miniclaw.Format, flyto.Format, openclaw.Format, ironclaw.Format}
}

// Names lists the names of Formats.
var Names = []string{"claude-code", "gemini-cli", "miniclaw", "flyto", "openclaw", "ironclaw"}

// Find returns the format with a name, or nil.
func Find(name string) *hookfiles.Format {
	for _, f := range Formats() {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// Events returns the events of systems without a dialect, whose names a policy can use in `on:`.
func Events() []hookfiles.Event {
	var events []hookfiles.Event
	for _, f := range Formats() {
		if f.Events != nil {
			events = append(events, f.Events()...)
		}
	}
	return events
}

// Import reads files of the format with a name and converts their hooks to a policy; see
// [hookfiles.Format.Import]. parse is policy.Parse.
func Import(name string, paths []string, parse hookfiles.ParseFunc) (*hookfiles.Imported, error) {
	f := Find(name)
	if f == nil {
		return nil, &policyfile.Error{File: name, Msg: "unknown format", Hint: cmp.Or(wording.Nearest(name, Names), "valid values: "+strings.Join(Names, ", "))}
	}
	return f.Import(paths, parse)
}
