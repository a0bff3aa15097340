package match

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/shell"
)

// A namedPath is a path that a call names.
type namedPath struct {
	name string
	use  shell.Use
	told bool // see realName
	by   namer
}

// A namer is the command of a shell line that names a path; its script is nil where
// the call itself does, or a redirection.
type namer struct {
	script *shell.Script
	i      int
}

// findPaths are the paths that a call names, those that its shell lines redirect from
// and to or patch, and those that their commands name.
func (f *Facts) findPaths() []namedPath {
	if f.Event.Tool == nil {
		return nil
	}
	var names []namedPath
	for _, p := range f.Event.Tool.Paths {
		use := shell.UseAny
		if p.Use != "" {
			use = shell.Use(p.Use)
		}
		names = append(names, namedPath{p.Path, use, true, namer{}})
	}
	for _, address := range f.Event.Tool.URLs {
		if len(address) > len("file:") && strings.EqualFold(address[:len("file:")], "file:") {
			names = append(names, namedPath{address, shell.UseRead, true, namer{}})
		}
	}
	for i, line := range f.Event.Tool.Commands {
		script := f.Scripts()[i]
		if strings.ContainsAny(line, "<>") || strings.Contains(line, "***") || strings.Contains(line, "+++") { // the last two are in patches
			names = append(names, redirected(script, patched(script, line))...)
		}
		for j := range script.Commands {
			for _, file := range script.Files(j) {
				if len(names) > maxPaths {
					return names // more than are looked at, which is an error
				}
				name := namedPath{file.Path, file.Use, false, namer{script, j}}
				names = append(names, name)
				if file.Glob {
					names = append(names, f.expand(name)...)
				}
			}
		}
	}
	return names
}

// redirected lists the files that a script redirects from and to, and others that it
// patches, also as seen from the directories that it changes into.
func redirected(script *shell.Script, others []string) []namedPath {
	var files []namedPath
	for _, name := range script.Reads {
		files = append(files, namedPath{name, shell.UseRead, true, namer{}})
	}
	for _, name := range slices.Concat(script.Writes, others) {
		files = append(files, namedPath{name, shell.UseWrite, true, namer{}})
	}
	names := slices.Clone(files)
	for _, dir := range entered(script) {
		for _, file := range files {
			if !filepath.IsAbs(file.name) && !strings.HasPrefix(file.name, "~") {
				names = append(names, namedPath{dir + string(filepath.Separator) + file.name, file.use, true, namer{}})
			}
		}
	}
	return names
}

// What expanding one wildcard of a shell line may cost.
const (
	maxEntries  = 4096 // of directories that are looked at
	maxExpanded = 256  // files
	maxWild     = 3    // parts of a path with wildcards
)

// expand lists the files that a word with wildcards stands for now: cat .en* reads .env.
func (f *Facts) expand(p namedPath) []namedPath { //nolint:gocognit // one walk through the pieces of a pattern, which share its bounds
	name := home.Expand(p.name)
	if !filepath.IsAbs(name) {
		name = workDir(f.Event) + string(filepath.Separator) + name
	}
	if len(name) > MaxPath {
		return nil
	}
	entries, wild := maxEntries, 0
	found := []string{filepath.VolumeName(name) + string(filepath.Separator)}
	for part := range strings.SplitSeq(filepath.ToSlash(name[len(filepath.VolumeName(name)):]), "/") {
		if part == "" {
			continue
		}
		if !strings.ContainsAny(part, "*?[") {
			for i := range found {
				found[i] += part + string(filepath.Separator)
			}
			continue
		}
		if wild++; wild > maxWild {
			return nil
		}
		var next []string
		for _, dir := range found {
			list, _ := os.ReadDir(dir)
			if entries -= len(list); entries < 0 {
				break
			}
			for _, e := range list {
				if ok, err := filepath.Match(part, e.Name()); err != nil || !ok || e.Name()[0] == '.' && part[0] != '.' {
					continue
				}
				if len(next) < maxExpanded {
					next = append(next, dir+e.Name()+string(filepath.Separator))
				}
			}
		}
		found = next
	}
	var names []namedPath
	for _, name := range found {
		names = append(names, namedPath{strings.TrimSuffix(name, string(filepath.Separator)), p.use, false, p.by})
	}
	return names
}

// roots are the project's, as it is called and real.
func (f *Facts) roots() []string {
	return f.keptRoots.get(func() []string {
		root := projectRoot(f.Event)
		return distinct(root, RealPath(root))
	})
}

// realPaths are the readings of all paths.
func (f *Facts) realPaths() []Path {
	names := f.pathNames()
	if len(names) == 0 {
		return nil
	}
	var real []Path
	for i, name := range names {
		if !name.told && slices.Contains(names[:min(i, 64)], name) {
			continue
		}
		for _, path := range ResolvePath(slashed(name.name), f.Event, f.RealDir) {
			real = append(real, Path{name: name.name, in: f, Real: path, use: name.use, told: name.told, by: name.by})
		}
	}
	return real
}

// slashed is a path of Windows, such as C:\Users\me\.ssh, as patterns know it, also where
// a backslash is a letter like others: the file may be on another machine, or below WSL.
func slashed(name string) string {
	if len(name) > 2 && (name[1] == ':' && name[2] == '\\' || name[0] == '%' || name[:2] == `\\` || name[:2] == `~\`) {
		return strings.ReplaceAll(name, `\`, "/")
	}
	return name
}

// shellLanguage is that of the lines of a tool: empty for a shell.
func shellLanguage(t *grapnel.Tool) string {
	switch strings.ToLower(t.Name) {
	case "powershell", "pwsh", "run_powershell", "powershell_command":
		return shell.PowerShell
	case "cmd", "cmd.exe":
		return shell.Cmd
	}
	return ""
}

// toldContent is the text that a tool would write.
func (f *Facts) toldContent() []string {
	if f.Event.Tool == nil || f.Event.Tool.Content == "" {
		return nil
	}
	return []string{f.Event.Tool.Content}
}

// content is that, and what shell lines write of themselves: a here-document, or what
// echo prints into a file.
func (f *Facts) content() []string {
	texts := f.toldContent()
	if f.Event.Tool == nil {
		return nil
	}
	for _, script := range f.Scripts() {
		for i := range script.Commands {
			c := &script.Commands[i]
			if c.Input != "" {
				texts = append(texts, c.Input)
			}
			if (c.Name == "echo" || c.Name == "printf") && (len(script.Writes) > 0 || pipesToTee(script)) {
				var b strings.Builder
				for _, a := range c.Args {
					b.WriteString(a.Text)
					b.WriteByte(' ')
				}
				texts = append(texts, b.String())
			}
		}
	}
	return texts
}

func pipesToTee(script *shell.Script) bool {
	for i := range script.Commands {
		if script.Commands[i].Name == "tee" {
			return true
		}
	}
	return false
}
