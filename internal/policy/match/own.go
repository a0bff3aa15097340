package match

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/shell"
)

// A command can take Grapnel's own files away without naming them:
//
//	mv ~/.local ~/x
//	chmod 000 ~/go/bin
//	cd ~/go/bin && mv * /tmp
//	cp k ~/.local/st*/gr*/approvals
//
// The names that it takes away are among its paths, so that rules about these files match.

// ownPlaces are Grapnel's directories below a home directory, and a file in each.
var ownPlaces = [...]struct{ dir, file string }{
	{".local/state/grapnel", "state"},
	{".config/grapnel", "grapnel.yaml"},
}

const ownProgram = "grapnel-hook"

// own returns Grapnel's files that a command takes away with a path, or writes to through a
// wildcard.
func (f *Facts) own(c *shell.Command, p namedPath) (names []namedPath) {
	if p.use == shell.UseRead || p.use == shell.UseExecute {
		return nil
	}
	add := func(name string) {
		p.name, p.explicit = name, false
		names = append(names, p)
	}
	taken, wild := c != nil && takesAway(c, p.use), strings.ContainsAny(p.name, "*?[")
	if !taken && !wild {
		return nil
	}
	pieces := strings.Split(path.Clean(filepath.ToSlash(p.name)), "/")
	for i := range pieces {
		for _, place := range ownPlaces {
			n := samePieces(pieces[i:], strings.Split(place.dir, "/"))
			inside := n == strings.Count(place.dir, "/")+1
			if n > 0 && (inside && wild || taken && n == len(pieces)-i) {
				add(strings.Join(append(slices.Clone(pieces[:i]), place.dir, place.file), "/"))
			}
		}
	}
	if !taken {
		return names
	}
	if dir, base := path.Split(p.name); strings.ContainsAny(base, "*?[") {
		if ok, err := path.Match(base, ownProgram); ok && err == nil && f.holdsProgram(dir) {
			add(dir + ownProgram)
		}
	} else if f.holdsProgram(p.name) {
		add(p.name + "/" + ownProgram)
	}
	return names
}

// takesAway reports whether a command moves, deletes or closes the files that it uses, or covers
// their directory.
func takesAway(c *shell.Command, use shell.Use) bool {
	if use == shell.UseDelete {
		return true
	}
	switch c.Name {
	case "chmod":
		return slices.ContainsFunc(c.Args, closes)
	case "chattr", "setfacl", "rename", "mount", "bindfs", "sshfs":
		return true
	}
	return false
}

// closes reports whether a word is a mode in which a directory cannot be entered, or a program
// cannot be run: 000, 644, a-x, u=r.
func closes(w shell.Word) bool {
	mode := w.Text
	if strings.Trim(mode, "01234567") == "" {
		return len(mode) >= 3 && mode[len(mode)-3]%2 == 0
	}
	who, what, ok := "", "", false
	if i := strings.IndexAny(mode, "+-="); i >= 0 {
		who, what, ok = mode[:i], mode[i:], true
	}
	if !ok || strings.Trim(who, "ugoa") != "" || who != "" && !strings.ContainsAny(who, "ua") || strings.Trim(what[1:], "rwxXst") != "" {
		return false
	}
	return what[0] == '-' && strings.ContainsAny(what, "rx") || what[0] == '=' && !strings.Contains(what, "x")
}

// samePieces returns how many of the first pieces of a path match the pieces of a place.
func samePieces(pieces, place []string) (n int) {
	for n < len(pieces) && n < len(place) {
		ok, err := path.Match(pieces[n], place[n])
		if hidden := place[n][0] == '.' && !strings.HasPrefix(pieces[n], "."); !ok || err != nil || hidden {
			return n
		}
		n++
	}
	return n
}

// holdsProgram reports whether a directory holds the program, or is a directory of programs outside
// of the project, which may.
func (f *Facts) holdsProgram(dir string) bool {
	dir = home.Absolute(dir, workDir(f.Event))
	if _, err := os.Lstat(filepath.Join(dir, ownProgram)); err == nil {
		return true
	}
	if filepath.Base(dir) != "bin" {
		return false
	}
	return !slices.ContainsFunc(f.roots(), func(root string) bool {
		rel, err := filepath.Rel(root, dir)
		return err == nil && filepath.IsLocal(rel)
	})
}

// ownDir returns a file in Grapnel's directory if a command runs there that may write to it.
func ownDir(c *shell.Command) (name string, found bool) {
	if c.Dir == "" || slices.Contains(onlyRead, c.Name) {
		return "", false
	}
	pieces := strings.Split(path.Clean(c.Dir), "/")
	for i := range pieces {
		place := strings.Split(ownPlaces[0].dir, "/")
		if samePieces(pieces[i:], place) == len(place) {
			return strings.Join(append(slices.Clone(pieces[:i]), ownPlaces[0].dir, ownPlaces[0].file), "/"), true
		}
	}
	return "", false
}

// onlyRead are programs that write to no other files than those that their words name.
var onlyRead = []string{
	"cd", "ls", "cat", "head", "tail", "less", "more", "grep", "rg", "find", "fd", "du", "df", "stat", "file", "wc", "jq", "pwd", "echo", "printf", "test", "[", "[[",
	"sort", "uniq", "cut", "tree", "diff", "cmp", "sha256sum", "date", "true", "for", "while", "read", "xxd", "strings", "grapnel", "column", "awk", "tee", "cp", "mv", "rm", "touch", "mkdir",
}
