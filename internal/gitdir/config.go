package gitdir

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/glob"
)

// A Config is a configuration of git: its entries in the order in which git reads them.
type Config struct{ entries []entry }

type entry struct {
	key   string // section.name, or section.subsection.name; section and name in lower case
	value string
}

// maxIncludes is the maximum depth of files that include each other, as in git.
const maxIncludes = 10

// Config returns the configuration that a command of git has in a checkout; nil = outside of one. env
// are the variables of the command, as NAME=value; a NAME alone has a value that is not known. More are
// the entries of its options -c, as key=value.
func (r *Reader) Config(p *Repo, env, more []string) (*Config, error) {
	c := &Config{}
	in := including{Config: c, reader: r, repo: p}
	names := r.globals(env)
	if p != nil {
		names = append(names, filepath.Join(p.Common, "config"))
	}
	for _, name := range names {
		if err := in.read(name, 0); err != nil {
			return nil, err
		}
	}
	if p != nil && c.Bool("extensions.worktreeconfig") {
		if err := in.read(filepath.Join(p.Dir, "config.worktree"), 0); err != nil {
			return nil, err
		}
	}
	if err := c.environment(env); err != nil {
		return nil, err
	}
	for _, text := range more {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			value = "true"
		}
		c.add(key, value)
	}
	return c, nil
}

// globals returns the configuration files of the system and the user.
func (r *Reader) globals(env []string) []string {
	system, _ := Var(env, "GIT_CONFIG_SYSTEM")
	if system = cmp.Or(system, "/etc/gitconfig"); truth(cmp.Or(first(Var(env, "GIT_CONFIG_NOSYSTEM")), "false")) {
		system = ""
	}
	home := cmp.Or(first(Var(env, "HOME")), r.home)
	xdg := cmp.Or(first(Var(env, "XDG_CONFIG_HOME")), filepath.Join(home, ".config"))
	users := []string{filepath.Join(xdg, "git", "config"), filepath.Join(home, ".gitconfig")}
	if global, ok := Var(env, "GIT_CONFIG_GLOBAL"); ok {
		users = []string{global}
	}
	return slices.DeleteFunc(append([]string{system}, users...), func(name string) bool { return name == "" })
}

func first(text string, _ bool) string { return text }

// Var returns the last value of a variable in an environment.
func Var(env []string, name string) (string, bool) {
	for _, v := range slices.Backward(env) {
		if n, value, ok := strings.Cut(v, "="); n == name {
			return value, ok
		}
	}
	return "", false
}

// environment adds the entries of GIT_CONFIG_COUNT.
func (c *Config) environment(env []string) error {
	for _, v := range env {
		if name, _, ok := strings.Cut(v, "="); strings.HasPrefix(name, "GIT_CONFIG") && (!ok || name == "GIT_CONFIG_PARAMETERS") {
			return fmt.Errorf("the value of %s is not known", name)
		}
	}
	n, _ := strconv.Atoi(first(Var(env, "GIT_CONFIG_COUNT")))
	for i := range min(n, maxFiles) {
		key, _ := Var(env, "GIT_CONFIG_KEY_"+strconv.Itoa(i))
		value, _ := Var(env, "GIT_CONFIG_VALUE_"+strconv.Itoa(i))
		c.add(key, value)
	}
	return nil
}

// add adds an entry with a key as a person writes it.
func (c *Config) add(key, value string) {
	from, to := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	if from >= 0 {
		c.entries = append(c.entries, entry{strings.ToLower(key[:from]) + key[from:to] + strings.ToLower(key[to:]), value})
	}
}

// All returns the values of a key, in the order in which git reads them. An empty value removes the
// ones before it.
func (c *Config) All(key string) (values []string) {
	for _, e := range c.entries {
		switch {
		case e.key != key:
		case e.value == "":
			values = nil
		default:
			values = append(values, e.value)
		}
	}
	return values
}

// Get returns the last value of a key, or "".
func (c *Config) Get(key string) string {
	for _, e := range slices.Backward(c.entries) {
		if e.key == key {
			return e.value
		}
	}
	return ""
}

// Bool reports whether the last value of a key is true.
func (c *Config) Bool(key string) bool { return truth(c.Get(key)) }

func truth(text string) bool {
	switch strings.ToLower(text) {
	case "", "false", "no", "off", "0":
		return false
	}
	return true
}

