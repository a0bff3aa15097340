package state

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/shell"
)

// SameWords are the valid values of `same:`, properties that two events can share.
var SameWords = [...]string{"call", "tool", "path", "below", "run", "command"}

// Limits of the properties of one event.
const (
	maxShared = 16  // digests of a mark
	maxBelow  = 256 // words of commands, read as paths
	maxAbove  = 64  // directories above one path
)

// sharedWords returns digests of the properties of an event that later events may share.
func sharedWords(f *match.Facts, word string) []string {
	t := f.Event.Tool
	if t == nil {
		return nil
	}
	var words []string
	switch word {
	case "call":
		input, err := rawjson.Sorted(t.Input)
		if err != nil {
			input = string(t.Input)
		}
		words = []string{t.CanonicalName() + "\x00" + input}
	case "tool":
		words = []string{t.CanonicalName()}
	case "path":
		for _, p := range f.Paths() {
			words = append(words, p.Real)
		}
		words = append(words, programFiles(f)...)
		words = append(words, f.Former(words)...)
	case "run":
		for _, p := range f.Paths() {
			if p.Use() != shell.UseRead && !surrounds(f.Event, p.Real) {
				words = append(words, p.Real)
			}
		}
		words = append(words, programFiles(f)...)
		words = append(words, f.Former(words)...)
	case "below":
		words = append(words, linesOf(f.Event))
		for _, name := range namedFiles(f, nil) {
			if !surrounds(f.Event, name) {
				words = append(words, name)
			}
		}
	case "command":
		for i, script := range f.Scripts() {
			for j := range script.Commands {
				words = append(words, script.Commands[j].String())
			}
			if len(script.Commands) == 0 || len(script.Unknown) > 0 {
				words = append(words, strings.TrimSpace(t.Commands[i]))
			}
		}
	}
	var shared []string
	for _, w := range words {
		if w = shortDigest(word, w); !slices.Contains(shared, w) && len(shared) < maxShared {
			shared = append(shared, w)
		}
	}
	return shared
}

// surrounds reports whether a path is the working directory, the home directory or above one of them. Such a
// path names no file of a project in it.
func surrounds(ev *grapnel.Event, name string) bool {
	return relativeTo(name, ev.Session.CWD) != ev.Session.CWD || relativeTo(name, home.Expand("~")) != home.Expand("~")
}

// linesOf returns the shell lines of a call as one text. It begins as no path does.
func linesOf(ev *grapnel.Event) string {
	return "\x00" + strings.Join(match.OrZero(ev.Tool).Commands, "\n")
}

// namedFiles returns the paths that a call names. Each word of a command is treated as a path,
// because many programs take files. If m is not nil, only the commands that match it are read,
// except in a script in which one command can hand file names to another, as in a pipe.
func namedFiles(f *match.Facts, m *match.Matcher) []string {
	var names []string
	pipes := strings.Contains(linesOf(f.Event), "|")
	for _, script := range f.Scripts() {
		all := m == nil || pipes
		for i := range script.Commands {
			all = all || len(script.Commands[i].Via) > 0
		}
		for i := range script.Commands {
			if !all && !m.MatchesCommand(f, script, i) {
				continue
			}
			c := &script.Commands[i]
			for _, file := range script.Files(i) {
				names = append(names, match.ResolvePath(file.Path, f.Event, f.RealDir)...)
			}
			for _, a := range c.Args {
				if a.Literal && a.Text != "" && !strings.HasPrefix(a.Text, "-") && len(names) < maxBelow {
					name, _, _ := strings.Cut(a.Text, "*")
					names = append(names, home.Absolute(path.Join(c.Dir, name), f.Event.Session.CWD))
				}
			}
		}
	}
	for _, p := range match.OrZero(f.Event.Tool).Paths {
		names = append(names, match.ResolvePath(p.Path, f.Event, f.RealDir)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// anyAbove reports whether test is true for the digest of a path that the call names, of the
// directory in which it works, or of a directory above one of them.
func (f *After) anyAbove(facts *match.Facts, test func(digest string) bool) bool {
	return above(append(namedFiles(facts, f.Matcher), f.Dir(facts.Event)), func(name string) bool { return test(shortDigest("below", name)) })
}

// above reports whether test is true for one of the paths, or for a directory above one.
func above(names []string, test func(name string) bool) bool {
	for _, name := range names {
		for range maxAbove {
			if test(name) {
				return true
			}
			up := filepath.Dir(name)
			if up == name {
				break
			}
			name = up
		}
	}
	return false
}

// runFiles returns the files that the commands of the hook run or install. A command that runs one
// file only reads the others. One that names none, such as make, runs the files of its directory.
func (f *After) runFiles(facts *match.Facts) (names []string) {
	add := func(name string) { names = append(names, match.ResolvePath(name, facts.Event, facts.RealDir)...) }
	for _, script := range facts.Scripts() {
		for _, name := range script.Reads { // sh < x
			add(name)
		}
		for i := range script.Commands {
			if !f.MatchesCommand(facts, script, i) {
				continue
			}
			before := len(names)
			names = append(names, programFile(facts, &script.Commands[i])...)
			files := script.Files(i)
			runs := slices.ContainsFunc(files, func(file shell.File) bool { return file.Use == shell.UseExecute })
			for _, file := range files {
				if file.Use == shell.UseExecute || !runs && (file.Use == shell.UseAny || file.Use == shell.UseWrite) {
					add(file.Path)
				}
			}
			if len(names) == before {
				add(cmp.Or(script.Place(i), "."))
			}
		}
	}
	return append(names, facts.Former(names)...)
}

// programFiles returns the files that shell commands run as programs, such as ./x. Rules about
// paths do not include them, because most programs are known by their name.
func programFiles(f *match.Facts) []string {
	var files []string
	for _, script := range f.Scripts() {
		for i := range script.Commands {
			files = append(files, programFile(f, &script.Commands[i])...)
		}
	}
	return files
}

// programFile returns the file that a command runs as its program, and the target of that file if it is a link. It
// returns nil if the command names its program without a directory.
func programFile(f *match.Facts, c *shell.Command) []string {
	if !strings.Contains(c.Path, "/") {
		return nil
	}
	name := c.Path
	if !path.IsAbs(name) && !strings.HasPrefix(name, "~") {
		name = path.Join(c.Dir, name)
	}
	return match.ResolvePath(name, f.Event, f.RealDir)
}
