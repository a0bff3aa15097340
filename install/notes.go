package install

import (
	"fmt"
	"slices"
	"strings"
)

// note is one sentence about a place in the file.
func (d *document) note(it *item, format string, args ...any) string {
	line, _ := position(d.data, it.start)
	return fmt.Sprintf("%s:%d: ", d.file, line) + fmt.Sprintf(format, args...)
}

// loaders are variables that make the hook program, or a shell that starts it,
// load code of whoever sets them. Claude Code gives the hook what the settings
// set, those of a project included.
var loaders = []string{"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "BASH_ENV", "ENV"}

func claudeNotes(d *document) []string {
	var notes []string
	if d.root.is("disableAllHooks", "true") {
		notes = append(notes, d.note(d.root.member("disableAllHooks"), "disableAllHooks is true, so Claude Code runs no hooks; set it to false"))
	}
	if d.root.is("allowManagedHooksOnly", "true") {
		notes = append(notes, d.note(d.root.member("allowManagedHooksOnly"), "allowManagedHooksOnly is true, and if that takes effect Claude Code runs no hooks of users and projects; ask whoever manages it"))
	}
	env := newObject(d.root.value("env"))
	for _, name := range loaders {
		if it := env.member(name); it != nil {
			notes = append(notes, d.note(it, "env sets %s, which reaches the hook and can change what it does; remove it", name))
		}
	}
	return notes
}

func geminiNotes(d *document) []string {
	var notes []string
	// Older versions kept the switches in "hooks" and in "tools".
	for _, path := range [][2]string{{"hooksConfig", "enabled"}, {"hooks", "enabled"}, {"tools", "enableHooks"}} {
		if c := newObject(d.root.value(path[0])); c.is(path[1], "false") {
			notes = append(notes, d.note(c.member(path[1]), "%s is false, so Gemini CLI runs no hooks; set it to true", strings.Join(path[:], ".")))
		}
	}
	for _, key := range []string{"hooksConfig", "hooks"} {
		c := newObject(d.root.value(key))
		off := slices.ContainsFunc(c.texts("disabled"), func(name string) bool {
			_, ours := parseEntry(name, nil)
			return ours || name == d.agent.Label
		})
		if off {
			notes = append(notes, d.note(c.member("disabled"), "%s.disabled names the hook of Grapnel, so Gemini CLI does not run it; take it off the list or type /hooks enable %s", key, d.agent.Label))
		}
	}
	return notes
}
