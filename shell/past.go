package shell

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Past is the earlier actions of a session, as far as they change the effect of a line: a script that
// a call wrote is read as code when a later line runs it. Like everything that the package knows of
// files, this only adds commands.
type Past struct {
	// Texts returns the texts that a file may have, if the session wrote the file. The name is
	// relative to the directory in which the line starts, or begins with / or ~.
	Texts func(name string) []Text

	Moved []Move

	// Copied are the files that were copied or unpacked. The names are absolute. Unchanged reports whether a file
	// is older than the session, so that it is not a copy.
	Copied    []Move
	Unchanged func(name string) bool
}

// Text is a text that a file may have.
type Text struct {
	Text string
	Part bool // it is only a part of the file, or parts of it are not known
}

// Move is a file or directory that was moved, linked or mounted. Both names are as in Past.Texts.
type Move struct{ From, To string }

// ParseAfter is ParseAs for a line with a past; nil = none.
func ParseAfter(past *Past, language, line string) *Script {
	if language == PowerShell || language == Cmd {
		return parseForeign(past, language, line)
	}
	w := walker{s: &Script{}, past: past, sure: true}
	if past != nil {
		for _, m := range past.Moved {
			w.moved = append(w.moved, moved{to: m.To, from: Word{Text: m.From, Literal: true}})
		}
		w.before = len(w.moved)
	}
	w.outermost(line)
	return w.s
}

// files returns the texts that a file may have, or nil if neither the line nor its past wrote it.
func (w *walker) files(key string) []*writtenFile {
	if file := w.written[key]; file != nil {
		return []*writtenFile{file}
	}
	if w.past == nil {
		if !slices.Contains(w.s.runs, key) && len(w.s.runs) < maxWritten {
			w.s.runs = append(w.s.runs, key)
		}
		return nil
	}
	if w.past.Texts == nil {
		return nil
	}
	files, known := w.earlier[key]
	if !known && len(w.earlier) < maxWritten {
		for _, text := range w.past.Texts(key) {
			if len(text.Text) <= maxCode {
				clean := strings.ReplaceAll(text.Text, string(hole), "?") // not computed by this line
				files = append(files, &writtenFile{text: clean, computed: text.Part, earlier: true})
			}
		}
		if w.earlier == nil {
			w.earlier = map[string][]*writtenFile{}
		}
		w.earlier[key] = files
	}
	return files
}

// runs records that the line runs a file of the past.
func (w *walker) runs(file *writtenFile) {
	if file.earlier && !slices.Contains(w.s.ran, file.text) {
		w.s.ran = append(w.s.ran, file.text)
	}
}

// outlast stores in the Script the past for later lines.
func (w *walker) outlast() {
	w.readLater(0, true)
	w.s.end = w.did
	w.s.steers = len(w.env.list(func(name string) bool { return name != "PATH" && steersServer(name) })) > 0
	for _, b := range w.bodies {
		for i := b.first; i < b.end && b.changes != w.changes; i++ { // a call may run in another directory
			w.s.Commands[i].Lost = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.funcs)) {
		if f := w.funcs[name]; f.opens && !f.called {
			w.unknown("computed file of a redirection in a function: " + visible(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.written)) {
		if file := w.written[name]; !isDevice(name) {
			w.s.wrote = append(w.s.wrote, Wrote{name, Text{w.decode(file.text), file.computed}})
		}
	}
	for _, m := range w.moved[w.before:] {
		if m.at != "" && !m.open {
			w.s.moved = append(w.s.moved, Move{From: m.at, To: m.to})
		}
	}
}

// Wrote is a file that a line writes with known text.
type Wrote struct {
	Name string // as in Past.Texts
	Text Text
}

// Wrote returns the files that the line writes with known text.
func (s *Script) Wrote() []Wrote { return s.wrote }

// Ran returns the texts of files of the past that the line runs.
func (s *Script) Ran() []string { return s.ran }

// Runs returns the names of files that the line may run or copy, as in Past.Texts, if it was read without
// a past. A caller that knows that one of them has changed reads the line again with a past.
func (s *Script) Runs() []string { return s.runs }

// Moved returns the moves, links and mounts of the line.
func (s *Script) Moved() []Move { return s.moved }

// placeOf returns the path of a word, relative to the start of the line; empty = not known.
func (w *walker) placeOf(word Word) string {
	text, ok := knownText(word)
	if !ok || text == "" {
		return ""
	}
	return path.Clean(join(w.dir, text))
}

// runsFiles reads the files that the line or its past wrote and that a program runs without being
// an interpreter of one file.
func (w *walker) runsFiles(name string, args []Word, at place) {
	at.parent = len(w.s.Commands) - 1
	in := at.behind(name)
	code := func(language string, file Word) {
		w.wrote(file, func(text string, computed bool) { w.code(language, text, computed, name, in) })
	}
	switch name {
	case "go":
		w.runsGo(args, at)
	case "rake":
		for _, file := range []string{"Rakefile", "rakefile", "Rakefile.rb"} {
			code("ruby", Word{Text: file, Literal: true})
		}
	case "pytest":
		for _, file := range append(wordsEnding(args, ".py"), Word{Text: "conftest.py", Literal: true}) {
			code("python", file)
		}
	case "jupyter", "jupyter-nbconvert", "jupyter-execute", "jupyter-run", "nbconvert", "papermill", "ipython", "runipy", "quarto":
		for _, file := range notebooks(name, args) {
			w.wrote(file, func(text string, computed bool) { w.notebook(text, computed, name, in) })
		}
	case "just":
		for _, file := range []string{"justfile", "Justfile", ".justfile"} {
			w.wrote(Word{Text: file, Literal: true}, func(text string, computed bool) {
				w.makeText(justText(text), name, computed, in, makeRun{goals: wordsOf(args)})
			})
		}
	case "psql", "mysql", "mariadb", "pgcli", "mycli", "sqlite3", "sftp", "lftp", "ftp": // rules match the text, which is no shell line
		for _, r := range at.stdin {
			if r.Op == syntax.RdrIn {
				args = append(slices.Clip(args), w.word(&at, r.Word))
			}
		}
		for _, a := range args {
			w.wrote(a, func(text string, _ bool) {
				w.s.Commands[at.parent].reads(feed{texts: []string{text}})
			})
		}
	}
}

// runsGo reads the programs that go run, go test and go generate run.
func (w *walker) runsGo(args []Word, at place) {
	in := at.behind("go")
	for _, file := range goFiles(args) {
		w.wrote(file, func(text string, computed bool) { w.code("go", text, computed, "go", in) })
	}
	for _, a := range args {
		if a.c != nil && a.c.feed != nil {
			w.code("go", *a.c.feed, false, "go", in)
		}
		if a.Literal && standardInput(a.Text) {
			w.interpreterInput("go", "go", at)
		}
	}
}

// goFiles returns the files that go run, go test and go generate run.
func goFiles(args []Word) []Word {
	if len(args) == 0 || !args[0].Literal || !has("run test generate", args[0].Text) {
		return nil
	}
	list := wordsEnding(args, ".go")
	for _, text := range wordsOf(args[1:]) {
		if !strings.HasSuffix(text, ".go") {
			list = append(list, Word{Text: text + "/main.go", Literal: true})
		}
	}
	return list
}

// wordsEnding returns the words with a known text that has an ending.
func wordsEnding(args []Word, ends ...string) (list []Word) {
	for _, a := range args {
		if text, ok := knownText(a); ok && slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(text, end) }) {
			list = append(list, a)
		}
	}
	return list
}

