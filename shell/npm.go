package shell

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Words after npm and similar programs that install packages, and the scripts that run then.
const (
	npmInstalls  = "install i ci add rebuild update up link"
	npmLifecycle = "preinstall install postinstall prepare prepublish " +
		"pre-install-cmd post-install-cmd pre-update-cmd post-update-cmd pre-autoload-dump post-autoload-dump"
)

// packageScripts reads the scripts of a package.json or composer.json that the line or its past
// wrote, as far as a call of npm or a similar program runs them.
func (w *walker) packageScripts(manifest, name string, args []Word, at place) {
	dir, runs, installs := "", map[string]bool{}, len(args) == 0
	for i, a := range args {
		switch {
		case !a.Literal:
		case (a.Text == "--prefix" || a.Text == "-C" || a.Text == "--cwd" || a.Text == "--working-dir") && i+1 < len(args):
			dir = args[i+1].Text
		case a.Text == "t" || a.Text == "tst":
			runs["test"] = true
		default:
			runs[a.Text] = true
			installs = installs || has(npmInstalls, a.Text)
		}
	}
	for _, file := range w.files(w.writtenKey(join(dir, manifest))) {
		scripts := scriptsOf(file)
		for _, key := range slices.Sorted(maps.Keys(scripts)) {
			called := runs[key] || len(key) > 3 && key[:3] == "pre" && runs[key[3:]] || len(key) > 4 && key[:4] == "post" && runs[key[4:]]
			if !called && (!installs || !has(npmLifecycle, key)) {
				continue
			}
			id := dir + "\x00" + key // a script that runs itself is read once
			if slices.Contains(w.running, id) || !w.again() {
				continue
			}
			w.running = append(w.running, id)
			mild, inPast, before := w.mild, w.inPast, w.dir
			w.mild, w.inPast, w.dir = w.mild || file.computed || file.earlier, w.inPast || file.earlier, join(w.dir, dir)
			line := string(scripts[key])
			w.runs(&writtenFile{text: line, earlier: file.earlier})
			w.nest(line, file.computed, name, at.behind(name))
			w.mild, w.inPast, w.dir = mild, inPast, before
			w.running = w.running[:len(w.running)-1]
		}
	}
}

// A packageScript is one line, or a list of lines as in a composer.json.
type packageScript string

// UnmarshalJSON joins the lines of a list. "@name" of a composer.json runs another script.
func (s *packageScript) UnmarshalJSON(data []byte) error {
	var line string
	if json.Unmarshal(data, &line) == nil {
		*s = packageScript(line)
		return nil
	}
	var lines []string
	if err := json.Unmarshal(data, &lines); err != nil {
		return err
	}
	for i, line := range lines {
		if name, ok := strings.CutPrefix(line, "@"); ok {
			lines[i] = "composer run " + name
		}
	}
	*s = packageScript(strings.Join(lines, "\n"))
	return nil
}

// scriptsOf returns the scripts of a package.json or composer.json by name.
func scriptsOf(file *writtenFile) map[string]packageScript {
	var whole struct{ Scripts map[string]packageScript }
	if json.Unmarshal([]byte(file.text), &whole) == nil {
		return whole.Scripts
	}
	scripts := map[string]packageScript{} // a part of the file: each "name": "line"
	for rest := file.text; len(scripts) < maxVars; {
		key, after, ok := jsonText(rest)
		if !ok {
			return scripts
		}
		rest = after
		if after, ok = strings.CutPrefix(strings.TrimLeft(after, " \t\n"), ":"); !ok {
			continue
		}
		if after = strings.TrimLeft(after, " \t\n"); strings.HasPrefix(after, `"`) {
			var line string
			line, rest, _ = jsonText(after)
			scripts[key] = packageScript(line)
		}
	}
	return scripts
}

// jsonText returns the first text in JSON, decoded, and the rest.
func jsonText(source string) (text, rest string, ok bool) {
	begin := strings.IndexByte(source, '"')
	if begin < 0 {
		return "", "", false
	}
	for end := begin + 1; end < len(source); end++ {
		switch source[end] {
		case '\\':
			end++
		case '"':
			err := json.Unmarshal([]byte(source[begin:end+1]), &text)
			return text, source[end+1:], err == nil
		}
	}
	return "", "", false
}
