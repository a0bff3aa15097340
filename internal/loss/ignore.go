package loss

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/glob"
)

// An ignoreRule is one line of a .gitignore file.
type ignoreRule struct {
	pattern  []string // of package glob, by elements of the path
	anchored bool     // relative to the directory of the file, not a name at any depth
	dirs     bool     // only directories
	keep     bool     // !: not ignored
}

// maxIgnore is the maximum size in bytes of a .gitignore file that is read.
const maxIgnore = 256 << 10

// ignored reports whether a .gitignore file of a repository ignores a path. It reads no other files, and
// no files that the session wrote.
func (p *Place) ignored(repo, name string, dir bool) bool {
	rel, ok := below(repo, name)
	if !ok || rel == "" {
		return false
	}
	parts := strings.Split(rel, "/")
	for i := range parts { // what is in an ignored directory cannot be included again
		if p.ignoresPart(repo, parts[:i+1], dir || i < len(parts)-1) {
			return true
		}
	}
	return false
}

// ignoresPart reports whether the last rule that matches a path ignores it. Rules of a deeper file come
// later.
func (p *Place) ignoresPart(repo string, parts []string, dir bool) bool {
	for depth := range slices.Backward(parts) {
		for _, r := range slices.Backward(p.rules(filepath.Join(repo, filepath.Join(parts[:depth]...)))) {
			subject := parts[len(parts)-1:]
			if r.anchored {
				subject = parts[depth:]
			}
			if (dir || !r.dirs) && matchParts(r.pattern, subject) {
				return !r.keep
			}
		}
	}
	return false
}

// matchParts matches a path by its elements, because no class such as [!a] matches a slash.
func matchParts(pattern, parts []string) bool {
	switch {
	case len(pattern) == 0:
		return len(parts) == 0
	case pattern[0] == "**":
		return matchParts(pattern[1:], parts) || len(parts) > 0 && matchParts(pattern, parts[1:])
	}
	return len(parts) > 0 && glob.Match(pattern[0], parts[0]) && matchParts(pattern[1:], parts[1:])
}

// rules returns the rules of the .gitignore file in a directory.
func (p *Place) rules(dir string) []ignoreRule {
	rules, known := p.ignores[dir]
	if known {
		return rules
	}
	name := filepath.Join(dir, ".gitignore")
	if p.Wrote == nil || !p.Wrote(name) {
		if text, err := files.Read(name, maxIgnore); err == nil {
			rules = parseIgnore(string(text))
		}
	}
	if p.ignores == nil {
		p.ignores = map[string][]ignoreRule{}
	}
	p.ignores[dir] = rules
	return rules
}

// parseIgnore reads the text of a .gitignore file.
func parseIgnore(text string) (rules []ignoreRule) {
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = trimSpaces(strings.TrimRight(line, "\r\n"))
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		line, r.keep = strings.CutPrefix(line, "!")
		line, r.dirs = strings.CutSuffix(line, "/")
		r.anchored = strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if line == "" {
			continue
		}
		parts := strings.Split(line, "/")
		for i, part := range parts {
			if whole := len(part) > 1 && strings.Trim(part, "*") == ""; whole {
				parts[i] = "**"
				continue
			}
			for strings.Contains(part, "**") { // only a whole element is special
				part = strings.ReplaceAll(part, "**", "*")
			}
			if bare := strings.TrimRight(part, `\`); i < len(parts)-1 && (len(part)-len(bare))%2 == 1 {
				part = part[:len(part)-1] // an escaped slash
			}
			parts[i] = escapeBraces(part)
		}
		if last := len(parts) - 1; last > 0 && parts[last] == "**" { // not the directory itself
			parts = append(parts, "*")
		}
		if r.pattern = parts; !slices.ContainsFunc(parts, func(part string) bool { return !glob.Valid(part) }) {
			rules = append(rules, r)
		}
	}
	return rules
}

// trimSpaces removes spaces at the end of a line, unless a backslash is before them.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}