// wordsOf returns the literal words that are not options.
func wordsOf(args []Word) (texts []string) {
	for _, a := range args {
		if a.Literal && !strings.HasPrefix(a.Text, "-") {
			texts = append(texts, a.Text)
		}
	}
	return texts
}

// notebooks returns the notebooks that a call runs: nbconvert and quarto only do so on demand.
func notebooks(name string, args []Word) []Word {
	converts := has("nbconvert jupyter-nbconvert quarto", name) || slices.ContainsFunc(args, func(a Word) bool { return a.Text == "nbconvert" })
	if converts && !slices.ContainsFunc(args, func(a Word) bool { return strings.HasPrefix(a.Text, "--execute") }) {
		return nil
	}
	return wordsEnding(args, ".ipynb")
}

// notebook reads the code of a Jupyter notebook, or of one cell: Python, and lines for a shell.
func (w *walker) notebook(text string, computed bool, name string, at place) {
	var notebook struct {
		Cells []struct {
			Type   string          `json:"cell_type"`
			Source json.RawMessage `json:"source"`
		}
	}
	cells := []string{text}
	if json.Unmarshal([]byte(text), &notebook) == nil {
		cells = nil
		for _, cell := range notebook.Cells {
			var lines []string
			var whole string
			if cell.Type == "code" && (json.Unmarshal(cell.Source, &lines) == nil || json.Unmarshal(cell.Source, &whole) == nil) {
				cells = append(cells, strings.Join(lines, "")+whole)
			}
		}
	}
	var code strings.Builder
	for _, cell := range cells {
		if first, rest, _ := strings.Cut(cell, "\n"); strings.HasPrefix(first, "%%bash") || strings.HasPrefix(first, "%%sh") {
			w.nest(rest, computed, name, at)
			continue
		}
		for line := range strings.Lines(cell + "\n") {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
				w.nest(command, computed, name, at)
				continue
			}
			code.WriteString(line)
		}
	}
	w.code("python", code.String(), computed, name, at)
}

// justText converts a justfile to a Makefile: {{x}} becomes $(x), and recipes begin with a tab.
func justText(text string) string {
	lines := strings.Split(strings.NewReplacer("{{", "$(", "}}", ")", "$", "$$", ":= \"", ":= ", ":= '", ":= ").Replace(text), "\n")
	for i, line := range lines {
		indented := strings.TrimLeft(line, " \t")
		switch {
		case indented == "" || line[0] == '#':
		case indented != line:
			lines[i] = "\t" + indented
		case strings.Contains(line, ":="):
			lines[i] = strings.TrimRight(line, "\"' ")
		default: // recipe parameter="default": needs
			head, needs, _ := strings.Cut(line, ":")
			name, _, _ := strings.Cut(strings.TrimPrefix(head, "@"), " ")
			lines[i] = name + ":" + needs
		}
	}
	return strings.Join(lines, "\n")
}

// vague reports whether a command in a file of the past deletes only names that are computed there. That
// is usual in scripts, which delete the directories that they made. The same words in the line
// itself are a command as any other.
func (w *walker) vague(words []Word) bool {
	if !w.inPast || !words[0].Literal || !has("rm rmdir unlink find", words[0].Text) {
		return false
	}
	computed := 0
	for _, a := range words[1:] {
		switch {
		case a.Literal && strings.HasPrefix(a.Text, "-"):
		case a.c != nil && a.c.head == "":
			if _, known := homely(a.Text); known {
				return false
			}
			if computed++; words[0].Text == "find" {
				return true
			}
		default:
			return false
		}
	}
	return computed > 0
}
