package match

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/home"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/shell"
)

// A namedPath is a path in a call.
type namedPath struct {
	name     string
	use      shell.Use
	explicit bool // see Path.explicit
	redirect bool // a redirection names the path
	by       namer
}

// A namer is the shell command that names a path. script is nil if the tool input or a redirection
// names the path.
type namer struct {
	script *shell.Script
	i      int
}

// findPaths returns the paths in the tool input, in redirections and patches of shell lines, and in
// arguments of commands.
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
		names = append(names, namedPath{name: p.Path, use: use, explicit: true})
	}
	for _, address := range f.Event.Tool.URLs {
		if len(address) > len("file:") && strings.EqualFold(address[:len("file:")], "file:") {
			names = append(names, namedPath{name: address, use: shell.UseRead, explicit: true})
		}
	}
	for i, line := range f.Event.Tool.Commands {
		script := f.Scripts()[i]
		if strings.ContainsAny(line, "<>") || strings.Contains(line, "***") || strings.Contains(line, "+++") { // patches contain one of the last two
			names = append(names, f.redirected(script, patched(script, line))...)
		}
		for j := range script.Commands {
			for _, file := range script.Files(j) {
				if len(names) > maxPaths {
					return names // above maxPaths, which the hook reports as an error
				}
				name := namedPath{name: file.Path, use: file.Use, by: namer{script, j}}
				names = append(names, name)
				if file.Glob {
					names = append(names, f.expand(name)...)
				}
				names = append(names, f.own(&script.Commands[j], name)...)
			}
			if name, ok := ownDir(&script.Commands[j]); ok {
				names = append(names, namedPath{name: name, use: shell.UseWrite, by: namer{script, j}})
			}
		}
	}
	return names
}

// redirected returns the files of a script's redirections and the files in others, which are
// written. Relative names are also returned relative to the directories that the script enters.
func (f *Facts) redirected(script *shell.Script, others []string) []namedPath {
	var files []namedPath
	for _, name := range script.Reads {
		files = append(files, namedPath{name: name, use: shell.UseRead, explicit: true, redirect: true})
	}
	for _, name := range script.Writes {
		files = append(files, namedPath{name: name, use: shell.UseWrite, explicit: true, redirect: true})
	}
	for _, name := range others {
		files = append(files, namedPath{name: name, use: shell.UseWrite, explicit: true})
	}
	names := slices.Clone(files)
	for _, dir := range entered(script) {
		for _, file := range files {
			if !filepath.IsAbs(file.name) && !strings.HasPrefix(file.name, "~") {
				file.name = dir + string(filepath.Separator) + file.name
				names = append(names, file)
			}
		}
	}
	for _, file := range slices.Clone(names) {
		if strings.ContainsAny(file.name, "*?[") && len(names) <= maxPaths {
			names = append(append(names, f.expand(file)...), f.own(nil, file)...)
		}
	}
	return names
}

// Limits for expanding one wildcard word of a shell line.
const (
	maxEntries  = 4096 // directory entries that are read
	maxExpanded = 256  // resulting files
	maxWild     = 3    // path components with wildcards
)

// expand returns the files that currently match a word with wildcards: cat .en* reads .env.
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
		p.name, p.explicit = strings.TrimSuffix(name, string(filepath.Separator)), false
		names = append(names, p)
	}
	return names
}

// roots returns the project root, as named and with symlinks resolved.
func (f *Facts) roots() []string {
	return f.keptRoots.get(func() []string {
		root := projectRoot(f.Event)
		return distinct(root, RealPath(root))
	})
}

// realPaths returns all readings of all paths.
func (f *Facts) realPaths() []Path {
	names := f.pathNames()
	if len(names) == 0 {
		return nil
	}
	var real []Path
	for i, name := range names {
		if !name.explicit && slices.Contains(names[:min(i, 64)], name) {
			continue
		}
		for _, spelling := range f.spellings(&name) {
			for _, path := range ResolvePath(spelling, f.Event, f.RealDir) {
				real = append(real, Path{name: name.name, in: f, Real: path, use: name.use, explicit: name.explicit, redirect: name.redirect, by: name.by})
			}
		}
	}
	return real
}

// spellings returns a path as patterns use it. A backslash separates the elements of a path in PowerShell
// and cmd.exe, and where the working directory has a drive. In the input of another tool it may do so.
func (f *Facts) spellings(name *namedPath) []string {
	text := slashed(name.name)
	if !strings.Contains(text, `\`) {
		return []string{text}
	}
	other := strings.ReplaceAll(text, `\`, "/")
	switch {
	case f.windows(), name.by.script != nil && name.by.script.Language != "":
		return []string{other}
	case name.by.script == nil && !name.redirect:
		return []string{text, other}
	}
	return []string{text}
}

// windows reports whether the tool of the call, or its working directory, is one of Windows.
func (f *Facts) windows() bool {
	return hasDrive(f.Event.Session.CWD) || shellLanguage(f.Event.Tool) != ""
}

// slashed converts backslashes in a Windows path such as C:\Users\me\.ssh to slashes, as patterns
// use them. It does so on all systems, because the file may be on another machine or accessed
// through WSL.
func slashed(name string) string {
	if len(name) > 2 && (hasDrive(name) && name[2] == '\\' || name[0] == '%' || name[:2] == `\\` || name[:2] == `~\`) {
		return strings.ReplaceAll(name, `\`, "/")
	}
	return name
}

// hasDrive reports whether a path begins with a drive of Windows, such as C:.
func hasDrive(name string) bool {
	return len(name) > 1 && name[1] == ':' && (name[0]|' ') >= 'a' && (name[0]|' ') <= 'z'
}

// rooted returns a path that begins with a drive as a path that is absolute on this system: C:\a is
// /C:/a where no drives exist.
func rooted(name string) string {
	if runtime.GOOS == "windows" || len(name) < 3 || !hasDrive(name) || name[2] != '\\' && name[2] != '/' {
		return name
	}
	return "/" + strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], `\`, "/")
}

// shellLanguage returns the language of a tool's command lines; empty = POSIX shell.
func shellLanguage(t *grapnel.Tool) string {
	switch strings.ToLower(t.Name) {
	case "powershell", "pwsh", "run_powershell", "powershell_command":
		return shell.PowerShell
	case "cmd", "cmd.exe":
		return shell.Cmd
	}
	if t.MCP != nil && len(t.Commands) > 0 {
		for _, word := range seam.Words(t.MCP.Server + " " + t.MCP.Tool) {
			if word == "powershell" || word == "pwsh" {
				return shell.PowerShell
			}
		}
	}
	return ""
}

// POSIXShell reports whether a tool's command lines are for a POSIX shell.
func POSIXShell(t *grapnel.Tool) bool { return shellLanguage(t) == "" }

// inputContent returns the text in the tool input that the tool would write.
func (f *Facts) inputContent() []string {
	if f.Event.Tool == nil || f.Event.Tool.Content == "" {
		return nil
	}
	return []string{f.Event.Tool.Content}
}

// content returns toldContent and the texts that shell lines write: here-documents, and arguments
// of echo and printf that go to a file.
func (f *Facts) content() []string {
	texts := f.inputContent()
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
