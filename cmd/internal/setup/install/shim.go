package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install/shim"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/installation"
)

// marker is in every program of Grapnel that is stored among programs of others.
const marker = "Written by grapnel install, which replaces this file; grapnel uninstall removes it."

// isText reports whether Grapnel owns a file of the agent completely, in contrast to a document
// that others edit too.
func (a Agent) isText(file string) bool {
	if a.Setup.Shape != dialect.ShapePlugin {
		return a.Setup.Shape == dialect.ShapeFiles
	}
	rest, inside := a.inPlugin(file)
	return len(a.Setup.Edits) == 0 || inside && rest != ""
}

// look reports whether a file exists, and whether it is a file of Grapnel.
type look func(file string) (there, ours bool)

// A text is a file that Grapnel owns completely.
type text struct {
	file   string
	data   []byte
	events []string
}

// texts returns the files of an installation that Grapnel owns completely. look reports which
// files of events exist already.
func (w Wanted) texts(look look) ([]text, error) {
	a := w.Agent
	if a.Setup.Shape == dialect.ShapePlugin {
		return w.plugin(look)
	}
	if a.Setup.Shape != dialect.ShapeFiles {
		return nil, nil
	}
	var texts []text
	for _, ev := range w.Events {
		file, err := w.free(ev, look)
		if err != nil {
			return nil, err
		}
		data := strings.NewReplacer("$command", w.Hook.Command(a, ev), "$event", ev, "$marker", marker).Replace(a.Setup.Entry)
		texts = append(texts, text{file: file, data: []byte(data), events: []string{ev}})
	}
	return texts, nil
}

// plugin returns the files of a plugin, which package shim creates.
func (w Wanted) plugin(look look) ([]text, error) {
	command := append([]string{filepath.ToSlash(w.Hook.Program)}, w.Hook.args(w.Agent, "")...)
	files, ok := shim.Files(w.Agent.Name, shim.Options{Command: command, Events: w.Events, Closed: w.FailClosed, Deadline: w.Agent.Setup.Deadline})
	if !ok {
		return nil, fmt.Errorf("this program contains no plugin for %s", w.Agent.Title)
	}
	var texts []text
	for _, name := range slices.Sorted(maps.Keys(files)) {
		t := text{file: filepath.Join(w.Dir, filepath.FromSlash(name)), data: files[name]}
		if len(w.Agent.Setup.Edits) == 0 {
			t.file = w.File
			if there, ours := look(t.file); there && !ours {
				return nil, &FileError{File: t.file, Problem: "the file was not created by Grapnel", Hint: "move the file to another place, then run the command again"}
			}
		}
		if len(w.Agent.textEntries(t.file, t.data)) > 0 {
			t.events = w.Events
		}
		texts = append(texts, t)
	}
	return texts, nil
}

// free returns the file name for an event: the existing file of Grapnel, or else the first name
// that is not in use.
func (w Wanted) free(event string, look look) (string, error) {
	first := ""
	for _, file := range w.Agent.names(w.File, event) {
		switch there, ours := look(file); {
		case ours:
			return file, nil
		case !there && first == "":
			first = file
		}
	}
	if first == "" {
		return "", &FileError{
			File: w.File, Problem: "other programs use all possible file names: " + strings.Join(w.Agent.names("", event), ", "),
			Hint: "move one of them away, then run the command again",
		}
	}
	return first, nil
}

// names returns the files that an event may have in a directory.
func (a Agent) names(dir, event string) []string {
	var names []string
	for _, pattern := range a.Setup.Files {
		names = append(names, filepath.Join(dir, strings.ReplaceAll(pattern, "$event", event)))
	}
	return names
}

// isOurs reports whether Grapnel has written a file, which has a path of a file that it owns.
func (a Agent) isOurs(file string, data []byte) bool {
	if a.Setup.Shape == dialect.ShapePlugin && len(a.Setup.Edits) > 0 {
		return a.isText(file)
	}
	marked := a.Setup.Shape == dialect.ShapePlugin || bytes.Contains(data, []byte(marker))
	return marked && len(a.textEntries(file, data)) > 0
}

// textEntries returns the entries of Grapnel in a file that it owns.
func (a Agent) textEntries(file string, data []byte) []Entry {
	if a.Setup.Shape == dialect.ShapeFiles {
		base := filepath.Base(file)
		for _, ev := range a.Events {
			if !slices.Contains(a.names("", ev.Native), base) {
				continue
			}
			for line := range strings.Lines(string(data)) {
				if e, ours := parseEntry(strings.TrimPrefix(strings.TrimSpace(line), "exec "), nil); ours {
					e.Event = ev.Native
					return []Entry{e}
				}
			}
		}
		return nil
	}
	var command, events []string
	for line := range strings.Lines(string(data)) {
		for prefix, into := range map[string]*[]string{"const COMMAND = ": &command, "const EVENTS = ": &events} {
			if value, ok := strings.CutPrefix(line, prefix); ok && json.Unmarshal([]byte(value), into) != nil {
				return nil
			}
		}
	}
	if len(command) == 0 {
		return nil
	}
	e, ours := parseEntry(command[0], command[1:])
	if !ours {
		return nil
	}
	e.Command = strings.Join(command, " ")
	var entries []Entry
	for _, e.Event = range events {
		entries = append(entries, e)
	}
	return entries
}

// planText plans the write of a file that Grapnel owns. The opposite is to remove the file.
func planText(a Agent, t text, current []byte, made *installation.Made) *Change {
	c := &Change{Agent: a.Name, File: t.file, Before: current, After: t.data, Events: t.events, Made: installation.Made{File: true}}
	if made != nil {
		c.Made.Dirs = made.Dirs
	}
	if bytes.Equal(current, t.data) && current != nil {
		c.After = current
	}
	c.Diff = Unified(t.file, c.Before, c.After)
	return c
}

// planRemoveText plans the removal of such a file, if Grapnel still owns it.
func planRemoveText(a Agent, file string, current []byte, made *installation.Made) *Change {
	c := &Change{Agent: a.Name, File: file, Before: current, After: current}
	if current == nil || !a.isOurs(file, current) {
		return c
	}
	for _, e := range a.textEntries(file, current) {
		c.Events = append(c.Events, e.Event)
	}
	c.After = nil
	if made != nil {
		c.Made.Dirs = made.Dirs
	}
	c.Diff = Unified(file, c.Before, c.After)
	return c
}
