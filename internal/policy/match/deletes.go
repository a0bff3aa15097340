package match

import (
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/loss"
	"github.com/grapnel-dev/grapnel/shell"
)

// The key `deletes` looks at the deletions by the commands of a line, on the disk and before they run:
//
//	rm -rf dist         # rebuilt: git ignores it, and it has the name of something that tools make
//	rm -rf uploads      # ignored, or project
//	cd .. && rm -rf app # root

// A SessionFiles knows the actions of a session on files and databases; the zero value knows nothing.
type SessionFiles struct {
	Made  func(path string) bool // reports whether the session made the directory, or one above it
	Wrote func(path string) bool // reports whether the session wrote the file

	Created func(database string) bool // reports whether the session created the database with a [DatabaseKey]
}

// deletions finds the losses of one event.
type deletions struct {
	f     *Facts
	mu    sync.Mutex
	place *loss.Place
	wrote []string // files that the line writes
	kept  map[*shell.Command]loss.Class
}

func (f *Facts) deletions() *deletions {
	return f.keptDeletions.get(func() *deletions {
		d := &deletions{f: f, kept: map[*shell.Command]loss.Class{}}
		var past SessionFiles
		if f.session != nil {
			past = f.session(f.Event)
		}
		d.place = &loss.Place{Root: RealPath(projectRoot(f.Event)), Home: RealPath(home.Known()), Made: past.Made}
		for _, script := range f.Scripts() {
			for _, name := range script.Writes {
				d.wrote = append(d.wrote, d.real(name))
			}
			for i := range script.Commands {
				for _, file := range script.Files(i) {
					if file.Use == shell.UseWrite && !file.Glob && script.Commands[i].Name != "rsync" {
						d.wrote = append(d.wrote, d.real(file.Path))
					}
				}
			}
		}
		d.place.Wrote = func(name string) bool {
			return past.Wrote != nil && past.Wrote(name) || slices.Contains(d.wrote, name)
		}
		return d
	})
}

// real returns the absolute path of a name, with the symbolic links in its parent directories resolved.
// A name that ends in a slash or a dot means the target of a link.
func (d *deletions) real(name string) string {
	name = home.Expand(name)
	if !filepath.IsAbs(name) {
		name = workDir(d.f.Event) + string(filepath.Separator) + name
	}
	dir, base := filepath.Split(name)
	if base == "" || base == "." || base == ".." {
		return RealPath(name)
	}
	return filepath.Join(RealPath(dir), base)
}

// of returns the classes of the deletions by a command; 0 = nothing.
func (d *deletions) of(script *shell.Script, i int) loss.Class {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &script.Commands[i]
	set, known := d.kept[c]
	if !known {
		for _, one := range c.Deletes() {
			if script.Language != "" { // PowerShell, cmd.exe
				one.Path, one.Text = strings.ReplaceAll(one.Path, `\`, "/"), strings.ReplaceAll(one.Text, `\`, "/")
			}
			set |= d.one(&one)
		}
		d.kept[c] = set
	}
	return set
}

// one returns the classes of one deletion.
func (d *deletions) one(one *shell.Deletion) loss.Class {
	name := slashed(one.Path)
	switch {
	case one.Spare != "" && !hasDrive(one.Spare) && !d.place.Empty(d.real(one.Spare)) && !d.makes(d.real(one.Spare)):
		return 0
	case name == "" || one.Away && !path.IsAbs(name), d.f.Event.Session.CWD == "" && !filepath.IsAbs(home.Expand(name)):
		return d.named(one)
	case hasDrive(name) && runtime.GOOS != "windows" || one.Away:
		if c := d.place.Where(path.Clean(name)); c != loss.Elsewhere && c != loss.Project {
			return c
		}
		return d.named(one)
	case one.Names != nil:
		return d.place.Below(RealPath(d.real(name)), one.Names, one.Tree)
	case one.Glob:
		return d.place.Contents(d.realPattern(name), one.Tree)
	}
	name = d.real(name)
	c := d.place.Tree(name)
	switch {
	case c == loss.Unknown && d.makes(name):
		return loss.Session
	case c == loss.Project && loss.IsFile(name): // "rm -rf a.go" is "rm a.go"
		return 0
	}
	return c
}

// named returns the class of a deletion whose place is not known.
func (d *deletions) named(one *shell.Deletion) loss.Class {
	switch {
	case one.Names != nil && !slices.ContainsFunc(one.Names, func(n string) bool { return !loss.Remade(n) }):
		return loss.Rebuilt
	case !one.Tree:
		return 0
	}
	return d.place.Named(one.Text)
}

// realPattern is real for a pattern: it resolves the links before the first wildcard.
func (d *deletions) realPattern(pattern string) string {
	at := strings.LastIndexByte(pattern[:strings.IndexAny(pattern+"*", "*?[")], '/') + 1
	dir := pattern[:at]
	if dir == "" {
		dir = "."
	}
	return strings.TrimSuffix(RealPath(d.real(dir)), "/") + "/" + strings.TrimSuffix(pattern[at:], "/")
}

// makes reports whether the line makes a directory that does not exist yet, and moves nothing into it.
func (d *deletions) makes(dir string) bool {
	in := func(name string) bool {
		rel, err := filepath.Rel(dir, name)
		return err == nil && filepath.IsLocal(rel)
	}
	for _, script := range d.f.Scripts() {
		for _, m := range script.Moved() {
			if in(d.real(m.To)) {
				return false
			}
		}
	}
	return slices.ContainsFunc(d.wrote, in)
}

// fitsDeletes reports whether a command deletes something of the classes of the match.
func (c *compiled) fitsDeletes(f *Facts, script *shell.Script, i int) bool {
	set := f.deletions().of(script, i)
	if c.reading.every() {
		return set != 0 && set&^c.deletes == 0
	}
	return set&c.deletes != 0
}

// deleted returns the classes of the deletions by the commands of a call.
func (f *Facts) deleted() []string {
	var set loss.Class
	for _, script := range f.Scripts() {
		for i := range script.Commands {
			set |= f.deletions().of(script, i)
		}
	}
	return set.Words()
}

// deletedParts describes the commands that delete something of the classes of the match.
func (c *compiled) deletedParts(f *Facts) (parts []string) {
	if c.deletes == 0 {
		return nil
	}
	for _, script := range f.Scripts() {
		for i := range script.Commands {
			if c.fitsCommand(f, script, i) {
				set := f.deletions().of(script, i)
				parts = append(parts, "deletes "+strings.Join(set.Words(), ", ")+": "+Shorten(script.Commands[i].String()))
			}
		}
	}
	return parts
}

// SessionOf returns the actions of the session of an event on files and databases.
type SessionOf func(ev *grapnel.Event) SessionFiles