// Remotes returns the names of the remotes, sorted.
func (c *Config) Remotes() (names []string) {
	for _, e := range c.entries {
		if rest, ok := strings.CutPrefix(e.key, "remote."); ok && strings.Contains(rest, ".") {
			names = append(names, rest[:strings.LastIndexByte(rest, '.')])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// An including reads files that include others.
type including struct {
	*Config
	reader *Reader
	repo   *Repo // nil = none
}

func (in *including) read(name string, depth int) error {
	if depth > maxIncludes {
		return fmt.Errorf("%s: too many files that include each other", name)
	}
	text, err := in.reader.optional(name, maxConfig)
	if err != nil {
		return err
	}
	return parseConfig(text, func(key, value string) error {
		condition := ""
		switch rest, ok := strings.CutPrefix(key, "includeif."); {
		case ok && strings.HasSuffix(rest, ".path"):
			condition = strings.TrimSuffix(rest, ".path")
			if !in.holds(condition, filepath.Dir(name)) {
				return nil
			}
		case key != "include.path":
			in.entries = append(in.entries, entry{key, value})
			return nil
		}
		return in.read(absolute(in.reader.expand(value), filepath.Dir(name)), depth+1)
	})
}

func (r *Reader) expand(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		return filepath.Join(r.home, rest)
	}
	return name
}

// holds evaluates the condition of an includeIf in a file of a directory.
func (in *including) holds(condition, dir string) bool {
	kind, pattern, _ := strings.Cut(condition, ":")
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	if in.repo == nil && kind != "hasconfig" {
		return false
	}
	name := ""
	switch kind {
	case "onbranch":
		ref, _ := in.repo.Head()
		name = strings.TrimPrefix(ref, heads)
	case "gitdir", "gitdir/i":
		name = filepath.ToSlash(in.repo.Dir)
		if rest, ok := strings.CutPrefix(pattern, "./"); ok {
			pattern = filepath.ToSlash(dir) + "/" + rest
		}
		if pattern = filepath.ToSlash(in.reader.expand(pattern)); !strings.HasPrefix(pattern, "/") && !strings.Contains(pattern, ":/") {
			pattern = "**/" + pattern
		}
	default: // hasconfig: and later ones; with them, an entry too many is better than one too few
		return true
	}
	if kind == "gitdir/i" {
		name, pattern = strings.ToLower(name), strings.ToLower(pattern)
	}
	return glob.Match(pattern, name)
}

// parseConfig calls yield with each entry of a configuration file, and stops at its first error. It
// skips lines that git would refuse.
func parseConfig(text string, yield func(key, value string) error) error {
	section := ""
	for text != "" {
		line := strings.TrimLeft(text, " \t\r\n\ufeff")
		if line == "" {
			return nil
		}
		switch line[0] {
		case '#', ';':
			_, text, _ = strings.Cut(line, "\n")
			continue
		case '[':
			section, text = header(line)
			continue
		}
		end := strings.IndexAny(line, "=\n#;")
		name := strings.ToLower(strings.TrimSpace(line[:max(end, 0)]))
		value := "true"
		switch {
		case end < 0:
			name, text = strings.ToLower(strings.TrimSpace(line)), ""
		case line[end] == '=':
			value, text = configValue(line[end+1:])
		default:
			_, text, _ = strings.Cut(line[end:], "\n")
		}
		if name == "" || section == "" {
			continue
		}
		if err := yield(section+"."+name, value); err != nil {
			return err
		}
	}
	return nil
}

// header reads [section], [section "sub"] or [section.sub].
func header(line string) (section, rest string) {
	var sub strings.Builder
	i, quoted, has := 1, false, false
	for ; i < len(line) && line[i] != '\n' && (quoted || line[i] != ']'); i++ {
		switch {
		case line[i] == '"':
			quoted, has = !quoted, true
		case line[i] == '\\' && quoted && i+1 < len(line):
			i++
			sub.WriteByte(line[i])
		case quoted:
			sub.WriteByte(line[i])
		case line[i] != ' ' && line[i] != '\t':
			section += strings.ToLower(line[i : i+1])
		}
	}
	if has {
		section += "." + sub.String()
	}
	return section, line[min(i+1, len(line)):]
}

// configValue reads the value at the beginning of a text and returns the text after its line.
func configValue(text string) (value, rest string) {
	var b strings.Builder
	quoted, kept := false, 0 // bytes without blanks at the end
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			return b.String()[:kept], text[i+1:]
		case c == '"':
			quoted = !quoted
			kept = b.Len()
			continue
		case !quoted && (c == '#' || c == ';'):
			_, rest, _ = strings.Cut(text[i:], "\n")
			return b.String()[:kept], rest
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
				i++
			}
			if text[i] == '\n' {
				continue
			}
			b.WriteString(strings.NewReplacer("n", "\n", "t", "\t", "b", "\b").Replace(text[i : i+1]))
		case !quoted && (c == ' ' || c == '\t' || c == '\r'):
			if b.Len() > 0 {
				b.WriteByte(c)
			}
			continue
		default:
			b.WriteByte(c)
		}
		kept = b.Len()
	}
	return b.String()[:kept], ""
}
